//! The Node's condition NetworkUnavailable is absent or False: no network agent says that it is still at work.
//!
//! See it yourself: `kubectl describe node NAME`
//! Fix: the log of the network's agent on this node says what it waits for

use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::Known;
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.network-available",
    title: "no network agent says that it is still at work",
    subsystem: Subsystem::Network,
    until: Until::Network,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let node = known("Node", &seen.node)?;
    Ok(match &node.network_unavailable {
        None => pass("no network agent says that it is unavailable"),
        Some(reason) => fail("the node's network is unavailable")
            .seen(Evidence::of("Node condition NetworkUnavailable", reason))
            .fix(format!(
                "kubectl get pods -A -o wide --field-selector spec.nodeName={}    # the network agent's log says why",
                node.name
            ))
            .explains([id!("node.network-unavailable")]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass};
    use crate::join::verify::Node;
    use crate::join::verify::testing::{joined, node, table, with};

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("nothing said", joined(), Pass),
                (
                    "at work",
                    with(|s| s.node = Ok(Node { network_unavailable: Some("NoRouteCreated".into()), ..node() })),
                    Fail,
                ),
            ],
        );
    }
}
