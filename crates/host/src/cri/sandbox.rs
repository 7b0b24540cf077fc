//! A throw-away sandbox: the only proof that pods get addresses. It is run, its address read at once, and it is taken
//! away again, whatever came of it.
//!
//! A kubelet that does not know a sandbox stops it after a second or two and removes it within a minute: one that is
//! gone already is fine. What a run that was killed left behind is found by its label.
//!
//! As long as it stands, pods of other nodes can be dialled from within it ([`dial_from_pod`] does the same from a Pod's).

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use carrick_core::fact::Why;
use carrick_core::fact::cri::parse_status;
use carrick_core::join::verify::Dialled;
use jiff::Timestamp;
use prost::Message;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::message::{
    Empty, LinuxPodSandboxConfig, ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox, PodSandboxConfig,
    PodSandboxFilter, PodSandboxMetadata, PodSandboxStatusRequest, PodSandboxStatusResponse, RunPodSandboxRequest,
    RunPodSandboxResponse, SandboxId,
};
use super::{boxed, call, config, images, reach, status, why};
use crate::dial::dial;
use crate::host::Host;

/// The label of every sandbox of ours, and its value.
const LABEL: (&str, &str) = ("io.carrick", "sandbox-test");
const NAMESPACE: &str = "carrick";

/// Where there is no kubelet's slice to put it in: systemd's driver takes nothing but a slice.
const SLICE: &str = "system.slice";

/// A question that costs the runtime nothing.
const SHORT: Duration = Duration::from_secs(5);
/// What calls a plugin. Plugins that wait for their daemon (cilium's) give up after 30 s; theirs is the better reason.
pub const PLUGIN: Duration = Duration::from_secs(40);
/// Taking away what was stopped.
const REMOVE: Duration = Duration::from_secs(20);
/// From within a sandbox that no kubelet knows, which stops it within seconds: a neighbour answers in milliseconds.
const QUICK_DIAL: Duration = Duration::from_secs(1);
/// From within a Pod: the kernel asks again after one second, and after three.
const DIAL: Duration = Duration::from_secs(4);
/// A sandbox of ours that is older belongs to a run that was killed: no run keeps one for that long.
const LEFT_BEHIND: Duration = Duration::from_mins(3);
/// How often a kubelet may be quicker than our look at the address.
const TRIES: usize = 3;

/// How a sandbox is tried.
#[derive(Clone, Copy, Debug)]
pub struct SandboxOptions<'a> {
    /// Where runtimes listen; see [`super::ENDPOINTS`].
    pub endpoints: &'a [&'a str],
    /// The pause image, where the runtime itself does not say (containerd 2.0 and later).
    pub image: Option<&'a str>,
    /// For the call that makes the pod's network: [`PLUGIN`], unless somebody waits for less.
    pub time: Duration,
    /// Who is dialled from within it.
    pub peers: &'a [SocketAddr],
}

/// A sandbox that had an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedSandbox {
    pub addresses: Vec<IpAddr>,
    /// Until the address was known.
    pub took: Duration,
    /// Why it could not be taken away again; the next try does.
    pub left: Option<String>,
    /// What came of dialling each of the peers.
    pub dialled: Vec<Dialled>,
}

