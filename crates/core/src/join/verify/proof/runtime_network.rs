//! The container runtime says NetworkReady: it has read a CNI configuration.
//!
//! Until then no pod outside the host's network starts. Before a pod network is deployed this is as it should be:
//! --until registered asks for no more.
//!
//! See it yourself: `crictl info`, `ls /etc/cni/net.d`
//! Fix: `carrick diagnose` says what the network waits for

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.runtime-network",
    title: "the runtime has a pod network",
    subsystem: Subsystem::Cni,
    until: Until::Network,
    after: &[],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let runtime = known("container runtime", &seen.runtime)?;
    if runtime.ready && runtime.network_ready {
        return Ok(pass("the runtime's pod network is ready"));
    }
    if runtime.ready && seen.certificate == Err(Why::Absent) {
        return Ok(skip("before a join there is no pod network"));
    }
    if let Some(verdict) = no_agent(seen).filter(|_| runtime.ready) {
        return Ok(verdict.seen(Evidence::of("CRI Status", runtime.says.as_str())));
    }
    let what = if runtime.ready { "NetworkReady" } else { "RuntimeReady" };
    Ok(fail(format!("the container runtime does not say {what}"))
        .seen(Evidence::of("CRI Status", runtime.says.as_str()))
        .fix("carrick diagnose")
        .explains([id!("node.network-not-ready")]))
}

/// The cluster has put no pod of a pod network on this node, though its DaemonSets have had the time.
fn no_agent(seen: &NodeEvidence) -> Option<Verdict> {
    let (node, pods, network_set) = (seen.node.as_ref().ok()?, seen.agents.as_ref().ok()?, &seen.network_set);
    if node.is_just_made() || pods.iter().any(|pod| !pod.is_kube_proxy) {
        return None;
    }
    let name = &node.name;
    if let Ok(Some(kept)) = &seen.kept_off {
        return Some(kept.verdict(name));
    }
    let (says, seen) = if pods.is_empty() {
        let says = format!("the cluster has put no pod on node {name}: neither its pod network's nor kube-proxy's");
        (says, "none of kube-proxy's and of a known pod network")
    } else {
        (format!("the cluster has put no pod of a known pod network on node {name}"), "none of a known pod network")
    };
    let verdict = fail(says).seen(Evidence::of("the node's pods", seen));
    // A network may have no pod, or be none that is known: only a DaemonSet that is to be here, and is not, says why.
    let verdict = match network_set {
        Ok(Some(set)) => {
            verdict.seen(Evidence::of(format!("DaemonSet {set}"), "selects this Node")).means(id!("cni.daemon-set"))
        }
        Ok(None) | Err(_) => verdict.explains([id!("node.network-not-ready")]),
    };
    Some(
        verdict
            .fix(
                "kubectl get daemonsets -A -o wide    # is there one of a pod network, and does its node selector fit?",
            )
            .fix("kubectl -n kube-system get pods -l component=kube-scheduler -o wide    # is it Running?")
            .fix(format!("kubectl get events -A --field-selector involvedObject.kind=Pod | grep -w {name}"))
            .fix("ls -l /etc/cni/net.d    # on this machine: a network without a pod is one file here"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::join::taint::Taint;
    use crate::join::verify::testing::{agent, joined, joined_with, judged, table, with};
    use crate::join::verify::{KeptOff, RuntimeConditions};

    fn without_agents(pods: &[&str]) -> NodeEvidence {
        joined_with(|s| {
            s.agents = Ok(pods.iter().map(|pod| agent(pod)).collect());
            s.runtime = Ok(RuntimeConditions { ready: true, network_ready: false, says: "x".into() });
        })
    }

    #[test]
    fn who_has_no_agent_waits_for_the_cluster() {
        for (pods, says) in [
            (&["kube-system/kube-proxy-1"][..], "the cluster has put no pod of a known pod network on node w1"),
            (&[], "the cluster has put no pod on node w1: neither its pod network's nor kube-proxy's"),
        ] {
            let set = |set: Result<Option<String>, Why>| NodeEvidence { network_set: set, ..without_agents(pods) };
            for (seen, means) in [
                (set(Ok(Some("kube-flannel/kube-flannel-ds".into()))), Some("cni.daemon-set")),
                (set(Ok(None)), None),
                (set(Err(Why::NotAdmin)), None),
            ] {
                let verdict = judged(&PROOF, &seen);
                assert_eq!((verdict.says.as_str(), verdict.means.map(|about| about.id)), (says, means));
            }
        }
        let with_agent = judged(&PROOF, &without_agents(&["kube-flannel/kube-flannel-ds-1"]));
        assert!(with_agent.means.is_none(), "it is there, and still at work");
    }

    #[test]
    fn a_taint_that_keeps_the_network_off_is_named_first() {
        let taint = Taint { key: "gpu".into(), value: "yes".into(), effect: "NoExecute".into() };
        let kept = KeptOff { set: "kube-flannel/kube-flannel-ds".into(), taint };
        let seen = NodeEvidence { kept_off: Ok(Some(kept)), ..without_agents(&["kube-system/kube-proxy-1"]) };
        let verdict = judged(&PROOF, &seen);
        assert_eq!(verdict.means.map(|about| about.id), Some("cni.agent-taint"));
        assert!(verdict.says.ends_with("does not tolerate the node's taint gpu=yes:NoExecute"), "{}", verdict.says);
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("ready", joined(), Pass),
                (
                    "no CNI",
                    with(|s| s.runtime = Ok(RuntimeConditions { ready: true, network_ready: false, says: "x".into() })),
                    Fail,
                ),
                ("no CNI, and no pod of a network", without_agents(&["kube-system/kube-proxy-1"]), Fail),
                ("no CNI, and no pod at all", without_agents(&[]), Fail),
                ("no answer", with(|s| s.runtime = Err(Why::TimedOut)), Unknown),
            ],
        );
    }
}
