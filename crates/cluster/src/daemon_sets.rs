//! The state of every DaemonSet: whether the pod network's agents run.

use carrick_core::fact::Capture;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::ApiError;

/// Name and status of every DaemonSet. Their pod templates are left out: environments hold what is nobody's business.
pub async fn statuses(client: &ClusterClient) -> Result<Capture, ApiError> {
    let items = client.list::<DaemonSet, _>(None, |set| Some(short(&set))).await?;
    Ok(Capture::text(json!({ "kind": "DaemonSetList", "items": items }).to_string()))
}

fn short(set: &Value) -> Value {
    json!({
        "metadata": { "namespace": set.pointer("/metadata/namespace"), "name": set.pointer("/metadata/name") },
        "status": set.get("status"),
    })
}
