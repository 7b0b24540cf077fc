//! The container runtime, asked over its own socket: what `crictl info`, `crictl images` and `crictl ps` would print, without
//! crictl.
//!
//! [`sandbox`] and [`image`] are the parts that change something.

use std::error::Error;
use std::io;
use std::time::Duration;

use carrick_core::fact::Why;
use carrick_core::fact::keep::RUNTIME_LIST;
use hyper_util::rt::TokioIo;
use prost::Message;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

pub mod image;
pub mod logs;
pub mod message;
pub mod pods;
pub mod sandbox;

use message::{
    Container, ContainerFilter, ContainerMetadata, ContainerStateValue, Image, LinuxRuntimeConfiguration,
    ListContainersRequest, ListContainersResponse, ListImagesRequest, ListImagesResponse, RuntimeCondition,
    RuntimeConfigRequest, RuntimeConfigResponse, StatusRequest, StatusResponse, VersionRequest, VersionResponse,
};

use crate::command;
use crate::probe::{ByteStream, Kept, Observation, Probe, Target};

/// Where runtimes listen, the usual one first. The first whose socket is there is asked.
pub const ENDPOINTS: &[&str] = &["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock"];

/// Where to ask on a machine.
pub fn endpoints(probe: &dyn Probe) -> Vec<&str> {
    probe.runtime().map_or_else(|| ENDPOINTS.to_vec(), |named| vec![named])
}

/// The kubelet takes no longer answers either.
const LONGEST_ANSWER: usize = 16 << 20;

pub(crate) const STATUS: &str = "cri status";
const CONFIG: &str = "cri runtime-config";
const IMAGES: &str = "cri images";
const CONTAINERS: &str = "cri containers";
const PODS: &str = "cri pods";

/// Asks the first runtime that is there; each call in its own time box, side by side.
pub async fn observe(probe: &dyn Probe, endpoints: &[&str], time_box: Duration) -> Vec<Observation> {
    match reach(probe, endpoints, time_box).await {
        Err(why) => {
            let keys = [STATUS, CONFIG, IMAGES, CONTAINERS, PODS];
            keys.map(|key| Observation::new(key.to_owned(), Err(why.clone()))).into()
        }
        Ok((endpoint, channel)) => {
            let (status, config, images, containers, pods) = tokio::join!(
                boxed(time_box, status(channel.clone(), endpoint)),
                boxed(time_box, config(channel.clone())),
                boxed(time_box, images(channel.clone())),
                boxed(time_box, containers(channel.clone())),
                boxed(time_box, pods::list(channel)),
            );
            let seen = [(STATUS, status), (CONFIG, config), (IMAGES, images), (CONTAINERS, containers), (PODS, pods)];
            seen.map(|(key, answer)| Observation::new(key.to_owned(), answer.map(|answer| keep(&answer)))).into()
        }
    }
}

/// Only the state of the first runtime that is there: for who looks again and again.
pub async fn observe_status(probe: &dyn Probe, endpoints: &[&str], time_box: Duration) -> Observation {
    let answer = match reach(probe, endpoints, time_box).await {
        Err(why) => Err(why),
        Ok((endpoint, channel)) => boxed(time_box, status(channel, endpoint)).await,
    };
    Observation::new(STATUS.to_owned(), answer.map(|answer| keep(&answer)))
}

/// Whether the first runtime that is there answers at all.
pub async fn answers(probe: &dyn Probe, endpoints: &[&str], time_box: Duration) -> Result<(), Why> {
    let (_, channel) = reach(probe, endpoints, time_box).await?;
    let asked = call::<_, VersionResponse>(channel, "Runtime", "Version", VersionRequest::default());
    boxed(time_box, async { asked.await.map(drop).map_err(|status| why(&status)) }).await
}

fn keep(answer: &Value) -> Kept {
    // In lines, as crictl prints it: evidence is a line.
    command::keep(format!("{answer:#}\n").as_bytes(), RUNTIME_LIST)
}

async fn boxed<T>(time_box: Duration, answer: impl Future<Output = Result<T, Why>>) -> Result<T, Why> {
    // A call is large, and several are held side by side.
    timeout(time_box, Box::pin(answer)).await.unwrap_or(Err(Why::TimedOut))
}

