//! The kubelet of a machine that has joined runs.
//!
//! A stopped kubelet says nothing: the node stays Ready for 40 to 50 seconds more, then its cluster calls it Unknown and
//! moves its pods. Everything it needs to come back is here.
//!
//! See it yourself: `systemctl status kubelet`
//! Fix: `systemctl enable --now kubelet`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip};
use crate::fact::join_state::JoinState;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "kubelet.not-running",
    title: "the kubelet of a joined machine runs",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::GoesOn("on a machine that has joined it starts the kubelet, instead of kubeadm"),
    fixed_by: FixedBy::Carrick(&["kubelet_stopped"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    Ok(match facts.join_state()? {
        JoinState::Unjoined => skip("this machine has not joined"),
        JoinState::Left { .. } => skip("not judged: see stale.kubelet-conf"),
        JoinState::Joined { server, .. } => pass(format!("it runs, in the cluster of {server}")),
        JoinState::Stopped { .. } if facts.unit_state("kubelet")?.active_state != "inactive" => {
            skip("not judged: see kubelet.restart-loop")
        }
        JoinState::Stopped { server, seen, .. } => {
            fail(format!("the kubelet is stopped; this machine belongs to {server}"))
                .seen(seen)
                .fix("systemctl enable --now kubelet")
                .explains([id!("node.not-ready"), id!("api.node-name")])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::join_state::sample::{clean, joined, kubelet_state};
    use crate::fact::pki::{self, sample::SampleAuthority};
    use crate::fact::unit::SHOW;
    use crate::fact::{Source, Why, kubeconfig};
    use crate::testing::table;

    #[test]
    fn judges() {
        let ca = SampleAuthority::make();
        let state = |active, sub| joined(&ca).with_query(&SHOW, &kubelet_state(active, sub));
        table(
            &CHECK,
            [
                ("joined and running", joined(&ca), Pass),
                ("stopped", state("inactive", "dead"), Fail),
                ("failed for good", state("failed", "failed"), Skip),
                ("between two restarts", state("activating", "auto-restart"), Skip),
                ("never joined", clean(), Skip),
                ("left by an earlier join", joined(&ca).without_file(pki::CLIENT), Skip),
                ("not readable", clean().without(Source::File(kubeconfig::KUBELET), Why::Denied), Unknown),
            ],
        );
    }
}
