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

/// As `carrick_cluster::trial_pods` makes it.
fn trial(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "row", "labels": {"io.carrick": "pod-test"}},
        "spec": {
            "nodeName": NODE, "serviceAccountName": "default", "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never", "activeDeadlineSeconds": 180, "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65535, "runAsGroup": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "pause", "image": "registry.k8s.io/pause:3.10", "imagePullPolicy": "Never",
                "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "50m", "memory": "32Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    })
}

fn refused_sandbox() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "row-1", "namespace": "row"},
        "involvedObject": {"kind": "Pod", "namespace": "row", "name": "row-1", "uid": "row-uid"},
        "reason": "FailedCreatePodSandBox", "message": "failed to set up sandbox", "type": "Warning",
    })
}

fn of_trials() -> Vec<Row> {
    let (one, on_node) = (format!("{PODS}/row-1"), "fieldSelector=spec.nodeName%3Drow-n1");
    let with_uid = |uid: &str| json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    let of_pod = "fieldSelector=involvedObject.uid%3Drow-uid%2Creason%3DFailedCreatePodSandBox&limit=100";
    vec![
        row(
            "a throw-away Pod is made, found by its label, and goes in a second",
            [
                nodes::made(),
                create(PODS, trial("row-1")),
                get(&one),
                get(format!("{PODS}?{on_node}&labelSelector=io.carrick%3Dpod-test&limit=100")),
                delete_with(&one, with_uid("11111111-2222-3333-4444-555555555555")),
                delete_with(&one, with_uid("${1/metadata/uid}")),
                get(&one),
            ],
        ),
        row(
            "what was said of a Pod's sandbox",
            [
                create("/api/v1/namespaces/row/events", refused_sandbox()).uncompared(),
                get(format!("/api/v1/namespaces/row/events?{of_pod}")).only_status(),
            ],
        ),
        row(
            "pods of other nodes, by label and by where they are not",
            [
                nodes::made(),
                create(PODS, pod("row-1")),
                strategic(format!("{one}/status"), running()),
                get("/api/v1/namespaces/row/pods?labelSelector=row%3Dpods&limit=100"),
                get("/api/v1/pods?fieldSelector=spec.nodeName%21%3Drow-n2%2Cstatus.phase%3DRunning&limit=100"),
                get("/api/v1/pods?fieldSelector=spec.nodeName%21%3Drow-n1%2Cstatus.phase%3DRunning&limit=100"),
            ],
        ),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    [of_nodes(), of_trials()].into_iter().flatten().collect()
}

fn of_nodes() -> Vec<Row> {
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
