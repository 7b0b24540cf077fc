//! Nodes as they come and go, and which of them has to be written.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::entry::{NodeEntry, NodeRecord, WriteState, print_of};
use super::job::NodeJob;
use super::{RuleIndex, decided, is_older};
use crate::rule::decide::NodeDecision;
use crate::rule::evaluate::{results, verdicts};
use crate::rule::event::RuleEventKind;
use crate::rule::metrics::QUEUE;
use crate::rule::node::{SlimNode, Uptime};

impl RuleIndex {
    /// A list begins: who is not in it by its end is gone.
    pub fn begin_nodes(&mut self) {
        self.listed_nodes = Some(HashSet::new());
    }

    pub fn end_nodes(&mut self, now: Uptime) {
        let Some(listed) = self.listed_nodes.take() else { return };
        let gone: Vec<Arc<str>> = self.nodes.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        for name in gone {
            self.delete_node(&name, now);
        }
        self.nodes_synced = true;
    }

    pub fn apply_node(&mut self, mut node: SlimNode, now: Uptime) {
        if let Some(listed) = &mut self.listed_nodes {
            listed.insert(Arc::clone(&node.name));
        }
        let name = Arc::clone(&node.name);
        let Some(entry) = self.nodes.get_mut(&name) else {
            self.nodes.insert(Arc::clone(&name), NodeEntry::new(node));
            return self.queue_node(&name, now);
        };
        // What was under way when we wrote arrives after our own write.
        if self.listed_nodes.is_none() && is_older(&node.resource_version, &entry.node.resource_version) {
            return;
        }
        if node.uid == entry.node.uid {
            node.remember(&entry.node);
        } else {
            // Another Node by the same name.
            *entry = NodeEntry { queued: entry.queued, timer: entry.timer, ..NodeEntry::new(node.clone()) };
        }
        let differs = node.differs(&entry.node) || entry.records.is_empty();
        let newer = matches!(&entry.state, WriteState::Waiting { version, .. } if *version != node.resource_version);
        if newer {
            entry.state = WriteState::Idle;
        }
        let back = !differs && entry.hears_again(&node, &self.rules);
        // While a write of ours is under way, what comes may be that write: its answer may be the slower one.
        let ours = entry.state.written_since().is_some();
        let undone = if differs && !ours { entry.undone(&node, &self.rules, now) } else { None };
        node.name = Arc::clone(&entry.node.name);
        entry.node = node;
        if differs || newer || back {
            self.queue_node(&name, now);
        }
        if let Some(rule) = undone {
            let says = format!("another controller changes node {name} back: Carrick leaves this rule to it for now");
            self.yield_rule(&rule, says, now);
        }
    }

    pub fn delete_node(&mut self, name: &str, now: Uptime) {
        let Some(entry) = self.nodes.remove(name) else { return };
        if let Some(at) = entry.timer {
            self.timers.remove(&(at, Arc::clone(&entry.node.name)));
        }
        for record in entry.records.iter().filter(|record| record.selected) {
            if let Some(rule) = self.rules.get_mut(&record.rule) {
                rule.touch(now);
            }
        }
    }

    pub(super) fn queue_node(&mut self, name: &Arc<str>, now: Uptime) {
        let Some(entry) = self.nodes.get_mut(name).filter(|entry| entry.queued.is_none()) else { return };
        entry.queued = Some(now);
        self.node_queue.adds += 1;
        self.queue.push_back(Arc::clone(name));
        self.node_queue.depth = self.queue.len() as u64;
    }

    fn set_timer(&mut self, name: &Arc<str>, at: Option<Uptime>) {
        let Some(entry) = self.nodes.get_mut(name) else { return };
        if entry.timer == at {
            return;
        }
        if let Some(old) = entry.timer {
            self.timers.remove(&(old, Arc::clone(name)));
        }
        entry.timer = at;
        self.timers.extend(at.map(|at| (at, Arc::clone(name))));
    }

