//! A throw-away Pod on one node: the only proof of a pod network whose plugin serves nobody but the cluster's Pods.
//!
//! It runs the sandbox image that is on the node already, holds no token, may do nothing, and ends by itself. What a run that
//! was killed left is found by its label; nothing without that label and our name is ever deleted.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, Preconditions};
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::ApiError;

/// Every cluster has it, with the ServiceAccount that a Pod must name.
const NAMESPACE: &str = "default";
const LABEL: (&str, &str) = ("io.carrick", "pod-test");
const PREFIX: &str = "carrick-verify-";
/// Nobody waits for longer; the kubelet ends what a killed run left.
const LIVES: u32 = 180;
/// pause ends at once when it is told to; the network is taken down in order meanwhile.
const GRACE: u32 = 1;
/// pause runs as this user in its own image, too.
const NOBODY: u32 = 65535;

/// One that is made, or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialPod {
    pub name: String,
    /// Not known before it is made.
    pub uid: String,
}

impl TrialPod {
    /// `number` tells it from every other.
    pub fn new(number: u64) -> Self {
        TrialPod { name: format!("{PREFIX}{number:016x}"), uid: String::new() }
    }

    fn of(object: &Value) -> Option<Self> {
        let text = |key: &str| object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).map(str::to_owned);
        Some(TrialPod { name: text("name")?, uid: text("uid")? })
    }

    /// `NAMESPACE/NAME`.
    pub fn full_name(&self) -> String {
        format!("{NAMESPACE}/{}", self.name)
    }
}

/// Makes it on a node; as it is then.
pub async fn create(client: &ClusterClient, pod: &TrialPod, node: &str, image: &str) -> Result<TrialPod, ApiError> {
    let made = client.create::<Pod>(NAMESPACE, &manifest(client.checked(node)?, image, &pod.name)).await?;
    Ok(TrialPod::of(&made).unwrap_or_else(|| pod.clone()))
}

/// As the profile "restricted" of Pod Security wants it; within most quotas.
fn manifest(node: &str, image: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": { LABEL.0: LABEL.1 } },
        "spec": {
            "nodeName": node,
            "serviceAccountName": "default",
            "tolerations": [{ "operator": "Exists" }],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIVES,
            "terminationGracePeriodSeconds": GRACE,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": NOBODY, "runAsGroup": NOBODY,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "pause", "image": image, "imagePullPolicy": "Never",
                "resources": {
                    "requests": { "cpu": "1m", "memory": "1Mi" }, "limits": { "cpu": "50m", "memory": "32Mi" },
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                },
            }],
        },
    })
}

/// The Pod as the API server has it.
pub async fn get(client: &ClusterClient, pod: &TrialPod) -> Result<Value, ApiError> {
    client.get::<Pod>(Some(NAMESPACE), &pod.name).await
}

/// What a kubelet says of a Pod that it cannot start: of its sandbox, of its directories, of its cgroup, of its volumes.
const COMPLAINTS: [&str; 4] = ["FailedCreatePodSandBox", "Failed", "FailedCreatePodContainer", "FailedMount"];

/// What was last said of why it has no sandbox, where something was: the kubelet's, the runtime's or the plugin's own words.
pub async fn complaint(client: &ClusterClient, pod: &TrialPod) -> Result<Option<String>, ApiError> {
    let of_it = format!("involvedObject.uid={},type=Warning", client.checked(&pod.uid)?);
    let events = client.first_page::<Event>(Some(NAMESPACE), Some(&of_it), None).await?;
    let text = |event: &Value, key: &str| event.get(key).and_then(Value::as_str).map(str::to_owned);
    let of_start = |event: &&Value| text(event, "reason").is_some_and(|reason| COMPLAINTS.contains(&reason.as_str()));
    Ok(events.iter().filter(of_start).filter_map(|event| text(event, "message")).next_back())
}

/// Those of this node that somebody made and did not take away.
pub async fn left_behind(client: &ClusterClient, node: &str) -> Result<Vec<TrialPod>, ApiError> {
    let fields = format!("spec.nodeName={}", client.checked(node)?);
    let labels = format!("{}={}", LABEL.0, LABEL.1);
    let found = client.first_page::<Pod>(Some(NAMESPACE), Some(&fields), Some(&labels)).await?;
    Ok(found.iter().filter_map(TrialPod::of).filter(|pod| pod.name.starts_with(PREFIX)).collect())
}

/// Takes this very one away. That it is gone is fine.
pub async fn remove(client: &ClusterClient, pod: &TrialPod) -> Result<(), ApiError> {
    let uid = Some(pod.uid.clone()).filter(|uid| !uid.is_empty());
    let preconditions = uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None });
    let how = DeleteParams { preconditions, ..DeleteParams::default() };
    match client.delete::<Pod>(Some(NAMESPACE), &pod.name, &how).await {
        // Another by its name is none of ours.
        Err(error) if error.is_conflict() => Ok(()),
        removed => removed,
    }
}
