//! A worker that can join: a [`Machine`] with systemd, containerd, a kubeadm and a kubelet that do what the real ones do to
//! its files, its units and the API server in memory. What goes wrong on it, a test says.
//!
//! It is no simulation of them (that is part 14): one order of things, and the few faults the driver's tests need.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use carrick_host::{ByteStream, CommandOutput, Target};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tower::Service as _;

use crate::credentials::Authority;
use crate::machine::{Machine, Script};
use crate::memory_api::controller::{Controller, certificate_request};
use crate::memory_api::tls::{Gate, kubeconfig};
use crate::memory_api::{ApiService, MemoryApi, User};
use crate::runtime::Runtime;

/// Where its API server is.
pub const API: (&str, u16) = ("10.0.0.11", 6443);
pub const NODE: &str = "w1";

const UNIT: &str = "carrick-kubeadm.service";
const CLIENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
const BOOTSTRAP_CONF: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
const CONFIG: &str = "/var/lib/kubelet/config.yaml";
const FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";
const INSTANCE: &str = "/var/lib/kubelet/instance-config.yaml";
const CA: &str = "/etc/kubernetes/pki/ca.crt";
const CLIENT_FILE: &str = "/var/lib/kubelet/pki/kubelet-client-2026-11-16-12-00-00.pem";
const DROP_IN: &str = "/run/systemd/system/kubelet.service.d/90-carrick-join.conf";
/// What a kubelet makes as soon as it runs, certificate or not, as one of 1.34 does: files, and directories that stay empty.
const MADE: [&str; 6] = [
    "/var/lib/kubelet/cpu_manager_state",
    "/var/lib/kubelet/memory_manager_state",
    "/var/lib/kubelet/device-plugins/kubelet.sock",
    "/var/lib/kubelet/pod-resources/kubelet.sock",
    "/var/lib/kubelet/pki/kubelet.crt",
    "/var/lib/kubelet/pki/kubelet.key",
];
const MADE_EMPTY: [&str; 4] = [
    "/var/lib/kubelet/plugins",
    "/var/lib/kubelet/plugins_registry",
    "/var/lib/kubelet/pods",
    "/usr/libexec/kubernetes/kubelet-plugins/volume/exec",
];
const MACHINE_ID: &str = "0123456789abcdef0123456789abcdef";
/// Its UUID, in lower case as its firmware has it.
pub const SYSTEM_UUID: &str = "4c4c4544-0042-4a10-8034-b7c04f4d3732";
/// Between a kubelet's looks at what it waits for.
const SOON: Duration = Duration::from_millis(300);
/// What a cluster takes to sign a request.
const SIGNED: Duration = Duration::from_secs(1);
/// systemd starts a kubelet that ended again after this.
const RESTARTS: Duration = Duration::from_secs(10);
/// A kubelet renews its lease this often.
const RENEWS: Duration = Duration::from_secs(10);

/// A cluster of kubeadm's with nothing in it, and the way to it.
pub struct MemoryCluster {
    pub api: MemoryApi,
    pub authority: Arc<Authority>,
    gate: Gate,
    clock: Clock,
}

/// One clock for all: it goes with tokio's.
#[derive(Clone, Copy)]
struct Clock(Timestamp, Instant);

impl Clock {
    fn now(self) -> Timestamp {
        let passed = SignedDuration::try_from(self.1.elapsed()).unwrap_or_default();
        self.0.checked_add(passed).unwrap_or(self.0)
    }
}

impl MemoryCluster {
    /// With all its controllers at work.
    pub fn start(began: Timestamp) -> io::Result<Self> {
        let cluster = Self::without_controllers(began)?;
        cluster.api.start(Controller::TokenSigner);
        cluster.api.start(Controller::Approver);
        cluster.api.start(Controller::Signer(Arc::clone(&cluster.authority)));
        cluster.api.start(Controller::PodCidr);
        cluster.api.start(Controller::NodeLifecycle);
        Ok(cluster)
    }

    pub fn without_controllers(began: Timestamp) -> io::Result<Self> {
        let (authority, clock) = (Arc::new(Authority::new()?), Clock(began, Instant::now()));
        let api = MemoryApi::new(move || clock.now());
        let gate = Gate::new(&api, &authority, &[API.0])?;
        let cluster = Self { api, authority, gate, clock };
        cluster.configure();
        Ok(cluster)
    }

    /// Makes the ConfigMaps that a join reads, as `kubeadm init` does.
    pub fn configure(&self) {
        for (name, key, text) in [
            ("kubelet-config", "kubelet", "cgroupDriver: systemd\n"),
            ("kubeadm-config", "ClusterConfiguration", "kubernetesVersion: v1.34.4\n"),
        ] {
            self.config_map("kube-system", name, key, text);
        }
        self.name_server(&format!("https://{}:{}", API.0, API.1));
    }

