//! What is said of one Node, by itself or by an admin, when its machine leaves: it is cordoned, its pods go elsewhere, it
//! is not ready any more.
//!
//! The Node stays: with its uid and its range of pod addresses, for the machine to come back to.

use carrick_core::fact::Why;
use carrick_core::fact::identity::Identity;
use carrick_core::reset::CORDONED;
use carrick_core::reset::pods::Pod;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{Client, message};
use crate::http::Body;
use crate::node::word;
use crate::way::Way;

/// A node has 110 pods unless told otherwise, of 10 kB each.
const PAGE: usize = 100;

/// What a label says of a control plane; older ones are still about.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// What became of saying that a node leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Not ready, and cordoned.
    Said,
    /// Not ready; somebody else had cordoned it before.
    CordonedBefore,
    /// There is no such Node: nothing had to be said.
    NoNode,
}

/// Why it was not said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSaid {
    #[error("node {0} is another machine's (its systemUUID and machineID are not this one's): it was left alone")]
    AnotherMachine(String),
    #[error("node {0} is a control plane by its label")]
    ControlPlane(String),
    #[error("{0}")]
    Why(Why),
}

impl From<Why> for NotSaid {
    fn from(why: Why) -> Self {
        NotSaid::Why(why)
    }
}

fn path(node: &str) -> Result<String, Why> {
    Ok(format!("/api/v1/nodes/{}", word(node)?))
}

/// Says of this machine's own Node that it is not ready, and cordons it. The kubelet must be stopped: it would say otherwise
/// within seconds.
pub async fn leave(client: &Client, way: &dyn Way, node: &str, own: &Identity) -> Result<Leaving, NotSaid> {
    let said = ("CarrickReset", "carrick reset has stopped the kubelet");
    let Some(object) = not_ready(client, way, node, own, said).await? else { return Ok(Leaving::NoNode) };
    if is_cordoned(&object) {
        return Ok(if has_our_mark(&object) { Leaving::Said } else { Leaving::CordonedBefore });
    }
    cordon(client, way, node).await?;
    Ok(Leaving::Said)
}

/// Says of this machine's own Node that it is not ready, for a join that takes it up again at once.
pub async fn unready(client: &Client, way: &dyn Way, node: &str, own: &Identity) -> Result<(), NotSaid> {
    let said = ("CarrickJoin", "no kubelet runs on this machine: carrick join is about to join it again");
    not_ready(client, way, node, own, said).await.map(drop)
}

/// The Node as it was before; `None` where there is none.
async fn not_ready(
    client: &Client,
    way: &dyn Way,
    node: &str,
    own: &Identity,
    (reason, message): (&str, &str),
) -> Result<Option<Value>, NotSaid> {
    let object = match client.get(way, &path(node)?).await {
        Err(Why::Absent) => return Ok(None),
        object => object?,
    };
    let info = |field: &str| object.pointer(&format!("/status/nodeInfo/{field}")).and_then(Value::as_str);
    if own.is(info("systemUUID").unwrap_or_default(), info("machineID").unwrap_or_default()) == Some(false) {
        return Err(NotSaid::AnotherMachine(node.to_owned()));
    }
    let labels = object.pointer("/metadata/labels");
    if CONTROL_PLANE.iter().any(|label| labels.and_then(|labels| labels.get(label)).is_some()) {
        return Err(NotSaid::ControlPlane(node.to_owned()));
    }
    let now = way.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let not_ready = json!({
        "type": "Ready", "status": "False", "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let status = json!({ "status": { "conditions": [not_ready] } });
    client.strategic_merge(way, &format!("{}/status", path(node)?), &status).await?;
    Ok(Some(object))
}

fn is_cordoned(node: &Value) -> bool {
    node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true)
}

/// A reset of ours has cordoned it.
pub fn has_our_mark(node: &Value) -> bool {
    node.pointer("/metadata/annotations").and_then(|annotations| annotations.get(CORDONED)).is_some()
}

/// Keeps new pods off a node, and notes that it was a reset.
async fn cordon(client: &Client, way: &dyn Way, node: &str) -> Result<(), Why> {
    let now = way.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let cordoned = json!({ "metadata": { "annotations": { CORDONED: now } }, "spec": { "unschedulable": true } });
    client.merge(way, &path(node)?, &cordoned).await.map(drop)
}

/// Cordons a node before it is drained, unless somebody has.
pub async fn close(client: &Client, way: &dyn Way, node: &str) -> Result<(), Why> {
    let object = client.get(way, &path(node)?).await?;
    if is_cordoned(&object) { Ok(()) } else { cordon(client, way, node).await }
}

/// Uncordons a node that a reset has cordoned; one that somebody else did stays so. Whether there was something to do.
pub async fn open(client: &Client, way: &dyn Way, node: &str) -> Result<bool, Why> {
    let object = match client.get(way, &path(node)?).await {
        Err(Why::Absent) => return Ok(false),
        object => object?,
    };
    if !has_our_mark(&object) {
        return Ok(false);
    }
    let opened = json!({ "metadata": { "annotations": { CORDONED: null } }, "spec": { "unschedulable": null } });
    client.merge(way, &path(node)?, &opened).await.map(|_| true)
}

/// The pods that are bound to a node, for an admin.
pub async fn pods(client: &Client, way: &dyn Way, node: &str) -> Result<Vec<Pod>, Why> {
    let mut found = Vec::new();
    let mut from = String::new();
    loop {
        let list = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}&limit={PAGE}{from}", word(node)?);
        let list = client.get(way, &list).await?;
        let items = list.get("items").and_then(Value::as_array);
        found.extend(items.into_iter().flatten().map(Pod::of));
        match list.pointer("/metadata/continue").and_then(Value::as_str) {
            Some(next) if !next.is_empty() => from = format!("&continue={}", encoded(next)),
            _ => return Ok(found),
        }
    }
}

/// Any text as part of an address: a token of the API server's.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

/// What the API server said to a pod's eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It ends now, in its own time.
    Going,
    Gone,
    /// Not now: a disruption budget, in the API server's words.
    NotNow(String),
}

/// Asks a pod to go, as `kubectl drain` does: its disruption budget is kept.
pub async fn evict(client: &Client, way: &dyn Way, pod: &Pod) -> Result<Evicted, Why> {
    let Pod { namespace, name, uid, .. } = pod;
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name, "namespace": namespace },
        // One by the same name that came after it is another pod.
        "deleteOptions": { "preconditions": { "uid": uid } },
    });
    let body = Body { kind: "application/json", text: eviction.to_string() };
    let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", word(namespace)?, word(name)?);
    let response = client.bounded(way, Method::POST, &path, Some(body)).await?;
    match response.status {
        status if status.is_success() => Ok(Evicted::Going),
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(Evicted::Gone),
        StatusCode::TOO_MANY_REQUESTS => {
            let said = message(&response.body);
            Ok(Evicted::NotNow(said.trim_start_matches(": ").to_owned()))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Why::Denied),
        status => Err(Why::Broken(format!("{}: answers {status}{}", client.endpoint(), message(&response.body)))),
    }
}
