//! No other machine goes by this node's name.
//!
//! Two machines with one name fight over one Node object. kubeadm refuses only while that Node is Ready; a Node that is
//! down it takes over without a word, identity and all. Carrick compares the Node's system UUID and machine-id with this
//! machine's: the same machine coming back is fine, once its old Node is no longer Ready. With the same UUID and another
//! machine-id it was set up anew, or a second machine shares the UUID, as guests of one container host do: a join waits
//! whether a kubelet keeps the Node alive.
//!
//! See it yourself: `kubectl get node NAME -o jsonpath='{.status.nodeInfo.systemUUID} {.status.nodeInfo.machineID}'`
//! Fix: give this machine another name (`hostnamectl hostname NEW`), or remove the old Node if its machine is gone
//! (`kubectl delete node NAME`).

use serde_json::Value;

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::join_state::JoinState;
use crate::fact::{Facts, Known, Missing, OrAbsent};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.node-name",
    title: "no other machine has this node's name",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Decided,
    fixed_by: FixedBy::Operator("whose Node it is, and which of two machines keeps the name, is a choice"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let path = facts.api_path()?;
    if path.failed().is_some() {
        return Ok(skip("not reached: an earlier step failed"));
    }
    let Some(node) = facts.api("node").or_absent()? else {
        return Ok(pass("no Node of this name in the cluster"));
    };
    let node: Value = match serde_json::from_str(&node.text) {
        Ok(node) => node,
        Err(error) => return Err(Missing::broken("api node", error)),
    };
    let name = text(&node, "/metadata/name");
    let (uuid, machine_id) = (text(&node, "/status/nodeInfo/systemUUID"), text(&node, "/status/nodeInfo/machineID"));
    let seen = Evidence::of(format!("Node {name}"), format!("systemUUID {uuid}, machineID {machine_id}"));
    let here = facts.identity()?;
    let still_ready = is_ready(&node) && matches!(facts.join_state(), Ok(JoinState::Unjoined | JoinState::Left { .. }));
    Ok(match here.is(uuid, machine_id) {
        Some(true) if still_ready => {
            fail(format!("the Node {name} of an earlier join is still Ready: kubeadm refuses"))
                .seen(seen)
                .fix(format!(
                    "kubectl delete node {name}      # or wait a minute: without a kubelet it is NotReady after 50 s"
                ))
                .explains([id!("stale.bootstrap-kubeconfig"), id!("stale.ca")])
        }
        Some(true) if here.has_another_machine_id(uuid, machine_id) => warn(format!(
            "the Node {name} has this machine's UUID and another machine-id: set up anew, or a second machine"
        ))
        .seen([seen, Evidence::of("this machine", here.to_string())])
        .fix(format!("kubectl -n kube-node-lease get lease {name} -w      # renewed: a second machine has this name")),
        Some(true) => warn(format!("the Node {name} is already there, and it is this machine"))
            .seen(seen)
            .fix(format!("kubectl get node {name}      # Ready: it has joined; else join again")),
        Some(false) => fail(format!("the Node {name} belongs to another machine"))
            .seen([seen, Evidence::of("this machine", here.to_string())])
            .fix(format!("hostnamectl hostname {name}-2      # or any other name that no Node has"))
            .fix(format!("kubectl delete node {name}      # or this, if that machine is gone for good")),
        None => warn(format!("the Node {name} is already there; whose it is cannot be told"))
            .seen([seen, Evidence::of("this machine", here.to_string())])
            .fix(format!("kubectl get node {name} -o wide      # compare its address with this machine's")),
    })
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

fn text<'a>(node: &'a Value, pointer: &str) -> &'a str {
    node.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::identity::{MACHINE_ID, PRODUCT_UUID};
    use crate::fact::kubeconfig::KUBELET;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const UUID: &str = "4c4c4544-0038-3610-8052-b3c04f4e4d32";
    const ID: &str = "b08dfa6083e7567a1921a715000001fb";

    fn here() -> Facts {
        facts()
            .with_api("path", r#"{"endpoint":"e","steps":[]}"#)
            .with_file(PRODUCT_UUID, &UUID.to_uppercase())
            .with_file(MACHINE_ID, ID)
    }

    fn node(uuid: &str, id: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"w1"}},"status":{{"nodeInfo":{{"systemUUID":"{uuid}","machineID":"{id}"}}}}}}"#
        )
    }

    fn ready(uuid: &str, id: &str) -> String {
        let condition = r#""status":{"conditions":[{"type":"Ready","status":"True"}],"#;
        node(uuid, id).replace(r#""status":{"#, condition)
    }

    #[test]
    fn judges() {
        let other = "aaaaaaaa-0038-3610-8052-b3c04f4e4d32";
        let shared = "03000200-0400-0500-0006-000700080009";
        let broken = facts()
            .with_api("path", r#"{"endpoint":"e","steps":[{"step":"tcp","state":"failed","detail":"refused"}]}"#);
        table(
            &CHECK,
            [
                ("no such Node", here().without(Source::Api("node"), Why::Absent), Pass),
                ("this very machine", here().with_api("node", &node(UUID, ID)), Warn),
                ("this very machine, reset", here().without_file(KUBELET).with_api("node", &ready(UUID, ID)), Fail),
                (
                    "this very machine, reset, down",
                    here().without_file(KUBELET).with_api("node", &node(UUID, ID)),
                    Warn,
                ),
                ("this very machine, joined or not", here().with_api("node", &ready(UUID, ID)), Warn),
                ("set up anew", here().with_api("node", &node(UUID, "cccccccccccccccccccccccccccccccc")), Warn),
                ("a clone with a copied id", here().with_api("node", &node(other, ID)), Fail),
                ("another machine", here().with_api("node", &node(other, "cccccccccccccccccccccccccccccccc")), Fail),
                (
                    "a shared UUID, another id",
                    here().with_api("node", &node(shared, "cccccccccccccccccccccccccccccccc")),
                    Fail,
                ),
                ("a Node that says nothing", here().with_api("node", &node("", "")), Warn),
                ("not JSON", here().with_api("node", "{"), Unknown),
                ("denied", here().without(Source::Api("node"), Why::Denied), Unknown),
                (
                    "own id unreadable",
                    here().with_api("node", &node(UUID, ID)).without(Source::File(PRODUCT_UUID), Why::Denied),
                    Unknown,
                ),
                ("never got there", broken, Skip),
                ("nobody asked", facts(), Skip),
            ],
        );
        let says = |uuid: &str, id: &str| {
            CHECK.verdict(&here().with_api("node", &node(uuid, id)), &CheckPolicy::default()).says
        };
        assert_eq!(says(UUID, ID), "the Node w1 is already there, and it is this machine");
        assert_eq!(says(other, ID), "the Node w1 belongs to another machine");
        let anew = says(UUID, "cccccccccccccccccccccccccccccccc");
        assert!(anew.ends_with("another machine-id: set up anew, or a second machine"), "{anew}");
        assert_eq!(says("", ""), "the Node w1 is already there; whose it is cannot be told");
    }
}