    /// cluster-info names this API server.
    pub fn name_server(&self, server: &str) {
        self.config_map("kube-public", "cluster-info", "kubeconfig", &kubeconfig(server, self.authority.pem(), None));
    }

    fn config_map(&self, namespace: &str, name: &str, key: &str, text: &str) {
        self.api.put(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
            "data": {key: text},
        }));
    }

    /// What cluster-info shows as the cluster's CA from now on, as PEM: more than one while it is rotated.
    pub fn show_cas(&self, pem: &str) {
        let server = format!("https://{}:{}", API.0, API.1);
        self.api.put(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"},
            "data": {"kubeconfig": kubeconfig(&server, pem, None)},
        }));
    }

    /// Makes a bootstrap token as `kubeadm token create` does.
    pub fn token(&self, token: &str) {
        self.token_with(token, &json!({}));
    }

    /// The same, with other entries in its Secret: a usage that is not there, another group, an end.
    pub fn token_with(&self, token: &str, entries: &Value) {
        let (id, secret) = token.split_once('.').unwrap_or_default();
        let mut data = json!({
            "token-id": id, "token-secret": secret, "usage-bootstrap-signing": "true",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        });
        for (key, value) in entries.as_object().into_iter().flatten() {
            data[key] = value.clone();
        }
        self.api.put(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
            "stringData": data,
        }));
    }
}

/// What kubeadm does when it is started.
#[derive(Clone, Debug)]
pub enum Kubeadm {
    Joins,
    /// It prints these lines and ends with status 1, having changed nothing.
    Fails(&'static str),
    /// It does all that one does that joins, until the kubelet has its certificate; then it prints these lines and ends with
    /// status 1.
    FailsLate(&'static str),
}

/// The programs of a worker.
pub struct Worker {
    service: ApiService,
    gate: Gate,
    authority: Arc<Authority>,
    clock: Clock,
    runtime: Runtime,
    machine: Weak<Machine>,
    own: Weak<Worker>,
    /// How far its clock is ahead of the cluster's, in seconds. Not in the state: a file is dated while that is held.
    ahead: AtomicI64,
    state: Mutex<State>,
}

/// How kubeadm's unit is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Unit {
    #[default]
    None,
    Running,
    Ended(i32),
}

#[derive(Default)]
struct State {
    plays: VecDeque<Kubeadm>,
    unit: Unit,
    /// Which start of it runs now, and when after the boot that was.
    kubelet: Option<(u32, Duration)>,
    /// It has no configuration: it ends, and systemd starts it again, for ever.
    crash_loops: bool,
    /// An order to start it leads to nothing.
    never_starts: bool,
    /// What it says when it is started, and ends.
    breaks: Option<String>,
    /// When it was started that ended so, and how often systemd has started it again.
    ended: Option<(Duration, u64)>,
    /// It hangs: it neither answers nor does anything.
    frozen: bool,
    /// The address it was told to give its Node, where that is not the machine's own.
    node_ip: Option<&'static str>,
    /// Who refuses its Node, in the API server's words.
    denied: Option<String>,
    /// What kube-proxy's healthz answers, with its headers.
    proxy_says: Option<&'static str>,
    /// Who answers this machine, and no pod on it.
    peer: Option<(&'static str, u16)>,
    /// What units have written: when, which, who, its process, and the line.
    journal: Vec<(Timestamp, &'static str, &'static str, u32, String)>,
    kubelets: u32,
    kubeadms: u32,
    /// Who may read what kubeadm was started with, and who the directory it is in.
    config_modes: Option<(u32, u32)>,
    /// What runs in kubeadm's unit, and what that removes when it ends.
    kubeadm: Option<AbortHandle>,
    removes: Option<String>,
}

impl Worker {
    /// A machine on which everything is installed and nothing has joined.
    pub fn start(cluster: &MemoryCluster, plays: impl IntoIterator<Item = Kubeadm>) -> (Arc<Machine>, Arc<Self>) {
        // Whoever joins is reached by the API server, unless a test says otherwise.
        cluster.api.set_kubelet(NODE, None);
        let mut worker = None;
        let machine = Arc::new_cyclic(|machine: &Weak<Machine>| {
            let state = State { plays: plays.into_iter().collect(), ..State::default() };
            let made = Arc::new_cyclic(|own| Worker {
                own: own.clone(),
                service: cluster.api.service(),
                gate: cluster.gate.clone(),
                authority: Arc::clone(&cluster.authority),
                clock: cluster.clock,
                runtime: Runtime::default(),
                machine: machine.clone(),
                ahead: AtomicI64::new(0),
                state: Mutex::new(state),
            });
            worker = Some(Arc::clone(&made));
            installed().with_script(made)
        });
        #[allow(clippy::expect_used, reason = "it is made right above")]
        (machine, worker.expect("made"))
    }

