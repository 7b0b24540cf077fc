//! The Node has no taint by which Kubernetes itself keeps pods off: not-ready, unreachable, network-unavailable, one of a
//! pressure, or uninitialized.
//!
//! Such taints come with every join and go within seconds of what they stand for; one that stays keeps every pod off that
//! does not tolerate it. Taints of the operator's own, a cordon and readiness gates are shown and are nobody's fault.
//!
//! See it yourself: `kubectl get node NAME -o jsonpath={.spec.taints}`
//! Fix: the controller that owns the taint takes it away: the node lifecycle controller once the condition is over, the cloud
//! controller manager once it has initialised the node

use crate::catalogue::About;
use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::Known;
use crate::id;
use crate::join::taint::Taint;
use crate::join::verify::{KubeletFlag, Node, NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.taints",
    title: "no taint of Kubernetes' own keeps pods off",
    subsystem: Subsystem::ControlPlane,
    until: Until::Verified,
    after: &[
        "verify.kubelet",
        "verify.cluster",
        "verify.certificate",
        "verify.identity",
        "verify.lease",
        "verify.runtime-network",
        "verify.network-available",
        "verify.ready",
        "verify.pressure",
    ],
    judge,
};

/// Taints that say that a node does not work, and what each stands for.
#[rustfmt::skip] // A table.
const OF_TROUBLE: &[(&str, About<'static>)] = &[
    ("node.kubernetes.io/not-ready", id!("node.not-ready")),
    ("node.kubernetes.io/unreachable", id!("node.not-ready")),
    ("node.kubernetes.io/network-unavailable", id!("node.network-unavailable")),
    ("node.kubernetes.io/disk-pressure", id!("node.disk-pressure")),
    ("node.kubernetes.io/memory-pressure", id!("node.memory-pressure")),
    ("node.kubernetes.io/pid-pressure", id!("node.pid-pressure")),
    ("node.cloudprovider.kubernetes.io/uninitialized", id!("node.cloud-uninitialised")),
];

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let node = known("Node", &seen.node)?;
    let cite = |taint: &Taint| Evidence::of("Node spec.taints", taint.to_string());
    let of_trouble = |taint: &Taint| OF_TROUBLE.iter().find(|(key, _)| *key == taint.key).map(|(_, about)| *about);
    let keeps_off = node.taints.iter().find_map(|taint| Some((taint, of_trouble(taint)?)));
    Ok(match keeps_off {
        None if node.taints.is_empty() => pass("the node has no taint"),
        None => {
            pass(format!("the node's taints are its operator's: {}", listed(node))).seen(node.taints.iter().map(cite))
        }
        Some((taint, about)) => {
            let failed = fail(format!("node {} keeps pods off by its taint {}", node.name, taint.key))
                .seen(node.taints.iter().filter(|taint| of_trouble(taint).is_some()).map(cite))
                .means(about);
            let flag = seen.kubelet.as_ref().ok().and_then(|kubelet| kubelet.cloud_provider.as_ref());
            ways_out(&taint.key, &node.name, flag).into_iter().fold(failed, Verdict::fix)
        }
    })
}

fn listed(node: &Node) -> String {
    node.taints.iter().map(Taint::to_string).collect::<Vec<_>>().join(", ")
}

/// Who is to take it away; and what to do where nobody is.
fn ways_out(key: &str, node: &str, flag: Option<&KubeletFlag>) -> Vec<String> {
    if !key.starts_with("node.cloudprovider") {
        let takes = "the condition it stands for; kube-controller-manager takes it away";
        return vec![format!("kubectl describe node {node}    # {takes}")];
    }
    let looks = "kubectl -n kube-system get pods -o wide | grep -i cloud    # takes it away: does it run?".to_owned();
    let out = flag.map(|flag| format!("{}    # or, where no cloud is meant", flag.taken_out()));
    let taint = format!("kubectl taint node {node} {key}-    # where no cloud is meant");
    [Some(looks), out, Some(taint)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Why;
    use crate::join::taint::Taint;
    use crate::join::verify::Kubelet;
    use crate::join::verify::testing::{joined, judged, node, table, with};

    fn tainted(keys: &[&str]) -> NodeEvidence {
        let taint = |key: &&str| Taint { key: (*key).into(), value: String::new(), effect: "NoSchedule".into() };
        NodeEvidence { node: Ok(Node { taints: keys.iter().map(taint).collect(), ..node() }), ..joined() }
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("none", joined(), Pass),
                ("not ready", tainted(&["node.kubernetes.io/not-ready"]), Fail),
                ("its own and a cordon", tainted(&["gpu", "node.kubernetes.io/unschedulable"]), Pass),
                ("a gate", tainted(&["readiness.node.x-k8s.io/network"]), Pass),
                ("its own and a pressure", tainted(&["gpu", "node.kubernetes.io/pid-pressure"]), Fail),
                ("no cloud", tainted(&["node.cloudprovider.kubernetes.io/uninitialized"]), Fail),
                ("not asked", with(|s| s.node = Err(Why::Denied)), Unknown),
            ],
        );
    }

    #[test]
    fn what_it_stands_for_is_named() {
        for (key, about) in OF_TROUBLE {
            assert_eq!(judged(&PROOF, &tainted(&[key])).means, Some(*about), "{key}");
        }
        let both = judged(&PROOF, &tainted(&["gpu", "node.kubernetes.io/unreachable"]));
        assert_eq!(both.evidence.len(), 1, "{both:?}");
        let cloud_provider =
            Some(KubeletFlag { word: "--cloud-provider=external".into(), file: "/etc/default/kubelet".into() });
        let seen = tainted(&["node.cloudprovider.kubernetes.io/uninitialized"]);
        let kubelet = seen.kubelet.clone().map(|kubelet| Kubelet { cloud_provider, ..kubelet });
        let remedy = judged(&PROOF, &NodeEvidence { kubelet, ..seen }).remedy;
        assert!(
            remedy[1].starts_with("sed -i 's|--cloud-provider=external||' /etc/default/kubelet && systemctl"),
            "{remedy:?}"
        );
        assert!(remedy[2].starts_with("kubectl taint node w1 node.cloudprovider.kubernetes.io/uninitialized-"));
    }
}
