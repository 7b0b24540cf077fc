//! The only place where a join changes state. Everything it needs comes in; nothing is read here.
//!
//! `now` is to go forward evenly: the time at which the run began and what a monotonic clock counted since, so that a clock
//! that is set in mid-join ends nothing early.

#![deny(clippy::match_wildcard_for_single_variants, clippy::wildcard_enum_match_arm)]

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use super::causes;
use super::existing::{Decision, ExistingJoin, decide};
use super::failure::{self, Circumstance, JoinCause, JoinFailure, worst};
use super::output::Milestone;
use super::state::{JoinPolicy, JoinStatus, Memory, Stage, later};
use super::verify::{
    AgentPod, CertificateRequest, ClientCertificate, ClusterPins, ContainerStart, Kubelet, KubeletHalt, KubeletReach,
    LeaseRenewal, Node, NodeEvidence, NodeLease, PeerDial, RuntimeConditions, Sandbox, Signing, StandIn, StandingCause,
    Until, failures, first_lacking, first_missing, forbidding, holds, holds_but_causes, holds_but_for_a_pod,
    is_overruled, is_unreached, lacks_only, only_causes_are_open, unreached,
};
use super::{observed, verify};
use crate::catalogue::{self, Class, Stops};
use crate::check::Subsystem;
use crate::fact::Why;
use crate::id;
use crate::report::Confidence;
use crate::stop::StopSignal;

/// A request that nobody has signed by then is told: the usual signer takes a second or two.
const UNSIGNED: SignedDuration = SignedDuration::from_secs(20);
/// A runtime that is restarted answers again sooner than this.
const RUNTIME_DOWN: SignedDuration = SignedDuration::from_secs(3);
/// One that takes long to answer may only be busy: with images, or on a machine that is.
const RUNTIME_SILENT: SignedDuration = SignedDuration::from_secs(20);
/// How often the Node that stands in the way is looked at.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// Between two sandboxes: the network agent may be a moment behind the CNI configuration, and a refusal costs the runtime 0.1 s.
const SANDBOX_AGAIN: SignedDuration = SignedDuration::from_millis(300);
/// A network agent that is behind its configuration is so for seconds; who refuses every sandbox for longer will go on.
const REFUSES: SignedDuration = SignedDuration::from_secs(20);
/// Who refuses sandboxes for what no network agent sets right any more is asked once more, and believed.
const REFUSES_FOR_GOOD: SignedDuration = SignedDuration::from_secs(1);
/// Between two looks for a Pod that proves the network: each may make one.
const POD_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// Who places pods does so within a second of a Node's registration: after this no more is on its way.
const NO_MORE_PODS: SignedDuration = SignedDuration::from_secs(5);
/// Between two tries to reach this node, or others from it, from outside.
const REACH_AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// The agents of other nodes learn of this one within a second or two; who is not reached for longer will not be.
pub const UNREACHED: SignedDuration = SignedDuration::from_secs(10);
/// A kubelet that a restart of its runtime took along comes back once; one that ended twice will end again.
const CRASH_LOOP: u64 = 2;
/// A kubelet that somebody restarts by hand is back sooner than this.
const KUBELET_STOPPED: SignedDuration = SignedDuration::from_secs(3);
/// Exit statuses of "not found", of a shell and of systemd.
const NOT_FOUND: [i32; 2] = [127, 203];
/// Between two looks for causes: each reads all there is to see of a machine, which takes about a second.
const CAUSES_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// How many things that may pass are remembered.
const MOST_TROUBLES: usize = 8;
/// What fails for so long once the network is there is told. Kubernetes takes its taints away every 5 s: few joins see this.
const FAILS: SignedDuration = SignedDuration::from_secs(4);

/// What the driver saw. A look that failed says why, and counts as nothing seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one is taken at a time; none is kept")]
pub enum JoinEvent {
    /// After [`JoinEffect::Observe`].
    Found(ExistingJoin),
    /// After [`JoinEffect::RemoveNode`] or [`JoinEffect::MarkNotReady`].
    NodeCleared,
    /// After [`JoinEffect::WakeKubelet`].
    Woken,
    /// After [`JoinEffect::Observe`], where it is not even known what is here: why, and what else forbids a join.
    Unfit(Vec<JoinCause>),
    /// After [`JoinEffect::Check`]: what forbids a join, and whether `--fix` changed something.
    Checked {
        blockers: Vec<JoinCause>,
        fixed: bool,
    },
    /// After [`JoinEffect::Prepare`].
    Prepared,
    /// After [`JoinEffect::StartKubeadm`].
    Started,
    /// kubeadm printed something of note.
    Kubeadm(Milestone),
    /// kubeadm's unit ended: with a status, or killed or lost without one; what [`super::output::causes`] found in its output.
    KubeadmEnded {
        status: Option<i32>,
        causes: Vec<JoinCause>,
    },
    /// The kubelet of this attempt, or a container of its pod network, ended by itself; why, by its last words
    /// ([`super::causes::of_ended_kubelet`]). Each end once.
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
    /// After [`JoinEffect::Sandbox`].
    Tried(Box<PodTrial>),
    /// Far ends of this node's tunnels that are reached otherwise than its agent's address says.
    Detours(Result<Vec<String>, Why>),
    /// After [`JoinEffect::LookForCauses`].
    Standing(Result<Vec<StandingCause>, Why>),
    /// Live diagnosis knows a cause: a full disk, a line that nothing excuses, what kubeadm retries for.
    Trouble(JoinCause),
    /// What was told under this id is over: a later line clears it.
    Passed(String),
    /// What was to be done before kubeadm runs could not be: nothing else will come of this attempt.
    Failed(JoinCause),
    /// After [`JoinEffect::Finish`]; whether that changed something besides taking away what is ours.
    Finished {
        changed: bool,
    },
    /// Somebody said stop. `at_work`: kubeadm runs in its unit.
    Interrupted {
        signal: StopSignal,
        at_work: bool,
    },
    /// After [`JoinEffect::Halt`]: whether the kubelet has its certificate.
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
    /// What the runtime's refusal of a sandbox is known to mean ([`causes::of_refusal`]).
    pub refused_for: Vec<JoinCause>,
}

impl PodTrial {
    /// Of who has no admin's rights: nothing is seen from outside.
    pub fn of(sandbox: Result<Sandbox, Why>) -> Self {
        let (reach, peers) = (Err(Why::NotAdmin), Err(Why::NotAdmin));
        PodTrial { sandbox, stand_in: None, container: None, reach, peers, refused_for: Vec::new() }
    }
}