    /// From now on the kubelet gives its Node this address.
    pub fn set_node_ip(&self, address: &'static str) {
        self.state().node_ip = Some(address);
    }

    /// The pod network comes up, as flannel brings it: its file is written, and sandboxes get this address.
    pub fn connect_network(&self, address: &str) {
        if let Some((machine, _)) = self.both() {
            machine.meddle("/etc/cni/net.d/10-flannel.conflist", FLANNEL);
        }
        self.runtime.connect_network(address);
    }

    /// As `kubeadm reset` and a stopped kubelet leave the machine; its Node stays as it is.
    pub fn reset(&self) {
        self.state().kubelet = None;
        let Some((machine, _)) = self.both() else { return };
        for path in [KUBELET_CONF, BOOTSTRAP_CONF, CA, CONFIG, INSTANCE, FLAGS, CLIENT, CLIENT_FILE] {
            machine.meddle_remove(path);
        }
    }

    /// Somebody stops the kubelet.
    pub fn stop_kubelet(&self) {
        self.state().kubelet = None;
    }

    /// The kubelet's unit is started, as its package leaves it: without a configuration it crash-loops.
    pub fn start_unconfigured_kubelet(&self) {
        self.state().crash_loops = true;
    }

    /// From now on the kubelet ends as soon as it is started, with these words; or, with none, does no more.
    pub fn break_kubelet(&self, words: Option<&str>) {
        self.state().breaks = words.map(str::to_owned);
    }

    /// The kubelet hangs, as by SIGSTOP, or goes on.
    pub fn freeze_kubelet(&self, frozen: bool) {
        self.state().frozen = frozen;
    }

    /// Admission refuses the kubelet's Node in these words; or, with none, no more.
    pub fn deny_node(&self, words: Option<&str>) {
        self.state().denied = words.map(str::to_owned);
    }

    /// A unit writes a line to the journal.
    pub fn write_journal(&self, unit: &'static str, line: &str) {
        let pid = 800 + self.state().kubelets;
        let entry = (self.clock.now(), unit, unit.trim_end_matches(".service"), pid, line.to_owned());
        self.state().journal.push(entry);
    }

    /// Nothing that units have written is kept.
    pub fn forget_journal(&self) {
        self.state().journal.clear();
    }

    /// kube-proxy answers so at its healthz, headers and all.
    pub fn answer_as_kube_proxy(&self, says: &'static str) {
        self.state().proxy_says = Some(says);
    }

    /// Somebody answers the machine there, and no pod on it.
    pub fn lose_packets_of_pods(&self, peer: (&'static str, u16)) {
        self.state().peer = Some(peer);
    }

    /// The CNI plugin refuses every sandbox.
    pub fn refuse_sandboxes(&self) {
        self.runtime.refuse_sandboxes();
    }

    /// The runtime has a sandbox for a pod with this uid, made now.
    pub fn run_sandbox(&self, uid: &str) {
        self.runtime.put_sandbox(uid, i64::try_from(self.clock.now().as_nanosecond()).unwrap_or_default());
    }

    /// A container of a pod (its namespace and name) ended with a status, having written these lines.
    pub fn end_container(&self, pod: (&str, &str), name: &str, exit: i32, lines: &[&str]) {
        let Some((machine, _)) = self.both() else { return };
        let (now, path) = (self.clock.now(), format!("/var/log/pods/{}_{}_uid/{name}/0.log", pod.0, pod.1));
        machine.meddle(&path, &lines.iter().map(|line| format!("{now} stderr F {line}\n")).collect::<String>());
        let at = i64::try_from(now.as_nanosecond()).unwrap_or_default();
        self.runtime.put_container(pod, name, Some((exit, at)), &path);
    }

    /// How systemd has the kubelet's unit.
    pub fn kubelet_unit(&self) -> &'static str {
        match &*self.state() {
            State { kubelet: Some(_), .. } => "active",
            State { crash_loops: true, .. } | State { ended: Some(_), .. } => "activating",
            _ => "inactive",
        }
    }

    /// systemd takes the order to start the kubelet's unit, and does not start it.
    pub fn never_start_kubelet(&self) {
        self.state().never_starts = true;
    }

    /// How often a kubelet was started.
    pub fn kubelet_starts(&self) -> u32 {
        self.state().kubelets
    }

    /// Its clock is so far ahead of the cluster's.
    pub fn set_clock_ahead(&self, by: SignedDuration) {
        self.ahead.store(by.as_secs(), Ordering::Relaxed);
    }

    /// The pause image is not here, and cannot be pulled.
    pub fn lose_pause_image(&self) {
        self.runtime.lose_pause_image();
    }

