//! What was seen of a machine that has joined, or is about to; of each thing the last look, or why there was none.

use std::net::{IpAddr, SocketAddr};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Until;
use crate::catalogue::{About, Class, Role, Stops};
use crate::check::{Evidence, Needed, Subsystem, Verdict, fail};
use crate::fact::Why;
use crate::fact::cidr::Cidr;
use crate::id;
use crate::join::failure::JoinCause;
use crate::join::taint::Taint;

/// All of it. `verify` fills it at once, `join` event by event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEvidence {
    pub kubelet: Result<Kubelet, Why>,
    pub request: Result<CertificateRequest, Why>,
    pub certificate: Result<ClientCertificate, Why>,
    pub cluster: Result<ClusterPins, Why>,
    pub node: Result<Node, Why>,
    pub lease: Result<NodeLease, Why>,
    pub runtime: Result<RuntimeConditions, Why>,
    pub sandbox: Result<Sandbox, Why>,
    /// Where only a Pod of the cluster can prove what a sandbox proves elsewhere, and none has: what has come of it.
    #[serde(default)]
    pub stand_in: Option<StandIn>,
    /// Why the API server would not take the lease that this node has yet to make.
    #[serde(default)]
    pub lease_refusal: Option<String>,
    /// Whether the kubelet starts containers; `None`: nobody has looked.
    #[serde(default)]
    pub container: Option<ContainerStart>,
    /// Whether the API server reaches this node's kubelet.
    #[serde(default = "not_collected")]
    pub reach: Result<KubeletReach, Why>,
    /// Whether pods of other nodes answer from here.
    #[serde(default = "not_collected")]
    pub peers: Result<PeerDial, Why>,
    /// The node's CNI and kube-proxy pods, watched for a while (`--soak`).
    pub pods: Result<Vec<AgentPod>, Why>,
    /// This machine's own addresses.
    #[serde(default = "not_collected")]
    pub addresses: Result<Vec<IpAddr>, Why>,
    /// The node's CNI and kube-proxy pods as they are now.
    #[serde(default = "not_collected")]
    pub agents: Result<Vec<AgentPod>, Why>,
    /// The DaemonSet of kube-proxy's that selects this Node, where an admin could look.
    #[serde(default = "not_collected")]
    pub kube_proxy_set: Result<Option<String>, Why>,
    /// The DaemonSet of a known pod network that selects this Node, where an admin could look.
    #[serde(default = "not_collected")]
    pub network_set: Result<Option<String>, Why>,
    /// The pod network's DaemonSet that a taint keeps off this Node, where an admin could look.
    #[serde(default = "not_collected")]
    pub kept_off: Result<Option<KeptOff>, Why>,
    /// Far ends of this node's tunnels that are reached over another interface than the one with the agent's address.
    #[serde(default = "not_collected")]
    pub detours: Result<Vec<String>, Why>,
    /// What live diagnosis found once all else held.
    #[serde(default = "not_collected")]
    pub standing: Result<Vec<StandingCause>, Why>,
}

/// A current cause that keeps pods from running on this node, or others from reaching them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingCause {
    pub id: String,
    pub class: Class,
    pub role: Role,
    /// What it stops: itself, or by what was seen because of it.
    pub stops: Stops,
    pub subsystem: Subsystem,
    pub title: String,
    pub evidence: Vec<Evidence>,
    pub remedy: Vec<String>,
    /// Only lines say so, and they say that pods get no address: one that gets an address proves that they are past.
    #[serde(default)]
    pub denies_addresses: bool,
}

/// Whether a cause that was read in lines says that pods get no address here. It may go by the id of a check: what that finds is
/// so now, whatever a sandbox gets, and is not asked here.
pub(crate) fn denies_addresses<'a>(explains: impl IntoIterator<Item = &'a str>) -> bool {
    explains.into_iter().any(|caused| caused == id!("pod.no-address").id)
}

impl StandingCause {
    /// Whether nobody may say *joined* over it, as far as it was asked for.
    pub fn forbids(&self, until: Until) -> bool {
        self.stops.forbidden_from().is_some_and(|from| from <= until)
    }

    /// As the cause of a join that ended because of it.
    pub(crate) fn as_cause(&self) -> JoinCause {
        let StandingCause { id, class, role, stops, subsystem, title, evidence, remedy, denies_addresses: _ } = self;
        let about =
            About { id, class: *class, role: *role, stops: *stops, subsystem: *subsystem, needed: Needed::Always };
        JoinCause::of(about, title).seen(evidence.clone()).fixed_by(remedy.clone())
    }
}

