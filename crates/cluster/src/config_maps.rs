//! A key of a ConfigMap. A kubelet may read those that pods on its node mount.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use crate::client::ClusterClient;
use crate::error::ApiError;

/// The text under a key; `None` where the ConfigMap has no such key.
pub async fn value(client: &ClusterClient, namespace: &str, name: &str, key: &str) -> Result<Option<String>, ApiError> {
    let map = client.get::<ConfigMap>(Some(namespace), name).await?;
    Ok(map.get("data").and_then(|data| data.get(key)).and_then(Value::as_str).map(str::to_owned))
}