    /// The runtime takes connections and answers nothing, or goes on.
    pub fn freeze_runtime(&self, frozen: bool) {
        self.runtime.freeze(frozen);
    }

    /// The CNI plugin never comes back from a call.
    pub fn hang_plugin(&self) {
        self.runtime.hang_plugin();
    }

    /// Sandboxes that nobody has taken away.
    pub fn sandboxes(&self) -> usize {
        self.runtime.sandboxes()
    }

    /// How often kubeadm was started.
    pub fn kubeadm_runs(&self) -> u32 {
        self.state().kubeadms
    }

    /// The modes of kubeadm's file and of its directory when it was last started: the token is in it.
    pub fn config_modes(&self) -> Option<(u32, u32)> {
        self.state().config_modes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For what runs beside: both are there as long as the machine is.
    fn both(&self) -> Option<(Arc<Machine>, Arc<Self>)> {
        self.machine.upgrade().zip(self.own.upgrade())
    }
}

fn installed() -> Machine {
    Machine::with(&[
        ("/proc/sys/kernel/hostname", "w1\n"),
        ("/etc/machine-id", &format!("{MACHINE_ID}\n")),
        ("/sys/class/dmi/id/product_uuid", &format!("{SYSTEM_UUID}\n")),
        ("/proc/self/mountinfo", "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"),
        ("/var/lib/x", ""),
        ("/run/systemd/x", ""),
        ("/opt/x", ""),
        ("/usr/libexec/x", ""),
        ("/etc/kubernetes/x", ""),
        ("/var/lib/kubelet/x", ""),
        ("/etc/cni/net.d/x", ""),
        ("/proc/sys/net/ipv4/ip_forward", "1\n"),
        ("/proc/sys/net/bridge/bridge-nf-call-iptables", "1\n"),
        ("/proc/sys/net/bridge/bridge-nf-call-ip6tables", "1\n"),
        ("/etc/resolv.conf", "nameserver 10.0.0.2\n"),
    ])
}

const ROUTES: &str = r#"[{"dst":"default","gateway":"10.0.0.1","dev":"eth0","table":"main","flags":[]},{"dst":"10.0.0.0/24","dev":"eth0","prefsrc":"10.0.0.21","flags":[]}]"#;
const ADDRESSES: &str = r#"[{"ifname":"lo","mtu":65536,"operstate":"UNKNOWN","addr_info":[{"local":"127.0.0.1","prefixlen":8}]},{"ifname":"eth0","mtu":1500,"operstate":"UP","addr_info":[{"local":"10.0.0.21","prefixlen":24}]}]"#;
const FLANNEL: &str = r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel","delegate":{"isDefaultGateway":true}},{"type":"portmap","capabilities":{"portMappings":true}}]}"#;

/// As the package of Kubernetes' own repository has them.
const UNIT_FILES: &str = "# /usr/lib/systemd/system/kubelet.service\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\nStartLimitInterval=0\nRestartSec=10\n\n# /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf\n[Service]\nEnvironment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n";
const KUBELET_PROCESS: &str = "/usr/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml\n";

impl Script for Worker {
    fn run(&self, machine: &Machine, argv: &[&str]) -> Option<CommandOutput> {
        let well = |out: String| Some(CommandOutput { out, ..CommandOutput::default() });
        match argv {
            ["systemd-run", rest @ ..] => well(self.start_kubeadm(machine, rest)),
            ["systemctl", "show", rest @ ..] => {
                let units = rest.iter().filter(|word| word.ends_with(".service"));
                well(units.map(|unit| self.show(unit)).collect::<Vec<_>>().join("\n"))
            }
            ["systemctl", "stop" | "reset-failed", UNIT] => {
                self.end_kubeadm(machine, Unit::None);
                well(String::new())
            }
            ["systemctl", "daemon-reload"] => {
                self.state().crash_loops &= machine.text(DROP_IN).is_none();
                well(String::new())
            }
            ["systemctl", "start", .., "kubelet.service"] => {
                if !self.state().never_starts {
                    self.start_kubelet(machine);
                }
                well(String::new())
            }
            ["systemctl", "stop", "kubelet.service"] => {
                let mut state = self.state();
                (state.kubelet, state.crash_loops, state.ended) = (None, false, None);
                well(String::new())
            }
            ["systemctl", "cat", .., "kubelet.service"] => well(UNIT_FILES.to_owned()),
            ["ps", "-ww", "-C", "kubelet", ..] => {
                let since = self.state().kubelet.map(|(_, since)| self.up().saturating_sub(since).as_secs());
                well(since.map(|elapsed| format!("812 {elapsed} {KUBELET_PROCESS}")).unwrap_or_default())
            }
            ["sh", "-c", script] if script.contains("command -v") => {
                let tools = ["mount", "losetup", "cp", "touch", "conntrack", "iptables", "ip", "nsenter", "socat"];
                let more =
                    ["ethtool", "ebtables", "tc", "crictl", "modprobe", "kubelet", "kubeadm", "containerd", "runc"];
                well(tools.iter().chain(&more).map(|tool| format!("{tool} /usr/bin/{tool}\n")).collect())
            }
            ["sh", "-c", script] if script.contains("journalctl") => well(String::new()),
            ["kubelet", "--version"] => well("Kubernetes v1.34.4\n".to_owned()),
            ["ip", "-j", "route", ..] => well(ROUTES.to_owned()),
            ["ip", "-j", "-d", "addr", ..] => well(ADDRESSES.to_owned()),
            ["journalctl", .., from] if argv.contains(&"json") => well(self.journal(from)),
            ["tail", "-c", _, "--", path] => well(machine.text(path).unwrap_or_default()),
            ["journalctl", ..] | ["systemctl", "reset-failed", "kubelet.service"] => well(String::new()),
            _ => None,
        }
    }

