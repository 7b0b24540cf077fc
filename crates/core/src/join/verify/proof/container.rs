//! The kubelet starts containers: one that runs on this node is younger than it.
//!
//! A sandbox is made by the runtime alone. A kubelet that cannot write below /var/lib/kubelet, is over a quota, or gets no
//! token for its pods starts none, while its Node stays Ready and every pod from before goes on. Where no container is
//! younger than the kubelet, `carrick verify` with --kubeconfig has one started in a throw-away Pod; without one that is
//! not proven.
//!
//! See it yourself: `kubectl get events -A --field-selector type=Warning`, `journalctl -u kubelet -n 50`
//! Fix: the kubelet's own words say what it lacks

use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::{Known, Why};
use crate::join::verify::{ContainerStart, NodeEvidence, Proof, Until, not_seen, unproven};

pub const PROOF: Proof = Proof {
    id: "verify.container",
    title: "the kubelet starts containers",
    subsystem: Subsystem::Kubelet,
    until: Until::Verified,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity", "verify.sandbox"],
    judge,
};

#[allow(clippy::unnecessary_wraps, reason = "as every proof")]
fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    Ok(match &seen.container {
        Some(ContainerStart::Runs { pod }) => pass(format!("a container of {pod} was started by this kubelet")),
        Some(ContainerStart::Fails { pod, says }) => fail("the kubelet does not start the container of a new Pod")
            .seen(Evidence::of(format!("Pod {pod}"), says.as_str()))
            .fix("journalctl -u kubelet -n 50 --no-pager    # says why"),
        Some(ContainerStart::Late { pod }) => {
            let why = format!("the container of the new Pod {pod} does not run, and the kubelet does not say why");
            not_seen("container", &Why::Broken(why)).fix("journalctl -u kubelet -n 50 --no-pager")
        }
        Some(ContainerStart::NotSeen) => {
            unproven("no container was started here since the kubelet was: that it starts any is not proven")
                .fix("carrick verify --kubeconfig FILE    # proves it with a throw-away Pod")
        }
        None => unproven("whether the kubelet starts containers was not looked at"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::join::verify::holds;
    use crate::join::verify::testing::{joined, joined_with, table};

    #[test]
    fn judges() {
        let of = |container| joined_with(|seen| seen.container = Some(container));
        let pod = || "default/carrick-verify-1".to_owned();
        let says = "error making pod data directories: mkdir: operation not permitted".to_owned();
        table(
            &PROOF,
            [
                ("one runs", of(ContainerStart::Runs { pod: pod() }), Pass),
                ("that of a throw-away Pod does not", of(ContainerStart::Fails { pod: pod(), says }), Fail),
                ("that of a throw-away Pod does not yet", of(ContainerStart::Late { pod: pod() }), Unknown),
                ("none is young enough", of(ContainerStart::NotSeen), Unknown),
                ("not looked at", joined_with(|seen| seen.container = None), Unknown),
            ],
        );
        assert!(!holds(&of(ContainerStart::Late { pod: pod() }), Until::Verified), "it should have been there");
        assert!(holds(&of(ContainerStart::NotSeen), Until::Verified) && holds(&joined(), Until::Verified));
    }
}
