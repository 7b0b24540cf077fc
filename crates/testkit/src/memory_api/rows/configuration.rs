//! ConfigMaps, Secrets, Events, and what every API server says of itself.

use serde_json::{Value, json};

use super::{PARTIAL, Row, Who, create, delete, delete_with, get, merge, row, update};

const MAPS: &str = "/api/v1/namespaces/row/configmaps";
const SECRETS: &str = "/api/v1/namespaces/row/secrets";
const EVENTS: &str = "/api/v1/namespaces/row/events";

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "row"}, "data": {"a": value}})
}

pub(super) fn rows() -> Vec<Row> {
    let (one, secret) = (format!("{MAPS}/row-1"), format!("{SECRETS}/row-1"));
    vec![
        row(
            "the server tells its version and health to anybody",
            [
                get("/version"),
                get("/version").by(Who::Token),
                get("/version").by(Who::Anonymous),
                get("/healthz").by(Who::Anonymous),
                get("/readyz").by(Who::Anonymous),
                get("/livez").by(Who::Anonymous),
                get("/version").by(Who::Stranger),
            ],
        ),
        row(
            "a ConfigMap is made, replaced and changed",
            [
                create(MAPS, map("row-1", "1")),
                update(&one, map("row-1", "2")),
                merge(&one, json!({"data": {"a": null, "b": "3"}})),
                get(&one),
                get(&one).accepting(PARTIAL),
                merge(
                    &one,
                    json!({"metadata": {"resourceVersion": "${0/metadata/resourceVersion}"}, "data": {"b": "4"}}),
                ),
                merge(&one, json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})),
                update(
                    &one,
                    json!({
                        "apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": "row-1", "uid": "11111111-2222-3333-4444-555555555555"},
                    }),
                ),
                delete(&one),
                update(&one, map("row-1", "2")),
                merge(&one, json!({"data": {"a": "1"}})),
            ],
        ),
        row(
            "a Secret's strings are written encoded",
            [
                create(
                    SECRETS,
                    json!({
                        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "row-1", "namespace": "row"},
                        "stringData": {"a": "b"},
                    }),
                ),
                get(&secret),
                get(format!("{SECRETS}?fieldSelector=type%3DOpaque")),
                get(SECRETS).by(Who::Node),
                get(&secret).by(Who::Node),
                get(&secret).by(Who::Token),
                delete_with(&secret, json!({})),
            ],
        ),
        row(
            "a token's Secret is made and taken back",
            [
                create(
                    "/api/v1/namespaces/kube-system/secrets",
                    json!({
                        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
                        "metadata": {"name": "bootstrap-token-rowtwo", "namespace": "kube-system"},
                        "stringData": {"token-id": "rowtwo", "token-secret": "0123456789abcdef"},
                    }),
                ),
                delete("/api/v1/namespaces/kube-system/secrets/bootstrap-token-rowtwo"),
                delete_with("/api/v1/namespaces/kube-system/secrets/bootstrap-token-rowtwo", json!({})),
            ],
        ),
        row(
            "an Event is made",
            [create(
                EVENTS,
                json!({
                    "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "row-", "namespace": "row"},
                    "involvedObject": {"kind": "Node", "name": "row-n1", "namespace": "row"},
                    "reason": "Row", "message": "of a row", "type": "Normal", "count": 1,
                    "firstTimestamp": "2026-11-16T12:00:00Z", "lastTimestamp": "2026-11-16T12:00:00Z",
                    "source": {"component": "carrick"}, "eventTime": null, "reportingComponent": "carrick",
                    "reportingInstance": "",
                }),
            )],
        ),
        readiness_event(),
    ]
}

/// As `carrick controller` tells one.
fn readiness_event() -> Row {
    row(
        "an event of events.k8s.io about a Node",
        // The answer has fields of older versions besides, which nobody reads.
        [create(
            "/apis/events.k8s.io/v1/namespaces/default/events",
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event",
                "metadata": {"name": "row-n1.17f0a1b2c3d4e5f6", "namespace": "default"},
                "eventTime": "2026-11-16T12:00:00.000001Z", "type": "Normal", "reason": "TaintAdded", "action": "AddTaint",
                "note": "Taint 'readiness.k8s.io/row:NoSchedule' added by rule 'row-1'",
                "regarding": {"kind": "Node", "apiVersion": "v1", "name": "row-n1"},
                "reportingController": "node-readiness-controller",
                "reportingInstance": "node-readiness-controller-row",
            }),
        )
        .only_status()],
    )
}