/// What the driver is to do. Each is done in order, before the next event is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinEffect {
    /// Look at the machine ([`super::existing::LocalJoin::of`]), at our kubeadm unit, at the Node of this name and its lease.
    Observe,
    /// Delete this Node, with the admin's rights, and record it. Where that fails: [`JoinEvent::Failed`].
    RemoveNode {
        name: String,
        says: String,
    },
    /// Say of this Node, this machine's own, that it is not ready, with the admin's rights. Where that fails:
    /// [`JoinEvent::Failed`].
    MarkNotReady {
        name: String,
        says: String,
    },
    /// Start the kubelet that is here.
    WakeKubelet,
    /// Run the checks; with `--fix`: plan, consent, apply, check again.
    Check,
    /// Carry out the plan of preparation. What of it fails is [`JoinEvent::Failed`].
    Prepare,
    /// Write the JoinConfiguration, 0600, and start kubeadm's unit.
    StartKubeadm,
    /// Follow the unit that runs, its output from the beginning.
    Attach,
    /// Not before then: have the runtime make a sandbox, and take it away again.
    Sandbox {
        not_before: Timestamp,
    },
    /// Not before then: look as live diagnosis does for what keeps pods from running here.
    LookForCauses {
        not_before: Timestamp,
    },
    /// Say this to the person; nothing follows from it.
    Tell(String),
    /// The evidence is complete: remove secret files, revoke a token of ours, uncordon what our reset cordoned, release the
    /// kubelet's drop-in.
    Finish,
    /// Not all came that was asked for, and the machine stays in the cluster: remove secret files, release the kubelet's
    /// drop-in.
    Leave,
    /// End kubeadm's unit and the kubelet, and remove what this attempt is proven to have left.
    CleanUp,
    /// End kubeadm, unless the kubelet has its certificate, and look once more whether it has.
    Halt,
    /// Find the cause while everything still stands as it failed.
    Diagnose,
    Report(JoinOutcome),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinOutcome {
    Joined {
        until: Until,
        /// It had been before: nothing was changed.
        already: bool,
    },
    /// All holds but what only a Pod of the cluster could prove, and none is on its way: the machine stays in the cluster.
    Unproven {
        /// What could not be told.
        says: String,
    },
    Failed(JoinFailure),
    /// A signal ended it.
    Interrupted {
        signal: StopSignal,
        /// How far it had come.
        stage: Stage,
        stays: Withdrawal,
    },
}

/// What becomes of a join that was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// What it had changed is put back.
    PutBack,
    /// The kubelet has its certificate: the machine is in the cluster, and stays there.
    InCluster,
    /// kubeadm goes on in its unit; the next join follows it.
    AtWork,
}

impl JoinEffect {
    /// Whether it is still made for somebody who said stop: it ends something, and begins nothing.
    pub fn ends(&self) -> bool {
        match self {
            JoinEffect::Finish
            | JoinEffect::Leave
            | JoinEffect::CleanUp
            | JoinEffect::Halt
            | JoinEffect::Diagnose
            | JoinEffect::Tell(_)
            | JoinEffect::Report(_) => true,
            JoinEffect::Observe
            | JoinEffect::RemoveNode { .. }
            | JoinEffect::MarkNotReady { .. }
            | JoinEffect::WakeKubelet
            | JoinEffect::Check
            | JoinEffect::Prepare
            | JoinEffect::StartKubeadm
            | JoinEffect::Attach
            | JoinEffect::Sandbox { .. }
            | JoinEffect::LookForCauses { .. } => false,
        }
    }
}

impl JoinStatus {
    /// A new join.
    pub fn begin(policy: JoinPolicy, now: Timestamp) -> (JoinStatus, Vec<JoinEffect>) {
        let mut state = JoinStatus {
            stage: Stage::Begun,
            since: now,
            deadline: now,
            attempt: 1,
            policy,
            seen: NodeEvidence::default(),
            failures: Vec::new(),
            troubles: Vec::new(),
            changed: false,
            memory: Memory::default(),
        };
        let effects = state.look(now);
        (state, effects)
    }
}

/// What follows from an event.
pub fn step(state: &JoinStatus, event: &JoinEvent, now: Timestamp) -> (JoinStatus, Vec<JoinEffect>) {
    let mut next = state.clone();
    if state.stage.is_over() {
        return (next, Vec::new());
    }
    // Who was told to stop is past every deadline.
    if let JoinEvent::Interrupted { signal, at_work } = event {
        let effects = next.interrupted(*signal, *at_work, now);
        return (next, effects);
    }
    if let JoinEvent::Halted { certificate } = event {
        let effects = next.halted(*certificate, now);
        return (next, effects);
    }
    let mut effects = next.take(event, now);
    let moved = (next.stage, next.attempt) != (state.stage, state.attempt);
    if !moved && now >= next.deadline {
        effects = next.end_of_time(now);
    }
    (next, effects)
}

/// The API server has said something, whatever it was.
fn has_answered(event: &JoinEvent) -> bool {
    matches!(event, JoinEvent::Request(Ok(_) | Err(Why::Absent)) | JoinEvent::Node(Ok(_)) | JoinEvent::Lease(Ok(_)))
}

impl JoinStatus {
    /// The table: stage and event.
    fn take(&mut self, event: &JoinEvent, now: Timestamp) -> Vec<JoinEffect> {
        match (self.stage, event) {
            (Stage::Verified, JoinEvent::Finished { changed }) => {
                self.changed |= changed;
                self.joined(now)
            }
            (Stage::Waiting | Stage::Verified, _) => Vec::new(),
            (Stage::Begun | Stage::Blocked, JoinEvent::Found(found)) => {
                let decision = decide(found, self.policy.replace_node, self.has_waited_for_a_certificate());
                self.decided(decision, found, now)
            }
            (Stage::Begun | Stage::Blocked, JoinEvent::Unfit(causes)) => self.fail_for_all(causes.clone(), now),
            (Stage::Blocked, JoinEvent::NodeCleared) => {
                self.memory.node_cleared = true;
                self.enter(Stage::Begun, now);
                vec![JoinEffect::Observe]
            }
            (Stage::Blocked, JoinEvent::Tick) => self.look_again(now),
            (Stage::Begun | Stage::Blocked, JoinEvent::Woken) => {
                self.changed = true;
                self.memory.bootstrap_since = Some(now);
                self.enter(Stage::CertificateIssued, now);
                Vec::new()
            }
            (Stage::Unjoined, JoinEvent::Checked { blockers, fixed }) => self.checked(blockers, *fixed, now),
            (Stage::Probed, JoinEvent::Prepared) => {
                self.enter(Stage::Prepared, now);
                vec![JoinEffect::StartKubeadm]
            }
            (Stage::Prepared, JoinEvent::Started) => {
                self.enter(Stage::Joining, now);
                Vec::new()
            }
            (stage, JoinEvent::Failed(cause)) if stage < Stage::Joining => self.fail_for(cause.clone(), now),
            (_, JoinEvent::Trouble(cause)) => self.trouble(cause, now),
            (_, JoinEvent::Passed(id)) => {
                self.troubles.retain(|trouble| trouble.id != *id);
                Vec::new()
            }
            (stage, JoinEvent::ProgramEnded { who, causes }) if stage >= Stage::Joining => {
                self.program_ended(who, causes, now)
            }
            (stage, JoinEvent::Kubeadm(milestone)) if stage >= Stage::Joining => self.noted(milestone, now),
            (stage, JoinEvent::KubeadmEnded { status, causes }) if stage >= Stage::Joining => {
                self.kubeadm_ended(*status, causes, now)
            }
            (stage, event) if stage >= Stage::Joining => self.observed(event, now),
            _ => Vec::new(),
        }
    }

