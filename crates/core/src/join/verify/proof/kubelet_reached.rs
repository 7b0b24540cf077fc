//! The API server reaches this node's kubelet on TCP 10250.
//!
//! A node can be Ready while a firewall, here or on the way, keeps everybody from its kubelet: the kubelet calls the API
//! server, and only `kubectl logs`, `exec`, `port-forward` and metrics go the other way. With --kubeconfig the API server
//! is asked to reach it (nodes/proxy); any answer of the kubelet counts, also where this machine's own rules seem to
//! forbid it, as a proxy (konnectivity) may take another way. Without one the local rules decide (firewall.kubelet), and
//! nothing is proven from outside. A kubelet that does not know the API server (401) lets nobody in: where the CA file it
//! goes by is not of the CA it trusts itself, that file is another cluster's.
//!
//! See it yourself: `kubectl get --raw /api/v1/nodes/NAME/proxy/healthz`
//! Fix: open TCP 10250 to the control plane, on this machine and on the way: `carrick explain firewall.kubelet`

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip, warn};
use crate::fact::kubeconfig::KUBELET;
use crate::fact::pki::CA;
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{KubeletReach, NodeEvidence, Proof, Until, missing, unproven};

pub const PROOF: Proof = Proof {
    id: "verify.kubelet-reached",
    title: "the API server reaches the kubelet",
    subsystem: Subsystem::Network,
    until: Until::Verified,
    after: &[
        "verify.kubelet",
        "verify.cluster",
        "verify.certificate",
        "verify.identity",
        "verify.lease",
        "verify.runtime-network",
        "verify.network-available",
        "verify.network-agent",
    ],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let from_api = |says: &str| Evidence::of("API server", says);
    Ok(match &seen.reach {
        Ok(KubeletReach::Answered) => pass("the API server reaches the kubelet"),
        Ok(KubeletReach::Refused { says }) => {
            warn("the kubelet does not let the API server in: kubectl logs and exec fail")
                .seen(Evidence::of("kubelet", says.as_str()))
                .fix("kubectl get clusterrolebinding kube-apiserver-kubelet-client -o yaml    # its user may not use nodes/proxy")
        }
        Ok(KubeletReach::Unknown { says, by_another_ca: true }) => {
            fail("the kubelet does not let the API server in: its clientCAFile is of another CA")
                .seen(Evidence::of("kubelet", says.as_str()))
                .fix(format!("cp -a {CA} /root/ca.crt.before    # or what clientCAFile in /var/lib/kubelet/config.yaml names"))
                .fix(format!(
                    "sed -n 's/.*certificate-authority-data: //p' {KUBELET} | base64 -d > {CA} && systemctl restart kubelet"
                ))
                .means(id!("stale.ca"))
        }
        Ok(KubeletReach::Unknown { says, by_another_ca: false }) => {
            warn("the kubelet does not know the API server: kubectl logs and exec fail")
                .seen(Evidence::of("kubelet", says.as_str()))
                .fix("grep -n -A1 clientCAFile /var/lib/kubelet/config.yaml    # is it the cluster's CA?")
                .fix("kubeadm certs check-expiration | grep kubelet-client    # on a control plane: is its own certificate good?")
        }
        Ok(KubeletReach::Untrusted { says }) => {
            warn("the API server does not accept the kubelet's serving certificate: kubectl logs and exec fail")
                .seen(from_api(says))
                .fix("kubectl get csr | grep kubelet-serving    # with serverTLSBootstrap somebody has to approve them")
        }
        Ok(KubeletReach::Unanswered { says }) => {
            fail("the API server cannot reach the kubelet: kubectl logs and exec fail")
                .seen(from_api(says))
                .fix(
                    "carrick check    # whether this machine's own firewall blocks TCP 10250; else one on the way does",
                )
                .means(id!("kubelet.unreached"))
        }
        Err(Why::NotAdmin | Why::NotAsked) => {
            skip("not proven from outside: --kubeconfig asks the API server to reach it")
        }
        Err(why @ Why::NotCollected) => return Err(missing("the API server's way to the kubelet", why)),
        Err(Why::Denied) => unproven("not proven from outside: the user of --kubeconfig may not use nodes/proxy"),
        Err(why) => unproven(format!("not proven from outside: {why}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::join::verify::holds;
    use crate::join::verify::testing::{joined_with, table, with};

    #[test]
    fn judges() {
        let untrusted = || KubeletReach::Untrusted { says: "remote error: tls: internal error".into() };
        let unanswered = || KubeletReach::Unanswered { says: "dial tcp 10.0.0.21:10250: i/o timeout".into() };
        let refused = || KubeletReach::Refused { says: "403 Forbidden: Forbidden (user=x)".into() };
        let unknown = |by_another_ca| KubeletReach::Unknown { says: "401 Unauthorized".into(), by_another_ca };
        let denied = with(|s| s.reach = Err(Why::Denied));
        let warned = with(|s| s.reach = Ok(KubeletReach::Untrusted { says: "x509: unknown authority".into() }));
        table(
            &PROOF,
            [
                ("the kubelet answers", with(|s| s.reach = Ok(KubeletReach::Answered)), Pass),
                ("nobody answers", joined_with(|s| s.reach = Ok(unanswered())), Fail),
                ("the kubelet trusts another CA", joined_with(|s| s.reach = Ok(unknown(true))), Fail),
                ("the API server has no good certificate", joined_with(|s| s.reach = Ok(unknown(false))), Warn),
                ("its user may not", joined_with(|s| s.reach = Ok(refused())), Warn),
                ("no serving certificate", joined_with(|s| s.reach = Ok(untrusted())), Warn),
                ("nobody who may ask", with(|s| s.reach = Err(Why::NotAdmin)), Skip),
                ("not asked yet", with(|s| s.reach = Err(Why::NotCollected)), Unknown),
                ("may not ask", denied.clone(), Unknown),
                ("no answer", with(|s| s.reach = Err(Why::TimedOut)), Unknown),
            ],
        );
        assert!(
            holds(&denied, Until::Verified) && holds(&warned, Until::Verified),
            "what nobody may ask fails nothing"
        );
        assert!(!holds(&with(|s| s.reach = Err(Why::NotCollected)), Until::Verified), "it is still to be asked");
    }
}
