//! What is kept of one node and of one rule.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::{STATUS_AFTER, STATUS_EVERY, STATUS_REST, STATUS_SHARE, STATUS_WITHIN, UNDONE, UNDONE_WITHIN};
use crate::rule::compiled::{CompiledRule, RuleStage};
use crate::rule::decide::TaintChange;
use crate::rule::event::{EventObject, RuleEvent, RuleEventKind, note};
use crate::rule::metrics::RuleCounters;
use crate::rule::node::{SlimNode, Uptime};
use crate::rule::object::{ConditionStatus, RuleCondition, RuleStatus, TaintStatus};

#[derive(Debug)]
pub(super) struct NodeEntry {
    pub(super) node: SlimNode,
    pub(super) records: Vec<NodeRecord>,
    pub(super) state: WriteState,
    /// In the queue since.
    pub(super) queued: Option<Uptime>,
    pub(super) timer: Option<Uptime>,
    pub(super) failure: Option<Box<str>>,
    pub(super) attempts: u8,
    pub(super) last_write: Option<Box<LastWrite>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriteState {
    Idle,
    Writing {
        since: Uptime,
    },
    /// For a version other than this.
    Waiting {
        version: Box<str>,
        until: Uptime,
    },
    /// Not before this moment.
    Delayed {
        until: Uptime,
    },
}

/// What is known of one rule on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
pub(super) struct NodeRecord {
    pub(super) rule: Arc<str>,
    pub(super) selected: bool,
    pub(super) held: bool,
    pub(super) satisfied: bool,
    pub(super) missing: bool,
    /// It is, or was, this rule that looks after the taint.
    pub(super) managed: bool,
    /// Of what a status shows.
    pub(super) print: u64,
    pub(super) since: Timestamp,
}

/// What we wrote last, to see whether somebody takes it back.
#[derive(Debug)]
pub(super) struct LastWrite {
    pub(super) at: Uptime,
    pub(super) changes: Vec<(Arc<str>, TaintChange)>,
    pub(super) undone: u8,
}

#[derive(Debug)]
pub(super) struct RuleEntry {
    pub(super) rule: CompiledRule,
    /// What it is by the object alone; `rule.stage` may be otherwise while another controller is at work.
    pub(super) stage: RuleStage,
    /// Nodes as the status told of them before they were first decided on.
    pub(super) told: BTreeMap<Box<str>, Told>,
    pub(super) seen: StatusPrint,
    /// Of what we wrote last, whether or not an answer came: upstream's fields.
    pub(super) sent: Option<u64>,
    pub(super) conditions: Vec<RuleCondition>,
    /// When a status was last written, how long that took, and since when and when last something is to be told.
    pub(super) written: Option<Uptime>,
    pub(super) took: Duration,
    pub(super) changed: Option<(Uptime, Uptime)>,
    /// A write of it is under way since.
    pub(super) busy: Option<Uptime>,
    pub(super) retry: Option<Uptime>,
    pub(super) attempts: u8,
    pub(super) rival: Option<(String, Uptime)>,
    /// How often, and when last, somebody else has written the status.
    pub(super) foreign_writes: (u8, Uptime),
    pub(super) counters: RuleCounters,
}

#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) held: bool,
    pub(super) print: u64,
    pub(super) since: Timestamp,
}

/// What tells one status from another: upstream's fields, and Carrick's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusPrint {
    pub(super) upstream: u64,
    pub(super) own: u64,
}

impl WriteState {
    pub(super) fn written_since(&self) -> Option<Uptime> {
        match self {
            WriteState::Writing { since } => Some(*since),
            WriteState::Idle | WriteState::Waiting { .. } | WriteState::Delayed { .. } => None,
        }
    }
}

impl NodeEntry {
    pub(super) fn new(node: SlimNode) -> Self {
        NodeEntry {
            node,
            records: Vec::new(),
            state: WriteState::Idle,
            queued: None,
            timer: None,
            failure: None,
            attempts: 0,
            last_write: None,
        }
    }

    /// The rule whose last change of this node somebody has taken back, once too often.
    pub(super) fn undone(
        &mut self,
        node: &SlimNode,
        rules: &BTreeMap<Arc<str>, RuleEntry>,
        now: Uptime,
    ) -> Option<Arc<str>> {
        let last = self.last_write.as_mut().filter(|last| now < last.at + UNDONE_WITHIN)?;
        let taken_back = last.changes.iter().find(|(rule, change)| {
            let Some(of) = rules.get(rule) else { return false };
            match change {
                TaintChange::Added => !node.has_taint(&of.rule.spec.taint),
                TaintChange::Removed => node.has_taint(&of.rule.spec.taint),
            }
        });
        let rule = Arc::clone(&taken_back?.0);
        last.changes.clear();
        last.undone += 1;
        (last.undone >= UNDONE).then_some(rule)
    }

    /// A heartbeat has changed that a rule has missed: no other change tells that a reporter is back.
    pub(super) fn hears_again(&self, node: &SlimNode, rules: &BTreeMap<Arc<str>, RuleEntry>) -> bool {
        let heard = |node: &SlimNode, kind: &str| node.condition(kind).map(|condition| condition.heard);
        self.records.iter().filter(|record| !record.satisfied).any(|record| {
            let rule = rules.get(&record.rule).map(|of| &of.rule).filter(|rule| rule.max_age.is_some());
            rule.is_some_and(|rule| {
                rule.spec.conditions.iter().any(|it| heard(node, &it.kind) != heard(&self.node, &it.kind))
            })
        })
    }
}

