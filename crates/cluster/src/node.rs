//! A machine's own Node, and a key of a ConfigMap: what an admin may ask, and what a kubelet may with its own certificate.
//!
//! A node is shown its own Node, and of the ConfigMaps those that pods on it mount; for everything else the API server
//! says 403, also for what is not there.

use carrick_core::fact::{Capture, Why};
use serde_json::{Value, json};

use crate::client::Client;
use crate::way::Way;

/// What the kubelet has told of itself. `Absent`: the cluster has no Node of this name.
pub async fn node(client: &Client, way: &dyn Way, name: &str) -> Result<Capture, Why> {
    let node = client.get(way, &format!("/api/v1/nodes/{}", word(name)?)).await?;
    let kept = json!({
        "metadata": { "name": node.pointer("/metadata/name") },
        "spec": { "podCIDR": node.pointer("/spec/podCIDR") },
        "status": {
            "conditions": node.pointer("/status/conditions"),
            "nodeInfo": node.pointer("/status/nodeInfo"),
        },
    });
    Ok(Capture::text(kept.to_string()))
}

/// The text under a key; `None` where the ConfigMap has no such key.
pub async fn config_map(
    client: &Client,
    way: &dyn Way,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<Option<String>, Why> {
    let path = format!("/api/v1/namespaces/{}/configmaps/{}", word(namespace)?, word(name)?);
    let map = client.get(way, &path).await?;
    Ok(map.get("data").and_then(|data| data.get(key)).and_then(Value::as_str).map(str::to_owned))
}

/// A name as Kubernetes allows it: nothing that leads to another path.
pub(crate) fn word(name: &str) -> Result<&str, Why> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let is_word = !name.is_empty() && name.bytes().all(fits) && !name.starts_with('.');
    if is_word { Ok(name) } else { Err(Why::Broken(format!("{name:?} is not a name in Kubernetes"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for name in ["w1", "kube-flannel", "node-1.example.com"] {
            assert_eq!(word(name), Ok(name));
        }
        for name in ["", "..", "a/b", "W1", "a b", "a?b", "a%2fb"] {
            assert!(word(name).is_err(), "{name}");
        }
    }
}
