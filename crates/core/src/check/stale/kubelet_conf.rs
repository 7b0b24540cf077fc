//! No earlier join has left a kubelet.conf.
//!
//! kubeadm refuses to join while /etc/kubernetes/kubelet.conf is there. The file alone does not say that the machine
//! has joined: the kubelet writes it before it has a certificate. It counts as joined here when the kubelet runs with a
//! node's certificate that is valid now, whatever the host is called by now and whoever has signed that: whether it is
//! taken, only the API server can say.
//!
//! See it yourself: `grep server: /etc/kubernetes/kubelet.conf`, `systemctl is-active kubelet`,
//! `openssl x509 -noout -subject -enddate -in /var/lib/kubelet/pki/kubelet-client-current.pem`
//! Fix: `kubeadm reset`, on a machine that is no control plane

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::join_state::JoinState;
use crate::fact::{Facts, Known, kubeconfig};
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "stale.kubelet-conf",
    title: "no earlier join has left a kubelet.conf",
    subsystem: Subsystem::Kubelet,
    kubeadm: &["FileAvailable--etc-kubernetes-kubelet.conf"],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Leftover,
    in_join: InJoin::SetRight(Preparation::Leftovers),
    fixed_by: FixedBy::LEFTOVERS,
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    Ok(match facts.join_state()? {
        JoinState::Unjoined => pass("there is no kubelet.conf"),
        JoinState::Joined { server, node } => {
            let verdict = if facts.is_of_another_cluster() {
                fail(format!("this machine is a live node of another cluster: {node} of {server}"))
            } else {
                warn(format!("this machine has already joined {server}"))
            };
            verdict
                .seen(Evidence::of(kubeconfig::KUBELET, format!("server: {server}")))
                .fix("kubeadm reset    # only to take it out of that cluster")
        }
        JoinState::Stopped { server, seen, .. } => {
            warn(format!("this machine has joined {server}; its kubelet does not run"))
                .seen(seen)
                .fix("systemctl start kubelet    # or kubeadm reset, to take it out of that cluster")
        }
        JoinState::Left { server, why, seen } => fail(format!("kubelet.conf is left by an earlier join: {why}"))
            .seen(Evidence::of(kubeconfig::KUBELET, format!("server: {server}")))
            .seen(seen)
            .fix("kubeadm reset"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::join_state::sample::{clean, joined, kubelet_state};
    use crate::fact::pki::{self, sample::SampleAuthority};
    use crate::fact::unit::SHOW;
    use crate::fact::{Source, Why};
    use crate::testing::table;

    #[test]
    fn judges() {
        let ca = SampleAuthority::make();
        let elsewhere = |facts: Facts| facts.with_api("cluster-ca", &SampleAuthority::make().pem);
        table(
            &CHECK,
            [
                ("never joined", clean(), Pass),
                ("joined", joined(&ca), Warn),
                ("joined, kubelet stopped", joined(&ca).with_query(&SHOW, &kubelet_state("inactive", "dead")), Warn),
                ("no certificate", joined(&ca).without_file(pki::CLIENT), Fail),
                ("alive in another cluster", elsewhere(joined(&ca)), Fail),
                (
                    "of a cluster that is gone",
                    elsewhere(joined(&ca)).with_query(&SHOW, &kubelet_state("inactive", "dead")),
                    Fail,
                ),
                ("renamed since", joined(&ca).with_file("/proc/sys/kernel/hostname", "w1-dhcp\n"), Warn),
                ("not readable", clean().without(Source::File(kubeconfig::KUBELET), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&joined(&ca), &CheckPolicy::default());
        assert_eq!(verdict.says, "this machine has already joined https://10.0.0.11:6443");
        let verdict = CHECK.verdict(&joined(&ca).without_file(pki::CLIENT), &CheckPolicy::default());
        assert_eq!(verdict.says, "kubelet.conf is left by an earlier join: the kubelet has no certificate");
        assert_eq!(verdict.evidence.len(), 2);
        let verdict = CHECK.verdict(&elsewhere(joined(&ca)), &CheckPolicy::default());
        assert_eq!(verdict.says, "this machine is a live node of another cluster: w1 of https://10.0.0.11:6443");
    }
}
