//! What happens to the nodes: they come to be, their conditions flip, a bare client writes their taints. Each with as many
//! connections as it is told to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carrick_core::rule::OWNED;
use carrick_testkit::{Api, Caller};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::{CONDITION, TAINT};
use crate::error::{During, Error, Result, said};

/// Who flips conditions: as many kubelets and reporters at once.
const WRITERS: usize = 8;
/// As many writes at once as the controller has.
const BARE: usize = carrick_core::rule::MOST_AT_ONCE as usize;

/// When a node's condition was written, and the version it had then.
pub type Acknowledged = mpsc::UnboundedSender<(u32, Instant, String)>;

fn what_failed(what: &str) -> impl FnOnce(io::Error) -> Error {
    let what = what.to_owned();
    |source| Error::Io { what, source }
}

async fn callers(api: &Api, token: &str, count: usize) -> Result<Vec<Caller>> {
    let mut callers = Vec::new();
    for _ in 0..count {
        callers.push(Caller::dial(api, token).await.map_err(what_failed("cannot reach the API server"))?);
    }
    Ok(callers)
}

pub async fn create_nodes(api: &Api, count: u32) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for mut caller in callers(api, api.admin_token(), BARE).await? {
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            while let Some(n) = take(&next, count) {
                let body = carrick_testkit::node(n).to_string();
                let made = caller.send(Method::POST, "/api/v1/nodes", "application/json", body).await;
                expect(made, 201, n)?;
            }
            Ok(())
        });
    }
    all(tasks).await
}

fn take(next: &AtomicUsize, count: u32) -> Option<u32> {
    u32::try_from(next.fetch_add(1, Ordering::Relaxed)).ok().filter(|n| *n < count)
}

fn expect(answer: io::Result<(u16, bytes::Bytes)>, status: u16, n: u32) -> Result<bytes::Bytes> {
    let (given, body) = answer.during(|| format!("worker-{n:05} was not written"))?;
    if given == status {
        return Ok(body);
    }
    said(format!("worker-{n:05} was answered {given}: {}", String::from_utf8_lossy(&body)))
}

async fn all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(done) = tasks.join_next().await {
        done.map_err(|error| Error::Said(error.to_string()))??;
    }
    Ok(())
}

fn condition(status: &str) -> String {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({
        "type": CONDITION, "status": status, "reason": "Bench", "message": "set by the benchmark",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    json!({ "status": { "conditions": [condition] } }).to_string()
}

fn path(n: u32) -> String {
    format!("/api/v1/nodes/worker-{n:05}")
}

/// Sets the condition of the nodes up to a number, as fast as it goes.
pub async fn set_conditions(api: &Api, count: u32, status: &'static str, tell: Acknowledged) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for mut caller in callers(api, api.admin_token(), WRITERS).await? {
        let (next, tell) = (Arc::clone(&next), tell.clone());
        tasks.spawn(async move {
            while let Some(n) = take(&next, count) {
                let (path, kind) = (format!("{}/status", path(n)), "application/strategic-merge-patch+json");
                let body = expect(caller.send(Method::PATCH, &path, kind, condition(status)).await, 200, n)?;
                let _ = tell.send((n, Instant::now(), version_of(&body)?));
            }
            Ok(())
        });
    }
    drop(tell);
    all(tasks).await
}

fn version_of(body: &[u8]) -> Result<String> {
    let object: Value = serde_json::from_slice(body).map_err(|error| Error::Said(error.to_string()))?;
    Ok(object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
}

/// What the controller would write, with its own rights and as many connections, with nothing to decide.
pub async fn write_taints(
    api: &Api,
    token: &str,
    held: bool,
    told: mpsc::UnboundedReceiver<(u32, Instant, String)>,
    acknowledged: Acknowledged,
) -> Result<()> {
    let told = Arc::new(Mutex::new(told));
    let mut tasks = JoinSet::new();
    for mut caller in callers(api, token, BARE).await? {
        let (told, acknowledged) = (Arc::clone(&told), acknowledged.clone());
        tasks.spawn(async move {
            loop {
                let next = told.lock().await.recv().await;
                let Some((n, at, version)) = next else { return Ok(()) };
                expect(caller.patch_for_metadata(&path(n), &patch(&version, held)).await, 200, n)?;
                let _ = acknowledged.send((n, at, version));
            }
        });
    }
    drop(acknowledged);
    all(tasks).await
}

/// To the letter the controller's; the other taint is the API server's own.
fn patch(version: &str, held: bool) -> Value {
    let own = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
    let note = held.then(|| json!({ format!("{TAINT}:NoSchedule"): "bench" }).to_string());
    let gate = held.then(|| json!({ "key": TAINT, "effect": "NoSchedule" }));
    let taints: Vec<Value> = std::iter::once(own).chain(gate).collect();
    json!({
        "metadata": { "resourceVersion": version, "annotations": { OWNED: note } },
        "spec": { "taints": taints },
    })
}

/// Each kubelet once in five minutes, as they do, for this long; how many there were.
pub async fn beat(api: &Api, count: u32, lasts: Duration) -> Result<u32> {
    let mut caller = callers(api, api.admin_token(), 1).await?.pop().ok_or_else(|| Error::Said("no caller".into()))?;
    let every = Duration::from_mins(5) / count.max(1);
    let mut due = tokio::time::interval(every);
    let begun = Instant::now();
    let mut beats = 0;
    while begun.elapsed() < lasts {
        due.tick().await;
        let n = beats % count;
        let (path, kind) = (format!("{}/status", path(n)), "application/strategic-merge-patch+json");
        expect(caller.send(Method::PATCH, &path, kind, condition("False")).await, 200, n)?;
        beats += 1;
    }
    Ok(beats)
}
