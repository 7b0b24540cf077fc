//! A node's lease, which its kubelet renews every ten seconds.

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;

use crate::client::ClusterClient;
use crate::error::ApiError;

/// For `carrick_core::join::observed` to read.
pub async fn of_node(client: &ClusterClient, node: &str) -> Result<Value, ApiError> {
    client.get::<Lease>(Some("kube-node-lease"), node).await
}
