//! Everything the controller knows, without I/O: nodes, rules, which nodes must be looked at, what is being written, and when to
//! look again. Events of watches and answers of writes go in; jobs come out. In whatever order they come, the end is the same:
//! what [`decide`](super::decide()) says of the last state of every node and rule.
//!
//! * `nodes`, `written`: nodes as they come, and what came of their writes
//! * `rules`, `rule_jobs`: rules as they come, and what is written of them
//! * `entry`, `job`: what is kept of each, and what is to be written

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::compiled::CompiledRule;
use super::decide::{NodeDecision, decide};
use super::evaluate::verdicts;
use super::event::{EventGate, RuleEvent};
use super::metrics::{QueueMetrics, RuleCounters, RuleGauges};
use super::node::{SlimNode, Texts, Uptime};
use entry::{NodeEntry, RuleEntry};

mod entry;
mod job;
mod nodes;
mod rule_jobs;
mod rules;
mod written;

pub use job::{NodeAnswer, NodeJob, RuleAnswer, RuleJob, RuleJobKind, RulePatch};

/// After a conflict the newer Node is on its way; who has not seen it by then tries again.
const NEWER_COMES_WITHIN: Duration = Duration::from_secs(10);
/// A write that the API server refuses is tried again ever more rarely.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// One write of a rule's status in this time at most.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// While nodes still change, or wait to be written, a status waits for them to come to rest, but no longer than this: each write
/// costs the API server as much as hundreds of nodes' writes.
const STATUS_REST: Duration = Duration::from_millis(500);
const STATUS_WITHIN: Duration = Duration::from_secs(5);
/// After one that took long, the next waits for so many times as long, so that statuses have a twentieth of the API server's time
/// and the nodes the rest; but no longer than this.
const STATUS_SHARE: u32 = 20;
const STATUS_AFTER: Duration = Duration::from_secs(10);
/// Another controller is at work where our write of the same node is undone so often, within the time.
const UNDONE: u8 = 3;
const UNDONE_WITHIN: Duration = Duration::from_mins(1);
/// For so long Carrick then leaves the rule to the other.
const YIELD: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub struct RuleIndex {
    pub texts: Texts,
    nodes: HashMap<Arc<str>, NodeEntry>,
    rules: BTreeMap<Arc<str>, RuleEntry>,
    queue: VecDeque<Arc<str>>,
    timers: BTreeSet<(Uptime, Arc<str>)>,
    conflicts: BTreeMap<Arc<str>, Arc<str>>,
    gate: EventGate,
    events: Vec<RuleEvent>,
    /// While a list comes in: who was in it so far.
    listed_nodes: Option<HashSet<Arc<str>>>,
    listed_rules: Option<BTreeSet<Arc<str>>>,
    nodes_synced: bool,
    rules_synced: bool,
    /// Nodes have been decided on: not so on a standby.
    decides: bool,
    /// The server's definition has the fields that are Carrick's own. `None`: not known yet.
    extended: Option<bool>,
    pub node_queue: QueueMetrics,
    pub rule_queue: QueueMetrics,
}

