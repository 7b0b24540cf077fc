//! What was seen of a machine that has joined, or is about to; of each thing the last look, or why there was none.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::fact::Why;
use crate::fact::cidr::Cidr;

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
    /// The node's CNI and kube-proxy pods, watched for a while (`--soak`); without that, those caught in a loop.
    pub pods: Result<Vec<AgentPod>, Why>,
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
            pods: Err(Why::NotCollected),
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
}

/// The CA the kubelet trusts, and the one of the cluster that was asked for, as pins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPins {
    pub own: String,
    pub asked: String,
}

/// The Node of this machine's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    /// [`crate::fact::identity::MachineIdentity::is`]: `None` where the ids are empty or shared and prove nothing.
    pub identity: Option<bool>,
    /// Its ids and address, as a person compares them.
    pub whose: String,
    pub ready: bool,
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
}

impl Node {
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}
