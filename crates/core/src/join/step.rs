//! The only place where a join changes state. Everything it needs comes in; nothing is read here.
//!
//! `now` is to go forward evenly: the time at which the run began and what a monotonic clock counted since, so that a clock
//! that is set in mid-join ends nothing early.

use jiff::{SignedDuration, Timestamp};

use super::existing::{Decision, Found, decide};
use super::failure::{Cause, Class, Failure};
use super::output::Milestone;
use super::state::{Memory, Policy, Stage, State, later};
use super::verify::{
    Certificate, CertificateRequest, Cluster, Kubelet, Lease, Node, Renewal, Runtime, Sandbox, Seen, Signing, Until,
    holds,
};
use crate::fact::Why;

/// A request that nobody has signed by then is told: the usual signer takes a second or two.
const UNSIGNED: SignedDuration = SignedDuration::from_secs(20);
/// A runtime that is restarted answers again sooner than this.
const RUNTIME_DOWN: SignedDuration = SignedDuration::from_secs(3);
/// How often the Node that stands in the way is looked at.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// Between two sandboxes: the network agent may be a moment behind the CNI configuration, and a refusal costs the runtime 0.1 s.
const SANDBOX_AGAIN: SignedDuration = SignedDuration::from_millis(300);
/// A network agent that is behind its configuration is so for seconds; who refuses every sandbox for longer will go on.
const REFUSES: SignedDuration = SignedDuration::from_secs(20);
/// A kubelet that a restart of its runtime took along comes back once; one that ended twice will end again.
const CRASH_LOOP: u64 = 2;
/// Exit statuses of "not found", of a shell and of systemd.
const NOT_FOUND: [i32; 2] = [127, 203];
/// How many things that may pass are remembered.
const MOST_TROUBLES: usize = 8;

/// What the driver saw. A look that failed says why, and counts as nothing seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// After [`Effect::Observe`].
    Found(Found),
    /// After [`Effect::RemoveNode`].
    NodeRemoved,
    /// After [`Effect::Check`]: what forbids a join, and whether `--fix` changed something.
    Checked {
        blockers: Vec<Cause>,
        fixed: bool,
    },
    /// After [`Effect::Prepare`].
    Prepared,
    /// After [`Effect::StartKubeadm`].
    Started,
    /// kubeadm printed something of note.
    Kubeadm(Milestone),
    /// kubeadm's unit ended: with a status, or killed or lost without one; what [`super::output::causes`] found in its output.
    KubeadmEnded {
        status: Option<i32>,
        causes: Vec<Cause>,
    },
    Kubelet(Result<Kubelet, Why>),
    Request(Result<CertificateRequest, Why>),
    Certificate(Result<Certificate, Why>),
    Cluster(Result<Cluster, Why>),
    Node(Result<Node, Why>),
    Lease(Result<Renewal, Why>),
    Runtime(Result<Runtime, Why>),
    /// After [`Effect::Sandbox`]; `Why::Broken` is what the runtime said.
    Sandbox(Result<Sandbox, Why>),
    /// Live diagnosis knows a cause: a full disk, a line of the kubelet's journal, what kubeadm retries for.
    Trouble(Cause),
    /// After [`Effect::Finish`]; whether that changed something besides taking away what is ours.
    Finished {
        changed: bool,
    },
    /// Time has passed; at least one a second, and one at the deadline.
    Tick,
}

/// What the driver is to do. Each is done in order, before the next event is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Look at the machine ([`super::existing::Local::of`]), at our kubeadm unit, at the Node of this name and its lease.
    Observe,
    /// Delete this Node, with the admin's rights, and record it. Where that fails: [`Event::Trouble`].
    RemoveNode {
        name: String,
        says: String,
    },
    /// Run the checks; with `--fix`: plan, consent, apply, check again.
    Check,
    /// Carry out the plan of preparation. What of it fails is [`Event::Trouble`].
    Prepare,
    /// Write the JoinConfiguration, 0600, and start kubeadm's unit.
    StartKubeadm,
    /// Follow the unit that runs, its output from the beginning.
    Attach,
    /// Not before then: have the runtime make a sandbox, and take it away again.
    Sandbox {
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
    /// Find the cause while everything still stands as it failed.
    Diagnose,
    Report(Outcome),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Joined {
        until: Until,
        /// It had been before: nothing was changed.
        already: bool,
    },
    Failed(Failure),
}

impl State {
    /// A new join.
    pub fn begin(policy: Policy, now: Timestamp) -> (State, Vec<Effect>) {
        let mut state = State {
            stage: Stage::Begun,
            since: now,
            deadline: now,
            attempt: 1,
            policy,
            seen: Seen::default(),
            failures: Vec::new(),
            troubles: Vec::new(),
            changed: false,
            memory: Memory::default(),
        };
        let effects = state.look(now);
        (state, effects)
    }
}

/// A runtime that was restarted under kubeadm's checks fails them; whether it is really gone, the checks of the next attempt say.
fn class_for_kubeadm(cause: &Cause) -> Class {
    if cause.id.starts_with("runtime.") { Class::Transient } else { cause.class() }
}

/// What follows from an event.
pub fn step(state: &State, event: &Event, now: Timestamp) -> (State, Vec<Effect>) {
    let mut next = state.clone();
    if state.stage.is_over() {
        return (next, Vec::new());
    }
    let mut effects = next.take(event, now);
    let moved = (next.stage, next.attempt) != (state.stage, state.attempt);
    if !moved && now >= next.deadline {
        effects = next.end_of_time(now);
    }
    (next, effects)
}

