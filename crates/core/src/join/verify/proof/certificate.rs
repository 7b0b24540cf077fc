//! The kubelet's client certificate is of this cluster's CA, for this node, in date, and the API server takes it.
//!
//! kubeadm takes any certificate that is there for a join that worked: with one of an earlier cluster it says "This node
//! has joined the cluster", and the API server answers Unauthorized for ever. A machine that never joined has none.
//!
//! See it yourself: `openssl x509 -noout -subject -issuer -dates -in /var/lib/kubelet/pki/kubelet-client-current.pem`
//! Fix: `carrick reset`, then join it again

use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{ClientCertificate, NodeEvidence, Proof, Until, known, not_seen};

pub const PROOF: Proof = Proof {
    id: "verify.certificate",
    title: "the kubelet's certificate is accepted",
    subsystem: Subsystem::Kubelet,
    until: Until::Registered,
    after: &["verify.cluster"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    if seen.certificate == Err(Why::Absent) {
        return Ok(fail("this machine has not joined: its kubelet has no certificate")
            .seen(Evidence::of(crate::fact::pki::CLIENT, "not there"))
            .fix("carrick join …")
            .fix("carrick diagnose    # where a join was tried")
            .explains([id!("node.never-registered")]));
    }
    Ok(match known("kubelet-client-current.pem", &seen.certificate)? {
        ClientCertificate::Trusted => pass("the kubelet's certificate is of this cluster, for this node"),
        ClientCertificate::Unvouched => {
            let why = "no CA that is known here has signed it, and the API server did not say whether it takes it";
            not_seen("kubelet-client-current.pem", &Why::Broken(why.to_owned()))
                .seen(Evidence::of(crate::fact::pki::CLIENT, why))
        }
        ClientCertificate::Stale { why } => fail(format!("the kubelet's certificate is stale: {why}"))
            .seen(Evidence::of(crate::fact::pki::CLIENT, why))
            .fix("carrick reset && carrick join …")
            .explains([id!("stale.client-certificate")]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::join::verify::testing::{joined, table, with};

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("of this cluster", joined(), Pass),
                ("of another", with(|s| s.certificate = Ok(ClientCertificate::Stale { why: "x".into() })), Fail),
                ("of a CA that nobody knows", with(|s| s.certificate = Ok(ClientCertificate::Unvouched)), Unknown),
                ("never joined", with(|s| s.certificate = Err(Why::Absent)), Fail),
                ("unreadable", with(|s| s.certificate = Err(Why::Denied)), Unknown),
            ],
        );
    }
}