/// Of what an older Carrick did not look at.
fn not_collected<T>() -> Result<T, Why> {
    Err(Why::NotCollected)
}

impl Default for NodeEvidence {
    fn default() -> Self {
        NodeEvidence {
            kubelet: Err(Why::NotCollected),
            request: Err(Why::NotCollected),
            certificate: Err(Why::NotCollected),
            cluster: Err(Why::NotCollected),
            node: Err(Why::NotCollected),
            lease: Err(Why::NotCollected),
            runtime: Err(Why::NotCollected),
            sandbox: Err(Why::NotCollected),
            stand_in: None,
            lease_refusal: None,
            container: None,
            reach: not_collected(),
            peers: not_collected(),
            pods: Err(Why::NotCollected),
            addresses: Err(Why::NotCollected),
            agents: Err(Why::NotCollected),
            kube_proxy_set: Err(Why::NotCollected),
            network_set: Err(Why::NotCollected),
            kept_off: not_collected(),
            detours: Err(Why::NotCollected),
            standing: Err(Why::NotCollected),
        }
    }
}

/// `kubelet.service` and the process in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubelet {
    pub active: bool,
    /// It has no `--kubeconfig`.
    pub standalone: bool,
    /// Since it was last started by hand or by kubeadm.
    pub restarts: u64,
    /// How it last ended.
    pub exit: Option<i32>,
    pub started_at: Option<Timestamp>,
    /// `--node-ip`: the address that somebody told it to use.
    #[serde(default)]
    pub node_ip: Option<KubeletFlag>,
    /// `--cloud-provider`: who is to initialise its Node.
    #[serde(default)]
    pub cloud_provider: Option<KubeletFlag>,
    /// Why it does nothing, where it neither works nor ended.
    #[serde(default)]
    pub halt: Option<KubeletHalt>,
}

/// A flag of the kubelet's, and where it is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeletFlag {
    /// As it stands there, with its value.
    pub word: String,
    pub file: String,
}

impl KubeletFlag {
    /// The command that takes it out.
    pub(super) fn taken_out(&self) -> String {
        let reload = if self.file.contains("/systemd/") { "systemctl daemon-reload && " } else { "" };
        format!("sed -i 's|{}||' {} && {reload}systemctl restart kubelet", self.word, self.file)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KubeletHalt {
    /// It does not run, and is not to: it was not started, or somebody stopped it.
    Stopped,
    /// The same, and its config.yaml is not there.
    Removed,
    /// It is there, and a signal has stopped it.
    Suspended,
    /// It runs, takes connections on its healthz port, and answers none.
    Silent,
}

/// The kubelet's request for its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRequest {
    pub name: String,
    pub state: Signing,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signing {
    Pending,
    /// Approved; the certificate is still to be issued.
    Approved,
    /// The certificate is there for the kubelet to take.
    Issued,
    Denied {
        why: String,
    },
    Failed {
        why: String,
    },
}

/// `kubelet-client-current.pem`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCertificate {
    /// Of this cluster's CA, for this node, and in date.
    Trusted,
    /// Of another cluster, for another node, or out of date.
    Stale { why: String },
    /// For this node, and in date; of a CA that neither the cluster has shown nor kubelet.conf names. A cluster may have one for
    /// its clients alone: only the API server can say.
    Unvouched,
}

/// The CAs the kubelet trusts, and those of the cluster that was asked for, as pins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPins {
    pub own: String,
    pub asked: String,
    /// It is one cluster: they share a CA, or the asked one's has signed the kubelet's certificate.
    #[serde(default)]
    pub is_same: bool,
}

/// The Node of this machine's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    /// [`crate::fact::identity::MachineIdentity::is`]: `None` where the ids are empty or shared and prove nothing.
    pub identity: Option<bool>,
    /// Its UUID is this machine's, and its machine-id another: set up anew since, or a second machine with the same UUID.
    #[serde(default)]
    pub other_machine_id: bool,
    /// Its ids and address, as a person compares them.
    pub whose: String,
    pub ready: bool,
    /// Ready is Unknown: the cluster has heard nothing of its kubelet for as long as it waits for one.
    #[serde(default)]
    pub silent: bool,
    /// Reason and message of the condition Ready.
    pub says: String,
    /// The reason, where `NetworkUnavailable` is True.
    pub network_unavailable: Option<String>,
    /// By the API server's clock, in whole seconds.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// When it was looked at, by this machine's clock.
    #[serde(default)]
    pub seen_at: Option<Timestamp>,
    /// What it is short of.
    #[serde(default)]
    pub pressures: Vec<Pressure>,
    /// How many pods it takes, those of its network included; `None` where it does not say.
    #[serde(default)]
    pub takes_pods: Option<u64>,
    #[serde(default)]
    pub taints: Vec<Taint>,
    #[serde(default)]
    pub internal_ips: Vec<IpAddr>,
    /// What network agents have written to it, also those of a network that is gone.
    #[serde(default)]
    pub agent_addresses: Vec<AgentAddress>,
}

