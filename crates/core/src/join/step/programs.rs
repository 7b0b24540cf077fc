//! What kubeadm says, and programs that end.

use jiff::Timestamp;

use super::{JoinEffect, NOT_FOUND};
use crate::id;
use crate::join::causes;
use crate::join::failure::{JoinCause, worst};
use crate::join::output::Milestone;
use crate::join::state::{JoinStatus, Stage, later};
use crate::join::verify::NodeEvidence;

impl JoinStatus {
    pub(super) fn noted(&mut self, milestone: &Milestone, now: Timestamp) -> Vec<JoinEffect> {
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
    pub(super) fn kubeadm_ended(
        &mut self,
        status: Option<i32>,
        causes: &[JoinCause],
        now: Timestamp,
    ) -> Vec<JoinEffect> {
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
    pub(super) fn program_ended(&mut self, who: &str, causes: &[JoinCause], now: Timestamp) -> Vec<JoinEffect> {
        if let Some(first) = causes.first().filter(|_| !worst(causes).may_pass()) {
            return self.fail(format!("{who} ended: {}", first.says), causes.to_vec(), now);
        }
        let mut told = Vec::new();
        for cause in causes {
            told.extend(self.remember(cause).then(|| JoinEffect::Tell(cause.says.clone())));
        }
        told
    }
}
