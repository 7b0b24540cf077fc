//! A container runtime that is only pretended: it speaks CRI over gRPC on a stream in memory. It has the pause image, makes
//! sandboxes with an address, and says of its network what a test says.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use carrick_host::cri::logs::{NAMESPACE, POD};
use carrick_host::cri::message::{
    Container, ContainerMetadata, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse, Image,
    LinuxRuntimeConfiguration, ListContainersResponse, ListImagesResponse, ListPodSandboxResponse, PodSandbox,
    PodSandboxMetadata, PodSandboxNetworkStatus, PodSandboxStatus, PodSandboxStatusResponse, RunPodSandboxRequest,
    RunPodSandboxResponse, RuntimeCondition, RuntimeConfigResponse, RuntimeStatus, SandboxId, StatusResponse,
    VersionResponse,
};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message as _;
use tokio::io::{DuplexStream, duplex};

const PAUSE: &str = "registry.k8s.io/pause:3.10.1";
const UNKNOWN: u16 = 2;
const NOT_FOUND: u16 = 5;
const UNIMPLEMENTED: u16 = 12;

#[derive(Clone, Default)]
pub(crate) struct Runtime(Arc<Mutex<State>>);

/// Which calls are not answered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Hangs {
    #[default]
    Nothing,
    /// What has a plugin called.
    Plugin,
    /// All: it was stopped with SIGSTOP.
    Everything,
}

#[derive(Default)]
struct State {
    network: bool,
    /// The pause image is not here, and no registry is in reach.
    imageless: bool,
    address: String,
    /// What never comes back.
    hangs: Hangs,
    /// Whatever a plugin is called for, it refuses.
    refuses: bool,
    made: u32,
    sandboxes: BTreeMap<String, PodSandbox>,
    containers: Vec<(Container, ContainerStatus)>,
}

impl Runtime {
    /// Its network is ready, and sandboxes get this address.
    pub(crate) fn connect_network(&self, address: &str) {
        let mut state = self.state();
        (state.network, state.address) = (true, address.to_owned());
    }

    pub(crate) fn lose_pause_image(&self) {
        self.state().imageless = true;
    }

    pub(crate) fn freeze(&self, frozen: bool) {
        self.state().hangs = if frozen { Hangs::Everything } else { Hangs::Nothing };
    }

    pub(crate) fn hang_plugin(&self) {
        self.state().hangs = Hangs::Plugin;
    }

    pub(crate) fn refuse_sandboxes(&self) {
        self.state().refuses = true;
    }

    /// The sandbox of a pod with this uid, made at this time.
    pub(crate) fn put_sandbox(&self, uid: &str, created_at: i64) {
        let metadata =
            PodSandboxMetadata { name: uid.to_owned(), uid: uid.to_owned(), ..PodSandboxMetadata::default() };
        let id = format!("sandbox-of-{uid}");
        let sandbox = PodSandbox { id: id.clone(), metadata: Some(metadata), created_at, ..PodSandbox::default() };
        self.state().sandboxes.insert(id, sandbox);
    }

    /// A container of a pod: it runs, or has ended with a status.
    pub(crate) fn put_container(&self, pod: (&str, &str), name: &str, ended: Option<(i32, i64)>, log: &str) {
        let mut state = self.state();
        let id = format!("container-{}", state.containers.len() + 1);
        let number = if ended.is_some() { 2 } else { 1 };
        let labels = [(NAMESPACE, pod.0), (POD, pod.1)].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let metadata = Some(ContainerMetadata { name: name.to_owned(), attempt: 0 });
        let container = Container { id, metadata, state: number, labels, ..Container::default() };
        let (exit_code, finished_at) = ended.unwrap_or_default();
        let status = ContainerStatus { state: number, finished_at, exit_code, log_path: log.to_owned() };
        state.containers.push((container, status));
    }

    pub(crate) fn is_networked(&self) -> bool {
        self.state().network
    }

    /// Sandboxes that nobody has taken away.
    pub(crate) fn sandboxes(&self) -> usize {
        self.state().sandboxes.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One end of a connection; the runtime has the other.
    pub(crate) fn dial(&self) -> DuplexStream {
        let (near, far) = duplex(64 << 10);
        let runtime = self.clone();
        tokio::spawn(async move {
            let Ok(mut connection) = h2::server::handshake(far).await else { return };
            while let Some(Ok((request, respond))) = connection.accept().await {
                let runtime = runtime.clone();
                tokio::spawn(async move {
                    // Who hangs up does not want the answer.
                    let _ = runtime.answer(request, respond).await;
                });
            }
        });
        near
    }

    async fn answer(
        &self,
        request: Request<h2::RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let mut body = request.into_body();
        let mut bytes = Vec::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            bytes.extend_from_slice(&chunk);
        }
        if self.state().hangs(&method) {
            return std::future::pending().await;
        }
        let mut head = Response::new(());
        head.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        // A frame is a flag, a length of four bytes, and the message.
        match self.state().answer(&method, bytes.get(5..).unwrap_or_default()) {
            Err(code) => {
                head.headers_mut().insert("grpc-status", code.into());
                respond.send_response(head, true)?;
            }
            Ok(message) => {
                let mut stream = respond.send_response(head, false)?;
                let length = u32::try_from(message.len()).unwrap_or_default().to_be_bytes();
                let frame: Vec<u8> = [0].into_iter().chain(length).chain(message).collect();
                stream.send_data(frame.into(), false)?;
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                stream.send_trailers(trailers)?;
            }
        }
        Ok(())
    }
}