impl State {
    /// The table: stage and event.
    fn take(&mut self, event: &Event, now: Timestamp) -> Vec<Effect> {
        match (self.stage, event) {
            (Stage::Verified, Event::Finished { changed }) => {
                self.changed |= changed;
                self.joined(now)
            }
            (Stage::Waiting | Stage::Verified, _) => Vec::new(),
            (Stage::Begun | Stage::Blocked, Event::Found(found)) => {
                self.decided(decide(found, self.policy.replace_node), now)
            }
            (Stage::Blocked, Event::NodeRemoved) => {
                self.memory.node_removed = true;
                self.enter(Stage::Begun, now);
                vec![Effect::Observe]
            }
            (Stage::Blocked, Event::Tick) => self.look_again(now),
            (Stage::Unjoined, Event::Checked { blockers, fixed }) => self.checked(blockers, *fixed, now),
            (Stage::Probed, Event::Prepared) => {
                self.enter(Stage::Prepared, now);
                vec![Effect::StartKubeadm]
            }
            (Stage::Prepared, Event::Started) => {
                self.enter(Stage::Joining, now);
                Vec::new()
            }
            (_, Event::Trouble(cause)) => self.trouble(cause, now),
            (stage, Event::Kubeadm(milestone)) if stage >= Stage::Joining => self.noted(milestone, now),
            (stage, Event::KubeadmEnded { status, causes }) if stage >= Stage::Joining => {
                self.kubeadm_ended(*status, causes, now)
            }
            (stage, event) if stage >= Stage::Joining => self.observed(event, now),
            _ => Vec::new(),
        }
    }

    fn enter(&mut self, stage: Stage, now: Timestamp) {
        let wait = self.policy.wait(stage);
        self.stage = stage;
        self.since = now;
        self.deadline = match (stage, self.memory.bootstrap_since) {
            // One budget from the kubelet's start to its certificate, whatever comes between.
            (Stage::KubeletUp | Stage::CertificateRequested, Some(began)) => later(began, wait),
            _ => later(now, wait),
        };
    }

    /// The beginning of an attempt: nothing of what was known counts.
    fn look(&mut self, now: Timestamp) -> Vec<Effect> {
        self.seen = Seen::default();
        self.troubles.clear();
        self.memory = Memory::default();
        self.enter(Stage::Begun, now);
        vec![Effect::Observe]
    }

    fn decided(&mut self, decision: Decision, now: Timestamp) -> Vec<Effect> {
        match decision {
            Decision::Join { says } => {
                self.enter(Stage::Unjoined, now);
                vec![Effect::Tell(says), Effect::Check]
            }
            Decision::Attach { since, says } => {
                self.changed = true;
                self.memory.attached_since = Some(since);
                self.enter(Stage::Joining, now);
                vec![Effect::Tell(says), Effect::Attach]
            }
            Decision::Watch { bootstrapping: true, says } => {
                // A join that was begun before ends now.
                self.changed = true;
                self.memory.bootstrap_since = Some(now);
                self.enter(Stage::KubeletUp, now);
                vec![Effect::Tell(says)]
            }
            Decision::Watch { bootstrapping: false, says } => {
                self.memory.bootstrap_since = Some(now);
                self.enter(Stage::CertificateIssued, now);
                vec![Effect::Tell(says)]
            }
            Decision::Wait { says } => {
                self.memory.look_again = Some(later(now, LOOK_AGAIN));
                self.block(now).then_some(Effect::Tell(says)).into_iter().collect()
            }
            Decision::Remove { node, .. } if self.memory.node_removed => {
                let cause = Cause::of("api.node-name", format!("the Node {node} came back after it was removed"));
                self.fail(Class::Configuration, cause.says.clone(), vec![cause], now)
            }
            Decision::Remove { node, says } => {
                self.changed = true;
                self.block(now);
                vec![Effect::RemoveNode { name: node, says }]
            }
            Decision::Refuse { class, cause } => self.fail(class, cause.says.clone(), vec![cause], now),
        }
    }

    /// Blocked; whether it was not before. The deadline is that of the first time.
    fn block(&mut self, now: Timestamp) -> bool {
        let newly = self.stage != Stage::Blocked;
        if newly {
            self.enter(Stage::Blocked, now);
        }
        newly
    }

    fn look_again(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.memory.look_again.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.memory.look_again = Some(later(now, LOOK_AGAIN));
        vec![Effect::Observe]
    }

    fn checked(&mut self, blockers: &[Cause], fixed: bool, now: Timestamp) -> Vec<Effect> {
        self.changed |= fixed;
        if let Some(worst) = blockers.iter().map(Cause::class).max() {
            // Most of what a check finds stays; the way to the API server may come back.
            return self.fail(worst, "the machine is not fit to join".to_owned(), blockers.to_vec(), now);
        }
        if fixed && !self.memory.fixed {
            // What was mended may have been a join: look once more.
            self.memory.fixed = true;
            self.enter(Stage::Begun, now);
            return vec![Effect::Observe];
        }
        self.changed = true;
        self.enter(Stage::Probed, now);
        vec![Effect::Prepare]
    }

    fn noted(&mut self, milestone: &Milestone, now: Timestamp) -> Vec<Effect> {
        if *milestone != Milestone::KubeletStarted || self.memory.bootstrap_since.is_some() {
            return Vec::new();
        }
        // Of a kubelet that an earlier driver saw start it is not known when: not before kubeadm did.
        let began = self.memory.attached_since.unwrap_or(now);
        self.memory.bootstrap_since = Some(began);
        self.memory.restarts_before = Some(0);
        self.deadline = later(began, self.policy.bootstrap());
        // What was seen of a kubelet before this one proves nothing, and accuses nobody.
        self.seen = Seen { runtime: self.seen.runtime.clone(), ..Seen::default() };
        Vec::new()
    }

    /// kubeadm's failure is one; its success is only a word.
    fn kubeadm_ended(&mut self, status: Option<i32>, causes: &[Cause], now: Timestamp) -> Vec<Effect> {
        // A kubelet whose kubeadm was killed has its token still, and goes on alone.
        let goes_on = status == Some(0)
            || self.stage >= Stage::CertificateIssued
            || (status.is_none() && self.stage >= Stage::KubeletUp);
        if goes_on {
            return Vec::new();
        }
        match status {
            Some(status) if NOT_FOUND.contains(&status) => {
                let cause = Cause::of("kubeadm.installed", format!("kubeadm could not be executed (status {status})"));
                self.fail(Class::Configuration, cause.says.clone(), vec![cause], now)
            }
            _ => {
                let class = causes.iter().map(class_for_kubeadm).max().unwrap_or(Class::Transient);
                let why = causes
                    .first()
                    .map_or_else(|| "without a reason that is known".to_owned(), |cause| cause.says.clone());
                let how = status.map_or_else(|| "was killed".to_owned(), |status| format!("failed (status {status})"));
                self.fail(class, format!("kubeadm {how}: {why}"), causes.to_vec(), now)
            }
        }
    }