    fn enter(&mut self, stage: Stage, now: Timestamp) {
        let wait = self.policy.wait(stage);
        if stage == Stage::Registered {
            self.memory.registered_since = Some(now);
        }
        self.stage = stage;
        self.since = now;
        self.deadline = match (stage, self.memory.bootstrap_since) {
            // One budget from the kubelet's start to its certificate, whatever comes between.
            (Stage::KubeletUp | Stage::CertificateRequested, Some(began)) => later(began, wait),
            _ => later(now, wait),
        };
    }

    /// The beginning of an attempt: nothing of what was known counts.
    fn look(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        self.seen = NodeEvidence::default();
        self.troubles.clear();
        self.memory = Memory::default();
        self.enter(Stage::Begun, now);
        vec![JoinEffect::Observe]
    }

    fn decided(&mut self, decision: Decision, found: &ExistingJoin, now: Timestamp) -> Vec<JoinEffect> {
        match decision {
            Decision::Refuse { cause } => {
                let others: Vec<JoinCause> = found.other_blockers(&cause).cloned().collect();
                self.fail_for_all([cause].into_iter().chain(others), now)
            }
            // A Node is neither waited for nor removed for a machine that is not fit.
            Decision::Wait { .. } | Decision::Remove { .. } | Decision::Unready { .. } if self.is_unfit(found) => {
                self.fail_for_all(found.blockers.clone(), now)
            }
            Decision::Join { says } => {
                self.enter(Stage::Unjoined, now);
                vec![JoinEffect::Tell(says), JoinEffect::Check]
            }
            Decision::Attach { since, says } => {
                self.changed = true;
                self.memory.attached_since = Some(since);
                self.enter(Stage::Joining, now);
                vec![JoinEffect::Tell(says), JoinEffect::Attach]
            }
            Decision::Watch { bootstrapping: true, says } => {
                // A join that was begun before ends now.
                self.changed = true;
                self.memory.bootstrap_since = Some(now);
                self.enter(Stage::KubeletUp, now);
                vec![JoinEffect::Tell(says)]
            }
            Decision::Watch { bootstrapping: false, says } => {
                self.memory.bootstrap_since = Some(now);
                self.enter(Stage::CertificateIssued, now);
                vec![JoinEffect::Tell(says)]
            }
            Decision::Wake { says } => vec![JoinEffect::Tell(says), JoinEffect::WakeKubelet],
            Decision::Wait { says, else_told } => {
                self.memory.else_told = vec![else_told];
                self.memory.look_again = Some(later(now, LOOK_AGAIN));
                self.block(now).then_some(JoinEffect::Tell(says)).into_iter().collect()
            }
            Decision::Remove { node, .. } | Decision::Unready { node, .. } if self.memory.node_cleared => {
                let says = format!("the Node {node} came back: another machine keeps it alive");
                self.fail_for(JoinCause::of(id!("api.node-name"), says), now)
            }
            Decision::Remove { node, says } => {
                self.changed = true;
                self.block(now);
                vec![JoinEffect::RemoveNode { name: node, says }]
            }
            Decision::Unready { node, says } => {
                self.changed = true;
                self.block(now);
                vec![JoinEffect::MarkNotReady { name: node, says }]
            }
        }
    }

    /// What the checks found will not pass, and nobody is to fix it.
    fn is_unfit(&self, found: &ExistingJoin) -> bool {
        !self.policy.fix && !worst(&found.blockers).may_pass()
    }

    /// An attempt before this one ended with a kubelet that asked, and got nothing.
    fn has_waited_for_a_certificate(&self) -> bool {
        let waited = |failure: &JoinFailure| {
            matches!(failure.stage, Stage::KubeletUp | Stage::CertificateRequested) && failure.overdue
        };
        self.failures.iter().any(waited)
    }

    /// Blocked; whether it was not before. The deadline is that of the first time.
    fn block(&mut self, now: Timestamp) -> bool {
        let newly = self.stage != Stage::Blocked;
        if newly {
            self.enter(Stage::Blocked, now);
        }
        newly
    }

    fn look_again(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        if self.memory.look_again.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.memory.look_again = Some(later(now, LOOK_AGAIN));
        vec![JoinEffect::Observe]
    }

    fn checked(&mut self, blockers: &[JoinCause], fixed: bool, now: Timestamp) -> Vec<JoinEffect> {
        self.changed |= fixed;
        if !blockers.is_empty() {
            return self.fail_for_all(blockers.to_vec(), now);
        }
        if fixed && !self.memory.fixed {
            // What was fixed may have been a join: look once more.
            self.memory.fixed = true;
            self.enter(Stage::Begun, now);
            return vec![JoinEffect::Observe];
        }
        self.changed = true;
        self.enter(Stage::Probed, now);
        vec![JoinEffect::Prepare]
    }

    fn noted(&mut self, milestone: &Milestone, now: Timestamp) -> Vec<JoinEffect> {
        if *milestone != Milestone::KubeletStarted || self.memory.bootstrap_since.is_some() {
            return Vec::new();
        }
        // Of a kubelet that an earlier driver saw start it is not known when: not before kubeadm did.
        let began = self.memory.attached_since.unwrap_or(now);
        self.memory.bootstrap_since = Some(began);
        self.memory.restarts_before = Some(0);
        self.deadline = later(began, self.policy.bootstrap());
        // What was seen of a kubelet before this one proves nothing, and accuses nobody.
        self.seen = NodeEvidence { runtime: self.seen.runtime.clone(), ..NodeEvidence::default() };
        Vec::new()
    }