/// The address that a network's agent uses between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAddress {
    /// The network's name: `flannel`.
    pub network: String,
    pub annotation: String,
    pub address: IpAddr,
    /// What chooses it, as a command.
    pub set_by: String,
}

/// A condition `DiskPressure`, `MemoryPressure` or `PIDPressure` that is True.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    pub of: Resource,
    /// Reason and message.
    pub says: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    Disk,
    Memory,
    Pids,
}

impl Resource {
    pub const ALL: [Resource; 3] = [Resource::Disk, Resource::Memory, Resource::Pids];

    /// The Node's condition.
    pub fn condition(self) -> &'static str {
        match self {
            Resource::Disk => "DiskPressure",
            Resource::Memory => "MemoryPressure",
            Resource::Pids => "PIDPressure",
        }
    }
}

/// A DaemonSet that is meant for this Node, and the taint that keeps its pods off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptOff {
    /// `NAMESPACE/NAME`
    pub set: String,
    pub taint: Taint,
}

impl KeptOff {
    pub fn says(&self) -> String {
        format!("DaemonSet {} does not tolerate the node's taint {}", self.set, self.taint)
    }

    pub(super) fn verdict(&self, node: &str) -> Verdict {
        let failed = fail(self.says()).seen([Evidence::of("Node spec.taints", self.taint.to_string())]);
        self.ways_out(node).into_iter().fold(failed, Verdict::fix).means(id!("cni.agent-taint"))
    }

    /// Either of the two gives way.
    pub fn ways_out(&self, node: &str) -> Vec<String> {
        let Taint { key, effect, .. } = &self.taint;
        let (namespace, name) = self.set.split_once('/').unwrap_or_default();
        let patch = format!(
            r#"[{{"op":"add","path":"/spec/template/spec/tolerations/-","value":{{"key":"{key}","operator":"Exists","effect":"{effect}"}}}}]"#
        );
        vec![
            format!("kubectl -n {namespace} patch daemonset {name} --type json -p '{patch}'    # its pods are to run in spite of the taint"),
            format!("kubectl taint node {node} {key}:{effect}-    # or the node is to be without it"),
            "grep -s register-with-taints /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet /etc/sysconfig/kubelet; grep -s -A4 registerWithTaints /var/lib/kubelet/config.yaml    # only looks: where the kubelet has it from".to_owned(),
        ]
    }
}

impl Node {
    /// Made so short a while ago that a DaemonSet's controller may not have come to it yet.
    pub(super) fn is_just_made(&self) -> bool {
        const PLACED: SignedDuration = SignedDuration::from_secs(5);
        self.created_at.zip(self.seen_at).is_some_and(|(created, seen)| seen.duration_since(created) < PLACED)
    }

    /// A kubelet that is up before its Node asks for a lease in vain, and again 10 s later. Until then a Node that was made
    /// since it started is its word: nobody else makes one with this machine's ids.
    pub(super) fn is_too_young_for_a_lease(&self, kubelet: &Kubelet) -> bool {
        const NEXT_TRY: SignedDuration = SignedDuration::from_secs(15);
        // Between the clocks of two machines, of which `time.skew` has judged.
        const APART: SignedDuration = SignedDuration::from_secs(5);
        let (Some(created), Some(seen), Some(started)) = (self.created_at, self.seen_at, kubelet.started_at) else {
            return false;
        };
        let age = seen.duration_since(created);
        let made_since = created.duration_since(started) >= -APART;
        kubelet.active && self.identity == Some(true) && made_since && age >= -APART && age <= NEXT_TRY
    }
}