    /// What may pass is told and remembered; for what will not, there is no waiting.
    fn trouble(&mut self, cause: &Cause, now: Timestamp) -> Vec<Effect> {
        if cause.class() > Class::Transient {
            return self.fail(cause.class(), cause.says.clone(), vec![cause.clone()], now);
        }
        let known = self.troubles.len();
        self.troubles.retain(|known| known.id != cause.id);
        let is_new = self.troubles.len() == known;
        if self.troubles.len() >= MOST_TROUBLES {
            self.troubles.remove(0);
        }
        self.troubles.push(cause.clone());
        is_new.then(|| Effect::Tell(cause.says.clone())).into_iter().collect()
    }

    /// Evidence: kept, looked at for what ends the join early, and for what it proves.
    fn observed(&mut self, event: &Event, now: Timestamp) -> Vec<Effect> {
        let seen = &mut self.seen;
        match event {
            Event::Kubelet(kubelet) => seen.kubelet.clone_from(kubelet),
            Event::Request(request) => seen.request.clone_from(request),
            Event::Certificate(certificate) => seen.certificate.clone_from(certificate),
            Event::Cluster(cluster) => seen.cluster.clone_from(cluster),
            Event::Node(node) => seen.node.clone_from(node),
            Event::Runtime(runtime) => seen.runtime.clone_from(runtime),
            Event::Sandbox(sandbox) => seen.sandbox.clone_from(sandbox),
            Event::Lease(Err(why)) => seen.lease = Err(why.clone()),
            Event::Lease(Ok(last)) => {
                let first = seen.lease.as_ref().map_or_else(|_| last.clone(), |lease| lease.first.clone());
                seen.lease = Ok(Lease { first, last: last.clone() });
            }
            _ => {}
        }
        self.mind_runtime(now);
        if let Event::Kubelet(Ok(kubelet)) = event {
            self.memory.restarts_before.get_or_insert(kubelet.restarts);
        }
        if let Some(cause) = self.hopeless(now) {
            return self.fail(Class::Configuration, cause.says.clone(), vec![cause], now);
        }
        if let Some(effects) = self.mind_sandbox(event, now) {
            return effects;
        }
        let mut effects = self.mind_request(now);
        if self.stage == Stage::NetworkReady && matches!(event, Event::Sandbox(Err(_))) {
            effects.push(Effect::Sandbox { not_before: later(now, SANDBOX_AGAIN) });
        }
        effects.extend(self.advance(now));
        effects
    }

    /// A runtime that refuses sandbox after sandbox: for what it says, as far as that is known.
    fn mind_sandbox(&mut self, event: &Event, now: Timestamp) -> Option<Vec<Effect>> {
        let Event::Sandbox(answer) = event else { return None };
        let Err(Why::Broken(why)) = answer else {
            self.memory.refused_since = None;
            return None;
        };
        let since = *self.memory.refused_since.get_or_insert(now);
        if now < later(since, REFUSES) {
            return None;
        }
        let mut causes = std::mem::take(&mut self.troubles);
        causes.reverse();
        let says = format!("no pod can start here: {why}");
        causes.push(Cause::of("node.not-ready", says.clone()));
        Some(self.fail(Class::Configuration, says, causes, now))
    }

    fn mind_runtime(&mut self, now: Timestamp) {
        let down = match &self.seen.runtime {
            Ok(runtime) => !runtime.ready,
            Err(why) => *why != Why::NotCollected,
        };
        self.memory.runtime_down_since = if down { self.memory.runtime_down_since.or(Some(now)) } else { None };
    }

    /// What no waiting mends, as soon as it shows.
    fn hopeless(&self, now: Timestamp) -> Option<Cause> {
        let seen = &self.seen;
        if let Some(since) = self.memory.runtime_down_since
            && now >= later(since, RUNTIME_DOWN)
        {
            let why = match &seen.runtime {
                Ok(runtime) => runtime.says.clone(),
                Err(why) => why.to_string(),
            };
            return Some(Cause::of("runtime.socket", format!("the container runtime does not answer: {why}")));
        }
        // Before kubeadm starts the kubelet, what is seen is of a join that is over.
        self.memory.bootstrap_since?;
        if let Some(cause) = seen.kubelet.as_ref().ok().and_then(|kubelet| self.lost(kubelet)) {
            return Some(cause);
        }
        if let (Ok(request), true) = (&seen.request, self.stage < Stage::CertificateIssued) {
            let name = &request.name;
            match &request.state {
                Signing::Denied { why } => {
                    return Some(Cause::of("csr.denied", format!("the request {name} was denied: {why}")));
                }
                Signing::Failed { why } => {
                    return Some(Cause::of("csr.failed", format!("the request {name} failed: {why}")));
                }
                Signing::Pending | Signing::Approved => {}
            }
        }
        match &seen.certificate {
            Ok(Certificate::Stale { why }) => {
                Some(Cause::of("stale.client-certificate", format!("the kubelet's certificate is stale: {why}")))
            }
            _ => None,
        }
    }

    /// Why a kubelet will not come into the cluster.
    fn lost(&self, kubelet: &Kubelet) -> Option<Cause> {
        let crashes = kubelet.restarts.saturating_sub(self.memory.restarts_before.unwrap_or(0));
        if kubelet.standalone {
            return Some(Cause::of(
                "kubelet.standalone",
                "the kubelet runs without --kubeconfig: alone, in no cluster",
            ));
        }
        if !kubelet.active && kubelet.exit.is_some_and(|exit| NOT_FOUND.contains(&exit)) {
            return Some(Cause::of("kubelet.cannot-execute", "systemd cannot execute the kubelet"));
        }
        (crashes >= CRASH_LOOP).then(|| Cause::of("kubelet.restart-loop", format!("the kubelet ended {crashes} times")))
    }

