//! Nodes: as `join`, `reset` and the controller ask for them.

use serde_json::{Value, json};

use super::{
    Ask, NODE, PARTIAL, PARTIAL_LIST, Row, Who, create, delete, delete_with, get, merge, row, strategic, update,
};

const NODES: &str = "/api/v1/nodes";
const ONE: &str = "/api/v1/nodes/row-n1";
const STATUS: &str = "/api/v1/nodes/row-n1/status";

pub(super) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"row": "nodes"}}})
}

pub(super) fn made() -> Ask {
    create(NODES, node(NODE))
}

/// With a range of pod addresses, so that no controller gives it one.
fn ranged(version: &str, more: &Value) -> Value {
    let mut node = node(NODE);
    node["spec"] = more.clone();
    node["spec"]["podCIDR"] = "10.99.7.0/24".into();
    node["spec"]["podCIDRs"] = json!(["10.99.7.0/24"]);
    if !version.is_empty() {
        node["metadata"]["resourceVersion"] = version.into();
    }
    node
}

fn condition(kind: &str, status: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": "Row", "message": "of a row",
        "lastHeartbeatTime": "2026-11-16T12:00:00Z", "lastTransitionTime": "2026-11-16T12:00:00Z",
    })
}

fn with(key: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {key: value}})
}

pub(super) fn rows() -> Vec<Row> {
    [read(), written(), removed(), by_kubelet()].into_iter().flatten().collect()
}

fn taint(effect: &str) -> Value {
    json!({"spec": {"taints": [{"key": "row", "effect": effect}]}})
}

fn read() -> Vec<Row> {
    vec![
        row("a Node is made once, and read", [made(), made(), get(ONE), get(ONE).accepting(PARTIAL)]),
        row("a Node that is not there", [get("/api/v1/nodes/row-none"), delete("/api/v1/nodes/row-none")]),
        row(
            "a kubelet is asked through the API server",
            [
                made(),
                // It has no address. What a real kubelet answers, the lab's cases see.
                get(format!("{ONE}/proxy/healthz")),
                get("/api/v1/nodes/row-none/proxy/healthz"),
                get(format!("{ONE}/proxy/healthz")).by(Who::Node),
                get(format!("{ONE}/proxy/healthz")).by(Who::Token),
            ],
        ),
        row(
            "Nodes are listed by label, by name and by cordon",
            [
                made(),
                create(NODES, node("row-n2")),
                get("/api/v1/nodes?labelSelector=row%3Dnodes"),
                get("/api/v1/nodes?labelSelector=row%3Dnodes").accepting(PARTIAL_LIST),
                get("/api/v1/nodes?fieldSelector=metadata.name%3Drow-n1"),
                get("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue"),
                get("/api/v1/nodes?fieldSelector=spec.providerID%3Dx"),
                get("/api/v1/nodes"),
                get("/api/v1/nodes").accepting(PARTIAL_LIST),
                get("/api/v1/nodes?labelSelector=row%3Dnodes&limit=1"),
                // Whether a next page is promised depends on what other Nodes there are, selected or not.
                get("/api/v1/nodes?labelSelector=row%3Dnodes&limit=1&continue=${9/metadata/continue}").only_status(),
                get("/api/v1/nodes?labelSelector=row%3Dnodes&limit=1").accepting(PARTIAL_LIST),
                get("/api/v1/nodes?labelSelector=row%3Dnodes&limit=1&continue=${11/metadata/continue}")
                    .accepting(PARTIAL_LIST)
                    .only_status(),
                get("/api/v1/nodes?limit=500").only_status(),
                get("/api/v1/nodes?limit=1").only_status(),
                get("/api/v1/nodes?limit=1&continue=${14/metadata/continue}").only_status(),
                get("/api/v1/nodes?limit=500").accepting(PARTIAL_LIST).only_status(),
            ],
        ),
    ]
}

