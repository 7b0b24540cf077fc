//! The sandboxes of pods, as `crictl pods -o json` would list them. Of labels and annotations only those by which a pod is known to
//! be a DaemonSet's or a static one: others may hold anything, and as much as they like.

use std::collections::HashMap;
use std::time::Duration;

use carrick_core::fact::Why;
use carrick_core::reset::pods::{CALL, OF_DAEMON_SETS, SOURCE};
use serde_json::{Value, json};
use tonic::transport::Channel;

use super::message::{ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox, PodSandboxMetadata};
use super::{boxed, call, keep, reach, why};
use crate::probe::{Observation, Probe};

/// Asks the first runtime that is there.
pub async fn observe(probe: &dyn Probe, endpoints: &[&str], time_box: Duration) -> Observation {
    let listed = match reach(probe, endpoints, time_box).await {
        Err(why) => Err(why),
        Ok((_, channel)) => boxed(time_box, list(channel)).await,
    };
    Observation::new(format!("cri {CALL}"), listed.map(|listed| keep(&listed)))
}

pub(super) async fn list(channel: Channel) -> Result<Value, Why> {
    let asked =
        call::<_, ListPodSandboxResponse>(channel, "Runtime", "ListPodSandbox", ListPodSandboxRequest::default());
    let mut items = asked.await.map_err(|status| why(&status))?.items;
    items.sort_by_key(name);
    Ok(json!({ "items": items.into_iter().map(item).collect::<Vec<_>>() }))
}

fn item(sandbox: PodSandbox) -> Value {
    let PodSandbox { id, metadata, state, created_at, labels, annotations } = sandbox;
    let PodSandboxMetadata { name, uid, namespace, attempt } = metadata.unwrap_or_default();
    let metadata = json!({"name": name, "uid": uid, "namespace": namespace, "attempt": attempt});
    let of = |all: HashMap<String, String>, keys: &[&str]| -> HashMap<String, String> {
        all.into_iter().filter(|(key, _)| keys.contains(&key.as_str())).collect()
    };
    let (labels, source) = (of(labels, &OF_DAEMON_SETS), of(annotations, &[SOURCE]));
    let state = if state == 0 { "SANDBOX_READY" } else { "SANDBOX_NOTREADY" };
    // As JSON of a protobuf has it: a number of 64 bits is a text.
    let created_at = created_at.to_string();
    json!({"id": id, "metadata": metadata, "state": state, "createdAt": created_at, "labels": labels, "annotations": source})
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
            created_at: 1_794_744_000_000_000_000,
            labels: map(&[("app", "web"), ("pod-template-generation", "1")]),
            annotations: map(&[(SOURCE, "api"), ("secret", "s3cret")]),
        };
        let read = PodSandbox::decode(sandbox.encode_to_vec().as_slice()).unwrap();
        let metadata = json!({"name": "web", "uid": "u", "namespace": "default", "attempt": 1});
        let expected = json!({"id": "a", "metadata": metadata, "state": "SANDBOX_NOTREADY", "createdAt": "1794744000000000000",
            "labels": {"pod-template-generation": "1"}, "annotations": {SOURCE: "api"}});
        assert_eq!(item(read), expected);
    }

    /// However long the labels and annotations are that people give their pods.
    #[test]
    fn five_hundred_pods_are_listed_whole() {
        let long = |key: usize| (format!("example.com/{key}"), "x".repeat(1000));
        let sandbox = |number: usize| PodSandbox {
            id: format!("{number:064x}"),
            metadata: Some(PodSandboxMetadata {
                name: format!("{}-{number}", "n".repeat(240)),
                uid: format!("{number:036}"),
                namespace: "s".repeat(63),
                attempt: 0,
            }),
            labels: (0..20).map(long).chain([(OF_DAEMON_SETS[0].to_owned(), "a".to_owned())]).collect(),
            annotations: (0..20).map(long).chain([(SOURCE.to_owned(), "api".to_owned())]).collect(),
            ..PodSandbox::default()
        };
        let listed = json!({ "items": (0..500).map(sandbox).map(item).collect::<Vec<_>>() });
        let (capture, _) = keep(&listed);
        assert!(capture.is_whole());
        let read = carrick_core::reset::pods::parse_sandboxes(&capture.text).unwrap();
        assert_eq!((read.len(), read.iter().filter(|pod| pod.bound).count()), (500, 0));
    }
}