    fn mind_request(&mut self, now: Timestamp) -> Vec<Effect> {
        let Ok(CertificateRequest { name, state: Signing::Pending }) = &self.seen.request else { return Vec::new() };
        if self.memory.told_unsigned || self.stage != Stage::CertificateRequested || now < later(self.since, UNSIGNED) {
            return Vec::new();
        }
        self.memory.told_unsigned = true;
        vec![Effect::Tell(format!(
            "nobody has signed the certificate request {name} for {} s; on the control plane: kubectl certificate approve {name}",
            UNSIGNED.as_secs()
        ))]
    }

    /// Goes on as far as the evidence leads.
    fn advance(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(next) = self.proven() {
            self.enter(next, now);
            match next {
                Stage::NetworkReady => effects.push(Effect::Sandbox { not_before: now }),
                Stage::Verified => effects.push(Effect::Finish),
                _ => {}
            }
        }
        effects
    }

    /// The next stage, where the evidence for it is there.
    fn proven(&self) -> Option<Stage> {
        let (seen, until) = (&self.seen, self.policy.until);
        let issued = seen.certificate == Ok(Certificate::Trusted);
        let (holds, next) = match self.stage {
            Stage::Joining => {
                let runs = seen.kubelet.as_ref().is_ok_and(|kubelet| kubelet.active && !kubelet.standalone);
                (runs && self.memory.bootstrap_since.is_some(), Stage::KubeletUp)
            }
            Stage::KubeletUp => (issued || seen.request.is_ok(), Stage::CertificateRequested),
            Stage::CertificateRequested => (issued, Stage::CertificateIssued),
            Stage::CertificateIssued => (holds(seen, Until::Registered), Stage::Registered),
            Stage::Registered if until == Until::Registered => (holds(seen, until), Stage::Verified),
            Stage::Registered => (holds(seen, Until::Network), Stage::NetworkReady),
            Stage::NetworkReady => (holds(seen, until), Stage::Verified),
            _ => return None,
        };
        holds.then_some(next)
    }

    fn joined(&mut self, now: Timestamp) -> Vec<Effect> {
        self.enter(Stage::Joined, now);
        vec![Effect::Report(Outcome::Joined { until: self.policy.until, already: !self.changed })]
    }

    fn end_of_time(&mut self, now: Timestamp) -> Vec<Effect> {
        match self.stage {
            Stage::Waiting => {
                self.attempt += 1;
                self.look(now)
            }
            // The evidence is there; that something of this run is left over is told by the next look at it.
            Stage::Verified => self.joined(now),
            stage => {
                let (symptom, says) = stage.overdue();
                let mut causes = std::mem::take(&mut self.troubles);
                causes.reverse();
                causes.extend(symptom.map(|id| Cause::of(id, says)));
                // What does not come of itself in time will not come of kubeadm either, once the certificate is there.
                let passes = stage < Stage::CertificateIssued && stage != Stage::Blocked;
                let class = if passes { Class::Transient } else { Class::Configuration };
                let seconds = now.duration_since(self.since).as_secs();
                self.end(Failure { stage, class, says: format!("{says} ({seconds} s)"), causes, overdue: true }, now)
            }
        }
    }

    fn fail(&mut self, class: Class, says: String, causes: Vec<Cause>, now: Timestamp) -> Vec<Effect> {
        self.end(Failure { stage: self.stage, class, says, causes, overdue: false }, now)
    }