async fn reach<'a>(probe: &dyn Probe, endpoints: &[&'a str], time_box: Duration) -> Result<(&'a str, Channel), Why> {
    for &endpoint in endpoints {
        let target = Target::Unix(endpoint.to_owned());
        match timeout(time_box, probe.connect(&target)).await {
            Err(_) => return Err(Why::TimedOut),
            Ok(Ok(stream)) => return Ok((endpoint, boxed(time_box, channel(stream)).await?)),
            Ok(Err(error)) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                io::ErrorKind::PermissionDenied => return Err(Why::Denied),
                io::ErrorKind::ConnectionRefused => return Err(Why::Broken("connection refused".to_owned())),
                _ => return Err(Why::Broken(error.to_string())),
            },
        }
    }
    Err(Why::Absent)
}

/// A channel over the one connection there is; it is never made again.
async fn channel(stream: Box<dyn ByteStream>) -> Result<Channel, Why> {
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        let stream = stream.take().ok_or_else(|| io::Error::other("the runtime closed the connection"));
        async move { stream }
    });
    // gRPC wants an authority; a path is none (h2 and Go disagree about those), and this is what the kubelet sends.
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await.map_err(|error| broken(&error))
}

async fn status(channel: Channel, endpoint: &str) -> Result<Value, Why> {
    let version = call::<_, VersionResponse>(channel.clone(), "Runtime", "Version", VersionRequest::default());
    let status = call::<_, StatusResponse>(channel, "Runtime", "Status", StatusRequest { verbose: true });
    // A runtime that tells no version can still tell its state.
    let (version, status) = tokio::join!(version, status);
    let StatusResponse { status, info } = status.map_err(|status| why(&status))?;
    let conditions: Vec<Value> = status.unwrap_or_default().conditions.into_iter().map(condition).collect();
    let mut answer = Map::new();
    answer.insert("endpoint".into(), format!("unix://{endpoint}").into());
    if let Ok(version) = version {
        let VersionResponse { runtime_name, runtime_version, runtime_api_version } = version;
        let version = json!({"runtimeName": runtime_name, "runtimeVersion": runtime_version, "runtimeApiVersion": runtime_api_version});
        answer.insert("version".into(), version);
    }
    answer.insert("status".into(), json!({ "conditions": conditions }));
    let mut info: Vec<(String, String)> = info.into_iter().collect();
    info.sort();
    answer.extend(info.into_iter().map(|(key, text)| (key, expand(text))));
    Ok(Value::Object(answer))
}

fn condition(condition: RuntimeCondition) -> Value {
    let RuntimeCondition { kind, status, reason, message } = condition;
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

/// What a runtime puts into `info` is JSON or plain text; crictl shows the first as what it is.
fn expand(text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(value @ (Value::Object(_) | Value::Array(_) | Value::String(_))) => value,
        _ => Value::String(text),
    }
}

async fn config(channel: Channel) -> Result<Value, Why> {
    match call::<_, RuntimeConfigResponse>(channel, "Runtime", "RuntimeConfig", RuntimeConfigRequest {}).await {
        Ok(RuntimeConfigResponse { linux: Some(LinuxRuntimeConfiguration { cgroup_driver }) }) => {
            let driver = match cgroup_driver {
                0 => "SYSTEMD".to_owned(),
                1 => "CGROUPFS".to_owned(),
                other => format!("UNKNOWN-{other}"),
            };
            Ok(json!({"linux": {"cgroupDriver": driver}}))
        }
        Ok(RuntimeConfigResponse { linux: None }) => Ok(json!({})),
        Err(status) => Err(why(&status)),
    }
}

async fn images(channel: Channel) -> Result<Value, Why> {
    let images = call::<_, ListImagesResponse>(channel, "Image", "ListImages", ListImagesRequest {}).await;
    let mut images = images.map_err(|status| why(&status))?.images;
    images.sort_by(|a, b| (&a.repo_tags, &a.id).cmp(&(&b.repo_tags, &b.id)));
    let images: Vec<Value> = images
        .into_iter()
        .map(|Image { id, repo_tags, size }| json!({"repoTags": repo_tags, "id": id, "size": size}))
        .collect();
    Ok(json!({ "images": images }))
}

