//! The node's CNI and kube-proxy pods stay up while they are watched (--soak 3m).
//!
//! With the wrong cgroup driver they die after a minute, again and again, on a node that is Ready. Without --soak only how
//! they are at one moment is judged (verify.network-agent, verify.kube-proxy).
//!
//! See it yourself: `kubectl get pods -A -o wide --field-selector spec.nodeName=NAME`
//! Fix: `kubectl logs --previous` of the pod says why it ended; `carrick explain runtime.cgroup-driver`

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{AgentPod, NodeEvidence, Proof, Until, known, not_seen};

pub const PROOF: Proof = Proof {
    id: "verify.restarts",
    title: "the network's agents stay up",
    subsystem: Subsystem::Cni,
    until: Until::Verified,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let pods = match &seen.pods {
        Err(Why::NotCollected | Why::NotAsked) => return Ok(skip("not watched: --soak 3m does")),
        sight => known("the node's pods", sight)?,
    };
    let unsteady: Vec<&AgentPod> = pods.iter().filter(|pod| pod.restarts > 0 || pod.down.is_some()).collect();
    let Some(worst) = unsteady.iter().max_by_key(|pod| pod.restarts) else {
        // A network without a single agent on a node is none that could be watched.
        return Ok(match pods.len() {
            0 => not_seen("the node's network agents", &Why::Absent),
            count => pass(format!("{count} network agents stayed up")),
        });
    };
    let how = |pod: &AgentPod| match &pod.down {
        Some(down) => format!("{} restarts, now {down}; last: {}", pod.restarts, pod.why),
        None => format!("{} restarts; last: {}", pod.restarts, pod.why),
    };
    Ok(fail(format!("{} does not stay up", worst.name))
        .seen(unsteady.iter().map(|pod| Evidence::of(pod.name.as_str(), how(pod))))
        .fix(worst.name.split_once('/').map_or_else(
            || "carrick diagnose".to_owned(),
            |(namespace, pod)| format!("kubectl -n {namespace} logs --previous --all-containers {pod}"),
        ))
        .explains([id!("runtime.cgroup-driver")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::join::verify::testing::{joined, pod, table, with};

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("not watched", joined(), Skip),
                ("stayed up", with(|s| s.pods = Ok(vec![pod(0, None)])), Pass),
                ("again and again", with(|s| s.pods = Ok(vec![pod(2, None)])), Fail),
                (
                    "held back all the while",
                    with(|s| s.pods = Ok(vec![pod(0, None), pod(0, Some("CrashLoopBackOff"))])),
                    Fail,
                ),
                ("nobody to watch", with(|s| s.pods = Ok(vec![])), Unknown),
                ("denied", with(|s| s.pods = Err(Why::Denied)), Unknown),
            ],
        );
    }
}
