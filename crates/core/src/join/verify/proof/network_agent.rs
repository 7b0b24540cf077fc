//! The pods that carry the pod network on this node (flannel's, calico's, …) run and are ready.
//!
//! Their configuration stands before they work, and stays when they die: a node is Ready with a network agent that ends
//! again and again, and new pods get no address or cannot reach others. A network without such a pod is not judged by this.
//!
//! See it yourself: `kubectl get pods -A -o wide --field-selector spec.nodeName=NAME`
//! Fix: `kubectl describe pod` and `kubectl logs --previous` of the pod say why it is not ready

use crate::catalogue::About;
use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::Known;
use crate::id;
use crate::join::verify::{AgentPod, NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.network-agent",
    title: "the pod network's agents are ready",
    subsystem: Subsystem::Cni,
    until: Until::Network,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let pods = known("the node's pods", &seen.agents)?;
    let agents: Vec<&AgentPod> = pods.iter().filter(|pod| !pod.is_kube_proxy).collect();
    let down: Vec<&AgentPod> = agents.iter().copied().filter(|pod| !pod.ready).collect();
    Ok(match (down.first(), agents.first()) {
        // Where the runtime has no network either, verify.runtime-network says so.
        (None, None) => match (&seen.kept_off, &seen.node, &seen.runtime) {
            (Ok(Some(kept)), Ok(node), Ok(runtime)) if runtime.network_ready => kept.verdict(&node.name),
            _ => skip("no pod of a known network runs on this node"),
        },
        (None, Some(pod)) => pass(format!("the network's pod {} is ready", pod.name)),
        (Some(pod), _) => {
            let failed = fail(format!("the network's pod {} is not ready", pod.name)).fix(pod.look());
            let failed = failed.seen(down.iter().map(|pod| Evidence::of(pod.name.as_str(), pod.state())));
            failed.means(means(pod))
        }
    })
}

/// What it means that an agent does not come up, by what it waits for.
fn means(pod: &AgentPod) -> About<'static> {
    if pod.waits_for_its_image() {
        id!("cni.image-pull")
    } else if pod.is_crash_looping() {
        id!("cni.daemon-crash-loop")
    } else {
        id!("cni.daemon-set")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::Why;
    use crate::join::taint::Taint;
    use crate::join::verify::KeptOff;
    use crate::join::verify::testing::{agent, joined, joined_with, judged, pod, table, with};

    fn kept_off() -> NodeEvidence {
        let taint = Taint { key: "gpu".into(), value: "yes".into(), effect: "NoExecute".into() };
        joined_with(|seen| {
            seen.agents = Ok(vec![agent("kube-system/kube-proxy-1")]);
            seen.kept_off = Ok(Some(KeptOff { set: "kube-flannel/kube-flannel-ds".into(), taint }));
        })
    }

    #[test]
    fn what_keeps_it_off_is_named() {
        let verdict = judged(&PROOF, &kept_off());
        assert_eq!(verdict.means.map(|about| about.id), Some("cni.agent-taint"));
        assert_eq!(
            verdict.says,
            "DaemonSet kube-flannel/kube-flannel-ds does not tolerate the node's taint gpu=yes:NoExecute"
        );
        assert!(verdict.remedy[1].starts_with("kubectl taint node w1 gpu:NoExecute-"), "{:?}", verdict.remedy);
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("up", joined(), Pass),
                ("not yet", with(|s| s.agents = Ok(vec![pod(0, Some("PodInitializing"))])), Fail),
                ("in a loop", with(|s| s.agents = Ok(vec![agent("net/a"), pod(3, Some("CrashLoopBackOff"))])), Fail),
                ("only kube-proxy", with(|s| s.agents = Ok(vec![agent("kube-system/kube-proxy-1")])), Skip),
                ("kept off by a taint", kept_off(), Fail),
                ("kept off before, and there now", with(|s| s.kept_off = kept_off().kept_off), Pass),
                ("not asked", with(|s| s.agents = Err(Why::TimedOut)), Unknown),
            ],
        );
    }

    #[test]
    fn what_it_waits_for_is_named() {
        for (restarts, down, id) in [
            (0, "ErrImagePull", "cni.image-pull"),
            (3, "CrashLoopBackOff", "cni.daemon-crash-loop"),
            (0, "PodInitializing", "cni.daemon-set"),
        ] {
            let verdict = judged(&PROOF, &NodeEvidence { agents: Ok(vec![pod(restarts, Some(down))]), ..joined() });
            assert_eq!(verdict.means.map(|about| about.id), Some(id), "{down}");
        }
    }
}