    fn connect(&self, target: &Target) -> io::Result<Box<dyn ByteStream>> {
        match target {
            Target::Tcp { host, port } if (host.as_str(), *port) == API => Ok(Box::new(self.gate.dial()?)),
            Target::Unix(path) if path == "/run/containerd/containerd.sock" => Ok(Box::new(self.runtime.dial())),
            Target::Tcp { host, port: 10248 } if host == "127.0.0.1" => Ok(Box::new(self.healthz()?)),
            Target::Tcp { host, port: 10256 }
                if host == "127.0.0.1"
                    && let Some(says) = self.state().proxy_says =>
            {
                let (near, mut far) = duplex(4096);
                tokio::spawn(async move { far.write_all(says.as_bytes()).await });
                Ok(Box::new(near))
            }
            Target::Tcp { host, port } if self.state().peer == Some((host, *port)) => Ok(Box::new(duplex(64).0)),
            Target::Within { .. } => Err(io::ErrorKind::TimedOut.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn file(&self, path: &str) -> Option<String> {
        (path == "/proc/uptime").then(|| format!("{}.00 7000.00\n", self.up().as_secs()))
    }

    fn now(&self) -> Timestamp {
        let (now, ahead) = (self.clock.now(), self.ahead.load(Ordering::Relaxed));
        now.checked_add(SignedDuration::from_secs(ahead)).unwrap_or(now)
    }
}

impl Worker {
    /// Since the boot, which was an hour before the test began.
    fn up(&self) -> Duration {
        Duration::from_hours(1) + self.clock.1.elapsed()
    }

    /// What `journalctl -o json` prints behind a place, or since a time.
    fn journal(&self, from: &str) -> String {
        let after: usize = from.strip_prefix("--after-cursor=").and_then(|at| at.parse().ok()).unwrap_or_default();
        let since = from.strip_prefix("--since=@").map(|at| at.replace('.', "")).and_then(|at| at.parse().ok());
        let since: i64 = since.unwrap_or_default();
        let state = self.state();
        let entries = state.journal.iter().zip(1usize..).filter(|(_, number)| *number > after);
        let entries = entries.filter(|((at, ..), _)| at.as_microsecond() >= since);
        let line = |((at, unit, program, pid, message), number): (&(Timestamp, &str, &str, u32, String), usize)| {
            let at = at.as_microsecond().to_string();
            json!({"__CURSOR": number.to_string(), "__REALTIME_TIMESTAMP": at, "MESSAGE": message, "_PID": pid.to_string(),
                "SYSLOG_IDENTIFIER": program, "_SYSTEMD_UNIT": unit})
            .to_string()
                + "\n"
        };
        entries.map(line).collect()
    }

    /// The kubelet's healthz port, where one runs.
    fn healthz(&self) -> io::Result<DuplexStream> {
        let (near, mut far) = duplex(4096);
        let state = self.state();
        if state.kubelet.is_none() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let frozen = state.frozen;
        tokio::spawn(async move {
            if frozen {
                std::future::pending::<()>().await;
            }
            // Who hangs up does not want the answer.
            let _ = far.write_all(b"HTTP/1.0 200 OK\r\n\r\nok").await;
        });
        Ok(near)
    }

    fn show(&self, unit: &str) -> String {
        let state = self.state();
        let shown = |load: &str, active: &str, sub: &str, result: &str, status: i32| {
            format!(
                "Id={unit}\nLoadState={load}\nActiveState={active}\nSubState={sub}\nUnitFileState=enabled\nNRestarts=0\nResult={result}\nExecMainStatus={status}\n"
            )
        };
        match (unit, state.unit, state.kubelet) {
            (UNIT, Unit::Running, _) => shown("loaded", "active", "running", "success", 0),
            (UNIT, Unit::Ended(0), _) => shown("loaded", "active", "exited", "success", 0),
            (UNIT, Unit::Ended(status), _) => shown("loaded", "failed", "failed", "exit-code", status),
            ("kubelet.service", _, Some((_, since))) => {
                let since = since.as_micros();
                shown("loaded", "active", "running", "success", 0)
                    + &format!("MainPID=812\nExecMainStartTimestampMonotonic={since}\n")
            }
            ("kubelet.service", _, None) if let Some((since, restarts)) = state.ended => {
                shown("loaded", "activating", "auto-restart", "exit-code", 1)
                    .replace("NRestarts=0", &format!("NRestarts={restarts}"))
                    + &format!("ExecMainStartTimestampMonotonic={}\n", since.as_micros())
            }
            ("kubelet.service", _, None) if state.crash_loops => {
                shown("loaded", "activating", "auto-restart", "exit-code", 1)
            }
            ("kubelet.service", _, None) => shown("loaded", "inactive", "dead", "success", 0),
            ("containerd.service", ..) => shown("loaded", "active", "running", "success", 0),
            _ => shown("not-found", "inactive", "dead", "success", 0),
        }
    }

    /// Starts it beside, as systemd does; nothing is printed.
    fn start_kubeadm(&self, machine: &Machine, words: &[&str]) -> String {
        let log = words.iter().find_map(|word| word.strip_prefix("--property=StandardOutput=append:"));
        let config = words.iter().skip_while(|word| **word != "--config").nth(1);
        let text = config.and_then(|path| machine.text(path)).unwrap_or_default();
        let token = text.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap_or_default();
        let (log, token) = (log.unwrap_or_default().to_owned(), token.trim_matches('"').to_owned());
        let play = {
            let mut state = self.state();
            state.unit = Unit::Running;
            state.config_modes = config.and_then(|path| machine.mode(path).zip(machine.mode(path.rsplit_once('/')?.0)));
            state.kubeadms += 1;
            let removes = words.iter().find_map(|word| word.strip_prefix("--property=ExecStopPost=-/bin/rm -f "));
            state.removes = removes.map(str::to_owned);
            state.plays.pop_front().unwrap_or(Kubeadm::Joins)
        };
        if let Some((machine, worker)) = self.both() {
            let kubeadm = tokio::spawn(async move { worker.kubeadm(&machine, play, &log, &token).await });
            self.state().kubeadm = Some(kubeadm.abort_handle());
        }
        String::new()
    }

    async fn kubeadm(&self, machine: &Machine, play: Kubeadm, log: &str, token: &str) {
        let say = |text: &str| {
            let before = machine.text(log).unwrap_or_default();
            machine.meddle(log, &format!("{before}{text}\n"));
        };
        sleep(SOON).await;
        say("[preflight] Running pre-flight checks");
        let refused = match play {
            Kubeadm::Fails(says) => Some(says.to_owned()),
            Kubeadm::Joins | Kubeadm::FailsLate(_) => self.preflight(machine),
        };
        if let Some(says) = refused {
            say(&says);
            self.end_kubeadm(machine, Unit::Ended(1));
            return;
        }
        let server = format!("https://{}:{}", API.0, API.1);
        let mut conf: Value =
            serde_json::from_str(&kubeconfig(&server, self.authority.pem(), None)).unwrap_or_default();
        conf["users"][0]["user"]["token"] = token.into();
        machine.meddle(BOOTSTRAP_CONF, &conf.to_string());
        machine.meddle(CA, self.authority.pem());
        if let Err(why) = self.no_ready_node(token).await {
            machine.meddle_remove(BOOTSTRAP_CONF);
            say(&format!("error execution phase kubelet-start: {why}"));
            self.end_kubeadm(machine, Unit::Ended(1));
            return;
        }
        machine.meddle(INSTANCE, "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n");
        machine.meddle(CONFIG, "cgroupDriver: systemd\n");
        machine.meddle(FLAGS, "KUBELET_KUBEADM_ARGS=\"\"\n");
        say("[kubelet-start] Starting the kubelet");
        self.start_kubelet(machine);
        say("[kubelet-start] Waiting for the kubelet to perform the TLS Bootstrap");
        while machine.text(KUBELET_CONF).is_none() {
            sleep(SOON).await;
            if self.state().unit == Unit::None {
                return;
            }
        }
        if let Kubeadm::FailsLate(says) = play {
            say(says);
            self.end_kubeadm(machine, Unit::Ended(1));
            return;
        }
        sleep(SOON).await;
        machine.meddle_remove(BOOTSTRAP_CONF);
        say("This node has joined the cluster:");
        self.end_kubeadm(machine, Unit::Ended(0));
    }

    /// What kubeadm finds of an earlier join, in its words.
    fn preflight(&self, machine: &Machine) -> Option<String> {
        let mut errors: Vec<String> = [KUBELET_CONF, BOOTSTRAP_CONF, CA]
            .into_iter()
            .filter(|path| machine.text(path).is_some())
            .map(|path| format!("\t[ERROR FileAvailable-{}]: {path} already exists", path.replace('/', "-")))
            .collect();
        if self.state().kubelet.is_some() {
            errors.insert(0, "\t[ERROR Port-10250]: Port 10250 is in use".to_owned());
        }
        let more = "[preflight] If you know what you are doing, you can make a check non-fatal with \
                    `--ignore-preflight-errors=...`";
        let head = "error execution phase preflight: [preflight] Some fatal errors occurred:";
        (!errors.is_empty()).then(|| format!("{head}\n{}\n{more}", errors.join("\n")))
    }

    /// What kubeadm asks with the token before it starts the kubelet, and its words where it does not go on.
    async fn no_ready_node(&self, token: &str) -> Result<(), String> {
        let path = format!("/api/v1/nodes/{NODE}");
        let (status, node) = self.ask(None, Some(token), "GET", &path, "", &Value::Null).await?;
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().any(|it| it["type"] == "Ready" && it["status"] == "True");
        match status {
            200 if ready => Err(format!(
                "a Node with name {NODE:?} and status \"Ready\" already exists in the cluster. You must delete the existing \
                 Node or change the name of this new joining Node"
            )),
            200 | 404 => Ok(()),
            _ => Err(format!("cannot get Node {NODE:?}: {}", node["message"])),
        }
    }

    /// By itself, or because somebody stops it.
    fn end_kubeadm(&self, machine: &Machine, unit: Unit) {
        let mut state = self.state();
        state.unit = unit;
        if let Some(kubeadm) = state.kubeadm.take().filter(|_| unit == Unit::None) {
            kubeadm.abort();
        }
        if let Some(path) = state.removes.take() {
            machine.meddle_remove(&path);
        }
    }

    /// Without a configuration it ends at once; with our drop-in it is not even started then.
    fn start_kubelet(&self, machine: &Machine) {
        if machine.text(CONFIG).is_none() {
            self.state().crash_loops = machine.text(DROP_IN).is_none();
            return;
        }
        if self.state().kubelet.is_some() {
            return;
        }
        let breaks = self.state().breaks.clone();
        if let Some(words) = breaks {
            return self.end_kubelet(&words);
        }
        let running = {
            let mut state = self.state();
            state.ended = None;
            state.kubelets += 1;
            state.kubelet = Some((state.kubelets, self.up()));
            state.kubelets
        };
        if let Some((machine, worker)) = self.both() {
            tokio::spawn(async move {
                // What it is refused, it tries again when it is started again.
                let _ = worker.kubelet(&machine, running).await;
            });
        }
    }

    /// It ends as soon as it is started; systemd starts it again ten seconds later.
    fn end_kubelet(&self, words: &str) {
        let up = self.up();
        {
            let mut state = self.state();
            state.kubelets += 1;
            state.ended = Some((up, state.ended.map_or(0, |(_, restarts)| restarts + 1)));
        }
        self.write_journal("kubelet.service", words);
        if let Some((machine, worker)) = self.both() {
            tokio::spawn(async move {
                sleep(RESTARTS).await;
                let is_down = worker.state().ended.is_some_and(|(since, _)| since == up);
                if is_down {
                    worker.start_kubelet(&machine);
                }
            });
        }
    }

    fn runs(&self, running: u32) -> bool {
        self.state().kubelet.is_some_and(|(number, _)| number == running)
    }

    async fn kubelet(&self, machine: &Machine, running: u32) -> Result<(), String> {
        for path in MADE.into_iter().filter(|path| machine.text(path).is_none()) {
            machine.meddle(path, "made by the kubelet");
        }
        for path in MADE_EMPTY {
            machine.meddle_dir(path);
        }
        let pem = match machine.text(CLIENT) {
            Some(pem) => pem,
            None => self.bootstrap(machine, running).await?,
        };
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
        let user = User::of_certificate(&der).ok_or("a certificate without a name")?;
        let node = format!("/api/v1/nodes/{NODE}");
        while self.ask(Some(&user), None, "GET", &node, "", &Value::Null).await?.0 == 404 {
            let denied = self.state().denied.clone();
            if let Some(words) = denied {
                let line = format!("\"Unable to register node with API server\" err=\"{words}\" node=\"{NODE}\"");
                self.write_journal(
                    "kubelet.service",
                    &format!("E1116 12:00:00.0     812 kubelet_node_status.go:107] {line}"),
                );
                sleep(SIGNED).await;
                if !self.runs(running) {
                    return Err("stopped".to_owned());
                }
                continue;
            }
            self.ask(Some(&user), None, "POST", "/api/v1/nodes", "json", &self.node()).await?;
            self.write_journal(
                "kubelet.service",
                "I1116 12:00:00.0     812 kubelet_node_status.go:78] \"Successfully registered node\" node=\"w1\"",
            );
        }
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}");
        while self.runs(running) {
            if self.state().frozen {
                sleep(SOON).await;
                continue;
            }
            // What the machine is, too: the Node may have been another's before.
            let status = json!({"status": {"addresses": [self.address()], "conditions": [self.ready()], "nodeInfo": Self::node_info()}});
            let patch = "strategic-merge-patch+json";
            self.ask(Some(&user), None, "PATCH", &format!("{node}/status"), patch, &status).await?;
            self.renew(&user, &lease).await?;
            let due = Instant::now() + RENEWS;
            let networked = self.runtime.is_networked();
            // A kubelet says at once that the network has come.
            while Instant::now() < due && self.runtime.is_networked() == networked && self.runs(running) {
                sleep(SOON).await;
            }
        }
        Ok(())
    }

    /// Asks for a certificate with the token, and waits for it.
    async fn bootstrap(&self, machine: &Machine, running: u32) -> Result<String, String> {
        let conf: Value =
            machine.text(BOOTSTRAP_CONF).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let token = conf["users"][0]["user"]["token"].as_str().unwrap_or_default().to_owned();
        let (request, key) = certificate_request(NODE);
        let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let csr = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "csr-"},
            "spec": {
                "request": request, "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
            },
        });
        let (status, made) = self.ask(None, Some(&token), "POST", path, "json", &csr).await?;
        let name = made["metadata"]["name"].as_str().filter(|_| status == 201).ok_or_else(|| made.to_string())?;
        let certificate = loop {
            sleep(SIGNED).await;
            if !self.runs(running) {
                return Err("stopped".to_owned());
            }
            let (_, csr) = self.ask(None, Some(&token), "GET", &format!("{path}/{name}"), "", &Value::Null).await?;
            if let Some(certificate) = csr["status"]["certificate"].as_str() {
                break STANDARD.decode(certificate).map_err(|error| error.to_string())?;
            }
        };
        let pem = format!("{}{key}", String::from_utf8_lossy(&certificate));
        machine.meddle(CLIENT_FILE, &pem);
        machine.meddle_link(CLIENT, CLIENT_FILE);
        let server = format!("https://{}:{}", API.0, API.1);
        let mut conf: Value =
            serde_json::from_str(&kubeconfig(&server, self.authority.pem(), None)).unwrap_or_default();
        conf["users"][0]["user"] = json!({"client-certificate": CLIENT, "client-key": CLIENT});
        machine.meddle(KUBELET_CONF, &conf.to_string());
        Ok(pem)
    }

