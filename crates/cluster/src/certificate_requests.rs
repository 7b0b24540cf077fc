//! CertificateSigningRequests of kubelets: what becomes of a bootstrap.

use carrick_core::join::observed;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::ApiError;

/// Those that a kubelet of this node's name has made, as a list for `carrick_core::join::observed` to read. Of the others, of
/// which a large cluster has thousands, nothing is kept.
pub async fn of_node(client: &ClusterClient, node: &str) -> Result<Value, ApiError> {
    let selector = format!("spec.signerName={}", observed::KUBELET_SIGNER);
    let own = |request: Value| observed::is_of(&request, node).then_some(request);
    let items = client.list::<CertificateSigningRequest, _>(Some(&selector), own).await?;
    Ok(json!({ "items": items }))
}

/// One of them whose name is known, as such a list.
pub async fn named(client: &ClusterClient, name: &str) -> Result<Value, ApiError> {
    let request = client.get::<CertificateSigningRequest>(None, name).await?;
    Ok(json!({ "items": [request] }))
}
