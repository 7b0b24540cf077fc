//! Pods, their eviction, and DaemonSets.

use serde_json::{Value, json};

use super::{NODE, PARTIAL_LIST, Row, Who, create, delete_with, get, merge, nodes, row, strategic};

const PODS: &str = "/api/v1/namespaces/row/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/row/poddisruptionbudgets";
const SETS: &str = "/apis/apps/v1/namespaces/row/daemonsets";

fn containers() -> Value {
    json!([{"name": "web", "image": "registry.example/web:1"}])
}

pub(super) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "row", "labels": {"row": "pods", "app": name}},
        "spec": {
            "nodeName": NODE, "containers": containers(), "automountServiceAccountToken": false,
            "serviceAccountName": "default",
        },
    })
}

fn eviction(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "row"},
        "deleteOptions": {"preconditions": {"uid": uid}},
    })
}

fn running() -> Value {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T12:00:00Z"});
    json!({"status": {"phase": "Running", "conditions": [ready]}})
}

pub(super) fn rows() -> Vec<Row> {
    let (one, two) = (format!("{PODS}/row-1"), format!("{PODS}/row-2"));
    let made = |name: &str| create(PODS, pod(name));
    let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let on_node = "fieldSelector=spec.nodeName%3Drow-n1";
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "row-1", "namespace": "row"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "row-1"}}},
    });
    let spent = json!({"status": {
        "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1,
    }});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "row-1", "namespace": "row"},
        "spec": {
            "selector": {"matchLabels": {"row": "sets"}},
            "template": {
                "metadata": {"labels": {"row": "sets"}},
                "spec": {"containers": containers(), "nodeSelector": {"row": "nowhere"}},
            },
        },
    });
    let mut other = set.clone();
    other["metadata"]["name"] = "row-2".into();
    vec![
        row(
            "the pods of a node come page by page",
            [
                nodes::made(),
                made("row-1"),
                made("row-2"),
                get(format!("/api/v1/pods?{on_node}")),
                get(format!("/api/v1/pods?{on_node}")).by(Who::Node),
                get(format!("/api/v1/pods?{on_node}&limit=100")),
                get(format!("/api/v1/pods?{on_node}&limit=100")).by(Who::Node),
                get(format!("{PODS}?{on_node}&labelSelector=row%3Dpods&limit=1")),
                get(format!("{PODS}?{on_node}&labelSelector=row%3Dpods&limit=1&continue=${{7/metadata/continue}}")),
                get(format!("/api/v1/pods?{on_node}&limit=1")).only_status(),
                get(format!("/api/v1/pods?{on_node}&limit=1&continue=${{9/metadata/continue}}")).only_status(),
                get(format!("{PODS}?{on_node}&labelSelector=row%3Dpods")).accepting(PARTIAL_LIST),
                get("/api/v1/pods?fieldSelector=spec.nodeName%3Drow-n2").by(Who::Node),
                get("/api/v1/pods").by(Who::Node),
                get(format!("/api/v1/pods?{on_node}")).by(Who::Token),
                get("/api/v1/pods?fieldSelector=spec.image%3Dx"),
                get(&one).by(Who::Node),
                get(format!("{PODS}/row-none")).by(Who::Node),
            ],
        ),
        row(
            "a pod that runs goes in its own time, or at once",
            [
                made("row-1"),
                delete_with(&one, json!({"apiVersion": "v1", "kind": "DeleteOptions"})),
                get(&one),
                delete_with(&one, at_once.clone()),
                get(&one),
            ],
        ),
        row(
            "an eviction keeps the disruption budget",
            [
                nodes::made(),
                made("row-1"),
                made("row-2"),
                strategic(format!("{one}/status"), running()),
                strategic(format!("{two}/status"), running()),
                create(BUDGETS, budget),
                // Its controller says besides that it allows no disruption.
                merge(format!("{BUDGETS}/row-1/status"), spent).only_status(),
                create(format!("{one}/eviction"), eviction("row-1", "${1/metadata/uid}")),
                create(format!("{two}/eviction"), eviction("row-2", "11111111-2222-3333-4444-555555555555")),
                create(format!("{two}/eviction"), eviction("row-2", "${2/metadata/uid}")),
                create(format!("{PODS}/row-none/eviction"), eviction("row-none", "${2/metadata/uid}")),
                delete_with(&two, at_once),
            ],
        ),
        row(
            "DaemonSets and their status",
            [
                create(SETS, set),
                merge(
                    format!("{SETS}/row-1/status"),
                    json!({"status": {"desiredNumberScheduled": 3, "numberReady": 2, "observedGeneration": 1}}),
                ),
                merge(format!("{SETS}/row-1"), json!({"spec": {"minReadySeconds": 5}})).only_status(),
                get(format!("{SETS}/row-1")).only_status(),
                get("/apis/apps/v1/daemonsets").only_status(),
                get("/apis/apps/v1/daemonsets?limit=500").only_status(),
                create(SETS, other),
                get("/apis/apps/v1/daemonsets?limit=1").only_status(),
                get("/apis/apps/v1/daemonsets?limit=1&continue=${7/metadata/continue}").only_status(),
                get("/apis/apps/v1/daemonsets").by(Who::Node),
                get("/apis/apps/v1/daemonsets").by(Who::Token),
            ],
        ),
    ]
}
