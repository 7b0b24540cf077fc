//! What came of a write of a Node.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::entry::{LastWrite, WriteState};
use super::job::{NodeAnswer, NodeJob};
use super::{NEWER_COMES_WITHIN, RuleIndex, UNDONE_WITHIN, backoff, is_older};
use crate::rule::decide::TaintChange;
use crate::rule::event::RuleEventKind;
use crate::rule::metrics::{BOOTSTRAP, EVALUATION, LATENCY, QUEUE, RECONCILE};
use crate::rule::node::Uptime;

impl RuleIndex {
    pub fn answer_node(&mut self, job: &NodeJob, answer: NodeAnswer, now: Uptime, wall: Timestamp) {
        self.node_queue.active = self.node_queue.active.saturating_sub(1);
        let Some(entry) = self.nodes.get_mut(&job.node) else { return };
        if entry.state.written_since().is_none() {
            // Another Node by this name has come meanwhile.
            return self.queue_node(&job.node, now);
        }
        entry.state = WriteState::Idle;
        match answer {
            NodeAnswer::Written(version) => {
                self.node_queue.succeeded += 1;
                entry.attempts = 0;
                if is_older(&entry.node.resource_version, &version) {
                    job.write.apply(&mut entry.node);
                    entry.node.resource_version = version;
                }
                self.set_failure(&job.node, None, now);
                self.tell(job, now, wall);
            }
            NodeAnswer::Conflict => {
                self.node_queue.requeued += 1;
                if entry.node.resource_version == job.resource_version {
                    let until = now + NEWER_COMES_WITHIN;
                    entry.state = WriteState::Waiting { version: job.resource_version.clone(), until };
                }
                for outcome in &job.outcomes {
                    let operation = match outcome.change {
                        Some(TaintChange::Added) => "add_taint",
                        Some(TaintChange::Removed) => "remove_taint",
                        None => "mark_bootstrap_completed",
                    };
                    if let Some(of) = self.rules.get_mut(&outcome.rule) {
                        *of.counters.conflicts.entry(operation).or_default() += 1;
                    }
                }
            }
            // The watch will tell.
            NodeAnswer::Gone => entry.state = WriteState::Delayed { until: now + NEWER_COMES_WITHIN },
            NodeAnswer::Later(after) => {
                self.node_queue.retries += 1;
                entry.attempts = entry.attempts.saturating_add(1);
                let until = now + after.unwrap_or_else(|| backoff(entry.attempts));
                entry.state = WriteState::Delayed { until };
            }
            NodeAnswer::Refused(why) => {
                self.node_queue.failed += 1;
                entry.attempts = entry.attempts.saturating_add(1);
                entry.state = WriteState::Delayed { until: now + backoff(entry.attempts) };
                let new = entry.failure.as_deref() != Some(&why);
                self.set_failure(&job.node, Some(&why), now);
                self.fail(job, &why, new, now);
            }
        }
        self.queue_node(&job.node, now);
    }

    /// How long a write took, for the metrics of the queue and of the rules it was made for.
    pub fn node_took(&mut self, job: &NodeJob, took: Duration) {
        self.node_queue.worked.observe(QUEUE, took);
        self.node_queue.reconcile.observe(RECONCILE, took);
        for outcome in &job.outcomes {
            if let Some(of) = self.rules.get_mut(&outcome.rule) {
                of.counters.evaluation.observe(EVALUATION, took);
            }
        }
    }

    pub fn rule_took(&mut self, took: Duration) {
        self.rule_queue.worked.observe(QUEUE, took);
        self.rule_queue.reconcile.observe(RECONCILE, took);
    }

    /// Events and counts of a write that succeeded.
    fn tell(&mut self, job: &NodeJob, now: Uptime, wall: Timestamp) {
        let Some(entry) = self.nodes.get_mut(&job.node) else { return };
        let mut changes = Vec::new();
        for outcome in &job.outcomes {
            let Some(of) = self.rules.get_mut(&outcome.rule) else { continue };
            let transitions =
                of.rule.spec.conditions.iter().filter_map(|it| entry.node.condition(&it.kind)?.transition);
            let since = transitions.max();
            let latency = since.map(|since| Duration::try_from(wall.duration_since(since)).unwrap_or_default());
            let taint = of.rule.spec.taint.id();
            let mut kinds = Vec::new();
            match outcome.change {
                Some(TaintChange::Added) => {
                    of.counters.taints_added += 1;
                    if let Some(latency) = latency {
                        of.counters.add_latency.observe(LATENCY, latency);
                    }
                    kinds.push(RuleEventKind::TaintAdded);
                }
                Some(TaintChange::Removed) => {
                    of.counters.taints_removed += 1;
                    if let Some(latency) = latency {
                        of.counters.remove_latency.observe(LATENCY, latency);
                    }
                    kinds.push(RuleEventKind::TaintRemoved);
                }
                None => {}
            }
            if outcome.completes {
                of.counters.bootstraps_completed += 1;
                kinds.push(RuleEventKind::BootstrapCompleted);
                if let (Some(since), Some(created)) = (since, entry.node.created)
                    && outcome.change.is_some()
                    && of.rule.created.is_none_or(|rule| created >= rule)
                    && let Ok(took) = Duration::try_from(since.duration_since(created))
                    && !took.is_zero()
                {
                    of.counters.bootstrap.observe(BOOTSTRAP, took);
                }
            }
            for kind in kinds {
                let event = of.node_event(kind, &entry.node, "");
                self.events.extend(self.gate.offer(event, &taint, now));
            }
            changes.extend(outcome.change.map(|change| (Arc::clone(&outcome.rule), change)));
        }
        let recent = entry.last_write.as_ref().filter(|last| now < last.at + UNDONE_WITHIN);
        let undone = recent.map_or(0, |last| last.undone);
        entry.last_write = (!changes.is_empty()).then(|| Box::new(LastWrite { at: now, changes, undone }));
    }

    /// Every rule of the node lists it with what it failed by.
    pub(super) fn set_failure(&mut self, name: &Arc<str>, failure: Option<&str>, now: Uptime) {
        let Some(entry) = self.nodes.get_mut(name).filter(|entry| entry.failure.as_deref() != failure) else { return };
        entry.failure = failure.map(Into::into);
        for record in entry.records.iter().filter(|record| record.selected) {
            if let Some(of) = self.rules.get_mut(&record.rule) {
                of.touch(now);
            }
        }
    }

    fn fail(&mut self, job: &NodeJob, why: &str, new: bool, now: Uptime) {
        let Some(entry) = self.nodes.get(&job.node) else { return };
        for outcome in &job.outcomes {
            let Some(of) = self.rules.get_mut(&outcome.rule) else { continue };
            *of.counters.failures.entry("EvaluationError").or_default() += 1;
            let (reason, kind) = match outcome.change {
                Some(TaintChange::Added) => ("AddTaintError", RuleEventKind::AddTaintError),
                Some(TaintChange::Removed) => ("RemoveTaintError", RuleEventKind::RemoveTaintError),
                None => continue,
            };
            *of.counters.failures.entry(reason).or_default() += 1;
            if new {
                let (event, taint) = (of.node_event(kind, &entry.node, why), of.rule.spec.taint.id());
                self.events.extend(self.gate.offer(event, &taint, now));
            }
        }
    }
}