impl State {
    fn hangs(&self, method: &str) -> bool {
        match self.hangs {
            Hangs::Nothing => false,
            Hangs::Plugin => matches!(method, "RunPodSandbox" | "StopPodSandbox"),
            Hangs::Everything => true,
        }
    }

    /// A message, or a gRPC code.
    fn answer(&mut self, method: &str, request: &[u8]) -> Result<Vec<u8>, u16> {
        let id = || SandboxId::decode(request).map(|it| it.id).map_err(|_| UNIMPLEMENTED);
        Ok(match method {
            "Version" => VersionResponse {
                runtime_name: "containerd".to_owned(),
                runtime_version: "1.7.24".to_owned(),
                runtime_api_version: "v1".to_owned(),
            }
            .encode_to_vec(),
            "Status" => self.status().encode_to_vec(),
            "RuntimeConfig" => {
                RuntimeConfigResponse { linux: Some(LinuxRuntimeConfiguration::default()) }.encode_to_vec()
            }
            "ListImages" => {
                let pause = Image { id: "sha256:1".to_owned(), repo_tags: vec![PAUSE.to_owned()], size: 300_000 };
                let images = if self.imageless { Vec::new() } else { vec![pause] };
                ListImagesResponse { images }.encode_to_vec()
            }
            "ListContainers" => {
                let containers = self.containers.iter().map(|(container, _)| container.clone()).collect();
                ListContainersResponse { containers }.encode_to_vec()
            }
            "ContainerStatus" => {
                let asked = ContainerStatusRequest::decode(request).map_err(|_| UNIMPLEMENTED)?.container_id;
                let known = self.containers.iter().find(|(container, _)| container.id == asked).ok_or(NOT_FOUND)?;
                ContainerStatusResponse { status: Some(known.1.clone()) }.encode_to_vec()
            }
            "PullImage" => return Err(NOT_FOUND),
            "ListPodSandbox" => {
                ListPodSandboxResponse { items: self.sandboxes.values().cloned().collect() }.encode_to_vec()
            }
            "RunPodSandbox" if self.refuses => return Err(UNKNOWN),
            "RunPodSandbox" => self.run(request)?,
            "PodSandboxStatus" => {
                self.sandboxes.get(&id()?).ok_or(NOT_FOUND)?;
                let network = PodSandboxNetworkStatus { ip: self.address.clone(), additional_ips: Vec::new() };
                let status = PodSandboxStatus { state: 0, network: Some(network) };
                let info = HashMap::from([("info".to_owned(), r#"{"pid":7}"#.to_owned())]);
                PodSandboxStatusResponse { status: Some(status), info }.encode_to_vec()
            }
            "StopPodSandbox" => self.sandboxes.get(&id()?).map(|_| Vec::new()).ok_or(NOT_FOUND)?,
            "RemovePodSandbox" => self.sandboxes.remove(&id()?).map(|_| Vec::new()).ok_or(NOT_FOUND)?,
            _ => return Err(UNIMPLEMENTED),
        })
    }

    fn status(&self) -> StatusResponse {
        let condition = |kind: &str, status: bool, reason: &str, message: &str| RuntimeCondition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let network = if self.network {
            condition("NetworkReady", true, "", "")
        } else {
            let says = "Network plugin returns error: cni plugin not initialized";
            condition("NetworkReady", false, "NetworkPluginNotReady", says)
        };
        let conditions = vec![condition("RuntimeReady", true, "", ""), network];
        let config = serde_json::json!({"sandboxImage": PAUSE}).to_string();
        StatusResponse { status: Some(RuntimeStatus { conditions }), info: [("config".to_owned(), config)].into() }
    }

    fn run(&mut self, request: &[u8]) -> Result<Vec<u8>, u16> {
        let config = RunPodSandboxRequest::decode(request).ok().and_then(|request| request.config);
        let config = config.ok_or(UNIMPLEMENTED)?;
        self.made += 1;
        let id = format!("sandbox-{}", self.made);
        let (metadata, labels) = (config.metadata, config.labels);
        self.sandboxes.insert(id.clone(), PodSandbox { id: id.clone(), metadata, labels, ..PodSandbox::default() });
        Ok(RunPodSandboxResponse { pod_sandbox_id: id }.encode_to_vec())
    }
}
