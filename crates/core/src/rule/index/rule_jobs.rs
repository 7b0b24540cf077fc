//! Writes of rules: finalizers and statuses.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::entry::StatusPrint;
use super::job::{PatchedStatus, RuleAnswer, RuleJob, RuleJobKind, RulePatch};
use super::{NEWER_COMES_WITHIN, RuleIndex, STATUS_EVERY, backoff, decided};
use crate::rule::compiled::{CompiledRule, RuleStage};
use crate::rule::decide::{RuleOutcome, TaintChange};
use crate::rule::event::RuleEventKind;
use crate::rule::node::Uptime;
use crate::rule::object::{FINALIZER, RuleStatus};
use crate::rule::status::{RuleStanding, StatusNode, status};

/// How often it is looked whether the taints of a rule that is being deleted are all gone: that takes a walk over all nodes.
const CLEAN_EVERY: Duration = Duration::from_millis(200);

impl RuleIndex {
    /// Writes of rules that are due, at most so many: finalizers first, then statuses.
    pub fn rule_jobs(&mut self, most: usize, now: Uptime, wall: Timestamp) -> Vec<RuleJob> {
        if !self.is_synced() {
            return Vec::new();
        }
        self.end_of_yielding(now);
        let names: Vec<Arc<str>> = self.rules.keys().cloned().collect();
        let mut jobs = Vec::new();
        for name in names {
            let Some(entry) = self.rules.get_mut(&name) else { continue };
            if entry.busy.is_some() || entry.retry.is_some_and(|at| now < at) {
                continue;
            }
            entry.retry = None;
            if jobs.len() == most {
                break;
            }
            let job = self.finalizer_job(&name, now).or_else(|| self.status_job(&name, now, wall));
            if let (Some(job), Some(entry)) = (job, self.rules.get_mut(&name)) {
                entry.busy = Some(now);
                self.rule_queue.adds += 1;
                jobs.push(job);
            }
        }
        jobs
    }

    fn finalizer_job(&mut self, name: &Arc<str>, now: Uptime) -> Option<RuleJob> {
        let rule = &self.rules.get(name)?.rule;
        let (kind, finalizers) = if rule.stage == (RuleStage::Enforced { claimed: false }) {
            let with_ours = rule.finalizers.iter().cloned().chain([FINALIZER.to_owned()]).collect::<Vec<_>>();
            (RuleJobKind::AddFinalizer, with_ours)
        } else if rule.is_deleting() && rule.has_finalizer() {
            if !self.is_clean(rule, now) {
                self.rules.get_mut(name)?.retry = Some(now + CLEAN_EVERY);
                return None;
            }
            let others = rule.finalizers.iter().filter(|it| *it != FINALIZER).cloned().collect::<Vec<_>>();
            (RuleJobKind::RemoveFinalizer, others)
        } else {
            return None;
        };
        let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
        let metadata = json!({ "finalizers": finalizers, "resourceVersion": rule.resource_version });
        Some(RuleJob { rule: Arc::clone(name), kind, patch: RulePatch { metadata, status: None } })
    }

    /// No node has a taint left that goes with the rule.
    fn is_clean(&self, rule: &CompiledRule, now: Uptime) -> bool {
        let removed = |outcome: &RuleOutcome| outcome.rule == rule.name && outcome.change == Some(TaintChange::Removed);
        self.nodes
            .values()
            .filter(|entry| entry.node.has_taint(&rule.spec.taint))
            .all(|entry| !decided(entry, &self.rules, now).outcomes.iter().any(removed))
    }

