//! Rules as they come and go: which nodes they concern, which of them conflict, and which are left to another controller.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::entry::{NodeEntry, RuleEntry, StatusPrint, told_nodes};
use super::{RuleIndex, UNDONE, UNDONE_WITHIN, YIELD, is_older};
use crate::rule::compiled::{CompiledRule, RuleStage};
use crate::rule::conflict::{conflict_message, conflicts};
use crate::rule::event::RuleEventKind;
use crate::rule::node::{SlimNode, Uptime};
use crate::rule::object::NodeReadinessRule;

impl RuleIndex {
    pub fn begin_rules(&mut self) {
        self.listed_rules = Some(BTreeSet::new());
    }

    pub fn end_rules(&mut self, now: Uptime) {
        let Some(listed) = self.listed_rules.take() else { return };
        let gone: Vec<Arc<str>> = self.rules.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        for name in gone {
            self.delete_rule(&name, now);
        }
        self.rules_synced = true;
        self.find_conflicts(now);
    }

    pub fn apply_rule(&mut self, mut rule: NodeReadinessRule, now: Uptime) {
        let told = std::mem::take(&mut rule.status);
        let compiled = CompiledRule::new(rule);
        let name = Arc::clone(&compiled.name);
        let (listing, decides) = (self.listed_rules.is_some(), self.decides);
        if let Some(listed) = &mut self.listed_rules {
            listed.insert(Arc::clone(&name));
        }
        let Some(entry) = self.rules.get_mut(&name).filter(|entry| entry.rule.uid == compiled.uid) else {
            let entry = RuleEntry::new(compiled, &told, now);
            let before = self.rules.insert(Arc::clone(&name), entry);
            self.queue_for(&name, before.map(|before| before.rule).as_ref(), now);
            return self.complain(&name, now);
        };
        if !listing && is_older(&compiled.resource_version, &entry.rule.resource_version) {
            return;
        }
        let print = StatusPrint::of(&told);
        // Somebody else has written what we had written.
        let known = [Some(entry.seen.upstream), entry.sent].contains(&Some(print.upstream));
        let foreign = entry.written.is_some() && entry.busy.is_none() && !known;
        if !decides {
            // A standby goes by what the leader has told last.
            entry.told = told_nodes(&told);
        }
        entry.seen = print;
        entry.conditions = told.conditions;
        let changed =
            entry.stage != compiled.stage || entry.rule.spec != compiled.spec || entry.rule.max_age != compiled.max_age;
        let generation = entry.rule.generation != compiled.generation;
        entry.stage = compiled.stage;
        let before = std::mem::replace(&mut entry.rule, compiled);
        if entry.rival.is_some() && entry.rule.is_enforced() {
            entry.rule.stage = RuleStage::Suspended;
        }
        if changed || generation || foreign {
            entry.touch(now);
        }
        if foreign {
            let (count, last) = entry.foreign_writes;
            let count = if now < last + UNDONE_WITHIN { count + 1 } else { 1 };
            entry.foreign_writes = (count, now);
            if count >= UNDONE {
                let says = "another controller writes this rule's status: Carrick leaves the rule to it for now";
                self.yield_rule(&name, says.to_owned(), now);
            }
        }
        if changed {
            self.queue_for(&name, Some(&before), now);
            self.complain(&name, now);
        }
    }

    pub fn delete_rule(&mut self, name: &str, now: Uptime) {
        let Some(entry) = self.rules.remove(name) else { return };
        let has = |it: &NodeEntry| it.records.iter().any(|record| *record.rule == *entry.rule.name);
        let names: Vec<Arc<str>> =
            self.nodes.iter().filter(|(_, it)| has(it)).map(|(name, _)| Arc::clone(name)).collect();
        for name in names {
            self.queue_node(&name, now);
        }
        self.find_conflicts(now);
    }

    /// Every node that a rule, as it is or as it was, may have to do with.
    pub(super) fn queue_for(&mut self, name: &Arc<str>, before: Option<&CompiledRule>, now: Uptime) {
        let Some(entry) = self.rules.get(name) else { return };
        let concerns = |node: &SlimNode| {
            entry.rule.selects(node)
                || node.has_taint(&entry.rule.spec.taint)
                || before.is_some_and(|it| it.selects(node))
        };
        let names: Vec<Arc<str>> =
            self.nodes.iter().filter(|(_, it)| concerns(&it.node)).map(|(name, _)| Arc::clone(name)).collect();
        for name in names {
            self.queue_node(&name, now);
        }
        if self.listed_rules.is_none() {
            self.find_conflicts(now);
        }
    }

    pub(super) fn find_conflicts(&mut self, now: Uptime) {
        let found = conflicts(self.rules.values().map(|entry| &entry.rule));
        for (rule, other) in &found {
            if self.conflicts.get(rule) == Some(other) {
                continue;
            }
            if let Some(entry) = self.rules.get_mut(rule) {
                let says = conflict_message(&entry.rule, other);
                self.events.push(entry.rule_event(RuleEventKind::Conflicting, says));
            }
        }
        for rule in found.keys().chain(self.conflicts.keys()) {
            if let Some(entry) = self.rules.get_mut(rule) {
                entry.touch(now);
            }
        }
        self.conflicts = found;
    }

    /// Says what is wrong with a rule, once for each time it was changed.
    fn complain(&mut self, name: &Arc<str>, now: Uptime) {
        let Some(entry) = self.rules.get_mut(name).filter(|entry| !entry.rule.problems.is_empty()) else { return };
        let says: Vec<String> = entry.rule.problems.iter().map(ToString::to_string).collect();
        let event = entry.rule_event(RuleEventKind::Invalid, says.join("; "));
        let taint = entry.rule.spec.taint.id();
        self.events.extend(self.gate.offer(event, &taint, now));
    }

    /// Another controller is at work on the same rule: whoever fights it makes nodes flap.
    pub(super) fn yield_rule(&mut self, name: &Arc<str>, says: String, now: Uptime) {
        let Some(entry) = self.rules.get_mut(name).filter(|entry| entry.rule.is_enforced()) else { return };
        entry.rule.stage = RuleStage::Suspended;
        let event = entry.rule_event(RuleEventKind::OtherController, says.clone());
        entry.rival = Some((says, now + YIELD));
        entry.touch(now);
        self.events.push(event);
    }

    pub(super) fn end_of_yielding(&mut self, now: Uptime) {
        let is_over = |entry: &RuleEntry| entry.rival.as_ref().is_some_and(|(_, until)| now >= *until);
        let over: Vec<Arc<str>> =
            self.rules.iter().filter(|(_, entry)| is_over(entry)).map(|(name, _)| Arc::clone(name)).collect();
        for name in over {
            if let Some(entry) = self.rules.get_mut(&name) {
                (entry.rival, entry.foreign_writes.0, entry.rule.stage) = (None, 0, entry.stage);
                entry.touch(now);
            }
            for node in self.nodes.values_mut() {
                node.last_write = None;
            }
            self.queue_for(&name, None, now);
        }
    }
}