/// Those that run. Labels and annotations may hold anything, and are not kept.
async fn containers(channel: Channel) -> Result<Value, Why> {
    let running = ContainerStateValue { state: CONTAINER_RUNNING };
    let request = ListContainersRequest { filter: Some(ContainerFilter { state: Some(running) }) };
    let listed = call::<_, ListContainersResponse>(channel, "Runtime", "ListContainers", request).await;
    let mut containers = listed.map_err(|status| why(&status))?.containers;
    containers.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(json!({ "containers": containers.into_iter().map(container).collect::<Vec<_>>() }))
}

fn container(Container { id, pod_sandbox_id, metadata, state, created_at, labels: _ }: Container) -> Value {
    let state = match state {
        0 => "CONTAINER_CREATED",
        CONTAINER_RUNNING => "CONTAINER_RUNNING",
        CONTAINER_EXITED => "CONTAINER_EXITED",
        _ => "CONTAINER_UNKNOWN",
    };
    let ContainerMetadata { name, attempt } = metadata.unwrap_or_default();
    // As JSON of a protobuf has it: a number of 64 bits is a text.
    let (metadata, created_at) = (json!({"name": name, "attempt": attempt}), created_at.to_string());
    json!({"id": id, "podSandboxId": pod_sandbox_id, "metadata": metadata, "state": state, "createdAt": created_at})
}

async fn call<Q, A>(channel: Channel, service: &str, method: &str, request: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(LONGEST_ANSWER);
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let Ok(path) = format!("/runtime.v1.{service}Service/{method}").parse() else {
        return Err(Status::internal(format!("{method} is not a method's name")));
    };
    let codec = tonic_prost::ProstCodec::<Q, A>::default();
    Ok(client.unary(Request::new(request), path, codec).await?.into_inner())
}

fn why(status: &Status) -> Why {
    match status.code() {
        Code::DeadlineExceeded => Why::TimedOut,
        Code::PermissionDenied => Why::Denied,
        Code::Unimplemented => Why::Unimplemented(carrick_core::redact::redact(status.message())),
        _ => match status.source() {
            // Our own end of the connection failed, not the runtime.
            Some(cause) => broken(cause),
            None => Why::Broken(status.message().to_owned()),
        },
    }
}

/// The innermost cause: what stands around it is about HTTP, of which the reader knows nothing.
fn broken(error: &(dyn Error + 'static)) -> Why {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    Why::Broken(carrick_core::redact::redact(&innermost.to_string()))
}

const CONTAINER_RUNNING: i32 = 1;
const CONTAINER_EXITED: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_reads_as_crictl_prints_it() {
        let metadata = Some(ContainerMetadata { name: "flannel".into(), attempt: 2 });
        let labels = [("secret".to_owned(), "s3cret".to_owned())].into();
        let sent = Container {
            id: "a".into(),
            pod_sandbox_id: "b".into(),
            metadata,
            state: CONTAINER_RUNNING,
            created_at: 1_794_744_000_000_000_001,
            labels,
        };
        let read = Container::decode(sent.encode_to_vec().as_slice()).unwrap();
        let metadata = json!({"name": "flannel", "attempt": 2});
        let expected = json!({"id": "a", "podSandboxId": "b", "metadata": metadata, "state": "CONTAINER_RUNNING",
            "createdAt": "1794744000000000001"});
        assert_eq!(container(read), expected);
        assert_eq!(container(Container::default())["state"], "CONTAINER_CREATED");
    }

    #[test]
    fn a_runtime_that_was_named_is_asked_alone() {
        let local = || crate::Local::new(Duration::from_secs(1));
        assert_eq!(endpoints(&local()), ENDPOINTS);
        assert_eq!(endpoints(&local().with_runtime(Some("/run/my.sock".into()))), ["/run/my.sock"]);
    }

    #[test]
    fn info_is_shown_as_crictl_shows_it() {
        assert_eq!(expand(r#"{"a":1}"#.into()), json!({"a": 1}));
        assert_eq!(expand(r#""go1.19.8""#.into()), json!("go1.19.8"));
        assert_eq!(expand("OK".into()), json!("OK"));
        assert_eq!(expand("12".into()), json!("12"));
        assert_eq!(expand("{broken".into()), json!("{broken"));
    }
}