    fn status_job(&mut self, name: &Arc<str>, now: Uptime, wall: Timestamp) -> Option<RuleJob> {
        let entry = self.rules.get(name)?;
        let due = entry.status_due(self.nodes_wait())?;
        if now < due || entry.rule.is_deleting() {
            return None;
        }
        let desired = self.status_of(name, now, wall)?;
        let extended = self.extended != Some(false);
        let print = StatusPrint::of(&desired);
        let entry = self.rules.get_mut(name)?;
        entry.changed = None;
        entry.counters.last_reconciliation = Some(wall.as_second());
        let same = print.upstream == entry.seen.upstream && (!extended || print.own == entry.seen.own);
        if same {
            return None;
        }
        entry.sent = Some(print.upstream);
        let metadata = json!({ "resourceVersion": entry.rule.resource_version });
        let patch = RulePatch { metadata, status: Some(PatchedStatus { status: desired, extended }) };
        Some(RuleJob { rule: Arc::clone(name), kind: RuleJobKind::Status, patch })
    }

    /// A rule's status as it should be.
    pub fn status_of(&self, name: &str, now: Uptime, wall: Timestamp) -> Option<RuleStatus> {
        let entry = self.rules.get(name)?;
        let nodes = self.nodes.values().filter_map(|node| {
            let record = node.records.iter().find(|record| record.selected && *record.rule == *name)?;
            Some(StatusNode {
                node: &node.node,
                held: record.held,
                satisfied: record.satisfied,
                missing: record.missing,
                failure: node.failure.as_deref(),
                since: to_the_second(record.since),
            })
        });
        let standing = RuleStanding {
            conflicts_with: self.conflicts.get(name).cloned(),
            rival: entry.rival.as_ref().map(|(says, _)| says.as_str()),
            now,
        };
        // What it is by the object, not what it is made for the time being.
        let mut rule = entry.rule.clone();
        rule.stage = entry.stage;
        Some(status(&rule, nodes, &standing, &entry.conditions, to_the_second(wall)))
    }

    pub fn answer_rule(&mut self, job: &RuleJob, answer: RuleAnswer, now: Uptime) {
        let Some(entry) = self.rules.get_mut(&job.rule) else { return };
        match answer {
            RuleAnswer::Written(stored) => {
                self.rule_queue.succeeded += 1;
                entry.attempts = 0;
                if job.kind == RuleJobKind::Status {
                    entry.written = Some(now);
                    entry.took = now.saturating_sub(entry.busy.unwrap_or(now));
                    if let Some(stored) = &stored
                        && job.patch.status.as_ref().is_some_and(|of| of.extended)
                    {
                        self.extended = Some(!stored.status.conditions.is_empty());
                    }
                }
                match stored {
                    Some(stored) => {
                        // Still ours to write: what comes back is what we wrote.
                        self.apply_rule(*stored, now);
                        if let Some(entry) = self.rules.get_mut(&job.rule) {
                            entry.busy = None;
                        }
                    }
                    None => self.delete_rule(&job.rule, now),
                }
            }
            // The newer one is on its way.
            RuleAnswer::Conflict => {
                self.rule_queue.requeued += 1;
                let operation = match job.kind {
                    RuleJobKind::AddFinalizer => "finalizer_add",
                    RuleJobKind::RemoveFinalizer => "finalizer_remove",
                    RuleJobKind::Status => "rule_status_rule_sweep",
                };
                *entry.counters.conflicts.entry(operation).or_default() += 1;
                entry.again(now, STATUS_EVERY);
            }
            RuleAnswer::Gone => entry.again(now, NEWER_COMES_WITHIN),
            RuleAnswer::Later(after) => {
                self.rule_queue.retries += 1;
                let wait = after.unwrap_or_else(|| backoff(entry.attempts.saturating_add(1)));
                entry.again(now, wait);
            }
            RuleAnswer::Refused(why) => {
                self.rule_queue.failed += 1;
                let wait = backoff(entry.attempts.saturating_add(1));
                entry.again(now, wait);
                let kind = if job.kind == RuleJobKind::RemoveFinalizer {
                    RuleEventKind::CleanupTaintsError
                } else {
                    RuleEventKind::Invalid
                };
                let (event, taint) = (entry.rule_event(kind, why), entry.rule.spec.taint.id());
                self.events.extend(self.gate.offer(event, &taint, now));
            }
        }
    }
}

/// As the API server keeps times.
fn to_the_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
