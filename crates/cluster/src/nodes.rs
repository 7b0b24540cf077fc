//! A Node: as it is, and what is said of it, by itself or by an admin, when its machine leaves. A Node that is marked stays,
//! with its uid and its range of pod addresses, for the machine to come back to.
//!
//! A kubelet is shown its own Node and no other: for all others the API server says 403, also for what is not there.

use carrick_core::fact::Capture;
use carrick_core::fact::identity::MachineIdentity;
use carrick_core::reset::CORDONED;
use carrick_core::rule::{NodeJob, WireNode};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, Preconditions};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::{ApiError, ApiProblem, ServerMessage};
use crate::watch::{Watch, Watched, WatchedObject};

/// What a label says of a control plane; older ones are still about.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// The Node as the API server has it, for `carrick_core::join::observed` to read.
pub async fn get(client: &ClusterClient, name: &str) -> Result<Value, ApiError> {
    client.get::<Node>(None, name).await
}

pub type NodeWatch = Watch<Node, WireNode>;

impl WatchedObject for WireNode {
    fn version(&self) -> &str {
        self.resource_version()
    }
}

/// Follows all Nodes, and reads of each what rules are about.
pub fn watch(client: &ClusterClient) -> NodeWatch {
    Watch::new(client.clone())
}

/// All Nodes there are, and of each what rules are about.
pub async fn all(client: &ClusterClient) -> Result<Vec<WireNode>, ApiError> {
    let (mut watch, mut nodes) = (watch(client), Vec::new());
    loop {
        match watch.next().await? {
            Watched::Begin => nodes.clear(),
            Watched::Applied(node) => nodes.push(node),
            Watched::Synced => return Ok(nodes),
            Watched::Deleted(gone) => nodes.retain(|node: &WireNode| node.name() != gone.name()),
            Watched::Unreadable { .. } => {}
        }
    }
}

/// Carries out what the index wants; the version that the Node has then.
pub async fn write(client: &ClusterClient, job: &NodeJob) -> Result<Box<str>, ApiError> {
    let Written { metadata } = client.patch_for_metadata::<Node, _>(&job.node, &job.patch()).await?;
    let version = Some(metadata.resource_version).filter(|version| !version.is_empty());
    version.ok_or_else(|| client.error(ApiProblem::Unexpected("it has no resourceVersion")))
}

/// Of a Node that was written: the version alone. Who has set which field comes with it, and is skipped.
#[derive(Deserialize)]
struct Written {
    metadata: WrittenMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata {
    #[serde(default)]
    resource_version: Box<str>,
}

/// Who answered where the API server was asked to reach a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletAnswer {
    /// The kubelet itself, whatever it said.
    Kubelet,
    /// The kubelet itself, which knows the API server and does not let it in: its words.
    KubeletRefused(String),
    /// The kubelet itself, which does not know the API server: its words.
    KubeletAskedWho(String),
    /// The API server, as it did not reach it: its words.
    NotReached(String),
    /// Neither of them: a proxy or a balancer before the API server. With which status.
    SomebodyElse(StatusCode),
}

/// Has the API server reach the kubelet of a node, as `kubectl logs` does.
pub async fn ask_kubelet(client: &ClusterClient, name: &str) -> Result<KubeletAnswer, ApiError> {
    let path = format!("/api/v1/nodes/{}/proxy/healthz", client.checked(name)?);
    let (status, body) = client.proxied(&path).await?;
    let own: Option<Value> = serde_json::from_slice(&body).ok().filter(|own: &Value| own["kind"] == "Status");
    let Some(own) = own else { return Ok(of_kubelet(status, &body)) };
    let says = own.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    match ApiProblem::of_status(status, &HeaderMap::new(), &body) {
        // What it could not do, against what it was not to do.
        ApiProblem::Status(status, _) if status.is_server_error() => Ok(KubeletAnswer::NotReached(says)),
        problem => Err(client.error(problem)),
    }
}

/// What a kubelet says to this, in its own words of every version; whatever else it is, is not known to be its.
fn of_kubelet(status: StatusCode, body: &[u8]) -> KubeletAnswer {
    /// Who is nobody to it: where it lets such in at all, they may do nothing.
    const NOBODY: &str = "Forbidden (user=system:anonymous,";
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let says = || format!("{status}: {}", ServerMessage::of(body).0.unwrap_or_default());
    match status {
        StatusCode::OK if text == "ok" => KubeletAnswer::Kubelet,
        // It answers, and is not well: that is for others to judge.
        StatusCode::INTERNAL_SERVER_ERROR if text.ends_with("healthz check failed") => KubeletAnswer::Kubelet,
        StatusCode::UNAUTHORIZED if text == "Unauthorized" => KubeletAnswer::KubeletAskedWho(says()),
        StatusCode::FORBIDDEN if text.starts_with(NOBODY) => KubeletAnswer::KubeletAskedWho(says()),
        StatusCode::FORBIDDEN if text.starts_with("Forbidden (user=") => KubeletAnswer::KubeletRefused(says()),
        _ => KubeletAnswer::SomebodyElse(status),
    }
}

