//! The pods of one node, and their eviction.

use std::time::Duration;

use carrick_core::reset::pods::Pod as KnownPod;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::{ApiError, ApiProblem, ServerMessage};

/// The pods that are bound to a node, as a list for `carrick_core::join::observed` to read. A kubelet may list its own by this
/// very selector, and no others.
pub async fn on_node(client: &ClusterClient, node: &str) -> Result<Value, ApiError> {
    let items = client.list::<Pod, _>(Some(&bound_to(client, node)?), Some).await?;
    Ok(json!({ "items": items }))
}

/// The same, as far as it matters before a node is emptied.
pub async fn known_on_node(client: &ClusterClient, node: &str) -> Result<Vec<KnownPod>, ApiError> {
    client.list::<Pod, _>(Some(&bound_to(client, node)?), |pod| Some(KnownPod::of(&pod))).await
}

/// Pods that other nodes may have, to be dialled from this one: those of the cluster's DNS.
pub async fn of_dns(client: &ClusterClient) -> Result<Value, ApiError> {
    let items = client.first_page::<Pod>(Some("kube-system"), None, Some("k8s-app=kube-dns")).await?;
    Ok(json!({ "items": items }))
}

/// The same: any that run elsewhere than on this node; a page of them.
pub async fn elsewhere(client: &ClusterClient, node: &str) -> Result<Value, ApiError> {
    let fields = format!("spec.nodeName!={},status.phase=Running", client.checked(node)?);
    let items = client.first_page::<Pod>(None, Some(&fields), None).await?;
    Ok(json!({ "items": items }))
}

fn bound_to(client: &ClusterClient, node: &str) -> Result<String, ApiError> {
    Ok(format!("spec.nodeName={}", client.checked(node)?))
}

/// What the API server said to a pod's eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It ends now, in its own time.
    Going,
    Gone,
    /// Not now, and why: a disruption budget, in the API server's words; or it cannot be asked at the moment.
    NotNow {
        why: String,
        /// For how long the API server asks to be left alone.
        retry_after: Option<Duration>,
    },
}

/// Asks a pod to go, as `kubectl drain` does: its disruption budget is kept.
pub async fn evict(client: &ClusterClient, pod: &KnownPod) -> Result<Evicted, ApiError> {
    let KnownPod { namespace, name, uid, .. } = pod;
    // Not kube's own eviction: it spells `delete_options`, which no API server reads, and the precondition would be lost.
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name, "namespace": namespace },
        // One by the same name that came after it is another pod.
        "deleteOptions": { "preconditions": { "uid": uid } },
    });
    let evicted = client.create_subresource::<Pod>(namespace, name, "eviction", &eviction).await;
    let Err(error) = evicted else { return Ok(Evicted::Going) };
    let retry_after = error.retry_after();
    match &error.problem {
        ApiProblem::NotFound(_) | ApiProblem::Conflict(_) => Ok(Evicted::Gone),
        ApiProblem::TooManyRequests { said: ServerMessage(Some(said)), .. } => {
            Ok(Evicted::NotNow { why: said.clone(), retry_after })
        }
        // One of them is no answer in time: where another pod has its name by now, the API server tries for longer than
        // anybody waits.
        _ if error.may_pass() => Ok(Evicted::NotNow { why: error.to_string(), retry_after }),
        _ => Err(error),
    }
}
