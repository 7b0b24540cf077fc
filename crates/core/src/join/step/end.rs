//! How a join ends: its time is over, somebody said stop, or it has failed.

use jiff::Timestamp;

use super::{JoinEffect, JoinOutcome, Withdrawal};
use crate::id;
use crate::join::failure::{self, JoinCause, JoinFailure, worst};
use crate::join::state::{JoinStatus, Stage, later};
use crate::join::verify::{self, Signing, Until, failures, first_lacking, lacks_only};
use crate::stop::StopSignal;

impl JoinStatus {
    pub(super) fn joined(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        self.enter(Stage::Joined, now);
        vec![JoinEffect::Report(JoinOutcome::Joined { until: self.policy.until, already: !self.changed })]
    }

    pub(super) fn end_of_time(&mut self, now: Timestamp) -> Vec<JoinEffect> {
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
        if failing.is_empty() && matches!(stage, Stage::CertificateIssued | Stage::NetworkReady) {
            // What could not be told is no proof that the Node is not there, or not Ready.
            let until = if stage == Stage::NetworkReady { self.policy.until } else { Until::Registered };
            failing.extend(first_lacking(&self.seen, until));
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
    pub(super) fn interrupted(&mut self, signal: StopSignal, at_work: bool, now: Timestamp) -> Vec<JoinEffect> {
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

    pub(super) fn halted(&mut self, certificate: bool, now: Timestamp) -> Vec<JoinEffect> {
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

    pub(super) fn fail_for(&mut self, cause: JoinCause, now: Timestamp) -> Vec<JoinEffect> {
        self.fail(cause.says.clone(), vec![cause], now)
    }

    /// For all of these at once: who sets one right is not to meet the next in another run.
    pub(super) fn fail_for_all(
        &mut self,
        causes: impl IntoIterator<Item = JoinCause>,
        now: Timestamp,
    ) -> Vec<JoinEffect> {
        let causes = failure::in_order(causes);
        self.fail(failure::summary(&causes), causes, now)
    }

    pub(super) fn fail(&mut self, says: String, causes: Vec<JoinCause>, now: Timestamp) -> Vec<JoinEffect> {
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