/// What the kubelet has told of itself, and nothing else of the Node.
pub async fn summary(client: &ClusterClient, name: &str) -> Result<Capture, ApiError> {
    let node = get(client, name).await?;
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

/// Deletes this very Node as it was seen: not another that has its name by now, and not one that has changed since.
pub async fn delete_as_seen(client: &ClusterClient, name: &str, seen: &Value) -> Result<(), ApiError> {
    let part = |key: &str| seen.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).map(str::to_owned);
    let (Some(uid), Some(version)) = (part("uid"), part("resourceVersion")) else {
        let says = format!("what was seen of the Node {name} has no uid or no resourceVersion");
        return Err(client.error(ApiProblem::BadRequest(says)));
    };
    let preconditions = Some(Preconditions { uid: Some(uid), resource_version: Some(version) });
    client.delete::<Node>(None, name, &DeleteParams { preconditions, ..DeleteParams::default() }).await
}

/// How a Node was marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkedNode {
    /// Not ready, and cordoned by us.
    Cordoned,
    /// Not ready; somebody else had cordoned it before.
    CordonedBefore,
    /// There is no such Node: nothing had to be said.
    Absent,
}

/// Why a Node was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnmarkedNode {
    #[error("node {0} is another machine's (its systemUUID and machineID are not this one's): it was left alone")]
    AnotherMachine(String),
    #[error("node {0} is a control plane by its label")]
    ControlPlane(String),
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl UnmarkedNode {
    /// Whether trying the same a little later may well succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            UnmarkedNode::Api(error) => error.may_pass(),
            UnmarkedNode::AnotherMachine(_) | UnmarkedNode::ControlPlane(_) => false,
        }
    }
}

/// Says of this machine's own Node that it is not ready, and cordons it. The kubelet must be stopped: it would say otherwise
/// within seconds.
pub async fn mark_not_ready_and_cordon(
    client: &ClusterClient,
    name: &str,
    own: &MachineIdentity,
) -> Result<MarkedNode, UnmarkedNode> {
    let says = ("CarrickReset", "carrick reset has stopped the kubelet");
    let Some(before) = set_not_ready(client, name, own, says).await? else { return Ok(MarkedNode::Absent) };
    if is_cordoned(&before) {
        return Ok(if has_our_mark(&before) { MarkedNode::Cordoned } else { MarkedNode::CordonedBefore });
    }
    set_cordon(client, name).await?;
    Ok(MarkedNode::Cordoned)
}

/// Says of this machine's own Node that it is not ready, for a join that takes it up again at once.
pub async fn mark_not_ready(client: &ClusterClient, name: &str, own: &MachineIdentity) -> Result<(), UnmarkedNode> {
    let says = ("CarrickJoin", "no kubelet runs on this machine: carrick join is about to join it again");
    set_not_ready(client, name, own, says).await.map(drop)
}

/// The Node as it was before; `None` where there is none.
async fn set_not_ready(
    client: &ClusterClient,
    name: &str,
    own: &MachineIdentity,
    (reason, message): (&str, &str),
) -> Result<Option<Value>, UnmarkedNode> {
    let Some(node) = if_any(get(client, name).await)? else { return Ok(None) };
    let info = |field: &str| node.pointer(&format!("/status/nodeInfo/{field}")).and_then(Value::as_str);
    if own.is(info("systemUUID").unwrap_or_default(), info("machineID").unwrap_or_default()) == Some(false) {
        return Err(UnmarkedNode::AnotherMachine(name.to_owned()));
    }
    let labels = node.pointer("/metadata/labels");
    if CONTROL_PLANE.iter().any(|label| labels.and_then(|labels| labels.get(label)).is_some()) {
        return Err(UnmarkedNode::ControlPlane(name.to_owned()));
    }
    let now = to_the_second(client);
    let not_ready = json!({
        "type": "Ready", "status": "False", "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    // Strategic: the other conditions stay, as each has a type of its own.
    let status = Patch::Strategic(json!({ "status": { "conditions": [not_ready] } }));
    client.patch_status::<Node, Value>(name, &status).await?;
    Ok(Some(node))
}

fn if_any(answer: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

/// As the API server writes times.
fn to_the_second(client: &ClusterClient) -> String {
    client.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn is_cordoned(node: &Value) -> bool {
    node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true)
}

/// A reset of ours has cordoned it.
pub fn has_our_mark(node: &Value) -> bool {
    node.pointer("/metadata/annotations").and_then(|annotations| annotations.get(CORDONED)).is_some()
}

/// Keeps new pods off a node, and notes that it was a reset.
async fn set_cordon(client: &ClusterClient, name: &str) -> Result<(), ApiError> {
    let mark = json!({ "annotations": { CORDONED: to_the_second(client) } });
    let cordoned = Patch::Merge(json!({ "metadata": mark, "spec": { "unschedulable": true } }));
    client.patch::<Node, Value>(name, &cordoned).await.map(drop)
}

/// Cordons a node before it is drained, unless somebody has.
pub async fn cordon(client: &ClusterClient, name: &str) -> Result<(), ApiError> {
    if is_cordoned(&get(client, name).await?) { Ok(()) } else { set_cordon(client, name).await }
}

/// Uncordons a node that a reset has cordoned; one that somebody else did stays so. Whether there was something to do.
pub async fn uncordon(client: &ClusterClient, name: &str) -> Result<bool, ApiError> {
    if !if_any(get(client, name).await)?.is_some_and(|node| has_our_mark(&node)) {
        return Ok(false);
    }
    let mark = json!({ "annotations": { CORDONED: null } });
    let uncordoned = Patch::Merge(json!({ "metadata": mark, "spec": { "unschedulable": null } }));
    client.patch::<Node, Value>(name, &uncordoned).await.map(|_| true)
}
