//! The sandboxes of pods, as `crictl pods -o json` would list them; of annotations only where a pod came from, which tells
//! static ones: others may hold anything.

use std::collections::HashMap;
use std::time::Duration;

use carrick_core::fact::Why;
use carrick_core::reset::pods::CALL;
use serde_json::{Value, json};

use super::message::{ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox, PodSandboxMetadata};
use super::{boxed, call, keep, reach, why};
use crate::probe::{Observation, Probe};

/// Where the kubelet had a pod from: `api`, `file`.
const SOURCE: &str = "kubernetes.io/config.source";

/// Asks the first runtime that is there.
pub async fn observe(probe: &dyn Probe, endpoints: &[&str], time_box: Duration) -> Observation {
    let listed = list(probe, endpoints, time_box).await;
    Observation::new(format!("cri {CALL}"), listed.map(|listed| keep(&listed)))
}

async fn list(probe: &dyn Probe, endpoints: &[&str], time_box: Duration) -> Result<Value, Why> {
    let (_, channel) = reach(probe, endpoints, time_box).await?;
    let asked =
        call::<_, ListPodSandboxResponse>(channel, "Runtime", "ListPodSandbox", ListPodSandboxRequest::default());
    let listed = boxed(time_box, async { asked.await.map_err(|status| why(&status)) }).await?;
    let mut items = listed.items;
    items.sort_by_key(name);
    Ok(json!({ "items": items.into_iter().map(item).collect::<Vec<_>>() }))
}

fn item(sandbox: PodSandbox) -> Value {
    let PodSandbox { id, metadata, state, created_at: _, labels, annotations } = sandbox;
    let PodSandboxMetadata { name, uid, namespace, attempt } = metadata.unwrap_or_default();
    let metadata = json!({"name": name, "uid": uid, "namespace": namespace, "attempt": attempt});
    let source: HashMap<String, String> = annotations.into_iter().filter(|(key, _)| key == SOURCE).collect();
    let state = if state == 0 { "SANDBOX_READY" } else { "SANDBOX_NOTREADY" };
    json!({"id": id, "metadata": metadata, "state": state, "labels": labels, "annotations": source})
}

fn name(sandbox: &PodSandbox) -> (String, String) {
    sandbox.metadata.clone().map(|metadata| (metadata.namespace, metadata.name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_sandbox_reads_as_crictl_prints_it() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let metadata =
            PodSandboxMetadata { name: "web".into(), uid: "u".into(), namespace: "default".into(), attempt: 1 };
        let sandbox = PodSandbox {
            id: "a".into(),
            metadata: Some(metadata),
            state: 1,
            created_at: 0,
            labels: map(&[("app", "web")]),
            annotations: map(&[(SOURCE, "api"), ("secret", "s3cret")]),
        };
        let read = PodSandbox::decode(sandbox.encode_to_vec().as_slice()).unwrap();
        let metadata = json!({"name": "web", "uid": "u", "namespace": "default", "attempt": 1});
        let expected = json!({"id": "a", "metadata": metadata, "state": "SANDBOX_NOTREADY", "labels": {"app": "web"},
            "annotations": {SOURCE: "api"}});
        assert_eq!(item(read), expected);
    }
}