/// Why there was none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    #[error("the runtime cannot be asked: {0}")]
    Runtime(Why),
    /// RunPodSandbox would pull it: from where, and how long, is not ours to decide.
    #[error("the pause image {0} is not here: no pod can start before it is pulled")]
    NoImage(String),
    /// The runtime's, or a plugin's, own words.
    #[error("{call}: {detail}")]
    Refused { call: &'static str, detail: String },
    // As a runtime says it of its own deadlines: signatures know it by these words.
    #[error("{call}: rpc error: code = DeadlineExceeded desc = context deadline exceeded ({} s)", after.as_secs())]
    TimedOut { call: &'static str, after: Duration },
    #[error("the sandbox was made, and has no address")]
    NoAddress,
    #[error("the sandbox was taken away by somebody before its address could be read, {TRIES} times")]
    Gone,
}

/// Runs one sandbox, reads its address, and takes it away.
pub async fn try_one(host: &dyn Host, how: &SandboxOptions<'_>) -> Result<TriedSandbox, SandboxError> {
    let begun = Instant::now();
    let runtime = Runtime::reach(host, how).await?;
    // What a killed run left must not stand in the way of this one, nor be in it when it fails.
    let _ = runtime.clear(|sandbox| is_old(sandbox, host.now())).await;
    runtime.has_image(how.image).await?;
    let mut left = None;
    for _ in 0..TRIES {
        let own = uuid();
        let made = runtime.run(&own, how.time).await;
        let took = begun.elapsed();
        let tried = match made {
            Err(failed) => Err(failed),
            Ok((id, addresses)) => Ok((addresses, runtime.dial_from(host, &id, how.peers, QUICK_DIAL).await)),
        };
        left = runtime.clear(|sandbox| uid(sandbox) == own).await.err().map(|failed| failed.to_string()).or(left);
        match tried {
            Err(SandboxError::Gone) => {}
            tried => {
                return tried.map(|(addresses, dialled)| TriedSandbox { addresses, took, left, dialled });
            }
        }
    }
    Err(SandboxError::Gone)
}

/// Takes away every sandbox of ours, whatever its age: who made one was let go of before it could.
pub async fn clear(host: &dyn Host, endpoints: &[&str]) -> Result<(), SandboxError> {
    let how = SandboxOptions { endpoints, image: None, time: SHORT, peers: &[] };
    Runtime::reach(host, &how).await?.clear(|_| true).await
}

/// Dials from within the network of the Pod with this uid.
pub async fn dial_from_pod(
    host: &dyn Host,
    endpoints: &[&str],
    uid: &str,
    peers: &[SocketAddr],
) -> Result<Vec<Dialled>, SandboxError> {
    let how = SandboxOptions { endpoints, image: None, time: SHORT, peers };
    let runtime = Runtime::reach(host, &how).await?;
    let request = ListPodSandboxRequest::default();
    let listed: ListPodSandboxResponse = runtime.call("ListPodSandbox", request, SHORT).await?;
    let is_its = |sandbox: &PodSandbox| self::uid(sandbox) == uid && sandbox.state == READY;
    let found = listed.items.into_iter().find(is_its).ok_or(SandboxError::Gone)?;
    Ok(runtime.dial_from(host, &found.id, peers, DIAL).await)
}

struct Runtime {
    channel: Channel,
    /// Its own word on which image sandboxes start from.
    image: Option<String>,
    cgroup_parent: &'static str,
}

impl Runtime {
    async fn reach(host: &dyn Host, how: &SandboxOptions<'_>) -> Result<Self, SandboxError> {
        let (endpoint, channel) = reach(host, how.endpoints, SHORT).await.map_err(SandboxError::Runtime)?;
        let told = boxed(SHORT, status(channel.clone(), endpoint)).await.map_err(SandboxError::Runtime)?;
        let told = parse_status(&told.to_string()).map_err(|detail| SandboxError::Runtime(Why::Broken(detail)))?;
        let driver = boxed(SHORT, config(channel.clone())).await;
        let by_systemd = match driver {
            Ok(driver) => driver.pointer("/linux/cgroupDriver").is_some_and(|driver| driver == "SYSTEMD"),
            // Runtimes that do not know the call tell their configuration.
            Err(_) => told.systemd_cgroup == Some(true),
        };
        let cgroup_parent = if by_systemd { SLICE } else { "" };
        Ok(Runtime { channel, image: told.sandbox_image, cgroup_parent })
    }

    async fn has_image(&self, known: Option<&str>) -> Result<(), SandboxError> {
        let Some(image) = self.image.as_deref().or(known) else { return Ok(()) };
        let there = boxed(SHORT, images(self.channel.clone())).await.map_err(SandboxError::Runtime)?;
        let names = there.pointer("/images").and_then(|images| images.as_array()).into_iter().flatten();
        let mut names = names.filter_map(|image| image["repoTags"].as_array()).flatten();
        // By digest it is in no list of tags: whether it is there is left to the runtime.
        if image.contains('@') || names.any(|name| name == image) {
            return Ok(());
        }
        Err(SandboxError::NoImage(image.to_owned()))
    }

    /// A new sandbox, and its addresses.
    async fn run(&self, uid: &str, time: Duration) -> Result<(String, Vec<IpAddr>), SandboxError> {
        let config = ours(uid, self.cgroup_parent);
        let request = RunPodSandboxRequest { config: Some(config) };
        let made: RunPodSandboxResponse = self.call("RunPodSandbox", request, time).await?;
        let told = self.status(&made.pod_sandbox_id).await?.status.unwrap_or_default();
        let network = told.network.unwrap_or_default();
        let texts = [network.ip].into_iter().chain(network.additional_ips.into_iter().map(|more| more.ip));
        let addresses: Vec<IpAddr> = texts.filter_map(|text| text.parse().ok()).collect();
        match (addresses.is_empty(), told.state) {
            (false, _) => Ok((made.pod_sandbox_id, addresses)),
            (true, READY) => Err(SandboxError::NoAddress),
            // Stopped meanwhile: a stopped one has no address any more.
            (true, _) => Err(SandboxError::Gone),
        }
    }

    async fn status(&self, id: &str) -> Result<PodSandboxStatusResponse, SandboxError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: true };
        self.call("PodSandboxStatus", request, SHORT).await
    }

    /// Dials from within a sandbox's network. A dial that was cut off because somebody stopped the sandbox says nothing.
    async fn dial_from(&self, host: &dyn Host, id: &str, peers: &[SocketAddr], limit: Duration) -> Vec<Dialled> {
        if peers.is_empty() {
            return Vec::new();
        }
        let not_dialled = |why: &str| vec![Dialled::NotDialled(why.to_owned()); peers.len()];
        let network = self.status(id).await.ok().and_then(|told| network(&told));
        let Some(network) = network else { return not_dialled("the runtime does not tell the sandbox's network") };
        let dialled = dial(host, Some(&network), peers, limit).await;
        if dialled.contains(&Dialled::Answered) {
            return dialled;
        }
        let stands = self.status(id).await.is_ok_and(|told| told.status.is_some_and(|it| it.state == READY));
        if stands { dialled } else { not_dialled("the sandbox was stopped meanwhile") }
    }

    /// Stops and removes those of our sandboxes. Each gets its try; the first complaint is told.
    async fn clear(&self, which: impl Fn(&PodSandbox) -> bool) -> Result<(), SandboxError> {
        let label_selector = HashMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())]);
        let request = ListPodSandboxRequest { filter: Some(PodSandboxFilter { label_selector }) };
        let listed: ListPodSandboxResponse = self.call("ListPodSandbox", request, SHORT).await?;
        let mut first = Ok(());
        for sandbox in listed.items.into_iter().filter(|sandbox| is_ours(sandbox) && which(sandbox)) {
            let (stop, remove) = (SandboxId { id: sandbox.id.clone() }, SandboxId { id: sandbox.id });
            let stopped = fine_if_gone(self.call::<_, Empty>("StopPodSandbox", stop, PLUGIN).await);
            // Also where it did not stop: removing stops it by force.
            let removed = fine_if_gone(self.call::<_, Empty>("RemovePodSandbox", remove, REMOVE).await);
            first = first.and(removed).and(stopped);
        }
        first
    }

    async fn call<Q, A>(&self, method: &'static str, request: Q, time: Duration) -> Result<A, SandboxError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        match timeout(time, call(self.channel.clone(), "Runtime", method, request)).await {
            Err(_) => Err(SandboxError::TimedOut { call: method, after: time }),
            Ok(answer) => answer.map_err(|status| failed(method, &status)),
        }
    }
}