impl RuleIndex {
    /// Whether all nodes and rules have been seen once.
    pub fn is_synced(&self) -> bool {
        self.nodes_synced && self.rules_synced
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub fn nodes(&self) -> impl Iterator<Item = &SlimNode> {
        self.nodes.values().map(|entry| &entry.node)
    }

    pub fn rules(&self) -> impl Iterator<Item = &CompiledRule> {
        self.rules.values().map(|entry| &entry.rule)
    }

    /// Events that are to be told now.
    pub fn take_events(&mut self, now: Uptime) -> Vec<RuleEvent> {
        let mut events = std::mem::take(&mut self.events);
        events.extend(self.gate.take_due(now));
        events
    }

    /// When a node is due though nothing happens. Of those that are queued whoever asks for jobs knows.
    pub fn next_node_due(&self) -> Option<Uptime> {
        self.timers.first().map(|(at, _)| *at).filter(|_| self.rules_synced)
    }

    /// When a write of a rule, or an event, is due though nothing happens.
    pub fn next_rule_due(&self) -> Option<Uptime> {
        let idle = self.rules.values().filter(|entry| self.is_synced() && entry.busy.is_none());
        let nodes_wait = self.nodes_wait();
        [idle.filter_map(|entry| entry.next_due(nodes_wait)).min(), self.gate.next_due()].into_iter().flatten().min()
    }

    /// Nodes are to be looked at that were not yet: the API server takes no more writes now.
    fn nodes_wait(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Looks at every node once more: the repair of what no event told.
    pub fn queue_all(&mut self, now: Uptime, wall: Timestamp) {
        let names: Vec<Arc<str>> = self.nodes.keys().cloned().collect();
        for name in names {
            self.queue_node(&name, now);
        }
        for entry in self.rules.values_mut() {
            entry.counters.last_reconciliation = Some(wall.as_second());
        }
        self.texts.sweep();
    }

    /// What the queues tell of themselves, with what is under way now.
    pub fn queue_metrics(&self, now: Uptime) -> (QueueMetrics, QueueMetrics) {
        let (mut nodes, mut rules) = (self.node_queue.clone(), self.rule_queue.clone());
        nodes.under_way(self.nodes.values().filter_map(|entry| Some(now.saturating_sub(entry.state.written_since()?))));
        rules.under_way(self.rules.values().filter_map(|entry| Some(now.saturating_sub(entry.busy?))));
        (nodes, rules)
    }

    pub fn counters_and_gauges(&self, now: Uptime) -> BTreeMap<Arc<str>, (RuleCounters, RuleGauges)> {
        let mut all: BTreeMap<Arc<str>, (RuleCounters, RuleGauges)> = BTreeMap::new();
        for (name, entry) in &self.rules {
            let blocked = entry.rule.spec.conditions.iter().map(|it| (Arc::from(it.kind.as_str()), 0)).collect();
            let gauges = RuleGauges {
                enforcement_mode: entry.rule.spec.enforcement_mode.as_str(),
                dry_run: entry.rule.spec.is_dry_run(),
                deleting: entry.rule.is_deleting(),
                blocked,
                ..RuleGauges::default()
            };
            all.insert(Arc::clone(name), (entry.counters.clone(), gauges));
        }
        for entry in self.nodes.values() {
            for record in entry.records.iter().filter(|record| record.selected) {
                let Some((_, gauges)) = all.get_mut(&record.rule) else { continue };
                gauges.matched += 1;
                *(if record.held { &mut gauges.held } else { &mut gauges.released }) += 1;
                let Some(rule) = self.rules.get(&record.rule).filter(|_| record.held && !record.satisfied) else {
                    continue;
                };
                for unmet in verdicts(&rule.rule, &entry.node, now).filter(|verdict| !verdict.holds()) {
                    if let Some(count) = gauges.blocked.get_mut(unmet.kind) {
                        *count += 1;
                    }
                }
            }
        }
        all
    }
}

fn decided(entry: &NodeEntry, rules: &BTreeMap<Arc<str>, RuleEntry>, now: Uptime) -> NodeDecision {
    let known = |rule: &str| {
        let recorded = entry.records.iter().find(|record| *record.rule == *rule);
        let told = || rules.get(rule).and_then(|of| of.told.get(entry.node.name.as_ref()));
        recorded.map_or_else(|| told().is_some_and(|told| told.held), |record| record.managed)
    };
    decide(&entry.node, rules.values().map(|of| &of.rule), known, now)
}

/// Versions of one object count up; where they are not numbers, none is older.
fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}

fn backoff(attempts: u8) -> Duration {
    let (least, most) = RETRY;
    least.saturating_mul(1 << attempts.saturating_sub(1).min(10)).min(most)
}

#[cfg(test)]
mod tests;