    /// The attempt is over: again, or for good. A machine that has its certificate is left as it is.
    fn end(&mut self, failure: Failure, now: Timestamp) -> Vec<Effect> {
        let ours = (Stage::Probed..Stage::CertificateIssued).contains(&self.stage);
        let clean_up = ours.then_some(Effect::CleanUp);
        let again = failure.class == Class::Transient
            && self.attempt < self.policy.attempts
            && self.stage < Stage::CertificateIssued;
        self.failures.push(failure.clone());
        if again {
            self.enter(Stage::Waiting, now);
            self.deadline = later(now, self.policy.pause(self.attempt));
            return clean_up.into_iter().collect();
        }
        // A machine that had joined before this run has nothing of ours on it.
        let stays = self.changed && (Stage::CertificateIssued..Stage::Waiting).contains(&self.stage);
        self.enter(Stage::Failed, now);
        let report = Effect::Report(Outcome::Failed(failure));
        [Some(Effect::Diagnose), clean_up, stays.then_some(Effect::Leave), Some(report)].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::join::existing::Local;
    use crate::join::existing::sample::any_found;
    use crate::join::verify::sample;
    use crate::testing::NOW;

    fn at(seconds: i64) -> Timestamp {
        later(NOW, SignedDuration::from_secs(seconds))
    }

    /// A join that is taken through events, each with the second at which it comes.
    struct Story {
        state: State,
        effects: Vec<Effect>,
    }

    impl Story {
        fn new(policy: Policy) -> Self {
            let (state, effects) = State::begin(policy, NOW);
            Story { state, effects }
        }

        #[allow(clippy::needless_pass_by_value)] // So that a story reads as one.
        fn then(mut self, second: i64, event: Event) -> Self {
            (self.state, self.effects) = step(&self.state, &event, at(second));
            self
        }

        /// Up to kubeadm at work, at second 3.
        fn joining(policy: Policy) -> Self {
            Story::new(policy)
                .then(1, Event::Found(nothing()))
                .then(2, Event::Checked { blockers: vec![], fixed: false })
                .then(2, Event::Prepared)
                .then(3, Event::Started)
        }

        /// Up to a kubelet that waits for its certificate, started at second 4.
        fn requested(policy: Policy) -> Self {
            Story::joining(policy)
                .then(4, Event::Kubeadm(Milestone::KubeletStarted))
                .then(5, kubelet())
                .then(6, request(Signing::Pending))
        }

        /// Up to a Node with a lease, at second 9.
        fn registered(policy: Policy) -> Self {
            Story::requested(policy)
                .then(7, Event::Certificate(Ok(Certificate::Trusted)))
                .then(8, Event::Node(Ok(Node { ready: false, ..sample::node() })))
                .then(9, Event::Lease(Ok(sample::renewal("1", 5))))
        }

        fn failure(&self) -> &Failure {
            self.state.failures.last().expect("a failure")
        }
    }

    fn nothing() -> Found {
        Found {
            local: Local::Nothing,
            kubeadm: None,
            node: Err(Why::Absent),
            lease_age: None,
            admin: false,
            path: None,
        }
    }

    fn kubelet() -> Event {
        Event::Kubelet(Ok(Kubelet { active: true, started_at: Some(at(4)), ..Kubelet::default() }))
    }

    fn request(state: Signing) -> Event {
        Event::Request(Ok(CertificateRequest { name: "csr-1".into(), state }))
    }

    #[test]
    fn a_network_that_refuses_every_sandbox_is_given_twenty_seconds() {
        let refused = || Event::Sandbox(Err(Why::Broken("failed to find plugin \"flannel\"".into())));
        let network = Event::Runtime(Ok(Runtime { ready: true, network_ready: true, says: String::new() }));
        let story = Story::registered(Policy::default()).then(10, Event::Lease(Ok(sample::renewal("2", 15))));
        let story = story.then(11, network).then(12, refused()).then(31, refused());
        assert_eq!(story.state.stage, Stage::NetworkReady);
        let again = story.then(31, Event::Sandbox(Err(Why::TimedOut)));
        let again = again.then(40, refused()).then(59, refused());
        assert_eq!(again.state.stage, Stage::NetworkReady, "a silent one refused nothing");
        let known = again.then(59, Event::Trouble(Cause::of("cni.plugins", "flannel is missing")));
        let ended = known.then(60, refused());
        assert_eq!(ended.state.stage, Stage::Failed);
        let ids: Vec<&str> = ended.failure().causes.iter().map(|cause| cause.id.as_str()).collect();
        assert_eq!(ids, ["cni.plugins", "node.not-ready"]);
        assert!(!ended.failure().overdue && !ended.effects.contains(&Effect::CleanUp), "{:?}", ended.effects);
        assert!(ended.effects.contains(&Effect::Leave), "its token must not stay: {:?}", ended.effects);
    }

    #[test]
    fn what_may_pass_is_told_once() {
        let trouble = || Event::Trouble(Cause::of("cni.image-pull", "no image"));
        let told = Story::registered(Policy::default()).then(10, trouble());
        assert_eq!(told.effects, [Effect::Tell("no image".to_owned())]);
        let again = told.then(20, trouble());
        assert!(again.effects.is_empty() && again.state.stage == Stage::Registered, "{:?}", again.effects);
    }

    fn until(until: Until) -> Policy {
        Policy { until, ..Policy::default() }
    }

    #[test]
    fn a_join_as_it_should_be() {
        let story = Story::new(Policy::default());
        assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Begun, [Effect::Observe].as_slice()));
        let story = story.then(1, Event::Found(nothing()));
        assert_eq!((story.state.stage, story.effects.last()), (Stage::Unjoined, Some(&Effect::Check)));
        let story = story.then(2, Event::Checked { blockers: vec![], fixed: false });
        assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Probed, [Effect::Prepare].as_slice()));
        let story = story.then(2, Event::Prepared);
        assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Prepared, [Effect::StartKubeadm].as_slice()));

        let story = Story::registered(Policy::default());
        assert_eq!(story.state.stage, Stage::Registered);
        let story = story.then(9, Event::KubeadmEnded { status: Some(0), causes: vec![] });
        assert_eq!(story.state.stage, Stage::Registered, "kubeadm's word is no evidence");
        let story = story.then(20, Event::Runtime(sample::joined().runtime));
        assert_eq!(
            (story.state.stage, story.effects.as_slice()),
            (Stage::NetworkReady, [Effect::Sandbox { not_before: at(20) }].as_slice())
        );
        let story = story.then(21, Event::Sandbox(Err(Why::Broken("no subnet.env".into()))));
        assert_eq!(story.effects, [Effect::Sandbox { not_before: at(22) }], "it is tried again");
        let story = story.then(23, Event::Sandbox(sample::joined().sandbox));
        assert_eq!(story.state.stage, Stage::NetworkReady, "not Ready yet");
        let story = story.then(24, Event::Node(Ok(sample::node())));
        assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Verified, [Effect::Finish].as_slice()));
        let story = story.then(25, Event::Finished { changed: false });
        assert_eq!(story.effects, [Effect::Report(Outcome::Joined { until: Until::Verified, already: false })]);
        assert_eq!(story.state.stage, Stage::Joined);
    }

    #[test]
    fn far_enough_is_what_was_asked_for() {
        assert_eq!(Story::registered(until(Until::Registered)).state.stage, Stage::Verified);
        let network = Story::registered(until(Until::Network));
        assert_eq!(network.state.stage, Stage::Registered);
        assert_eq!(network.then(20, Event::Runtime(sample::joined().runtime)).state.stage, Stage::Verified);
    }

    #[test]
    fn a_join_that_holds_changes_nothing() {
        let found = Found { local: Local::Joined, node: Ok(sample::node()), ..nothing() };
        let mut story = Story::new(Policy::default()).then(1, Event::Found(found));
        assert_eq!(story.state.stage, Stage::CertificateIssued);
        let seen = sample::joined();
        for event in [
            Event::Kubelet(seen.kubelet),
            Event::Certificate(seen.certificate),
            Event::Node(seen.node),
            Event::Lease(Ok(sample::renewal("7", 3))),
            Event::Runtime(seen.runtime),
            Event::Sandbox(seen.sandbox),
            Event::Finished { changed: false },
        ] {
            story = story.then(2, event);
        }
        assert_eq!(story.effects, [Effect::Report(Outcome::Joined { until: Until::Verified, already: true })]);
    }

    #[test]
    fn what_no_waiting_mends_ends_it_at_once() {
        let alone = || Event::Kubelet(Ok(Kubelet { active: true, standalone: true, ..Kubelet::default() }));
        let crashed = |restarts, exit| Event::Kubelet(Ok(Kubelet { restarts, exit, ..Kubelet::default() }));
        let ended = |status, causes: &[&str]| Event::KubeadmEnded {
            status,
            causes: causes.iter().map(|id| Cause::of(id, "x")).collect(),
        };
        let started = || Story::joining(Policy::default()).then(4, Event::Kubeadm(Milestone::KubeletStarted));
        for (name, story, id) in [
            ("alone", started().then(5, alone()), "kubelet.standalone"),
            ("not executable", started().then(5, crashed(0, Some(203))), "kubelet.cannot-execute"),
            ("crashes", started().then(25, crashed(2, Some(1))), "kubelet.restart-loop"),
            (
                "denied",
                Story::requested(Policy::default()).then(7, request(Signing::Denied { why: "no".into() })),
                "csr.denied",
            ),
            (
                "failed",
                Story::requested(Policy::default()).then(7, request(Signing::Failed { why: "no".into() })),
                "csr.failed",
            ),
            (
                "stale certificate",
                started().then(5, Event::Certificate(Ok(Certificate::Stale { why: "of another CA".into() }))),
                "stale.client-certificate",
            ),
            (
                "disk full",
                Story::joining(Policy::default()).then(4, Event::Trouble(Cause::of("filesystem.space", "full"))),
                "filesystem.space",
            ),
            ("no kubeadm", Story::joining(Policy::default()).then(4, ended(Some(203), &[])), "kubeadm.installed"),
            (
                "no token",
                Story::joining(Policy::default()).then(4, ended(Some(1), &["kubeadm.token-not-signed"])),
                "kubeadm.token-not-signed",
            ),
            (
                "not fit",
                Story::new(Policy::default())
                    .then(1, Event::Found(nothing()))
                    .then(2, Event::Checked { blockers: vec![Cause::of("machine.swap", "on")], fixed: false }),
                "machine.swap",
            ),
        ] {
            assert_eq!(story.state.stage, Stage::Failed, "{name}");
            assert_eq!(story.failure().causes[0].id, id, "{name}");
            assert_eq!(story.effects.first(), Some(&Effect::Diagnose), "{name}");
            assert!(matches!(story.effects.last(), Some(Effect::Report(Outcome::Failed(_)))), "{name}");
        }
    }

    #[test]
    fn a_kubelet_before_this_one_accuses_nobody() {
        let alone = Event::Kubelet(Ok(Kubelet { active: true, standalone: true, restarts: 900, ..Kubelet::default() }));
        let story = Story::joining(Policy::default())
            .then(4, alone)
            .then(4, request(Signing::Denied { why: "of last week".into() }))
            .then(5, Event::Kubeadm(Milestone::KubeletStarted))
            .then(5, Event::Tick);
        assert_eq!(story.state.stage, Stage::Joining);
        assert_eq!(story.then(6, kubelet()).state.stage, Stage::KubeletUp);
        let found = Found { local: Local::Joined, node: Ok(sample::node()), ..nothing() };
        let restarted = |restarts| Event::Kubelet(Ok(Kubelet { active: true, restarts, ..Kubelet::default() }));
        let joined = Story::new(Policy::default()).then(1, Event::Found(found)).then(2, restarted(7));
        assert_eq!(joined.state.stage, Stage::CertificateIssued, "that was long ago");
        assert_eq!(joined.then(30, restarted(9)).state.stage, Stage::Failed);
    }

    #[test]
    fn a_runtime_may_be_restarted_and_not_stay_away() {
        let gone = || Event::Runtime(Err(Why::Broken("connection refused".into())));
        let story = Story::joining(Policy::default()).then(4, gone());
        let back = Story { state: story.state.clone(), effects: vec![] }
            .then(6, Event::Runtime(sample::joined().runtime))
            .then(20, gone());
        assert_eq!(back.state.stage, Stage::Joining);
        let dead = story.then(7, gone());
        assert_eq!((dead.state.stage, dead.failure().causes[0].id.as_str()), (Stage::Failed, "runtime.socket"));
        assert_eq!(dead.failure().says, "the container runtime does not answer: connection refused");
    }

    #[test]
    fn a_request_nobody_signs_is_told_once_after_twenty_seconds() {
        let story = Story::requested(Policy::default()).then(25, request(Signing::Pending));
        assert_eq!(story.effects, []);
        let story = story.then(26, request(Signing::Pending));
        assert!(
            matches!(story.effects.as_slice(), [Effect::Tell(says)] if says.contains("csr-1")),
            "{:?}",
            story.effects
        );
        assert_eq!(story.then(27, request(Signing::Pending)).effects, []);
    }

    #[test]
    fn the_certificate_is_decided_on_before_kubelet_and_kubeadm_give_up() {
        let story = Story::requested(Policy::default());
        assert_eq!(story.state.deadline, at(4 + 270), "from the start of the kubelet, whatever came between");
        let story = story.then(4 + 270, Event::Tick);
        assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Waiting, [Effect::CleanUp].as_slice()));
        let failure = story.failure();
        assert_eq!(
            (failure.class, failure.overdue, failure.causes[0].id.as_str()),
            (Class::Transient, true, "csr.pending")
        );
    }

    #[test]
    fn a_killed_kubeadm_leaves_a_kubelet_that_goes_on() {
        let killed = || Event::KubeadmEnded { status: None, causes: vec![] };
        assert_eq!(Story::requested(Policy::default()).then(7, killed()).state.stage, Stage::CertificateRequested);
        assert_eq!(Story::joining(Policy::default()).then(4, killed()).state.stage, Stage::Waiting);
        let restarted = Event::KubeadmEnded { status: Some(1), causes: vec![Cause::of("runtime.socket", "refused")] };
        assert_eq!(Story::joining(Policy::default()).then(4, restarted).state.stage, Stage::Waiting);
        let failed = Event::KubeadmEnded { status: Some(1), causes: vec![] };
        assert_eq!(Story::registered(Policy::default()).then(10, failed).state.stage, Stage::Registered);
    }

    #[test]
    fn attempts_end() {
        let mut story = Story::new(Policy::default());
        for (attempt, pause) in [(1, 5), (2, 10)] {
            assert_eq!(story.state.attempt, attempt);
            let second = story.state.deadline.duration_since(NOW).as_secs();
            story = story.then(second, Event::Tick);
            assert_eq!(
                (story.state.stage, story.effects.len()),
                (Stage::Waiting, 0),
                "nothing was done, nothing is cleaned up"
            );
            assert_eq!(story.state.deadline, at(second + pause));
            story = story.then(second + pause, Event::Tick);
            assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Begun, [Effect::Observe].as_slice()));
        }
        let second = story.state.deadline.duration_since(NOW).as_secs();
        story = story.then(second, Event::Tick);
        assert_eq!((story.state.stage, story.state.failures.len()), (Stage::Failed, 3));
    }

    #[test]
    fn a_machine_with_its_certificate_is_left_in_the_cluster() {
        let story = Story::registered(Policy::default());
        let second = story.state.deadline.duration_since(NOW).as_secs();
        let story = story.then(second, Event::Tick);
        assert_eq!(story.state.stage, Stage::Failed);
        assert!(!story.effects.contains(&Effect::CleanUp), "{:?}", story.effects);
        assert_eq!(story.failure().causes[0].id, "node.network-not-ready");
    }

    #[test]
    fn what_may_pass_is_told_when_the_time_is_over() {
        let story = Story::registered(Policy::default())
            .then(20, Event::Trouble(Cause::of("cni.no-subnet-env", "flannel is not up")));
        assert_eq!(story.state.stage, Stage::Registered);
        let second = story.state.deadline.duration_since(NOW).as_secs();
        let story = story.then(second, Event::Tick);
        let ids: Vec<&str> = story.failure().causes.iter().map(|cause| cause.id.as_str()).collect();
        assert_eq!(ids, ["cni.no-subnet-env", "node.network-not-ready"]);
    }

    #[test]
    fn an_old_node_is_waited_for_or_removed_once() {
        let ready = |admin: bool| Found {
            node: Ok(sample::node()),
            lease_age: admin.then(|| SignedDuration::from_secs(60)),
            admin,
            ..nothing()
        };
        let story = Story::new(Policy::default()).then(1, Event::Found(ready(false)));
        assert_eq!(story.state.stage, Stage::Blocked);
        let deadline = story.state.deadline;
        let story = story.then(2, Event::Tick);
        assert_eq!(story.effects, []);
        let story = story.then(6, Event::Tick);
        assert_eq!(story.effects, [Effect::Observe]);
        let story = story.then(7, Event::Found(ready(false)));
        assert_eq!(
            (story.state.deadline, story.effects.as_slice()),
            (deadline, [].as_slice()),
            "told once, and no longer for it"
        );
        let gone = Found { node: Ok(Node { ready: false, ..sample::node() }), ..nothing() };
        assert_eq!(story.then(12, Event::Found(gone)).state.stage, Stage::Unjoined);

        let story = Story::new(Policy::default()).then(1, Event::Found(ready(true)));
        assert!(matches!(story.effects.as_slice(), [Effect::RemoveNode { name, .. }] if name == "w1"));
        let story = story.then(2, Event::NodeRemoved);
        assert_eq!(story.effects, [Effect::Observe]);
        let story = story.then(3, Event::Found(ready(true)));
        assert_eq!(story.state.stage, Stage::Failed, "it came back");
    }

    #[test]
    fn what_was_mended_is_looked_at_once_more() {
        let fixed = || Event::Checked { blockers: vec![], fixed: true };
        let story = Story::new(Policy::default()).then(1, Event::Found(nothing())).then(2, fixed());
        assert_eq!((story.state.stage, story.effects.as_slice()), (Stage::Begun, [Effect::Observe].as_slice()));
        assert_eq!(story.then(3, Event::Found(nothing())).then(4, fixed()).state.stage, Stage::Probed);
    }

    #[test]
    fn a_kubeadm_that_an_earlier_driver_started_is_followed_within_its_own_time() {
        let running = Found { kubeadm: Some(at(3)), ..nothing() };
        let attached = Story::new(Policy::default()).then(31, Event::Found(running));
        assert_eq!((attached.state.stage, attached.effects.last()), (Stage::Joining, Some(&Effect::Attach)));
        let replayed = attached.then(31, Event::Kubeadm(Milestone::KubeletStarted)).then(32, kubelet());
        assert_eq!((replayed.state.stage, replayed.state.deadline), (Stage::KubeletUp, at(3 + 270)));
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let seen = sample::joined();
        let cause = prop_oneof![
            Just("api.refused"),
            Just("filesystem.space"),
            Just("cni.no-subnet-env"),
            Just("kubeadm.ca-hash-mismatch")
        ];
        let cause = cause.prop_map(|id| Cause::of(id, "x"));
        let causes = prop::collection::vec(cause.clone(), 0..2);
        let kubelet = (any::<bool>(), any::<bool>(), 0u64..3, proptest::option::of(-1i32..204)).prop_map(
            |(active, alone, restarts, exit)| {
                Event::Kubelet(Ok(Kubelet {
                    active,
                    standalone: alone && active,
                    restarts,
                    exit,
                    started_at: Some(NOW),
                }))
            },
        );
        let node = (any::<Option<bool>>(), any::<bool>(), any::<bool>()).prop_map(|(identity, ready, unavailable)| {
            let network_unavailable = unavailable.then(|| "x".to_owned());
            Event::Node(Ok(Node { identity, ready, network_unavailable, ..sample::node() }))
        });
        prop_oneof![
            any_found().prop_map(Event::Found),
            Just(Event::Found(nothing())),
            Just(Event::NodeRemoved),
            (causes.clone(), any::<bool>()).prop_map(|(blockers, fixed)| Event::Checked { blockers, fixed }),
            Just(Event::Checked { blockers: vec![], fixed: false }),
            Just(Event::Prepared),
            Just(Event::Started),
            Just(Event::Kubeadm(Milestone::KubeletStarted)),
            Just(Event::Kubeadm(Milestone::Done)),
            (proptest::option::of(0i32..4), causes).prop_map(|(status, causes)| Event::KubeadmEnded { status, causes }),
            kubelet,
            Just(Event::Kubelet(seen.kubelet)),
            Just(request(Signing::Pending)),
            Just(request(Signing::Approved)),
            Just(Event::Certificate(Ok(Certificate::Trusted))),
            Just(Event::Certificate(Err(Why::Absent))),
            node,
            Just(Event::Node(seen.node)),
            Just(Event::Node(Err(Why::Absent))),
            (0u8..3, -20i64..20)
                .prop_map(|(version, seconds)| Event::Lease(Ok(sample::renewal(&version.to_string(), seconds)))),
            Just(Event::Runtime(seen.runtime)),
            Just(Event::Runtime(Err(Why::TimedOut))),
            Just(Event::Sandbox(seen.sandbox)),
            Just(Event::Sandbox(Err(Why::Broken("x".into())))),
            cause.prop_map(Event::Trouble),
            Just(Event::Finished { changed: false }),
            Just(Event::Tick),
        ]
    }

    fn any_policy() -> impl Strategy<Value = Policy> {
        let goal = prop_oneof![Just(Until::Registered), Just(Until::Network), Just(Until::Verified)];
        (goal, 1u32..4, 1u32..2000, any::<bool>(), any::<bool>(), 0u8..=100).prop_map(
            |(until, attempts, join_timeout, replace_node, fix, jitter)| Policy {
                until,
                attempts,
                join_timeout,
                replace_node,
                fix,
                jitter,
            },
        )
    }

    /// What must hold of every state.
    fn keeps_its_promises(state: &State) -> Result<(), TestCaseError> {
        prop_assert!(
            state.stage.is_over() || state.deadline >= state.since || state.memory.bootstrap_since.is_some(),
            "no deadline: {:?}",
            state
        );
        prop_assert!(state.deadline < Timestamp::MAX);
        prop_assert!(state.attempt <= state.policy.attempts);
        prop_assert!(state.failures.len() <= state.policy.attempts as usize && state.troubles.len() <= MOST_TROUBLES);
        let bootstraps = matches!(state.stage, Stage::KubeletUp | Stage::CertificateRequested)
            || (state.stage == Stage::Joining && state.memory.bootstrap_since.is_some());
        if let (true, Some(began)) = (bootstraps, state.memory.bootstrap_since) {
            prop_assert!(state.deadline.duration_since(began).as_secs() <= 270, "{:?}", state);
        }
        if matches!(state.stage, Stage::Verified | Stage::Joined) {
            prop_assert!(holds(&state.seen, state.policy.until), "joined without evidence: {:?}", state);
        }
        let text = serde_json::to_string(state).unwrap();
        prop_assert_eq!(&serde_json::from_str::<State>(&text).unwrap(), state);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

        #[test]
        fn whatever_comes_every_state_keeps_its_promises(policy in any_policy(), events in prop::collection::vec((any_event(), 0i64..40), 0..60)) {
            let (mut state, _) = State::begin(policy, NOW);
            let mut second = 0;
            for (event, wait) in events {
                second += wait;
                let before = state.clone();
                let effects;
                (state, effects) = step(&state, &event, at(second));
                keeps_its_promises(&state)?;
                let reports = effects.iter().filter(|effect| matches!(effect, Effect::Report(_))).count();
                prop_assert_eq!(reports, usize::from(state.stage.is_over() && !before.stage.is_over()));
                if effects.contains(&Effect::CleanUp) {
                    prop_assert!(before.stage < Stage::CertificateIssued);
                }
            }
        }

        #[test]
        fn whatever_came_time_ends_it(policy in any_policy(), events in prop::collection::vec(any_event(), 0..40), noise in prop::collection::vec(any_event(), 1..8)) {
            let (mut state, _) = State::begin(policy, NOW);
            for event in events {
                state = step(&state, &event, NOW).0;
            }
            // At each deadline one of any events: no more than the stages of the attempts that are left.
            let mut turns = 0usize;
            while !state.stage.is_over() {
                let event = noise.get(turns % noise.len()).cloned().unwrap_or(Event::Tick);
                let now = state.deadline.max(state.since);
                state = step(&state, &event, now).0;
                keeps_its_promises(&state)?;
                turns += 1;
                prop_assert!(turns <= 16 * state.policy.attempts as usize, "does not end: {:?}", state);
            }
        }

        #[test]
        fn joined_needs_all_of_the_evidence(policy in any_policy(), missing in 0usize..7) {
            let seen = sample::joined();
            let needed = match policy.until {
                Until::Registered => 4,
                Until::Network => 5,
                Until::Verified => 6,
            };
            let all = [
                kubelet(),
                Event::Certificate(seen.certificate),
                Event::Node(seen.node),
                Event::Lease(Ok(sample::renewal("1", 9))),
                Event::Runtime(seen.runtime),
                Event::Sandbox(seen.sandbox),
            ];
            let found = Found { local: Local::Joined, node: Ok(sample::node()), ..nothing() };
            let mut story = Story::new(policy).then(1, Event::Found(found));
            for (n, event) in all.into_iter().enumerate() {
                if n != missing {
                    story = story.then(5, event);
                }
            }
            story = story.then(6, Event::Finished { changed: false });
            prop_assert_eq!(story.state.stage == Stage::Joined, missing >= needed, "{:?}", story.state);
        }
    }
}
