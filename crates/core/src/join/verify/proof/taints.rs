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
use crate::join::verify::{Node, NodeEvidence, Proof, Taint, Until, known};

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

fn judge(seen: &NodeEvidence) -> Known<Verdict> {
    let node = known("Node", &seen.node)?;
    let cite = |taint: &Taint| Evidence::of("Node spec.taints", taint.to_string());
    let of_trouble = |taint: &Taint| OF_TROUBLE.iter().find(|(key, _)| *key == taint.key).map(|(_, about)| *about);
    let keeps_off = node.taints.iter().find_map(|taint| Some((taint, of_trouble(taint)?)));
    Ok(match keeps_off {
        None if node.taints.is_empty() => pass("the node has no taint"),
        None => {
            pass(format!("the node's taints are its operator's: {}", listed(node))).seen(node.taints.iter().map(cite))
        }
        Some((taint, about)) => fail(format!("node {} keeps pods off by its taint {}", node.name, taint.key))
            .seen(node.taints.iter().filter(|taint| of_trouble(taint).is_some()).map(cite))
            .fix(whose(&taint.key, &node.name))
            .means(about),
    })
}

fn listed(node: &Node) -> String {
    node.taints.iter().map(Taint::to_string).collect::<Vec<_>>().join(", ")
}

/// Who is to take it away.
fn whose(key: &str, node: &str) -> String {
    if key.starts_with("node.cloudprovider") {
        return "kubectl -n kube-system get pods | grep -i cloud    # the cloud controller manager takes it away: does it run?".to_owned();
    }
    format!("kubectl describe node {node}    # the condition it stands for; kube-controller-manager takes it away")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Why;
    use crate::join::verify::testing::{joined, node, table, with};

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
            assert_eq!(PROOF.verdict(&tainted(&[key])).means, Some(*about), "{key}");
        }
        let both = PROOF.verdict(&tainted(&["gpu", "node.kubernetes.io/unreachable"]));
        assert_eq!(both.evidence.len(), 1, "{both:?}");
    }
}
