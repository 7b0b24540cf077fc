//! The pods of one machine: as its runtime sees them, and as the API server does.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fact::cri::nanoseconds;
use crate::fact::{Facts, Known, Missing};

/// The runtime's list of sandboxes, as `crictl pods -o json` prints it.
pub const CALL: &str = "pods";

/// A pod's sandbox, as the runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSandbox {
    /// `NAMESPACE/NAME`.
    pub pod: String,
    pub ready: bool,
    /// Of a DaemonSet, or of a file in the manifests directory: bound to this node, nothing is lost with it.
    pub bound: bool,
    pub id: String,
    /// The Pod's.
    pub uid: String,
    /// By the machine's clock.
    pub created_at: Option<Timestamp>,
}

/// The labels that the DaemonSet controller puts on every pod of its own, and no other puts both.
pub const OF_DAEMON_SETS: [&str; 2] = ["controller-revision-hash", "pod-template-generation"];
/// Where the kubelet had a pod from; `api` unless it is a static one.
pub const SOURCE: &str = "kubernetes.io/config.source";

pub fn parse_sandboxes(text: &str) -> Result<Vec<ListedSandbox>, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let items = root.get("items").and_then(Value::as_array).ok_or("no items")?;
    let part =
        |item: &Value, pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let sandbox = |item: &Value| {
        let labelled = |label: &&str| item.get("labels").and_then(|labels| labels.get(*label)).is_some();
        let source = item.get("annotations").and_then(|all| all.get(SOURCE)).and_then(Value::as_str);
        ListedSandbox {
            pod: format!("{}/{}", part(item, "/metadata/namespace"), part(item, "/metadata/name")),
            ready: part(item, "/state") == "SANDBOX_READY",
            bound: OF_DAEMON_SETS.iter().all(labelled) || matches!(source, Some("file" | "http")),
            id: part(item, "/id"),
            uid: part(item, "/metadata/uid"),
            created_at: nanoseconds(&part(item, "/createdAt")),
        }
    };
    Ok(items.iter().map(sandbox).collect())
}

/// A pod as the API server knows it: what matters before a node is emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The kind of its controller, where it has one: `ReplicaSet`, `DaemonSet`.
    pub controller: Option<String>,
    /// The picture of a static pod: the API server cannot remove that.
    pub is_mirror: bool,
    /// Succeeded or failed: nothing of it runs.
    pub is_over: bool,
    /// It keeps data in an emptyDir, which goes with it.
    pub has_empty_dir: bool,
}

impl Pod {
    /// What the API server tells of one; nothing else of it is kept.
    pub fn of(object: &Value) -> Pod {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let list = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
        let owner = list("/metadata/ownerReferences").find(controls);
        Pod {
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
            uid: text("/metadata/uid").to_owned(),
            controller: owner.and_then(|owner| owner.get("kind")).and_then(Value::as_str).map(str::to_owned),
            is_mirror: object.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some(),
            is_over: matches!(text("/status/phase"), "Succeeded" | "Failed"),
            has_empty_dir: list("/spec/volumes").any(|volume| volume.get("emptyDir").is_some()),
        }
    }

    /// Whether it is asked to go elsewhere before its node is taken out.
    pub fn moves(&self) -> bool {
        !self.is_mirror && !self.is_over && self.controller.as_deref() != Some("DaemonSet")
    }

    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Facts {
    /// The pods' sandboxes on this machine, running or not.
    pub fn sandboxes(&self) -> Known<Vec<ListedSandbox>> {
        parse_sandboxes(&self.cri(CALL)?.text).map_err(|detail| Missing::broken("cri pods", detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn tells_pods_of_daemon_sets_and_static_ones_by_what_the_kubelet_wrote() {
        let sandbox = |name: &str, labels: Value, source: &str, state: &str| {
            let metadata = json!({"namespace": "default", "name": name});
            json!({"metadata": metadata, "state": state, "labels": labels, "annotations": {SOURCE: source}})
        };
        let daemon = json!({"controller-revision-hash": "5f", "pod-template-generation": "1"});
        let items = [
            sandbox("proxy", daemon, "api", "SANDBOX_READY"),
            sandbox("db-0", json!({"controller-revision-hash": "db-5f"}), "api", "SANDBOX_READY"),
            sandbox("web", json!({}), "api", "SANDBOX_NOTREADY"),
            sandbox("haproxy", json!({}), "file", "SANDBOX_READY"),
        ];
        let read = parse_sandboxes(&json!({ "items": items }).to_string()).unwrap();
        let told: Vec<_> = read.iter().map(|sandbox| (sandbox.pod.as_str(), sandbox.ready, sandbox.bound)).collect();
        assert_eq!(
            told,
            [
                ("default/proxy", true, true),
                ("default/db-0", true, false),
                ("default/web", false, false),
                ("default/haproxy", true, true)
            ]
        );
        assert!(parse_sandboxes("{}").is_err());
    }

    #[test]
    fn knows_what_moves() {
        let pod = |kind: &str, more: Value| {
            let owners = if kind.is_empty() { json!([]) } else { json!([{"kind": kind, "controller": true}]) };
            let mut pod = json!({"metadata": {"name": "a", "namespace": "b", "uid": "c", "ownerReferences": owners}});
            for (key, value) in more.as_object().unwrap() {
                pod[key] = value.clone();
            }
            Pod::of(&pod)
        };
        let none = || json!({});
        assert!(pod("ReplicaSet", none()).moves() && pod("", none()).moves());
        assert!(!pod("DaemonSet", none()).moves());
        assert!(!pod("Job", json!({"status": {"phase": "Succeeded"}})).moves());
        assert!(!Pod::of(&json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})).moves());
        let volumes = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
        assert!(pod("ReplicaSet", volumes).has_empty_dir && !pod("", none()).has_empty_dir);
        assert_eq!(pod("", none()).full_name(), "b/a");
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_an_error(text in "(items|labels|[\\[\\]{}:,\"0-9]|.)*") {
            let _ = parse_sandboxes(&text);
            let _ = serde_json::from_str::<Value>(&text).map(|value| Pod::of(&value));
        }
    }
}
