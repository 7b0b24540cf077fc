//! The Node of this name is this machine's, by system UUID and machine-id.
//!
//! A name alone proves nothing: kubeadm takes over the Node of a machine that is down without a word. Nor does a UUID
//! alone: guests of one container host share theirs. A Node that somebody deleted does not come back by itself: a kubelet
//! registers, and tells its machine-id, only when it starts.
//!
//! See it yourself: `kubectl get node NAME -o jsonpath={.status.nodeInfo}`, `cat /sys/class/dmi/id/product_uuid
//! /etc/machine-id`
//! Fix: `systemctl restart kubelet` where the Node was deleted; another name where it is another machine's

use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Until, known, not_seen};

pub const PROOF: Proof = Proof {
    id: "verify.identity",
    title: "the Node of this name is this machine",
    subsystem: Subsystem::ControlPlane,
    until: Until::Registered,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    if seen.node == Err(Why::Absent) {
        return Ok(fail("there is no Node of this name")
            .seen(Evidence::of("API server", "not found"))
            .fix("systemctl restart kubelet    # where somebody deleted it: a kubelet registers when it starts")
            .fix("journalctl -u kubelet -n 50 --no-pager | grep -i regist")
            .means(id!("node.never-registered"))
            .explains([id!("node.never-registered")]));
    }
    let node = known("Node", &seen.node)?;
    let evidence = Evidence::of(format!("Node {}", node.name), node.whose.as_str());
    Ok(match node.identity {
        Some(true) if node.other_machine_id => {
            let why = "it has this machine's UUID and another machine-id: changed since its kubelet started, or a second machine's";
            not_seen("whose Node it is", &Why::Broken(why.to_owned()))
                .seen(evidence)
                .fix("systemctl restart kubelet    # tells the cluster this machine's id; then carrick verify again")
        }
        Some(true) => pass(format!("node {} is this machine", node.name)),
        Some(false) => fail(format!("the Node {} is another machine's", node.name))
            .seen(evidence)
            .fix("hostnamectl hostname NEW-NAME, then carrick reset and carrick join")
            .explains([id!("api.node-name")]),
        None => {
            not_seen("whose Node it is", &Why::Broken("its ids are empty or shared: they prove nothing".to_owned()))
                .seen(evidence)
                .fix("carrick explain machine.machine-id")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::join::verify::Node;
    use crate::join::verify::testing::{joined, node, table, with};

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("this machine", joined(), Pass),
                ("another machine", with(|s| s.node = Ok(Node { identity: Some(false), ..node() })), Fail),
                ("another machine-id", with(|s| s.node = Ok(Node { other_machine_id: true, ..node() })), Unknown),
                ("shared ids", with(|s| s.node = Ok(Node { identity: None, ..node() })), Unknown),
                ("no such Node", with(|s| s.node = Err(Why::Absent)), Fail),
                ("no API server", with(|s| s.node = Err(Why::TimedOut)), Unknown),
                ("nobody may ask", with(|s| s.node = Err(Why::NotAsked)), Unknown),
            ],
        );
    }
}
