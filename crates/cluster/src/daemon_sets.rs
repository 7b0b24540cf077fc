//! The state of every DaemonSet: whether the pod network's agents run.

use carrick_core::fact::Capture;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::ApiError;

/// Name and status of every DaemonSet, as a fact.
pub async fn statuses(client: &ClusterClient) -> Result<Capture, ApiError> {
    Ok(Capture::text(json!({ "kind": "DaemonSetList", "items": all(client).await? }).to_string()))
}

/// Name, status and what says on which nodes its pods are to run, of every DaemonSet. The rest of their pod templates is left
/// out: environments hold what is nobody's business.
pub async fn all(client: &ClusterClient) -> Result<Vec<Value>, ApiError> {
    client.list::<DaemonSet, _>(None, |set| Some(short(&set))).await
}

fn short(set: &Value) -> Value {
    json!({
        "metadata": { "namespace": set.pointer("/metadata/namespace"), "name": set.pointer("/metadata/name") },
        "spec": { "template": { "spec": placed(set.pointer("/spec/template/spec")) } },
        "status": set.get("status"),
    })
}

fn placed(pod: Option<&Value>) -> Value {
    const BY: [&str; 5] = ["nodeName", "nodeSelector", "affinity", "tolerations", "hostNetwork"];
    let of = |key: &str| Some((key.to_owned(), pod?.get(key)?.clone()));
    BY.into_iter().filter_map(of).collect::<serde_json::Map<_, _>>().into()
}