fn written() -> Vec<Row> {
    let cordon = json!({"metadata": {"annotations": {"row/cordoned": "now"}}, "spec": {"unschedulable": true}});
    let uncordon = json!({"metadata": {"annotations": {"row/cordoned": null}}, "spec": {"unschedulable": null}});
    vec![
        row("a Node is cordoned and uncordoned", [made(), merge(ONE, cordon), merge(ONE, uncordon)]),
        row(
            "conditions are merged by their type",
            [
                made(),
                strategic(STATUS, json!({"status": {"conditions": [condition("Ready", "False")]}})),
                strategic(STATUS, json!({"status": {"conditions": [condition("row/one", "True")]}})),
                strategic(STATUS, json!({"status": {"conditions": [condition("Ready", "False")]}})),
                strategic(STATUS, json!({"status": {"conditions": [{"type": "row/one", "$patch": "delete"}]}})),
                merge(STATUS, json!({"status": {"conditions": [condition("row/two", "True")]}})),
                get(STATUS),
            ],
        ),
        row(
            "the status is written by way of its subresource alone",
            [
                made(),
                merge(ONE, json!({"status": {"phase": "Running"}})),
                strategic(ONE, json!({"status": {"conditions": [condition("row/one", "True")]}})),
                merge(STATUS, json!({"spec": {"unschedulable": true}})),
                merge(STATUS, json!({"metadata": {"labels": {"row-more": "yes"}}})),
            ],
        ),
        row(
            "taints are one list, and a patch may name the version it was made for",
            [
                made(),
                merge(ONE, taint("NoSchedule")),
                strategic(ONE, json!({"spec": {"taints": [{"key": "row-other", "effect": "NoExecute"}]}})),
                merge(ONE, taint("Never")),
                merge(ONE, json!({"metadata": {"resourceVersion": "1"}, "spec": {"taints": null}})),
                strategic(ONE, json!({"metadata": {"resourceVersion": "1"}, "spec": {"taints": null}})),
                merge(ONE, json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})),
                merge(ONE, json!({"spec": {"taints": null}})),
                // As the controller writes: for the version alone.
                merge(ONE, taint("NoSchedule")).accepting(PARTIAL),
                merge(ONE, json!({"metadata": {"resourceVersion": "1"}, "spec": {"taints": null}})).accepting(PARTIAL),
            ],
        ),
        row(
            "a Node is replaced, but for its range of pod addresses",
            [
                create(NODES, ranged("", &json!({}))),
                get(ONE),
                update(ONE, ranged("${1/metadata/resourceVersion}", &json!({"unschedulable": true}))),
                update(ONE, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})),
                update(
                    ONE,
                    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "resourceVersion": "1"}}),
                ),
                update(ONE, node("row-n2")),
                update(
                    STATUS,
                    json!({
                        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
                        "status": {"conditions": [condition("row/one", "True")]},
                    }),
                ),
            ],
        ),
    ]
}

fn removed() -> Vec<Row> {
    let seen = || {
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {
            "uid": "${1/metadata/uid}", "resourceVersion": "${1/metadata/resourceVersion}",
        }})
    };
    vec![
        row(
            "a Node goes only as it was seen",
            [
                made(),
                get(ONE),
                delete_with(ONE, with("uid", "11111111-2222-3333-4444-555555555555")),
                delete_with(ONE, with("resourceVersion", "1")),
                delete_with(ONE, seen()),
                get(ONE),
                delete_with(ONE, seen()),
            ],
        ),
        row("a Node goes whatever it is", [made(), delete(ONE), delete(ONE)]),
        row(
            "a Node with a finalizer stays until that is gone",
            [
                create(
                    NODES,
                    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "finalizers": ["row/held"]}}),
                ),
                delete(ONE),
                delete(ONE),
                merge(ONE, json!({"metadata": {"finalizers": null}})),
                get(ONE),
            ],
        ),
        row(
            "names and taints are looked at",
            [
                create(NODES, node("Row_n1")),
                create(NODES, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"row": "nodes"}}})),
                create(
                    NODES,
                    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"taints": [{"key": "row", "effect": "Never"}]}}),
                ),
            ],
        ),
    ]
}

fn by_kubelet() -> Vec<Row> {
    vec![row(
        "a kubelet registers its Node, and speaks of it alone",
        [
            made().by(Who::Node),
            create(NODES, node("row-n2")).by(Who::Node),
            create(NODES, node("row-n2")),
            get(ONE).by(Who::Node),
            get("/api/v1/nodes/row-n2").by(Who::Node),
            get("/api/v1/nodes?fieldSelector=metadata.name%3Drow-n1").by(Who::Node),
            get(NODES).by(Who::Node),
            strategic(STATUS, json!({"status": {"conditions": [condition("Ready", "False")]}})).by(Who::Node),
            strategic("/api/v1/nodes/row-n2/status", json!({"status": {"conditions": [condition("Ready", "False")]}}))
                .by(Who::Node),
            merge(ONE, json!({"spec": {"unschedulable": true}})).by(Who::Node),
            merge(ONE, taint("NoSchedule")).by(Who::Node),
            merge(ONE, json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}})).by(Who::Node),
            merge(ONE, json!({"metadata": {"labels": {"own": "1"}, "annotations": {"own": "1"}}})).by(Who::Node),
            delete(ONE).by(Who::Node),
        ],
    )]
}
