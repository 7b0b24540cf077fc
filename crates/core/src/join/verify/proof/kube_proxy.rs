//! kube-proxy's pod on this node runs and is ready, where the node has one.
//!
//! Without it no Service can be reached from this node, not even the API server's own address inside the cluster; the node is
//! Ready all the same. Some networks (cilium) take its place: that there is none is wrong only where --kubeconfig shows a
//! DaemonSet of kube-proxy's that selects this Node. Its pod is Ready as soon as it runs, also where it cannot write its
//! rules (a lock on xtables that is held, another backend than the rules that are there): its own healthz tells, where it
//! answers on this machine.
//!
//! See it yourself: `kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy --field-selector spec.nodeName=NAME`,
//! `curl -i http://127.0.0.1:10256/healthz`
//! Fix: `kubectl -n kube-system describe pod` and `logs --previous` of it say why it is not ready

use crate::catalogue::About;
use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{AgentPod, Node, NodeEvidence, Proof, Until, known, not_seen};

pub const PROOF: Proof = Proof {
    id: "verify.kube-proxy",
    title: "kube-proxy's pod is ready",
    subsystem: Subsystem::Network,
    until: Until::Verified,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let pods = known("the node's pods", &seen.agents)?;
    let own: Vec<&AgentPod> = pods.iter().filter(|pod| pod.is_kube_proxy).collect();
    let Some(first) = own.first() else { return Ok(without(seen)) };
    // While one takes another's place there are two.
    if let Some((pod, says)) = own.iter().find_map(|pod| Some((pod, pod.lags.as_ref().filter(|_| pod.ready)?))) {
        let (namespace, name) = pod.name.split_once('/').unwrap_or(("kube-system", &pod.name));
        return Ok(fail(format!(
            "kube-proxy's pod {} runs and does not write its rules: Services are stale",
            pod.name
        ))
        .seen(Evidence::of("127.0.0.1:10256/healthz", says.as_str()))
        .fix(format!("kubectl -n {namespace} logs --tail=50 {name}    # says why")));
    }
    if let Some(pod) = own.iter().find(|pod| pod.ready) {
        return Ok(pass(format!("kube-proxy's pod {} is ready", pod.name)));
    }
    let failed =
        fail(format!("kube-proxy's pod {} is not ready: no Service can be reached from this node", first.name))
            .seen(own.iter().map(|pod| Evidence::of(pod.name.as_str(), pod.state())))
            .fix(first.look());
    Ok(means(first).map_or(failed.clone(), |about| failed.means(about)))
}

/// The node has no such pod.
fn without(seen: &NodeEvidence) -> Verdict {
    match &seen.kube_proxy_set {
        // Its controller may not have come to it yet.
        _ if seen.node.as_ref().is_ok_and(Node::is_just_made) => {
            not_seen("kube-proxy's pod", &Why::Broken("none yet on a Node that was just made".to_owned()))
        }
        Ok(Some(set)) => fail(format!("DaemonSet {set} selects this Node and has no pod on it"))
            .seen(Evidence::of("the node's pods", "none of kube-proxy's"))
            .fix(describe(set)),
        Ok(None) => skip("no DaemonSet of kube-proxy's selects this Node"),
        Err(_) => skip("no pod of kube-proxy's is on this node: something else serves Services here, or nobody"),
    }
}

fn describe(set: &str) -> String {
    let (namespace, name) = set.split_once('/').unwrap_or(("kube-system", set));
    format!("kubectl -n {namespace} describe daemonset {name}    # its events say why it makes none")
}

/// What it means that it does not come up, where what it waits for says so.
fn means(pod: &AgentPod) -> Option<About<'static>> {
    if pod.waits_for_its_image() {
        return Some(id!("kube-proxy.image-pull"));
    }
    pod.is_failing().then_some(id!("kube-proxy.crash-loop"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::join::verify::testing::{STARTED, agent, joined, judged, node, pod, table, with};

    fn proxy(restarts: u64, down: Option<&str>) -> AgentPod {
        AgentPod { name: "kube-system/kube-proxy-1".into(), is_kube_proxy: true, ..pod(restarts, down) }
    }

    fn alone(set: Result<Option<String>, Why>) -> NodeEvidence {
        NodeEvidence { agents: Ok(vec![agent("kube-flannel/kube-flannel-ds-1")]), kube_proxy_set: set, ..joined() }
    }

    fn just_made() -> NodeEvidence {
        let made = Node { created_at: Some(STARTED), seen_at: Some(STARTED), ..node() };
        NodeEvidence { node: Ok(made), ..alone(Err(Why::NotAdmin)) }
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("ready", joined(), Pass),
                (
                    "ready, and writes no rules",
                    with(|s| {
                        s.agents = Ok(vec![AgentPod { lags: Some("503".into()), ..agent("kube-system/kube-proxy-1") }]);
                    }),
                    Fail,
                ),
                ("pulling", with(|s| s.agents = Ok(vec![proxy(0, Some("ContainerCreating"))])), Fail),
                ("in a loop", with(|s| s.agents = Ok(vec![proxy(5, Some("CrashLoopBackOff"))])), Fail),
                (
                    "one goes, one has come",
                    with(|s| s.agents = Ok(vec![proxy(0, None), agent("a/kube-proxy-2")])),
                    Pass,
                ),
                ("none, nobody could look for its DaemonSet", alone(Err(Why::NotAdmin)), Skip),
                ("none, and none is to be", alone(Ok(None)), Skip),
                ("none, and one is to be", alone(Ok(Some("kube-system/kube-proxy".into()))), Fail),
                ("none yet", just_made(), Unknown),
                ("not asked", with(|s| s.agents = Err(Why::TimedOut)), Unknown),
            ],
        );
    }

    #[test]
    fn what_it_waits_for_is_named() {
        for (restarts, down, id) in [
            (0, "ImagePullBackOff", Some("kube-proxy.image-pull")),
            (1, "CrashLoopBackOff", Some("kube-proxy.crash-loop")),
            (0, "RunContainerError", Some("kube-proxy.crash-loop")),
            (0, "ContainerCreating", None),
        ] {
            let verdict = judged(&PROOF, &NodeEvidence { agents: Ok(vec![proxy(restarts, Some(down))]), ..joined() });
            assert_eq!(verdict.means.map(|about| about.id), id, "{down}");
        }
    }
}
