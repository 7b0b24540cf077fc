//! Sandboxes of a runtime that is only pretended: it speaks gRPC on a socket, and does as a test says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};

use super::super::{Image, ListImagesResponse, RuntimeConfigResponse, StatusResponse, VersionResponse};
use super::*;
use crate::Local;
use crate::cri::message::{PodIp, PodSandboxNetworkStatus, PodSandboxStatus};

const PAUSE: &str = "registry.k8s.io/pause:3.10.1";

/// What the pretended runtime has and does.
#[derive(Default)]
struct State {
    images: Vec<&'static str>,
    addresses: Vec<&'static str>,
    /// Why no sandbox can be made.
    refuses: Option<&'static str>,
    /// It never ends making one.
    hangs: bool,
    /// How many sandboxes a kubelet will stop before they can be looked at.
    kubelet_is_quicker: usize,
    removes: bool,
    by_systemd: bool,
    /// What it tells of a sandbox, asked to be verbose.
    info: HashMap<String, String>,
    sandboxes: BTreeMap<String, PodSandbox>,
    calls: Vec<String>,
    asked_for: Option<PodSandboxConfig>,
}

struct Fake {
    state: Arc<Mutex<State>>,
    dir: TempDir,
    peers: Vec<SocketAddr>,
}

impl Fake {
    fn start(state: State) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Fake { state, dir, peers: Vec::new() }
    }

    async fn tries(&self) -> Result<TriedSandbox, SandboxError> {
        let socket = self.dir.path().join("s");
        let how = SandboxOptions {
            endpoints: &[socket.to_str().unwrap()],
            image: None,
            time: Duration::from_millis(300),
            peers: &self.peers,
        };
        try_one(&Local::new(Duration::from_secs(5)), &how).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

async fn serve(stream: UnixStream, state: Arc<Mutex<State>>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond, Arc::clone(&state)));
    }
}

async fn answer(
    request: Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    state: Arc<Mutex<State>>,
) {
    let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
        bytes.extend_from_slice(&chunk);
    }
    // A frame is a flag, a length of four bytes, and the message.
    let answered = state.lock().unwrap().answer(&method, bytes.get(5..).unwrap_or_default());
    let head = Response::builder().header("content-type", "application/grpc");
    match answered {
        None => std::future::pending().await,
        Some(Err((code, message))) => {
            let head = head.header("grpc-status", code).header("grpc-message", message).body(()).unwrap();
            let _ = respond.send_response(head, true);
        }
        Some(Ok(message)) => {
            let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            let frame: Vec<u8> = [0].into_iter().chain(length).chain(message).collect();
            stream.send_data(frame.into(), false).unwrap();
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
            let _ = stream.send_trailers(trailers);
        }
    }
}

