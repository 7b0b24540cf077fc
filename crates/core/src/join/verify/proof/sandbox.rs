//! A sandbox, made by the runtime as for a pod, got an address. It is taken away again.
//!
//! A node can be Ready and unable to start any pod: the runtime does not look whether the CNI plugins are there. It is
//! tried only where nothing before it fails. The plugins of some networks (calico, cilium, antrea, kube-ovn, multus)
//! serve nobody but the cluster's own Pods. There a pod of this node is the proof whose sandbox is younger than this
//! kubelet and than the last start of the network's agent: an older one proves what was. Where there is none, with
//! --kubeconfig a throw-away Pod is (default/carrick-verify-…, bound to this node, without a token; removed whatever
//! comes of it); without one it is unknown.
//!
//! See it yourself: `kubectl run try --image=registry.k8s.io/pause:3.10 --overrides='{"spec":{"nodeName":"NAME"}}'`
//! Fix: the runtime's own words say what is missing; `carrick diagnose` says why

use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Sandbox, StandIn, Until, missing, not_seen};

pub const PROOF: Proof = Proof {
    id: "verify.sandbox",
    title: "a sandbox gets an address",
    subsystem: Subsystem::Cni,
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
    Ok(match &seen.sandbox {
        Ok(Sandbox { address, pod: Some(pod), .. }) => pass(format!("pod {pod} has the address {address}")),
        Ok(Sandbox { address, left: None, .. }) => pass(format!("a sandbox got the address {address}")),
        Ok(Sandbox { address, left: Some(why), .. }) => {
            pass(format!("a sandbox got the address {address}; the next run takes it away: {why}"))
        }
        Err(Why::Broken(why)) => fail("no pod could start here: a sandbox got no address")
            .seen(Evidence::of("CRI RunPodSandbox", why))
            .fix("carrick diagnose")
            .explains([id!("pod.no-address")]),
        Err(Why::Absent) => return Ok(without_a_pod(seen.stand_in.as_ref())),
        Err(why @ Why::NotCollected) => {
            Verdict { says: "no sandbox has got an address yet".to_owned(), ..not_seen("sandbox", why) }
        }
        Err(why) => return Err(missing("sandbox", why)),
    })
}

/// Of a network that serves Pods alone, where none has proven it.
fn without_a_pod(stand_in: Option<&StandIn>) -> Verdict {
    const ONLY_PODS: &str = "this pod network serves only Pods of the cluster";
    let unknown = |why: String| not_seen("sandbox", &Why::Broken(why));
    match stand_in {
        Some(StandIn::AgentDown { pod }) => {
            let (namespace, name) = pod.split_once('/').unwrap_or_default();
            fail(format!("the network's agent {pod} is not Ready: no pod gets an address here"))
                .seen(Evidence::of(pod, "not Ready"))
                .fix(format!("kubectl -n {namespace} describe pod {name}"))
                .fix(format!("kubectl -n {namespace} logs --all-containers {name}"))
                .means(id!("cni.daemon-set"))
        }
        Some(StandIn::OnItsWay { pod }) => unknown(format!("{ONLY_PODS}, and {pod} has yet to get its address")),
        Some(StandIn::Refused { says }) => unknown(format!(
            "{ONLY_PODS}, and the cluster did not take a throw-away Pod: {says}"
        ))
        .fix("kubectl get pods -A -o wide    # once a new pod with an address runs on this node: carrick verify"),
        Some(StandIn::Unlisted { says }) => unknown(format!(
            "the runtime refused a sandbox, and this pod network may serve only Pods of the cluster: {says}"
        ))
        .fix("carrick verify --kubeconfig FILE    # proves it with a throw-away Pod"),
        Some(StandIn::Nobody) | None => {
            unknown(format!("{ONLY_PODS}, and none has started here since the kubelet and the network's agent did"))
                .fix("carrick verify --kubeconfig FILE    # proves it with a throw-away Pod")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::join::verify::testing::{joined, joined_with, table, with};
    use crate::join::verify::{holds, holds_but_for_a_pod, holds_but_for_what_a_pod_proves};

    fn of(stand_in: StandIn) -> NodeEvidence {
        joined_with(|seen| (seen.sandbox, seen.stand_in) = (Err(Why::Absent), Some(stand_in)))
    }

    #[test]
    fn what_nobody_can_prove_is_told_from_what_is_still_to_come() {
        let mut not_ready = of(StandIn::Nobody);
        not_ready.node = Ok(crate::join::verify::Node { ready: false, ..crate::join::verify::testing::node() });
        for (seen, expected) in [
            (of(StandIn::Nobody), true),
            (of(StandIn::Refused { says: "quota".into() }), true),
            (of(StandIn::Unlisted { says: "no such pod".into() }), true),
            (of(StandIn::OnItsWay { pod: "a/b".into() }), false),
            (of(StandIn::AgentDown { pod: "a/b".into() }), false),
            (with(|s| s.sandbox = Err(Why::TimedOut)), false),
            (not_ready, false),
        ] {
            assert_eq!(holds_but_for_a_pod(&seen, Until::Verified), expected, "{:?}", seen.stand_in);
            assert!(!holds(&seen, Until::Verified));
        }
        for (name, seen, expected) in [
            ("one hangs on its way", of(StandIn::OnItsWay { pod: "a/b".into() }), true),
            ("no answer", with(|s| s.sandbox = Err(Why::TimedOut)), true),
            ("a webhook failed", with(|s| s.sandbox = Err(Why::Busy("500".into()))), true),
            ("its agent is down", of(StandIn::AgentDown { pod: "a/b".into() }), false),
            ("refused", with(|s| s.sandbox = Err(Why::Broken("no plugin".into()))), false),
            ("not tried yet", with(|s| s.sandbox = Err(Why::NotCollected)), false),
            ("nothing is open", joined(), false),
        ] {
            assert_eq!(holds_but_for_what_a_pod_proves(&seen, Until::Verified), expected, "{name}");
        }
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("an address", joined(), Pass),
                ("no plugin", with(|s| s.sandbox = Err(Why::Broken("failed to find plugin \"flannel\"".into()))), Fail),
                ("not tried", with(|s| s.sandbox = Err(Why::NotCollected)), Unknown),
                ("only for Pods, and there is none", of(StandIn::Nobody), Unknown),
                ("only for Pods, and one is coming", of(StandIn::OnItsWay { pod: "a/b".into() }), Unknown),
                ("perhaps only for Pods", of(StandIn::Unlisted { says: "no such pod".into() }), Unknown),
                ("only for Pods, and ours was refused", of(StandIn::Refused { says: "quota".into() }), Unknown),
                ("only for Pods, and their agent is down", of(StandIn::AgentDown { pod: "a/b".into() }), Fail),
            ],
        );
    }
}
