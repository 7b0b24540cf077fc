//! NodeReadinessRules: what differs for a custom resource.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{PARTIAL_LIST, Row, Who, create, delete, delete_with, get, merge, row, strategic, update};

const RULES: &str = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules";

pub(super) fn rule(name: &str) -> Value {
    json!({
        "apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule", "metadata": {"name": name},
        "spec": {
            "conditions": [{"type": "row/ready", "requiredStatus": "True"}],
            "enforcementMode": "continuous",
            "nodeSelector": {"matchLabels": {"row": "rules"}},
            "taint": {"key": "readiness.k8s.io/row", "effect": "NoSchedule"},
        },
    })
}

/// The CustomResourceDefinition that a real server needs: of the upstream one what rows and this server know of.
pub(super) fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({
        "type": "object",
        "required": ["enforcementMode"],
        "properties": {
            "enforcementMode": {"type": "string", "enum": ["bootstrap-only", "continuous"]},
            "dryRun": {"type": "boolean"},
            "taint": {"type": "object", "properties": {"key": {"type": "string"}, "effect": {"type": "string"}}},
            "nodeSelector": open,
            "conditions": {"type": "array", "items": open},
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodereadinessrules.readiness.node.x-k8s.io"},
        "spec": {
            "group": "readiness.node.x-k8s.io", "scope": "Cluster",
            "names": {
                "kind": "NodeReadinessRule", "listKind": "NodeReadinessRuleList", "plural": "nodereadinessrules",
                "singular": "nodereadinessrule",
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "selectableFields": [
                    {"jsonPath": ".spec.enforcementMode"}, {"jsonPath": ".spec.taint.key"}, {"jsonPath": ".spec.dryRun"},
                ],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": open}}},
            }],
        },
    })
}

/// What goes on after `row-1` in a list of the very first version. A real server answers for what it has in its cache,
/// whatever etcd has forgotten; of a resource that was defined a moment ago it has nothing so old.
fn of_long_ago() -> String {
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "/row-1\0"}).to_string())
}

pub(super) fn rows() -> Vec<Row> {
    let one = format!("{RULES}/row-1");
    let status = format!("{RULES}/row-1/status");
    let made = |name: &str| create(RULES, rule(name));
    let mut wrong = rule("row-1");
    wrong["spec"]["enforcementMode"] = "sometimes".into();
    let mut changed = rule("row-1");
    changed["metadata"]["resourceVersion"] = "${0/metadata/resourceVersion}".into();
    changed["spec"]["dryRun"] = true.into();
    let mut held = rule("row-1");
    held["metadata"]["finalizers"] = json!(["readiness.node.x-k8s.io/cleanup-taints"]);
    vec![
        row(
            "a rule is made, read and listed",
            [
                made("row-1"),
                made("row-1"),
                made("row-2"),
                get(&one),
                get(RULES),
                get(RULES).accepting(PARTIAL_LIST),
                get(format!("{RULES}?limit=1")),
                get(format!("{RULES}?limit=1&continue=${{6/metadata/continue}}")),
                get(format!("{RULES}?fieldSelector=spec.enforcementMode%3Dcontinuous")),
                get(format!("{RULES}?fieldSelector=spec.other%3Dx")),
                get(RULES).by(Who::Node),
                create(RULES, wrong),
            ],
        ),
        row(
            "a page that is too old tells how to go on",
            [
                made("row-1"),
                made("row-2"),
                made("row-3"),
                get(RULES),
                get(format!("{RULES}?limit=1&continue={}", of_long_ago())).after_compaction(),
                get(format!("{RULES}?limit=1&continue=${{4/metadata/continue}}")),
                get(format!("{RULES}?limit=2&continue=${{4/metadata/continue}}")),
            ],
        ),
        row(
            "only what a rule says is counted as a generation",
            [
                made("row-1"),
                update(&one, changed),
                update(&one, rule("row-1")),
                merge(&one, json!({"metadata": {"labels": {"row": "rules"}}})),
                merge(&one, json!({"spec": {"dryRun": false}})),
                merge(&status, json!({"status": {"observedGeneration": 3}, "spec": {"dryRun": true}})),
                merge(&one, json!({"status": {"observedGeneration": 9}})),
                merge(&status, json!({"metadata": {"resourceVersion": "1"}, "status": {"observedGeneration": 4}})),
                strategic(&one, json!({"spec": {"dryRun": true}})),
                get(&status),
            ],
        ),
        row(
            "a rule's status is replaced by its subresource",
            [
                made("row-1"),
                update(
                    &status,
                    json!({
                        "apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule",
                        "metadata": {"name": "row-1", "resourceVersion": "${0/metadata/resourceVersion}", "labels": {"a": "b"}},
                        "spec": {"enforcementMode": "bootstrap-only"}, "status": {"observedGeneration": 1},
                    }),
                ),
            ],
        ),
        row(
            "a rule goes when its finalizer is gone",
            [
                create(RULES, held),
                delete(&one),
                delete_with(&one, json!({})),
                get(&one),
                merge(&one, json!({"metadata": {"finalizers": null}})),
                get(&one),
            ],
        ),
    ]
}