    /// The next write that is to be made. None before all rules are known: a rule that is still to come may hold a taint that
    /// the others would let go of.
    pub fn next_node(&mut self, now: Uptime, wall: Timestamp) -> Option<NodeJob> {
        if !self.rules_synced {
            return None;
        }
        self.decides = true;
        while let Some((at, name)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.set_timer(&name, None);
            self.queue_node(&name, now);
        }
        while let Some(name) = self.queue.pop_front() {
            self.node_queue.depth = self.queue.len() as u64;
            if let Some(job) = self.look(&name, now, wall) {
                return Some(job);
            }
        }
        None
    }

    /// Decides what becomes of one node; notes what is so already.
    fn look(&mut self, name: &Arc<str>, now: Uptime, wall: Timestamp) -> Option<NodeJob> {
        let entry = self.nodes.get_mut(name)?;
        let since = entry.queued.take().unwrap_or(now);
        self.node_queue.waited.observe(QUEUE, now.saturating_sub(since));
        match entry.state {
            // Whoever hears the answer looks again.
            WriteState::Writing { .. } => return None,
            WriteState::Waiting { until, .. } | WriteState::Delayed { until } if now < until => {
                self.set_timer(name, Some(until));
                return None;
            }
            _ => entry.state = WriteState::Idle,
        }
        let decision = decided(entry, &self.rules, now);
        self.record(name, &decision, now, wall);
        let again = decision.again;
        self.set_timer(name, again);
        let Some(write) = decision.write else {
            self.node_queue.succeeded += 1;
            self.set_failure(name, None, now);
            return None;
        };
        let entry = self.nodes.get_mut(name)?;
        entry.state = WriteState::Writing { since: now };
        self.node_queue.active += 1;
        let outcomes = decision.outcomes.into_iter().filter(|it| it.change.is_some() || it.completes).collect();
        let resource_version = entry.node.resource_version.clone();
        Some(NodeJob { node: Arc::clone(name), resource_version, write, outcomes })
    }

    /// Keeps what was found, for statuses, and tells of taints that somebody else has put.
    fn record(&mut self, name: &Arc<str>, decision: &NodeDecision, now: Uptime, wall: Timestamp) {
        let Some(entry) = self.nodes.get_mut(name) else { return };
        let mut records = Vec::with_capacity(decision.outcomes.len());
        for outcome in decision.outcomes.iter().filter(|outcome| outcome.selected) {
            let Some(of) = self.rules.get_mut(&outcome.rule) else { continue };
            let old = entry.records.iter().find(|record| record.rule == outcome.rule);
            let told = of.told.remove(name.as_ref());
            let print =
                print_of(outcome.was_held, results(&of.rule, &entry.node, now).iter().map(|it| it.current_status));
            let since = match (old, &told) {
                (Some(old), _) if old.print == print => old.since,
                (None, Some(told)) if told.print == print => told.since,
                _ => wall,
            };
            let enforced = of.rule.is_enforced();
            let managed = outcome.was_held
                && (enforced || old.is_some_and(|old| old.managed) || told.as_ref().is_some_and(|told| told.held));
            for unmet in verdicts(&of.rule, &entry.node, now).filter(|verdict| !verdict.holds()) {
                let kind = self.texts.keep(unmet.kind);
                *of.counters.condition_failures.entry(kind).or_default() += 1;
            }
            if outcome.adopted && !old.is_some_and(|old| old.managed) && told.is_none() {
                let event = of.node_event(RuleEventKind::TaintAdopted, &entry.node, "");
                let taint = of.rule.spec.taint.id();
                self.events.extend(self.gate.offer(event, &taint, now));
            }
            let record = NodeRecord {
                rule: Arc::clone(&outcome.rule),
                selected: true,
                held: outcome.was_held,
                satisfied: outcome.satisfied,
                missing: outcome.missing,
                managed,
                print,
                since,
            };
            if old != Some(&record) {
                of.touch(now);
            }
            records.push(record);
        }
        for old in &entry.records {
            if records.iter().any(|record| record.rule == old.rule) {
                continue;
            }
            let Some(of) = self.rules.get_mut(&old.rule) else { continue };
            if old.selected {
                of.touch(now);
            }
            // It has left the selector: the taint is still ours until it is gone.
            if old.managed && entry.node.has_taint(&of.rule.spec.taint) {
                records.push(NodeRecord { selected: false, ..old.clone() });
            }
        }
        entry.records = records;
    }
}