/// A message, or a gRPC code with its text; `None` for no answer at all.
type Answered = Option<Result<Vec<u8>, (u16, &'static str)>>;

const NOT_FOUND: (u16, &str) = (5, "not found");
const UNKNOWN: u16 = 2;

impl State {
    fn answer(&mut self, method: &str, request: &[u8]) -> Answered {
        self.calls.push(method.to_owned());
        let message = match method {
            "Version" => VersionResponse::default().encode_to_vec(),
            "Status" => status().encode_to_vec(),
            "RuntimeConfig" => RuntimeConfigResponse {
                linux: Some(super::super::LinuxRuntimeConfiguration { cgroup_driver: i32::from(!self.by_systemd) }),
            }
            .encode_to_vec(),
            "ListImages" => {
                let images = self.images.iter().map(|&name| Image { repo_tags: vec![name.into()], ..Image::default() });
                ListImagesResponse { images: images.collect() }.encode_to_vec()
            }
            "ListPodSandbox" => {
                ListPodSandboxResponse { items: self.sandboxes.values().cloned().collect() }.encode_to_vec()
            }
            "RunPodSandbox" => return self.run(request),
            "PodSandboxStatus" => match self.look(request) {
                Ok(status) => {
                    PodSandboxStatusResponse { status: Some(status), info: self.info.clone() }.encode_to_vec()
                }
                Err(error) => return Some(Err(error)),
            },
            "StopPodSandbox" if !self.sandboxes.contains_key(&id(request)) => return Some(Err(NOT_FOUND)),
            "StopPodSandbox" => Vec::new(),
            "RemovePodSandbox" if !self.removes => return Some(Err((UNKNOWN, "device busy"))),
            "RemovePodSandbox" => self.sandboxes.remove(&id(request)).map_or_else(Vec::new, |_| Vec::new()),
            _ => return Some(Err((12, "unknown method"))),
        };
        Some(Ok(message))
    }

    fn run(&mut self, request: &[u8]) -> Answered {
        let config = RunPodSandboxRequest::decode(request).unwrap().config.unwrap();
        self.asked_for = Some(config.clone());
        let id = format!("sandbox{}", self.calls.len());
        let created_at = i64::try_from(Timestamp::now().as_nanosecond()).unwrap();
        let (metadata, labels) = (config.metadata, config.labels);
        self.sandboxes
            .insert(id.clone(), PodSandbox { id: id.clone(), metadata, created_at, labels, ..PodSandbox::default() });
        match self.refuses {
            _ if self.hangs => None,
            Some(why) => Some(Err((UNKNOWN, why))),
            None => Some(Ok(RunPodSandboxResponse { pod_sandbox_id: id }.encode_to_vec())),
        }
    }

    fn look(&mut self, request: &[u8]) -> Result<PodSandboxStatus, (u16, &'static str)> {
        if let Some(fewer) = self.kubelet_is_quicker.checked_sub(1) {
            self.kubelet_is_quicker = fewer;
            self.sandboxes.remove(&id(request));
            return Err(NOT_FOUND);
        }
        let mut addresses = self.addresses.iter().map(|&ip| ip.to_owned());
        let ip = addresses.next().unwrap_or_default();
        let additional_ips = addresses.map(|ip| PodIp { ip }).collect();
        Ok(PodSandboxStatus { state: READY, network: Some(PodSandboxNetworkStatus { ip, additional_ips }) })
    }
}

fn status() -> StatusResponse {
    let config = json!({"sandboxImage": PAUSE}).to_string();
    StatusResponse { status: None, info: [("config".to_owned(), config)].into() }
}

fn id(request: &[u8]) -> String {
    SandboxId::decode(request).unwrap().id
}

fn sound() -> State {
    State { images: vec![PAUSE], addresses: vec!["10.244.1.7"], removes: true, ..State::default() }
}

fn sandbox(id: &str, age: Duration, labels: &[(&str, &str)]) -> (String, PodSandbox) {
    let created_at = i64::try_from(Timestamp::now().as_nanosecond()).unwrap() - i64::try_from(age.as_nanos()).unwrap();
    let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    (id.to_owned(), PodSandbox { id: id.to_owned(), created_at, labels, ..PodSandbox::default() })
}

#[tokio::test]
async fn a_sandbox_is_made_looked_at_and_taken_away() {
    let fake = Fake::start(sound());
    let tried = fake.tries().await.unwrap();
    assert_eq!((tried.addresses, tried.left), (vec!["10.244.1.7".parse().unwrap()], None));
    let state = fake.state();
    assert!(state.sandboxes.is_empty());
    let from_run: Vec<&str> =
        state.calls.iter().map(String::as_str).skip_while(|call| *call != "RunPodSandbox").collect();
    assert_eq!(from_run, ["RunPodSandbox", "PodSandboxStatus", "ListPodSandbox", "StopPodSandbox", "RemovePodSandbox"]);
    let config = state.asked_for.as_ref().unwrap();
    assert_eq!(config.labels, HashMap::from([("io.carrick".into(), "sandbox-test".into())]));
    assert_eq!(config.linux.as_ref().unwrap().cgroup_parent, "");
    assert_eq!(config.metadata.as_ref().unwrap().uid.len(), 36);
}

#[tokio::test]
async fn both_families_are_told_and_systemd_gets_a_slice() {
    let fake = Fake::start(State { addresses: vec!["10.244.1.7", "fd00::7"], by_systemd: true, ..sound() });
    assert_eq!(fake.tries().await.unwrap().addresses.len(), 2);
    assert_eq!(fake.state().asked_for.as_ref().unwrap().linux.as_ref().unwrap().cgroup_parent, "system.slice");
}

#[tokio::test]
async fn what_a_plugin_says_is_kept_and_nothing_else_is() {
    let says = "failed to setup network for sandbox: plugin type=\"flannel\" failed (add): open /run/flannel/subnet.env: no such file or directory";
    let fake = Fake::start(State { refuses: Some(says), ..sound() });
    assert_eq!(fake.tries().await, Err(SandboxError::Refused { call: "RunPodSandbox", detail: says.to_owned() }));
    assert!(fake.state().sandboxes.is_empty(), "what the runtime left of it is taken away");
}

#[tokio::test]
async fn a_runtime_that_does_not_end_is_not_waited_for_and_cleaned_up_after() {
    let fake = Fake::start(State { hangs: true, ..sound() });
    let failed = SandboxError::TimedOut { call: "RunPodSandbox", after: Duration::from_millis(300) };
    assert_eq!(fake.tries().await, Err(failed));
    assert!(fake.state().sandboxes.is_empty());
}

#[tokio::test]
async fn a_kubelet_that_is_quicker_is_tried_again() {
    let fake = Fake::start(State { kubelet_is_quicker: 2, ..sound() });
    assert_eq!(fake.tries().await.map(|tried| tried.addresses.len()), Ok(1));
    let fake = Fake::start(State { kubelet_is_quicker: 3, ..sound() });
    assert_eq!(fake.tries().await, Err(SandboxError::Gone));
    assert!(fake.state().sandboxes.is_empty());
}

#[tokio::test]
async fn no_image_is_pulled_for_it() {
    let fake = Fake::start(State { images: vec!["registry.k8s.io/pause:3.6"], ..sound() });
    assert_eq!(fake.tries().await, Err(SandboxError::NoImage(PAUSE.to_owned())));
    assert!(!fake.state().calls.iter().any(|call| call == "RunPodSandbox"));
}

#[tokio::test]
async fn a_sandbox_without_an_address_proves_nothing() {
    for addresses in [vec![], vec!["not an address"]] {
        let fake = Fake::start(State { addresses, ..sound() });
        assert_eq!(fake.tries().await, Err(SandboxError::NoAddress));
        assert!(fake.state().sandboxes.is_empty());
    }
}

#[tokio::test]
async fn what_a_killed_run_left_is_taken_away_and_nothing_of_others() {
    let (old, young) = (Duration::from_mins(4), Duration::from_secs(5));
    let sandboxes = BTreeMap::from([
        sandbox("killed", old, &[LABEL]),
        sandbox("another run's", young, &[LABEL]),
        sandbox("a pod's", old, &[("io.kubernetes.pod.name", "web")]),
        sandbox("a stranger's", old, &[("io.carrick", "else")]),
    ]);
    let fake = Fake::start(State { sandboxes, ..sound() });
    fake.tries().await.unwrap();
    let left: Vec<String> = fake.state().sandboxes.keys().cloned().collect();
    assert_eq!(left, ["a pod's", "a stranger's", "another run's"]);
}

#[test]
fn a_network_is_found_as_each_runtime_tells_it() {
    let of = |info: Value| {
        network(&PodSandboxStatusResponse { status: None, info: [("info".to_owned(), info.to_string())].into() })
    };
    let spec = |path: &str| json!({"linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": path}]}});
    for (info, expected) in [
        (json!({"pid": 4711, "runtimeSpec": spec("/var/run/netns/cni-1")}), Some("/var/run/netns/cni-1")),
        (json!({"pid": 4711, "runtimeSpec": spec("")}), Some("/proc/4711/ns/net")),
        (json!({"pid": 4711}), Some("/proc/4711/ns/net")),
        (json!({"pid": 0}), None),
        (json!({}), None),
        (json!("plain"), None),
    ] {
        assert_eq!(of(info.clone()).as_deref(), expected, "{info}");
    }
    assert_eq!(network(&PodSandboxStatusResponse::default()), None);
}