    fn node(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}},
            "status": {
                "addresses": [self.address()],
                "conditions": [self.ready()],
                "nodeInfo": Self::node_info(),
            },
        })
    }

    fn address(&self) -> Value {
        let told = self.state().node_ip;
        json!({"type": "InternalIP", "address": told.unwrap_or("10.0.0.21")})
    }

    fn node_info() -> Value {
        json!({"machineID": MACHINE_ID, "systemUUID": SYSTEM_UUID, "kubeletVersion": "v1.34.4"})
    }

    fn ready(&self) -> Value {
        let (status, reason, message) = if self.runtime.is_networked() {
            ("True", "KubeletReady", "kubelet is posting ready status")
        } else {
            ("False", "KubeletNotReady", "container runtime network not ready")
        };
        let now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({
            "type": "Ready", "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        })
    }

    async fn renew(&self, user: &User, path: &str) -> Result<(), String> {
        let now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
        let (status, mut lease) = self.ask(Some(user), None, "GET", path, "", &Value::Null).await?;
        let (method, path) = if status == 404 {
            lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": NODE, "namespace": "kube-node-lease"},
                "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40},
            });
            ("POST", path.rsplit_once('/').map_or(path, |(leases, _)| leases))
        } else {
            ("PUT", path)
        };
        lease["spec"]["renewTime"] = now.into();
        self.ask(Some(user), None, method, path, "json", &lease).await.map(drop)
    }

    async fn ask(
        &self,
        user: Option<&User>,
        token: Option<&str>,
        method: &str,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Result<(u16, Value), String> {
        let mut request = Request::builder().method(method).uri(path).header("accept", "application/json");
        if !kind.is_empty() {
            request = request.header("content-type", format!("application/{kind}"));
        }
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let response = self.service.by(user).call(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}