/// What two looks at the node's lease saw; the first was taken after this kubelet came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLease {
    pub first: LeaseRenewal,
    pub last: LeaseRenewal,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRenewal {
    /// `metadata.resourceVersion`: that it is another one is all that it says.
    pub version: String,
    /// By the clock of the kubelet that renewed it.
    pub renewed_at: Option<Timestamp>,
    /// When it was looked at, by this machine's clock.
    #[serde(default)]
    pub seen_at: Option<Timestamp>,
    /// For how many seconds it is good; a kubelet renews it four times in that.
    #[serde(default)]
    pub lasts: Option<u32>,
}

impl LeaseRenewal {
    /// For how long it is good; kubeadm's kubelets ask for 40 s.
    pub fn lasts(&self) -> SignedDuration {
        SignedDuration::from_secs(self.lasts.map_or(40, i64::from))
    }

    /// It was renewed when the last renewal was due. A minute's quarter of slack is a busy machine's, not a dead one's.
    pub(super) fn is_on_time(&self) -> bool {
        let Some((seen, renewed)) = self.seen_at.zip(self.renewed_at) else { return true };
        let age = seen.duration_since(renewed);
        // Over SSH this machine's clock is known to a second or two.
        age > SignedDuration::from_secs(-5) && age <= self.lasts() / 3
    }

    /// For how long nobody has renewed it who could have: since the last time, or since the kubelet runs.
    pub(super) fn silence(&self, started: Option<Timestamp>) -> Option<SignedDuration> {
        let since = self.renewed_at.max(started)?;
        Some(self.seen_at?.duration_since(since))
    }
}

/// CRI's Status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeConditions {
    pub ready: bool,
    pub network_ready: bool,
    /// Of the condition that does not hold.
    pub says: String,
}

/// A throw-away sandbox that got an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub address: IpAddr,
    /// Where a pod's address on this node comes from, as CIDRs; empty where its network allots them by itself.
    pub expected: Vec<String>,
    /// The pod that has it, where the network's plugin serves nobody but the cluster's own Pods.
    #[serde(default)]
    pub pod: Option<String>,
    /// Why it could not be taken away again; the next one does that.
    #[serde(default)]
    pub left: Option<String>,
}

impl Sandbox {
    pub fn new(address: IpAddr, expected: Vec<String>) -> Self {
        Sandbox { address, expected, pod: None, left: None }
    }

    /// Whether its address is of this node's range; `None`: its network allots them by itself.
    pub fn is_in_range(&self) -> Option<bool> {
        let ranges: Vec<Cidr> = self.expected.iter().filter_map(|range| range.parse().ok()).collect();
        (!ranges.is_empty()).then(|| ranges.iter().any(|range| range.contains(self.address)))
    }
}

/// Whether a kubelet starts containers: a sandbox is made by the runtime alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContainerStart {
    /// One of this pod's runs that is younger than the kubelet.
    Runs { pod: String },
    /// That of a throw-away Pod does not: what is said of it.
    Fails { pod: String, says: String },
    /// That of a throw-away Pod does not yet, and nobody says why.
    Late { pod: String },
    /// None that runs is younger than the kubelet, and none was made.
    NotSeen,
}

/// Why no Pod proves the network yet, where its plugin serves nobody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StandIn {
    /// The network's own agent is not Ready: no Pod will be served.
    AgentDown { pod: String },
    /// This one has yet to get its address.
    OnItsWay { pod: String },
    /// The API server did not take a throw-away Pod: admission, a quota, a missing right.
    Refused { says: String },
    /// The runtime refused a sandbox, and whether the plugins here serve one that is no Pod's is not known.
    Unlisted { says: String },
    /// None that is younger than the kubelet and the agent, none on its way, and nobody who may make one.
    Nobody,
}

/// What came of asking the API server to reach this node's kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KubeletReach {
    /// The kubelet answered, whatever it said.
    Answered,
    /// The kubelet answered that it does not let the API server in: its words.
    Refused { says: String },
    /// The same, as it does not know the API server's certificate; `by_another_ca`: the CA that it lets in is not the one that
    /// it trusts itself.
    Unknown { says: String, by_another_ca: bool },
    /// It was reached, and TLS failed: what the API server says.
    Untrusted { says: String },
    /// It was not: what the API server says.
    Unanswered { says: String },
}

impl KubeletReach {
    /// Packets of the API server come to the kubelet, and its own go back.
    pub fn is_reached(&self) -> bool {
        match self {
            KubeletReach::Answered
            | KubeletReach::Refused { .. }
            | KubeletReach::Unknown { .. }
            | KubeletReach::Untrusted { .. } => true,
            KubeletReach::Unanswered { .. } => false,
        }
    }
}