/// Our own network stands for the sandbox's; who may not move into any learns nothing.
#[tokio::test]
async fn peers_are_dialled_from_within_it() {
    let listens = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let info = || HashMap::from([("info".to_owned(), json!({"pid": std::process::id()}).to_string())]);
    for (info, told) in [(info(), true), (HashMap::new(), false)] {
        let fake = Fake { peers: vec![listens.local_addr().unwrap()], ..Fake::start(State { info, ..sound() }) };
        let dialled = fake.tries().await.unwrap().dialled;
        let answered = dialled == [Dialled::Answered];
        assert!(answered || matches!(dialled.as_slice(), [Dialled::NotDialled(_)]), "{dialled:?}");
        let may_move = matches!(
            dial(&Local::new(SHORT), Some("/proc/self/ns/net"), &fake.peers, SHORT).await[..],
            [Dialled::Answered]
        );
        assert_eq!(answered, told && may_move);
        assert!(fake.state().sandboxes.is_empty());
    }
}

#[tokio::test]
async fn what_could_not_be_taken_away_is_told() {
    let fake = Fake::start(State { removes: false, ..sound() });
    assert_eq!(fake.tries().await.unwrap().left.as_deref(), Some("RemovePodSandbox: device busy"));
}

#[tokio::test]
async fn no_runtime_is_no_proof() {
    let how = SandboxOptions { endpoints: &["/absent/s"], image: None, time: SHORT, peers: &[] };
    let failed = try_one(&Local::new(Duration::from_secs(5)), &how).await;
    assert_eq!(failed, Err(SandboxError::Runtime(Why::Absent)));
}

#[test]
fn no_two_are_alike() {
    assert_ne!(uuid(), uuid());
}
