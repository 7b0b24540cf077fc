//! Keys of a ConfigMap. A kubelet may read those that pods on its node mount.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Map, Value};

use crate::client::ClusterClient;
use crate::error::ApiError;

/// The text under a key; `None` where the ConfigMap has no such key.
pub async fn value(client: &ClusterClient, namespace: &str, name: &str, key: &str) -> Result<Option<String>, ApiError> {
    let map = client.get::<ConfigMap>(Some(namespace), name).await?;
    Ok(map.get("data").and_then(|data| data.get(key)).and_then(Value::as_str).map(str::to_owned))
}

/// What stands under these keys, and nothing else of it; `None` where there is no such ConfigMap.
pub async fn values(
    client: &ClusterClient,
    namespace: &str,
    name: &str,
    keys: &[&str],
) -> Result<Option<Value>, ApiError> {
    let map = match client.get::<ConfigMap>(Some(namespace), name).await {
        Err(error) if error.is_not_found() => return Ok(None),
        map => map?,
    };
    let data = map.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let kept: Map<String, Value> = data.into_iter().filter(|(key, _)| keys.contains(&key.as_str())).collect();
    Ok(Some(kept.into()))
}
