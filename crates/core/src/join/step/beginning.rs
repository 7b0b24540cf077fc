//! Before kubeadm runs: what is here already, what the checks say, and a Node that stands in the way.

use jiff::{SignedDuration, Timestamp};

use super::JoinEffect;
use crate::id;
use crate::join::existing::{Decision, ExistingJoin};
use crate::join::failure::{JoinCause, JoinFailure, worst};
use crate::join::state::{JoinStatus, Stage, later};

/// How often the Node that stands in the way is looked at.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);

impl JoinStatus {
    pub(super) fn decided(&mut self, decision: Decision, found: &ExistingJoin, now: Timestamp) -> Vec<JoinEffect> {
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
    pub(super) fn has_waited_for_a_certificate(&self) -> bool {
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

    pub(super) fn look_again(&mut self, now: Timestamp) -> Vec<JoinEffect> {
        if self.memory.look_again.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.memory.look_again = Some(later(now, LOOK_AGAIN));
        vec![JoinEffect::Observe]
    }

    pub(super) fn checked(&mut self, blockers: &[JoinCause], fixed: bool, now: Timestamp) -> Vec<JoinEffect> {
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
}