    /// kubeadm's failure is one; its success is only a word.
    fn kubeadm_ended(&mut self, status: Option<i32>, causes: &[JoinCause], now: Timestamp) -> Vec<JoinEffect> {
        // A kubelet whose kubeadm was killed has its token still, and goes on alone.
        let goes_on = status == Some(0)
            || self.stage >= Stage::CertificateIssued
            || (status.is_none() && self.stage >= Stage::KubeletUp);
        if goes_on {
            return Vec::new();
        }
        match status {
            Some(status) if NOT_FOUND.contains(&status) => {
                let says = format!("kubeadm could not be executed (status {status})");
                self.fail_for(JoinCause::of(id!("kubeadm.installed"), says), now)
            }
            _ => {
                let causes: Vec<JoinCause> = causes.iter().cloned().map(causes::as_met_by_kubeadm).collect();
                let why = causes
                    .first()
                    .map_or_else(|| "without a reason that is known".to_owned(), |cause| cause.says.clone());
                let how = status.map_or_else(|| "was killed".to_owned(), |status| format!("failed (status {status})"));
                self.fail(format!("kubeadm {how}: {why}"), causes, now)
            }
        }
    }

    /// It is started again. What may pass is told meanwhile; what will not ends it at the first time.
    fn program_ended(&mut self, who: &str, causes: &[JoinCause], now: Timestamp) -> Vec<JoinEffect> {
        if let Some(first) = causes.first().filter(|_| !worst(causes).may_pass()) {
            return self.fail(format!("{who} ended: {}", first.says), causes.to_vec(), now);
        }
        let mut told = Vec::new();
        for cause in causes {
            told.extend(self.remember(cause).then(|| JoinEffect::Tell(cause.says.clone())));
        }
        told
    }

    /// What may pass is told and remembered; for what will not, there is no waiting.
    fn trouble(&mut self, cause: &JoinCause, now: Timestamp) -> Vec<JoinEffect> {
        if !cause.class().may_pass() && cause.confidence > Confidence::Possible {
            return self.fail_for(cause.clone(), now);
        }
        let is_new = self.remember(cause);
        // A sandbox or two are refused in every join; that is seen in the line that lives, and is over when it ends. So is what
        // only may be a cause.
        let is_usual = self.stage >= Stage::NetworkReady && cause.subsystem == Subsystem::Cni;
        let worth_a_line = is_new && !is_usual && cause.confidence > Confidence::Possible;
        worth_a_line.then(|| JoinEffect::Tell(cause.says.clone())).into_iter().collect()
    }

    /// Keeps it for the end of the stage; whether it is news.
    fn remember(&mut self, cause: &JoinCause) -> bool {
        let known = self.troubles.len();
        self.troubles.retain(|known| known.id != cause.id);
        let is_new = self.troubles.len() == known;
        if self.troubles.len() >= MOST_TROUBLES {
            self.troubles.remove(0);
        }
        self.troubles.push(cause.clone());
        is_new
    }

    /// Evidence: kept, looked at for what ends the join early, and for what it proves.
    fn observed(&mut self, event: &JoinEvent, now: Timestamp) -> Vec<JoinEffect> {
        let seen = &mut self.seen;
        match event {
            JoinEvent::Kubelet(kubelet) => {
                seen.kubelet.clone_from(kubelet);
                // The machine is reached again.
                self.troubles.retain(|trouble| !causes::is_lost_link(trouble));
            }
            JoinEvent::Request(request) => seen.request.clone_from(request),
            JoinEvent::Certificate(certificate) => seen.certificate.clone_from(certificate),
            JoinEvent::Cluster(cluster) => seen.cluster.clone_from(cluster),
            JoinEvent::Node(node) => seen.node.clone_from(node),
            JoinEvent::Runtime(runtime) => seen.runtime.clone_from(runtime),
            JoinEvent::Tried(trial) => {
                let PodTrial { sandbox, stand_in, container, reach, peers, refused_for: _ } = trial.as_ref().clone();
                (seen.sandbox, seen.stand_in, seen.container) = (sandbox, stand_in, container);
                (seen.reach, seen.peers) = (reach, peers);
            }
            JoinEvent::Addresses(addresses) => seen.addresses.clone_from(addresses),
            JoinEvent::Agents(agents) => seen.agents.clone_from(agents),
            JoinEvent::KubeProxySet(set) => seen.kube_proxy_set.clone_from(set),
            JoinEvent::NetworkSet(set) => seen.network_set.clone_from(set),
            JoinEvent::Detours(detours) => seen.detours.clone_from(detours),
            JoinEvent::Standing(standing) => seen.standing.clone_from(standing),
            JoinEvent::LeaseRefused(says) => seen.lease_refusal.clone_from(says),
            JoinEvent::Lease(Err(why)) => seen.lease = Err(why.clone()),
            JoinEvent::Lease(Ok(last)) => {
                let first = seen.lease.as_ref().map_or_else(|_| last.clone(), |lease| lease.first.clone());
                seen.lease = Ok(NodeLease { first, last: last.clone() });
            }
            // No evidence: the table has taken them, or there was nothing to see.
            JoinEvent::Found(_)
            | JoinEvent::NodeCleared
            | JoinEvent::Woken
            | JoinEvent::Unfit(_)
            | JoinEvent::Checked { .. }
            | JoinEvent::Prepared
            | JoinEvent::Started
            | JoinEvent::Kubeadm(_)
            | JoinEvent::KubeadmEnded { .. }
            | JoinEvent::ProgramEnded { .. }
            | JoinEvent::Trouble(_)
            | JoinEvent::Passed(_)
            | JoinEvent::Failed(_)
            | JoinEvent::Finished { .. }
            | JoinEvent::Interrupted { .. }
            | JoinEvent::Halted { .. }
            | JoinEvent::Tick => {}
        }
        self.mind_runtime(now);
        if let JoinEvent::Kubelet(Ok(kubelet)) = event {
            self.memory.restarts_before.get_or_insert(kubelet.restarts);
            self.mind_stopped(kubelet, now);
        }
        if has_answered(event) {
            self.troubles.retain(|trouble| trouble.id != causes::silent_api());
        }
        if let Some(cause) = self.hopeless(now) {
            // What was heard besides may say more.
            let others = std::mem::take(&mut self.troubles).into_iter().rev().filter(|other| other.id != cause.id);
            let (says, others) = (cause.says.clone(), others.collect::<Vec<_>>());
            return self.fail(says, [cause].into_iter().chain(others).collect(), now);
        }
        if let JoinEvent::Tried(trial) = event
            && let Some(effects) = self.mind_trial(trial, now)
        {
            return effects;
        }
        let mut effects = self.mind_refusal(event, now);
        effects.extend(self.mind_silence(event));
        effects.extend(self.mind_request(now));
        if let JoinEvent::Agents(Ok(agents)) = event {
            effects.extend(self.mind_agents(agents, now));
        }
        if let JoinEvent::Tried(_) = event
            && self.stage == Stage::NetworkReady
        {
            effects.extend(self.try_again(now));
        }
        effects.extend(self.advance(now));
        if let Some(ended) = self.mind_causes(event, now) {
            return ended;
        }
        effects.extend(self.look_for_causes(event, now));
        effects.extend(self.mind_failure(now));
        effects
    }

