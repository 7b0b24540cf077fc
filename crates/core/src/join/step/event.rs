//! What the driver saw.

use std::net::IpAddr;

use crate::fact::Why;
use crate::join::existing::ExistingJoin;
use crate::join::failure::JoinCause;
use crate::join::output::Milestone;
use crate::join::verify::{
    AgentPod, CertificateRequest, ClientCertificate, ClusterPins, ContainerStart, KeptOff, Kubelet, KubeletReach,
    LeaseRenewal, Node, PeerDial, RuntimeConditions, Sandbox, StandIn, StandingCause,
};
use crate::stop::StopSignal;

/// What the driver saw. A look that failed says why, and counts as nothing seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one is taken at a time; none is kept")]
pub enum JoinEvent {
    /// After [`super::JoinEffect::Observe`].
    Found(ExistingJoin),
    /// After [`super::JoinEffect::RemoveNode`] or [`super::JoinEffect::MarkNotReady`].
    NodeCleared,
    /// After [`super::JoinEffect::WakeKubelet`].
    Woken,
    /// After [`super::JoinEffect::Observe`], where it is not even known what is here: why, and what else forbids a join.
    Unfit(Vec<JoinCause>),
    /// After [`super::JoinEffect::Check`]: what forbids a join, and whether `--fix` changed something.
    Checked {
        blockers: Vec<JoinCause>,
        fixed: bool,
    },
    /// After [`super::JoinEffect::Prepare`].
    Prepared,
    /// After [`super::JoinEffect::StartKubeadm`].
    Started,
    /// kubeadm printed something of note.
    Kubeadm(Milestone),
    /// kubeadm's unit ended: with a status, or killed or lost without one; what [`crate::join::output::causes`] found in its output.
    KubeadmEnded {
        status: Option<i32>,
        causes: Vec<JoinCause>,
    },
    /// The kubelet of this attempt, or a container of its pod network, ended by itself; why, by its last words
    /// ([`crate::join::causes::of_ended_kubelet`]). Each end once.
    ProgramEnded {
        who: String,
        causes: Vec<JoinCause>,
    },
    Kubelet(Result<Kubelet, Why>),
    Request(Result<CertificateRequest, Why>),
    Certificate(Result<ClientCertificate, Why>),
    Cluster(Result<ClusterPins, Why>),
    Node(Result<Node, Why>),
    Lease(Result<LeaseRenewal, Why>),
    /// Why the API server would not take the lease that there is not yet.
    LeaseRefused(Option<String>),
    Runtime(Result<RuntimeConditions, Why>),
    /// This machine's own addresses.
    Addresses(Result<Vec<IpAddr>, Why>),
    /// The network's and kube-proxy's pods on this node.
    Agents(Result<Vec<AgentPod>, Why>),
    /// The DaemonSet of kube-proxy's that selects this Node.
    KubeProxySet(Result<Option<String>, Why>),
    /// That of a known pod network.
    NetworkSet(Result<Option<String>, Why>),
    /// The DaemonSet of the pod network's that a taint keeps off this Node.
    KeptOff(Result<Option<KeptOff>, Why>),
    /// After [`super::JoinEffect::Sandbox`].
    Tried(Box<PodTrial>),
    /// Far ends of this node's tunnels that are reached otherwise than its agent's address says.
    Detours(Result<Vec<String>, Why>),
    /// After [`super::JoinEffect::LookForCauses`].
    Standing(Result<Vec<StandingCause>, Why>),
    /// Live diagnosis knows a cause: a full disk, a line that nothing excuses, what kubeadm retries for.
    Trouble(JoinCause),
    /// What was told under this id is over: a later line clears it.
    Passed(String),
    /// What was to be done before kubeadm runs could not be: nothing else will come of this attempt.
    Failed(JoinCause),
    /// After [`super::JoinEffect::Finish`]; whether that changed something besides taking away what is ours.
    Finished {
        changed: bool,
    },
    /// Somebody said stop. `at_work`: kubeadm runs in its unit.
    Interrupted {
        signal: StopSignal,
        at_work: bool,
    },
    /// After [`super::JoinEffect::Halt`]: whether the kubelet has its certificate.
    Halted {
        certificate: bool,
    },
    /// Time has passed; at least one a second, and one at the deadline.
    Tick,
}

/// What came of trying whether a pod runs here, and is reached; all of it at once, so that nothing is taken for joined before
/// the rest was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTrial {
    /// `Why::Broken` is what the runtime said.
    pub sandbox: Result<Sandbox, Why>,
    pub stand_in: Option<StandIn>,
    pub container: Option<ContainerStart>,
    pub reach: Result<KubeletReach, Why>,
    pub peers: Result<PeerDial, Why>,
    /// What the runtime's refusal of a sandbox is known to mean ([`crate::join::causes::of_refusal`]).
    pub refused_for: Vec<JoinCause>,
}

impl PodTrial {
    /// Of who has no admin's rights: nothing is seen from outside.
    pub fn of(sandbox: Result<Sandbox, Why>) -> Self {
        let (reach, peers) = (Err(Why::NotAdmin), Err(Why::NotAdmin));
        PodTrial { sandbox, stand_in: None, container: None, reach, peers, refused_for: Vec::new() }
    }
}
