//! Causes: what is heard and remembered, what live diagnosis finds, and what fails for too long.

use jiff::{SignedDuration, Timestamp};

use super::{JoinEffect, JoinEvent};
use crate::check::Subsystem;
use crate::fact::Why;
use crate::join::failure::JoinCause;
use crate::join::state::{JoinStatus, Stage, later};
use crate::join::verify::{StandingCause, Until, failures, forbidding, only_causes_are_open};
use crate::report::Confidence;

/// Between two looks for causes: each reads all there is to see of a machine, which takes about a second.
pub(super) const CAUSES_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// How many things that may pass are remembered.
pub(super) const MOST_TROUBLES: usize = 8;
/// What fails for so long once the network is there is told. Kubernetes takes its taints away every 5 s: few joins see this.
const FAILS: SignedDuration = SignedDuration::from_secs(4);

impl JoinStatus {
    /// What may pass is told and remembered; for what will not, there is no waiting.
    pub(super) fn trouble(&mut self, cause: &JoinCause, now: Timestamp) -> Vec<JoinEffect> {
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
    pub(super) fn remember(&mut self, cause: &JoinCause) -> bool {
        let known = self.troubles.len();
        self.troubles.retain(|known| known.id != cause.id);
        let is_new = self.troubles.len() == known;
        if self.troubles.len() >= MOST_TROUBLES {
            self.troubles.remove(0);
        }
        self.troubles.push(cause.clone());
        is_new
    }

    /// Whether nothing but causes keeps this stage from leading to *verified*.
    fn only_causes_are_open(&self) -> bool {
        let is_last = self.stage == Stage::NetworkReady
            || (self.stage == Stage::Registered && self.policy.until == Until::Registered);
        is_last && only_causes_are_open(&self.seen, self.policy.until)
    }

    /// A cause that no waiting fixes is looked for once more, and believed. One that may pass is the cause when the time is over.
    pub(super) fn mind_causes(&mut self, event: &JoinEvent, now: Timestamp) -> Option<Vec<JoinEffect>> {
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
    pub(super) fn look_for_causes(&mut self, event: &JoinEvent, now: Timestamp) -> Option<JoinEffect> {
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

    /// What fails of the evidence once the network is there, for longer than every start has it: its deadline may be minutes
    /// away.
    pub(super) fn mind_failure(&mut self, now: Timestamp) -> Vec<JoinEffect> {
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
}