    /// Whether nothing but causes keeps this stage from leading to *verified*.
    fn only_causes_are_open(&self) -> bool {
        let is_last = self.stage == Stage::NetworkReady
            || (self.stage == Stage::Registered && self.policy.until == Until::Registered);
        is_last && only_causes_are_open(&self.seen, self.policy.until)
    }

    /// A cause that no waiting fixes is looked for once more, and believed. One that may pass is the cause when the time is over.
    fn mind_causes(&mut self, event: &JoinEvent, now: Timestamp) -> Option<Vec<JoinEffect>> {
        let JoinEvent::Standing(_) = event else { return None };
        let lasting = forbidding(&self.seen, self.policy.until).filter(|cause| !cause.class.may_pass());
        let lasting: Vec<String> = lasting.map(|cause| cause.id.clone()).collect();
        let known = std::mem::replace(&mut self.memory.condemned, lasting);
        if !self.only_causes_are_open() || !self.memory.condemned.iter().any(|id| known.contains(id)) {
            return None;
        }
        let mut causes: Vec<JoinCause> =
            forbidding(&self.seen, self.policy.until).map(StandingCause::as_cause).collect();
        causes.sort_by_key(|cause| cause.class().may_pass());
        let says = causes.first().map(|first| first.says.clone()).unwrap_or_default();
        Some(self.fail(says, causes, now))
    }

    /// Asked for when all else holds, and again for as long as something stands, or nobody could look.
    fn look_for_causes(&mut self, event: &JoinEvent, now: Timestamp) -> Option<JoinEffect> {
        if self.stage >= Stage::Verified {
            return None;
        }
        if !self.only_causes_are_open() {
            // What was found was of another moment.
            self.seen.standing = Err(Why::NotCollected);
            self.memory.looks_for_causes = false;
            return None;
        }
        let answered = matches!(event, JoinEvent::Standing(_));
        let wait = if answered { CAUSES_AGAIN } else { SignedDuration::ZERO };
        let asks = answered || !std::mem::replace(&mut self.memory.looks_for_causes, true);
        asks.then(|| JoinEffect::LookForCauses { not_before: later(now, wait) })
    }

    /// What holds the network's and kube-proxy's pods up is told once; what no longer does is forgotten.
    fn mind_agents(&mut self, agents: &[AgentPod], now: Timestamp) -> Vec<JoinEffect> {
        let held_up = observed::held_up(agents);
        let now_said: Vec<String> = held_up.iter().map(|cause| cause.id.clone()).collect();
        let over = std::mem::replace(&mut self.memory.held_up, now_said);
        self.troubles.retain(|known| !over.contains(&known.id) || self.memory.held_up.contains(&known.id));
        held_up.iter().flat_map(|cause| self.trouble(cause, now)).collect()
    }

    /// What fails of the evidence once the network is there, for longer than every start has it: its deadline may be minutes
    /// away.
    fn mind_failure(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        let failing =
            if self.stage == Stage::NetworkReady { failures(&self.seen, self.policy.until) } else { Vec::new() };
        let Some(cause) = failing.into_iter().next() else {
            self.memory.failing = None;
            return Vec::new();
        };
        let (id, since, told) =
            self.memory.failing.take().filter(|(id, ..)| *id == cause.id).unwrap_or((cause.id.clone(), now, false));
        let is_trouble = |known: &JoinCause| known.id == id && known.subsystem != Subsystem::Cni;
        let is_told = told || self.troubles.iter().any(is_trouble);
        let due = !is_told && now >= later(since, FAILS);
        self.memory.failing = Some((id, since, is_told || due));
        due.then_some(JoinEffect::Tell(cause.says)).into_iter().collect()
    }

    /// What was tried and does not hold ends the join once it has lasted.
    fn mind_trial(&mut self, trial: &PodTrial, now: Timestamp) -> Option<Vec<JoinEffect>> {
        self.mind_sandbox(trial, now).or_else(|| self.mind_reach(now)).or_else(|| self.mind_proof(now))
    }

    /// When what does not hold yet is tried again.
    fn try_again(&self, now: Timestamp) -> Option<JoinEffect> {
        let pause = match &self.seen.sandbox {
            Ok(sandbox) if sandbox.is_in_range() != Some(false) => is_unreached(&self.seen).then_some(REACH_AGAIN)?,
            // No pod is on its way here yet; or the cluster did not take one, or could not be asked.
            Err(Why::Absent | Why::Busy(_) | Why::Unreachable(_) | Why::Denied) => POD_AGAIN,
            Ok(_) | Err(_) => SANDBOX_AGAIN,
        };
        Some(JoinEffect::Sandbox { not_before: later(now, pause) })
    }

    /// Nobody reaches this node, or it nobody.
    fn mind_reach(&mut self, now: Timestamp) -> Option<Vec<JoinEffect>> {
        if !is_unreached(&self.seen) {
            self.memory.unreached_since = None;
            return None;
        }
        let since = *self.memory.unreached_since.get_or_insert(now);
        if now < later(since, UNREACHED) {
            return None;
        }
        if let Ok(dialled) = &mut self.seen.peers {
            dialled.has_lasted = true;
        }
        unreached(&self.seen).map(|cause| self.fail_for(cause, now))
    }

    /// All that is left is a proof that nobody can bring: no pod is on its way, and nobody may make one.
    fn mind_proof(&mut self, now: Timestamp) -> Option<Vec<JoinEffect>> {
        if self.stage != Stage::NetworkReady || !holds_but_for_a_pod(&self.seen, self.policy.until) {
            self.memory.unproven_since = None;
            return None;
        }
        let since = *self.memory.unproven_since.get_or_insert(now);
        // A network that is behind its configuration refuses sandboxes, too.
        let is_refused = matches!(self.seen.stand_in, Some(StandIn::Unlisted { .. }));
        if now < later(since, if is_refused { REFUSES } else { NO_MORE_PODS }) {
            return None;
        }
        Some(self.unproven(now))
    }

    fn unproven(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        let says = first_missing(&self.seen, self.policy.until).map(|(_, says)| says).unwrap_or_default();
        self.enter(Stage::Failed, now);
        let leave = self.changed.then_some(JoinEffect::Leave);
        leave.into_iter().chain([JoinEffect::Report(JoinOutcome::Unproven { says })]).collect()
    }