fn failed(call: &'static str, status: &Status) -> SandboxError {
    match status.code() {
        Code::NotFound if call != "RunPodSandbox" => SandboxError::Gone,
        _ => match why(status) {
            Why::Broken(detail) => SandboxError::Refused { call, detail: carrick_core::redact::redact(&detail) },
            other => SandboxError::Refused { call, detail: other.to_string() },
        },
    }
}

fn fine_if_gone(ended: Result<Empty, SandboxError>) -> Result<(), SandboxError> {
    match ended {
        Ok(_) | Err(SandboxError::Gone) => Ok(()),
        Err(failed) => Err(failed),
    }
}

/// The path of a sandbox's network namespace, by what containerd and CRI-O tell of it: as they gave it to runc, else by the
/// process that holds it.
fn network(told: &PodSandboxStatusResponse) -> Option<String> {
    let info: Value = serde_json::from_str(told.info.get("info")?).ok()?;
    let namespaces = info.pointer("/runtimeSpec/linux/namespaces").and_then(Value::as_array);
    let mut network =
        namespaces.into_iter().flatten().filter(|it| it.get("type").is_some_and(|kind| kind == "network"));
    let by_path = network.find_map(|it| it.get("path")?.as_str().filter(|path| !path.is_empty()).map(str::to_owned));
    let by_pid =
        || info.get("pid").and_then(Value::as_u64).filter(|pid| *pid > 0).map(|pid| format!("/proc/{pid}/ns/net"));
    by_path.or_else(by_pid)
}

/// A runtime that knows no filters lists all there are.
fn is_ours(sandbox: &PodSandbox) -> bool {
    sandbox.labels.get(LABEL.0).is_some_and(|value| value == LABEL.1)
}

fn is_old(sandbox: &PodSandbox, now: Timestamp) -> bool {
    let age = now.as_nanosecond() - i128::from(sandbox.created_at);
    age > i128::try_from(LEFT_BEHIND.as_nanos()).unwrap_or(i128::MAX)
}

/// 128 bits that nobody else has; the standard library seeds every `RandomState` anew.
fn uuid() -> String {
    let random = || RandomState::new().build_hasher().finish();
    let hex = format!("{:016x}{:016x}", random(), random());
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
}

/// CRI's enum: 0 is ready, 1 is not.
const READY: i32 = 0;

fn ours(uid: &str, cgroup_parent: &str) -> PodSandboxConfig {
    let name = format!("carrick-sandbox-{}", uid.get(..8).unwrap_or(uid));
    let (uid, namespace) = (uid.to_owned(), NAMESPACE.to_owned());
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata { name: name.clone(), uid, namespace, attempt: 0 }),
        hostname: name,
        labels: HashMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())]),
        linux: Some(LinuxPodSandboxConfig { cgroup_parent: cgroup_parent.to_owned() }),
    }
}

fn uid(sandbox: &PodSandbox) -> &str {
    sandbox.metadata.as_ref().map(|metadata| metadata.uid.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
