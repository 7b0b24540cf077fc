//! The Node is Ready, as the API server has it.
//!
//! See it yourself: `kubectl describe node NAME`
//! Fix: `carrick diagnose` says what keeps it from being Ready

use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::Known;
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.ready",
    title: "the Node is Ready",
    subsystem: Subsystem::Kubelet,
    until: Until::Verified,
    after: &[
        "verify.kubelet",
        "verify.cluster",
        "verify.certificate",
        "verify.identity",
        "verify.lease",
        "verify.runtime-network",
    ],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let node = known("Node", &seen.node)?;
    if node.ready {
        return Ok(pass(format!("node {} is Ready", node.name)));
    }
    Ok(fail(format!("node {} is not Ready", node.name))
        .seen(Evidence::of("Node condition Ready", node.says.as_str()))
        .fix("carrick diagnose")
        .explains([id!("node.not-ready")]))
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
            [("Ready", joined(), Pass), ("NotReady", with(|s| s.node = Ok(Node { ready: false, ..node() })), Fail)],
        );
    }
}