    /// What a sandbox was refused for is remembered until one is made.
    fn mind_refusal(&mut self, event: &JoinEvent, now: Timestamp) -> Vec<JoinEffect> {
        let JoinEvent::Tried(trial) = event else { return Vec::new() };
        let over = match &trial.sandbox {
            Ok(_) => std::mem::take(&mut self.memory.refused_for),
            Err(_) => Vec::new(),
        };
        self.troubles.retain(|trouble| !over.contains(&trouble.id));
        self.memory.refused_for.extend(trial.refused_for.iter().map(|cause| cause.id.clone()));
        trial.refused_for.iter().flat_map(|cause| self.trouble(cause, now)).collect()
    }

    /// A runtime that refuses sandbox after sandbox: for what it says, as far as that is known.
    fn mind_sandbox(&mut self, trial: &PodTrial, now: Timestamp) -> Option<Vec<JoinEffect>> {
        let why = match &trial.sandbox {
            Err(Why::Broken(why)) => format!("no pod can start here: {why}"),
            // A network agent has yet to learn of the range that its node has now, or never will.
            Ok(sandbox) if sandbox.is_in_range() == Some(false) => {
                format!("a pod gets {}, which is not of this node's range", sandbox.address)
            }
            _ => {
                self.memory.refused_since = None;
                return None;
            }
        };
        let since = *self.memory.refused_since.get_or_insert(now);
        let lasting: Vec<JoinCause> = trial.refused_for.iter().cloned().map(JoinCause::lasting).collect();
        let for_good = worst(&lasting) > Class::Transient;
        if now < later(since, if for_good { REFUSES_FOR_GOOD } else { REFUSES }) {
            return None;
        }
        let is_said = |trouble: &JoinCause| lasting.iter().any(|cause| cause.id == trouble.id);
        let others: Vec<JoinCause> =
            std::mem::take(&mut self.troubles).into_iter().rev().filter(|trouble| !is_said(trouble)).collect();
        let symptom = JoinCause::of(id!("node.not-ready"), why.clone());
        Some(self.fail(why, lasting.into_iter().chain(others).chain([symptom]).collect(), now))
    }

    fn mind_runtime(&mut self, now: Timestamp) {
        let down = match &self.seen.runtime {
            Ok(runtime) => !runtime.ready,
            Err(why) => *why != Why::NotCollected,
        };
        let silent = matches!(self.seen.runtime, Err(Why::TimedOut | Why::Busy(_)));
        // Who was silent and now refuses may be in the middle of a restart.
        let known = self.memory.runtime_down.filter(|(_, before)| *before == silent);
        self.memory.runtime_down = down.then(|| known.unwrap_or((now, silent)));
    }

    /// Who takes connections and answers none is told at the first time, and forgotten once it answers.
    fn mind_silence(&mut self, event: &JoinEvent) -> Vec<JoinEffect> {
        let (about, silent, says) = if let JoinEvent::Runtime(runtime) = event {
            if *runtime == Err(Why::NotCollected) {
                return Vec::new();
            }
            let says = match runtime {
                Err(Why::Busy(why)) => why.as_str(),
                _ => "the container runtime does not answer: it takes connections, and says nothing",
            };
            (id!("runtime.socket"), matches!(runtime, Err(Why::TimedOut | Why::Busy(_))), says)
        } else if let JoinEvent::Kubelet(Ok(kubelet)) = event {
            let (silent, says) = match kubelet.halt {
                Some(KubeletHalt::Suspended) => {
                    (true, "the kubelet does not answer: a signal has stopped it (SIGSTOP)")
                }
                Some(KubeletHalt::Silent) => {
                    (true, "the kubelet does not answer: it takes connections on its healthz port, and says nothing")
                }
                Some(KubeletHalt::Stopped | KubeletHalt::Removed) | None => (false, ""),
            };
            (id!("kubelet.not-answering"), silent, says)
        } else {
            return Vec::new();
        };
        if !silent {
            self.troubles.retain(|trouble| trouble.id != about.id);
            return Vec::new();
        }
        let is_new = self.remember(&JoinCause::of(about, says).may_pass(true));
        is_new.then(|| JoinEffect::Tell(says.to_owned())).into_iter().collect()
    }

    /// A kubelet that ran in this attempt, and that somebody stopped.
    fn mind_stopped(&mut self, kubelet: &Kubelet, now: Timestamp) {
        if kubelet.active && self.memory.bootstrap_since.is_some() {
            self.memory.kubelet_ran.get_or_insert(now);
        }
        let stopped = matches!(kubelet.halt, Some(KubeletHalt::Stopped | KubeletHalt::Removed));
        let since = self.memory.kubelet_stopped.unwrap_or(now);
        self.memory.kubelet_stopped = (stopped && self.memory.kubelet_ran.is_some()).then_some(since);
    }

    /// What no waiting fixes, as soon as it shows.
    fn hopeless(&self, now: Timestamp) -> Option<JoinCause> {
        let seen = &self.seen;
        if let Some((since, silent)) = self.memory.runtime_down
            && now >= later(since, if silent { RUNTIME_SILENT } else { RUNTIME_DOWN })
        {
            let why = match &seen.runtime {
                Ok(runtime) => runtime.says.clone(),
                Err(why) => why.to_string(),
            };
            let cause = JoinCause::of(id!("runtime.socket"), format!("the container runtime does not answer: {why}"));
            return Some(cause.may_pass(silent));
        }
        // Before kubeadm starts the kubelet, what is seen is of a join that is over.
        self.memory.bootstrap_since?;
        if let Some(cause) = seen.kubelet.as_ref().ok().and_then(|kubelet| self.lost(kubelet, now)) {
            return Some(cause);
        }
        if let (Ok(request), true) = (&seen.request, self.stage < Stage::CertificateIssued) {
            let name = &request.name;
            match &request.state {
                Signing::Denied { why } => {
                    return Some(JoinCause::of(id!("csr.denied"), format!("the request {name} was denied: {why}")));
                }
                Signing::Failed { why } => {
                    return Some(JoinCause::of(id!("csr.failed"), format!("the request {name} failed: {why}")));
                }
                Signing::Pending | Signing::Approved | Signing::Issued => {}
            }
        }
        match &seen.certificate {
            Ok(ClientCertificate::Stale { why }) => {
                let says = format!("the kubelet's certificate is stale: {why}");
                Some(JoinCause::of(id!("stale.client-certificate"), says).under(Circumstance::NotLeftover))
            }
            _ => None,
        }
    }