/// Handshakes with pods of other nodes, and what else speaks of the way to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerDial {
    pub peers: Vec<Peer>,
    /// Who waits has waited: other nodes learn of this one within seconds, and then their pods answer.
    #[serde(default)]
    pub has_lasted: bool,
    /// None answered a pod here, and one of them the machine itself.
    #[serde(default)]
    pub reached_by_machine: bool,
    /// Where none answered: what on this machine keeps packets from them.
    pub signs: Vec<Evidence>,
}

impl PeerDial {
    pub fn is_answered(&self) -> bool {
        self.peers.iter().any(|peer| peer.answer == Dialled::Answered)
    }

    /// Somebody was dialled, and nobody answered.
    pub fn is_unanswered(&self) -> bool {
        let was_dialled = |peer: &Peer| !matches!(peer.answer, Dialled::NotDialled(_));
        !self.is_answered() && self.peers.iter().any(was_dialled)
    }

    /// A pod here has got an answer of a pod elsewhere.
    pub fn is_answered_to_a_pod(&self) -> bool {
        self.peers.iter().any(|peer| peer.from == DialledFrom::Pod && peer.answer == Dialled::Answered)
    }
}

/// A pod of another node that is Ready, as it was dialled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// `NAMESPACE/NAME`.
    pub pod: String,
    pub node: String,
    pub at: SocketAddr,
    pub from: DialledFrom,
    pub answer: Dialled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DialledFrom {
    /// The network of a sandbox, or of a Pod, on this node.
    Pod,
    Machine,
}

/// What came of a TCP handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialled {
    Answered,
    /// By the pod, or by a firewall on the way: neither is told from the other.
    Refused,
    /// The machine's own network, or one on the way, knows no route.
    Unreachable(String),
    Silent,
    /// It could not be tried, or was cut off: nothing is known.
    NotDialled(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPod {
    pub name: String,
    /// Restarts while it was watched.
    pub restarts: u64,
    /// Why it last ended.
    pub why: String,
    /// What a container of it waits for instead of running: `CrashLoopBackOff`.
    #[serde(default)]
    pub down: Option<String>,
    /// It is of kube-proxy: a node's pod network can be ready without it.
    #[serde(default)]
    pub is_kube_proxy: bool,
    /// It runs, and all its containers are ready.
    #[serde(default)]
    pub ready: bool,
    /// What the container says that waits, or ended last.
    #[serde(default)]
    pub says: String,
    /// The pod network it is an agent of.
    #[serde(default)]
    pub network: Option<String>,
    /// The ids of its containers that run, as the API server has it.
    #[serde(default)]
    pub running: Vec<String>,
    /// What kube-proxy says of itself where it does not write its rules: its pod is Ready all the same.
    #[serde(default)]
    pub lags: Option<String>,
}

impl AgentPod {
    pub(crate) fn waits_for_its_image(&self) -> bool {
        self.down
            .as_deref()
            .is_some_and(|down| ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"].contains(&down))
    }

    /// Held back after it ended. A flannel that starts before kube-proxy's rules are there is so once or twice, and is well.
    pub(crate) fn is_crash_looping(&self) -> bool {
        self.down.as_deref() == Some("CrashLoopBackOff")
    }

    /// A container of it could not be started, or ended.
    pub(crate) fn is_failing(&self) -> bool {
        self.down.as_deref().is_some_and(|down| {
            ["CrashLoopBackOff", "RunContainerError", "CreateContainerError", "StartError"].contains(&down)
        })
    }

    /// How it stands with one that is not ready.
    pub(crate) fn state(&self) -> String {
        let state = match (&self.down, self.restarts) {
            (None, restarts) => format!("not ready, {restarts} restarts; last: {}", self.why),
            (Some(down), 0) => down.clone(),
            (Some(down), restarts) => format!("{down}, {restarts} restarts; last: {}", self.why),
        };
        if self.says.is_empty() { state } else { format!("{state}: {}", self.says) }
    }

    /// What shows why it is not ready.
    pub(crate) fn look(&self) -> String {
        let (namespace, pod) = self.name.split_once('/').unwrap_or(("default", &self.name));
        if self.restarts > 0 {
            return format!("kubectl -n {namespace} logs --previous --all-containers {pod}");
        }
        format!("kubectl -n {namespace} describe pod {pod}")
    }
}
