//! The only place where a join changes state. Everything it needs comes in; nothing is read here.
//!
//! `now` is to go forward evenly: the time at which the run began and what a monotonic clock counted since, so that a clock
//! that is set in mid-join ends nothing early.

#![deny(clippy::match_wildcard_for_single_variants, clippy::wildcard_enum_match_arm)]

use jiff::Timestamp;

use super::existing::decide;
use super::failure::JoinCause;
use super::state::{JoinPolicy, JoinStatus, Memory, Stage, later};
use super::verify::{ClientCertificate, NodeEvidence, Until, holds, holds_but_causes, is_overruled, is_proven_over};
use crate::catalogue::{self, Stops};
use crate::report::Confidence;

mod beginning;
mod causes;
mod effect;
mod end;
mod event;
mod evidence;
mod programs;
mod trial;

pub use effect::{JoinEffect, JoinOutcome, Withdrawal};
pub use event::{JoinEvent, PodTrial};
pub use trial::UNREACHED;

/// Exit statuses of "not found", of a shell and of systemd.
const NOT_FOUND: [i32; 2] = [127, 203];

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
            let counts = trouble.confidence == Confidence::Certain
                && !is_overruled(&self.seen, &trouble.id)
                && !is_proven_over(&self.seen, trouble);
            counts && stops.forbidden_from().is_some_and(|from| from <= until)
        };
        self.troubles.iter().any(forbids)
    }
}

#[cfg(test)]
mod tests;
