//! Events, as `kubectl describe` and `kubectl get events` show them.

use carrick_core::rule::{API_VERSION, KIND, RuleEvent};
use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::ApiError;

/// What upstream's events are found by.
const CONTROLLER: &str = "node-readiness-controller";
/// Where events about objects without a namespace are.
const NAMESPACE: &str = "default";

/// Tells one event. `instance`: which process it was; `nanos`: what makes its name its own.
pub async fn tell(client: &ClusterClient, event: &RuleEvent, instance: &str, nanos: i128) -> Result<(), ApiError> {
    client.create::<Event>(NAMESPACE, &object(client, event, instance, nanos)).await.map(drop)
}

fn object(client: &ClusterClient, event: &RuleEvent, instance: &str, nanos: i128) -> Value {
    let rule = json!({ "kind": KIND, "apiVersion": API_VERSION, "name": &*event.rule, "uid": event.rule_uid });
    let about = &event.about;
    let (name, regarding, related) = match &about.node {
        Some(node) => {
            let mut regarding = json!({ "kind": "Node", "apiVersion": "v1", "name": &**node, "uid": about.uid });
            if !about.resource_version.is_empty() {
                regarding["resourceVersion"] = json!(about.resource_version);
            }
            (&**node, regarding, Some(rule).filter(|_| event.kind.is_warning()))
        }
        None => (&*event.rule, rule, None),
    };
    let mut object = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": { "name": format!("{name}.{nanos:x}"), "namespace": NAMESPACE },
        "eventTime": client.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        "type": if event.kind.is_warning() { "Warning" } else { "Normal" },
        "reason": event.kind.reason(),
        "action": event.kind.action(),
        // The API server takes no more.
        "note": event.note.chars().take(1000).collect::<String>(),
        "regarding": regarding,
        "reportingController": CONTROLLER,
        "reportingInstance": format!("{CONTROLLER}-{instance}"),
    });
    if let Some(related) = related {
        object["related"] = related;
    }
    object
}