    /// Why a kubelet will not come into the cluster.
    fn lost(&self, kubelet: &Kubelet, now: Timestamp) -> Option<JoinCause> {
        let crashes = kubelet.restarts.saturating_sub(self.memory.restarts_before.unwrap_or(0));
        if kubelet.standalone {
            return Some(JoinCause::of(
                id!("kubelet.standalone"),
                "the kubelet runs without --kubeconfig: alone, in no cluster",
            ));
        }
        if !kubelet.active && kubelet.exit.is_some_and(|exit| NOT_FOUND.contains(&exit)) {
            return Some(JoinCause::of(id!("kubelet.cannot-execute"), "systemd cannot execute the kubelet"));
        }
        if let Some(since) = self.memory.kubelet_stopped {
            if kubelet.halt == Some(KubeletHalt::Removed) {
                return Some(causes::of_reset_meanwhile());
            }
            if now >= later(since, KUBELET_STOPPED) {
                let says = "the kubelet was stopped, or ended by itself, while this join went on";
                return Some(JoinCause::of(id!("kubelet.not-running"), says));
            }
        }
        let about = id!("kubelet.restart-loop");
        (crashes >= CRASH_LOOP).then(|| match self.troubles.iter().find(|trouble| trouble.id == about.id) {
            Some(ended) => {
                let mut ended = ended.clone();
                ended.says = format!("{}; {crashes} times by now", ended.says);
                ended.circumstance = None;
                // Who ends again and again with the same words ends for them.
                ended.sure(Confidence::Likely)
            }
            None => JoinCause::of(about, format!("the kubelet ended {crashes} times")),
        })
    }

    fn mind_request(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        let Ok(CertificateRequest { name, state }) = &self.seen.request else { return Vec::new() };
        let seconds = UNSIGNED.as_secs();
        let says = match state {
            Signing::Pending => format!(
                "nobody has signed the certificate request {name} for {seconds} s; on the control plane: kubectl certificate \
                 approve {name}"
            ),
            Signing::Approved => format!(
                "the certificate request {name} is approved, and nobody has issued the certificate for {seconds} s; on the \
                 control plane: kubectl -n kube-system get pods -l component=kube-controller-manager"
            ),
            Signing::Issued => format!(
                "the certificate {name} was issued, and the kubelet has not stored it; on this machine: ls -ld \
                 /var/lib/kubelet/pki; journalctl -u kubelet | grep -i certificate"
            ),
            Signing::Denied { .. } | Signing::Failed { .. } => return Vec::new(),
        };
        if self.memory.told_unsigned || self.stage != Stage::CertificateRequested || now < later(self.since, UNSIGNED) {
            return Vec::new();
        }
        self.memory.told_unsigned = true;
        vec![JoinEffect::Tell(says)]
    }

    /// Goes on as far as the evidence leads.
    fn advance(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        let mut effects = Vec::new();
        while let Some(next) = self.proven() {
            self.enter(next, now);
            match next {
                Stage::NetworkReady => effects.push(JoinEffect::Sandbox { not_before: now }),
                Stage::Verified => effects.push(JoinEffect::Finish),
                Stage::Begun
                | Stage::Blocked
                | Stage::Unjoined
                | Stage::Probed
                | Stage::Prepared
                | Stage::Joining
                | Stage::KubeletUp
                | Stage::CertificateRequested
                | Stage::CertificateIssued
                | Stage::Registered
                | Stage::Waiting
                | Stage::Joined
                | Stage::Failed => {}
            }
        }
        effects
    }

    /// The next stage, where the evidence for it is there.
    fn proven(&self) -> Option<Stage> {
        let (seen, until) = (&self.seen, self.policy.until);
        let issued = seen.certificate == Ok(ClientCertificate::Trusted);
        let (holds, next) = match self.stage {
            Stage::Joining => {
                let runs = seen.kubelet.as_ref().is_ok_and(|kubelet| kubelet.active && !kubelet.standalone);
                (runs && self.memory.bootstrap_since.is_some(), Stage::KubeletUp)
            }
            Stage::KubeletUp => (issued || seen.request.is_ok(), Stage::CertificateRequested),
            Stage::CertificateRequested => (issued, Stage::CertificateIssued),
            Stage::CertificateIssued => (holds_but_causes(seen, Until::Registered), Stage::Registered),
            Stage::Registered if until == Until::Registered => (self.is_verified(), Stage::Verified),
            Stage::Registered => (holds_but_causes(seen, Until::Network), Stage::NetworkReady),
            Stage::NetworkReady => (self.is_verified(), Stage::Verified),
            Stage::Begun
            | Stage::Blocked
            | Stage::Unjoined
            | Stage::Probed
            | Stage::Prepared
            | Stage::Verified
            | Stage::Waiting
            | Stage::Joined
            | Stage::Failed => return None,
        };
        holds.then_some(next)
    }

    /// All evidence is there, and nothing that was heard for certain, and is not over, keeps pods from running here. Live
    /// diagnosis reads no logs of containers: what kube-proxy says is only heard.
    fn is_verified(&self) -> bool {
        holds(&self.seen, self.policy.until) && !self.is_forbidden()
    }

    /// What was heard for certain, and is not over, keeps pods from running here.
    fn is_forbidden(&self) -> bool {
        let until = self.policy.until;
        let forbids = |trouble: &JoinCause| {
            let stops = catalogue::about(&trouble.id).map_or(Stops::Nothing, |about| about.stops);
            let counts = trouble.confidence == Confidence::Certain && !is_overruled(&self.seen, &trouble.id);
            counts && stops.forbidden_from().is_some_and(|from| from <= until)
        };
        self.troubles.iter().any(forbids)
    }

    fn joined(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        self.enter(Stage::Joined, now);
        vec![JoinEffect::Report(JoinOutcome::Joined { until: self.policy.until, already: !self.changed })]
    }

    fn end_of_time(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        match self.stage {
            Stage::Waiting => {
                self.attempt += 1;
                self.look(now)
            }
            // The evidence is there; that something of this run is left over is told by the next look at it.
            Stage::Verified => self.joined(now),
            Stage::NetworkReady if self.awaits_kube_proxy(now) => {
                self.deadline = self.images_are_pulled_by();
                Vec::new()
            }
            // Nothing fails, and what is open is no proof that no pod can start.
            Stage::NetworkReady
                if verify::holds_but_for_what_a_pod_proves(&self.seen, self.policy.until) && !self.is_forbidden() =>
            {
                self.unproven(now)
            }
            Stage::Begun
            | Stage::Blocked
            | Stage::Unjoined
            | Stage::Probed
            | Stage::Prepared
            | Stage::Joining
            | Stage::KubeletUp
            | Stage::CertificateRequested
            | Stage::CertificateIssued
            | Stage::Registered
            | Stage::NetworkReady => self.overdue(now),
            Stage::Joined | Stage::Failed => Vec::new(),
        }
    }

    /// All else is there, and kube-proxy's image has as long to come as the network's own.
    fn awaits_kube_proxy(&self, now: Timestamp) -> bool {
        now < self.images_are_pulled_by()
            && lacks_only(&self.seen, self.policy.until, &verify::proof::kube_proxy::PROOF)
    }