impl RuleEntry {
    pub(super) fn new(rule: CompiledRule, told: &RuleStatus, now: Uptime) -> Self {
        RuleEntry {
            stage: rule.stage,
            told: told_nodes(told),
            seen: StatusPrint::of(told),
            sent: None,
            conditions: told.conditions.clone(),
            written: None,
            took: Duration::ZERO,
            changed: Some((now, now)),
            busy: None,
            retry: None,
            attempts: 0,
            rival: None,
            foreign_writes: (0, Duration::ZERO),
            counters: RuleCounters::default(),
            rule,
        }
    }

    /// Something is to be told in its status.
    pub(super) fn touch(&mut self, now: Uptime) {
        let first = self.changed.map_or(now, |(first, _)| first);
        self.changed = Some((first, now));
    }

    pub(super) fn again(&mut self, now: Uptime, wait: Duration) {
        self.busy = None;
        self.attempts = self.attempts.saturating_add(1);
        self.retry = Some(now + wait);
        self.touch(now);
    }

    /// `nodes_wait`: writes of nodes are queued, which go first.
    pub(super) fn status_due(&self, nodes_wait: bool) -> Option<Uptime> {
        let (first, last) = self.changed?;
        let latest = first + STATUS_WITHIN;
        let rested = if nodes_wait { latest } else { latest.min(last + STATUS_REST) };
        let pause = self.took.saturating_mul(STATUS_SHARE).clamp(STATUS_EVERY, STATUS_AFTER);
        let allowed = self.written.map_or(Duration::ZERO, |written| written + pause);
        Some(rested.max(allowed))
    }

    pub(super) fn next_due(&self, nodes_wait: bool) -> Option<Uptime> {
        let rival = self.rival.as_ref().map(|(_, until)| *until);
        let status = self.status_due(nodes_wait).filter(|_| !self.rule.is_deleting());
        let status = status.map(|due| self.retry.map_or(due, |retry| due.max(retry)));
        [rival, status, self.retry].into_iter().flatten().min()
    }

    pub(super) fn node_event(&self, kind: RuleEventKind, node: &SlimNode, why: &str) -> RuleEvent {
        let about = EventObject {
            node: Some(Arc::clone(&node.name)),
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
        };
        let says = note(kind, &self.rule.spec.taint.id(), &self.rule.name, why);
        RuleEvent { kind, rule: Arc::clone(&self.rule.name), rule_uid: self.rule.uid.clone(), about, note: says }
    }

    pub(super) fn rule_event(&self, kind: RuleEventKind, says: String) -> RuleEvent {
        let about = EventObject {
            node: None,
            uid: self.rule.uid.clone(),
            resource_version: self.rule.resource_version.clone(),
        };
        RuleEvent { kind, rule: Arc::clone(&self.rule.name), rule_uid: self.rule.uid.clone(), about, note: says }
    }
}

/// What a status says of each node.
pub(super) fn told_nodes(status: &RuleStatus) -> BTreeMap<Box<str>, Told> {
    let told = status.node_evaluations.iter().map(|it| {
        let held = it.taint_status == TaintStatus::Present;
        let print = print_of(held, it.condition_results.iter().map(|it| it.current_status));
        (Box::from(it.node_name.as_str()), Told { held, print, since: it.last_evaluation_time })
    });
    told.collect()
}

impl StatusPrint {
    pub(super) fn of(status: &RuleStatus) -> Self {
        let RuleStatus {
            observed_generation,
            applied_nodes,
            failed_nodes,
            node_evaluations,
            dry_run_results,
            summary,
            conditions,
        } = status;
        let upstream = (observed_generation, applied_nodes, failed_nodes, node_evaluations, dry_run_results);
        StatusPrint { upstream: print(&upstream), own: print(&(summary, conditions)) }
    }
}

pub(super) fn print_of(held: bool, statuses: impl Iterator<Item = ConditionStatus>) -> u64 {
    let mut hasher = DefaultHasher::new();
    held.hash(&mut hasher);
    statuses.for_each(|status| status.hash(&mut hasher));
    hasher.finish()
}

/// Of its JSON, which is never built.
fn print(value: &impl Serialize) -> u64 {
    struct Hashed(DefaultHasher);
    impl io::Write for Hashed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut hashed = Hashed(DefaultHasher::new());
    // Neither a status nor this writer knows an error.
    let _ = serde_json::to_writer(&mut hashed, value);
    hashed.0.finish()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::rule;
    use super::*;

    /// What changed first and last, the status before and how long its write took, and whether writes of nodes wait.
    #[test]
    fn a_status_waits_for_nodes_and_takes_turns_with_them() {
        for (case, (first, last), before, nodes_wait, due) in [
            ("at rest", (10_000, 10_000), None, false, 10_500),
            ("nodes still change", (10_000, 14_800), None, false, 15_000),
            ("writes of nodes wait", (10_000, 10_000), None, true, 15_000),
            ("another one just now", (10_000, 10_000), Some((9_800, 10)), false, 10_800),
            ("one that took a third of a second", (10_000, 10_000), Some((9_000, 333)), false, 15_660),
            ("one that took long", (10_000, 10_000), Some((9_000, 3_000)), false, 19_000),
            ("one that took long, a while ago", (10_000, 10_000), Some((0, 3_000)), true, 15_000),
        ] {
            let mut entry = RuleEntry::new(rule("r").compiled(), &RuleStatus::default(), Duration::ZERO);
            entry.changed = Some((Duration::from_millis(first), Duration::from_millis(last)));
            if let Some((written, took)) = before {
                (entry.written, entry.took) = (Some(Duration::from_millis(written)), Duration::from_millis(took));
            }
            assert_eq!(entry.status_due(nodes_wait), Some(Duration::from_millis(due)), "{case}");
        }
    }
}
