//! Whether a pod runs here, and is reached: when it is tried again, and from when on a no is believed.

use jiff::{SignedDuration, Timestamp};

use super::{JoinEffect, JoinEvent, JoinOutcome, PodTrial};
use crate::catalogue::Class;
use crate::fact::Why;
use crate::join::failure::{JoinCause, worst};
use crate::join::state::{JoinStatus, Stage, later};
use crate::join::verify::{
    AgentPod, StandIn, failed_sandbox, first_missing, holds_but_for_a_pod, is_unreached, unreached,
};

/// Between two sandboxes: the network agent may be a moment behind the CNI configuration, and a refusal costs the runtime 0.1 s.
pub(super) const SANDBOX_AGAIN: SignedDuration = SignedDuration::from_millis(300);
/// A network agent that is behind its configuration is so for seconds; who refuses every sandbox for longer will go on.
const REFUSES: SignedDuration = SignedDuration::from_secs(20);
/// Who refuses sandboxes for what no network agent sets right any more is asked once more, and believed.
const REFUSES_FOR_GOOD: SignedDuration = SignedDuration::from_secs(1);
/// Between two looks for a Pod that proves the network: each may make one.
pub(super) const POD_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// Who places pods does so within a second of a Node's registration: after this no more is on its way.
const NO_MORE_PODS: SignedDuration = SignedDuration::from_secs(5);
/// Between two tries to reach this node, or others from it, from outside.
pub(super) const REACH_AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// The agents of other nodes learn of this one within a second or two; who is not reached for longer will not be.
pub const UNREACHED: SignedDuration = SignedDuration::from_secs(10);

impl JoinStatus {
    /// What was tried and does not hold ends the join once it has lasted.
    pub(super) fn mind_trial(&mut self, trial: &PodTrial, now: Timestamp) -> Option<Vec<JoinEffect>> {
        self.mind_sandbox(trial, now).or_else(|| self.mind_reach(now)).or_else(|| self.mind_proof(now))
    }

    /// When what does not hold yet is tried again.
    pub(super) fn try_again(&self, now: Timestamp) -> Option<JoinEffect> {
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

    pub(super) fn unproven(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        let says = first_missing(&self.seen, self.policy.until).map(|(_, says)| says).unwrap_or_default();
        self.enter(Stage::Failed, now);
        let leave = self.changed.then_some(JoinEffect::Leave);
        leave.into_iter().chain([JoinEffect::Report(JoinOutcome::Unproven { says })]).collect()
    }

    /// What a sandbox was refused for is remembered until one is made.
    pub(super) fn mind_refusal(&mut self, event: &JoinEvent, now: Timestamp) -> Vec<JoinEffect> {
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
        let lasting: Vec<JoinCause> = trial.refused_for.iter().cloned().map(JoinCause::lasting).collect();
        let for_good = worst(&lasting) > Class::Transient;
        // An agent that is down comes back, or crash-loops, and that is judged by itself.
        let is_down = |pod: &AgentPod| pod.network.is_some() && !pod.ready;
        if !for_good && self.seen.agents.iter().flatten().any(is_down) {
            self.memory.refused_since = None;
            return None;
        }
        let since = *self.memory.refused_since.get_or_insert(now);
        if now < later(since, if for_good { REFUSES_FOR_GOOD } else { REFUSES }) {
            return None;
        }
        let is_said = |trouble: &JoinCause| lasting.iter().any(|cause| cause.id == trouble.id);
        let others: Vec<JoinCause> =
            std::mem::take(&mut self.troubles).into_iter().rev().filter(|trouble| !is_said(trouble)).collect();
        let mut symptom = failed_sandbox(&self.seen);
        if let Some(failed) = &mut symptom {
            failed.says.clone_from(&why);
        }
        Some(self.fail(why, lasting.into_iter().chain(others).chain(symptom).collect(), now))
    }
}