    fn images_are_pulled_by(&self) -> Timestamp {
        let since = self.memory.registered_since.unwrap_or(self.since);
        later(since, self.policy.wait(Stage::Registered))
    }

    /// What is needed to leave this stage.
    fn needed(&self) -> Option<Until> {
        match self.stage {
            Stage::CertificateIssued => Some(Until::Registered),
            Stage::Registered => Some(self.policy.until.min(Until::Network)),
            Stage::NetworkReady => Some(self.policy.until),
            Stage::Begun
            | Stage::Blocked
            | Stage::Unjoined
            | Stage::Probed
            | Stage::Prepared
            | Stage::Joining
            | Stage::KubeletUp
            | Stage::CertificateRequested
            | Stage::Verified
            | Stage::Waiting
            | Stage::Joined
            | Stage::Failed => None,
        }
    }

    fn overdue(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        let (stage, mut causes) = (self.stage, std::mem::take(&mut self.troubles));
        let mut failing = self.needed().map(|until| failures(&self.seen, until)).unwrap_or_default();
        if stage == Stage::CertificateIssued && failing.is_empty() {
            // What could not be told is no proof that the Node is not there.
            failing.extend(first_lacking(&self.seen, Until::Registered));
        }
        let signing = self.seen.request.as_ref().ok().map(|request| &request.state);
        let (symptom, says) = match (stage, signing) {
            (Stage::CertificateRequested, Some(Signing::Approved)) => (
                Some(id!("csr.not-issued")),
                "the kubelet's certificate request was approved, and nobody issued the certificate in time",
            ),
            (Stage::CertificateRequested, Some(Signing::Issued)) => (
                Some(id!("kubelet.certificate-not-stored")),
                "the kubelet's certificate was issued, and the kubelet did not store it",
            ),
            _ => stage.overdue(),
        };
        let says = failing.first().map_or(says, |first| first.says.as_str()).to_owned();
        causes.reverse();
        for cause in &failing {
            match causes.iter_mut().find(|known| known.id == cause.id) {
                // Who looked at the machine knows which file and which value.
                Some(heard) if !cause.remedy.is_empty() => heard.remedy.clone_from(&cause.remedy),
                Some(_) => {}
                None => causes.push(cause.clone()),
            }
        }
        let told = std::mem::take(&mut self.memory.else_told).pop().filter(|_| stage == Stage::Blocked);
        let is_told = told.is_some();
        let says = told.as_ref().map_or(says, |told| told.says.clone());
        // What fails says more than the stage does.
        let symptom = symptom.filter(|_| failing.is_empty());
        causes.extend(told.or_else(|| symptom.map(|about| JoinCause::of(about, says.as_str()))));
        let says = format!("{says} ({} s)", now.duration_since(self.since).as_secs());
        // What was waited for to tell whose a Node is has told it.
        self.end(JoinFailure { stage, class: worst(&causes), says, causes, overdue: !is_told }, now)
    }

    /// Nobody wants to wait any longer. What is complete is completed; what nobody watches any more goes on where it can.
    fn interrupted(&mut self, signal: StopSignal, at_work: bool, now: Timestamp) -> Vec<JoinEffect> {
        if self.stage == Stage::Verified {
            return Vec::new();
        }
        if signal == StopSignal::Hangup && at_work {
            // The stage stays as it is: the next join knows by it that this one was cut off.
            let (stage, stays) = (self.stage, Withdrawal::AtWork);
            return vec![JoinEffect::Report(JoinOutcome::Interrupted { signal, stage, stays })];
        }
        self.memory.stopped_by = Some(signal);
        if self.changed && (Stage::Probed..Stage::Waiting).contains(&self.stage) {
            return vec![JoinEffect::Halt];
        }
        // Nothing was begun yet, or what was begun has been put back.
        self.withdrawn(Withdrawal::PutBack, None, now)
    }

    fn halted(&mut self, certificate: bool, now: Timestamp) -> Vec<JoinEffect> {
        if certificate {
            self.withdrawn(Withdrawal::InCluster, Some(JoinEffect::Leave), now)
        } else {
            self.withdrawn(Withdrawal::PutBack, Some(JoinEffect::CleanUp), now)
        }
    }

    fn withdrawn(&mut self, stays: Withdrawal, effect: Option<JoinEffect>, now: Timestamp) -> Vec<JoinEffect> {
        let (stage, signal) = (self.stage, self.memory.stopped_by.unwrap_or(StopSignal::Interrupt));
        self.enter(Stage::Failed, now);
        let report = JoinEffect::Report(JoinOutcome::Interrupted { signal, stage, stays });
        effect.into_iter().chain([report]).collect()
    }

    fn fail_for(&mut self, cause: JoinCause, now: Timestamp) -> Vec<JoinEffect> {
        self.fail(cause.says.clone(), vec![cause], now)
    }

    /// For all of these at once: who sets one right is not to meet the next in another run.
    fn fail_for_all(&mut self, causes: impl IntoIterator<Item = JoinCause>, now: Timestamp) -> Vec<JoinEffect> {
        let causes = failure::in_order(causes);
        self.fail(failure::summary(&causes), causes, now)
    }

    fn fail(&mut self, says: String, causes: Vec<JoinCause>, now: Timestamp) -> Vec<JoinEffect> {
        self.end(JoinFailure { stage: self.stage, class: worst(&causes), says, causes, overdue: false }, now)
    }

    /// The attempt is over: again, or for good. A machine that has its certificate is left as it is: what does not come of
    /// itself then will not come of kubeadm either.
    fn end(&mut self, failure: JoinFailure, now: Timestamp) -> Vec<JoinEffect> {
        let ours = (Stage::Probed..Stage::CertificateIssued).contains(&self.stage);
        let clean_up = ours.then_some(JoinEffect::CleanUp);
        let again =
            failure.class.may_pass() && self.attempt < self.policy.attempts && self.stage < Stage::CertificateIssued;
        self.failures.push(failure.clone());
        if again {
            self.enter(Stage::Waiting, now);
            self.deadline = later(now, self.policy.pause(self.attempt));
            return clean_up.into_iter().collect();
        }
        // A machine that had joined before this run has nothing of ours on it.
        let stays = self.changed && (Stage::CertificateIssued..Stage::Waiting).contains(&self.stage);
        self.enter(Stage::Failed, now);
        let report = JoinEffect::Report(JoinOutcome::Failed(failure));
        [Some(JoinEffect::Diagnose), clean_up, stays.then_some(JoinEffect::Leave), Some(report)]
            .into_iter()
            .flatten()
            .collect()
    }
}

#[cfg(test)]
mod tests;
