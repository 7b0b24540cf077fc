//! What becomes of a node's taints under all rules at once: the only place where it is decided that a taint is put or removed.
//!
//! Several rules may share a taint. It stays for as long as one live rule that selects the node is not satisfied, so no rule can
//! undo another's gate, and two that conflict do not take turns. What nobody enforces here any more is removed only if it is known
//! to be ours: by the note on the Node, by what was seen before, or because the rule that is being deleted selects it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::compiled::{CompiledRule, RuleStage};
use super::evaluate::{Evaluation, evaluate};
use super::node::{OWNED, SlimNode, Uptime};
use super::object::NodeTaint;

/// One rule's part in a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
pub struct RuleOutcome {
    pub rule: Arc<str>,
    pub selected: bool,
    pub satisfied: bool,
    pub missing: bool,
    /// Its taint is on the Node once the write is made.
    pub held: bool,
    /// Its taint is on the Node already.
    pub was_held: bool,
    /// Bootstrap is over with this write.
    pub completes: bool,
    /// It waits for a taint that is not a note of ours: somebody else has put it.
    pub adopted: bool,
    pub change: Option<TaintChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintChange {
    Added,
    Removed,
}

/// The one write of a node for all its rules: a merge patch that holds only while the Node is as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWrite {
    /// `None`: they stay.
    pub taints: Option<Vec<NodeTaint>>,
    /// `None` as value: it goes.
    pub annotations: BTreeMap<String, Option<String>>,
}

impl NodeWrite {
    pub fn patch(&self, resource_version: &str) -> Value {
        let mut metadata = json!({ "resourceVersion": resource_version });
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        let mut patch = json!({ "metadata": metadata });
        if let Some(taints) = &self.taints {
            let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
            patch["spec"] = json!({ "taints": taints });
        }
        patch
    }

    /// The node as it is once this is written.
    pub fn apply(&self, node: &mut SlimNode) {
        if let Some(taints) = &self.taints {
            node.taints.clone_from(taints);
        }
        for (key, value) in &self.annotations {
            match value {
                Some(value) => node.marks.insert(key.as_str().into(), value.as_str().into()),
                None => node.marks.remove(key.as_str()),
            };
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDecision {
    /// Of the rules that select the node, or let go of it; by name.
    pub outcomes: Vec<RuleOutcome>,
    /// `None`: the Node is as it should be.
    pub write: Option<NodeWrite>,
    /// When to look again though nothing has happened.
    pub again: Option<Uptime>,
}

/// `rules` in any order. `known` says of which rules it is known, without a note on the Node, that they have managed their taint
/// here before.
pub fn decide<'r>(
    node: &SlimNode,
    rules: impl IntoIterator<Item = &'r CompiledRule>,
    known: impl Fn(&str) -> bool,
    now: Uptime,
) -> NodeDecision {
    let mut judged: Vec<Judged<'r>> = rules.into_iter().map(|rule| Judged::new(rule, node, &known, now)).collect();
    judged.sort_by(|one, other| one.rule.age_order().cmp(&other.rule.age_order()));
    let mut groups: BTreeMap<String, Vec<Judged<'r>>> = BTreeMap::new();
    for one in judged {
        groups.entry(one.rule.spec.taint.id()).or_default().push(one);
    }
    let claimed_before = node.owned();
    let mut taints = node.taints.clone();
    let mut completions = BTreeMap::new();
    let mut owners = claimed_before.clone();
    let mut adoptions = BTreeMap::new();
    let mut decision = NodeDecision::default();
    for (id, group) in &groups {
        let Some(first) = group.first() else { continue };
        let taint = &first.rule.spec.taint;
        let present = node.has_taint(taint);
        let named = claimed_before.get(id).map(String::as_str);
        let change = change(group, present, named);
        let held = match &change {
            Some(Change::Add(owner)) => {
                taints.push(owner.spec.taint.clone());
                owners.insert(id.clone(), owner.name.to_string());
                true
            }
            Some(Change::Remove(_)) => {
                taints.retain(|its| !its.is(taint));
                false
            }
            None => present,
        };
        let owner = group.iter().find(|it| it.rule.is_enforced() && it.selected);
        if let Some(owner) = owner.filter(|_| held && !owners.contains_key(id)) {
            adoptions.insert(id.clone(), owner.rule.name.to_string());
        }
        for one in group {
            decision.again = [decision.again, one.until].into_iter().flatten().min();
            let completes = one.rule.is_claimed() && one.selected && one.satisfied && one.is_due() && !held;
            if completes {
                let (key, value) = one.rule.completion();
                completions.insert(key, Some(value));
            }
            decision.outcomes.extend(one.outcome(present, held, completes, named.is_none(), change.as_ref()));
        }
    }
    decision.outcomes.sort_by(|one, other| one.rule.cmp(&other.rule));
    // A note about a taint that is gone would claim a stranger's, were that put back.
    owners.retain(|id, _| taints.iter().any(|taint| taint.id() == *id));
    let changed = taints != node.taints;
    if changed || !completions.is_empty() || owners != claimed_before {
        owners.extend(adoptions);
        let mut annotations = completions;
        if owners != claimed_before {
            let value = (!owners.is_empty()).then(|| json!(owners).to_string());
            annotations.insert(OWNED.to_owned(), value);
        }
        decision.write = Some(NodeWrite { taints: changed.then_some(taints), annotations });
    }
    decision
}

/// With the rule whose doing it is: events and counts name one.
enum Change<'r> {
    Add(&'r CompiledRule),
    Remove(&'r CompiledRule),
}

/// Of one taint, under all rules that have it, the oldest first.
fn change<'r>(group: &[Judged<'r>], present: bool, named: Option<&str>) -> Option<Change<'r>> {
    let live: Vec<&Judged<'r>> = group.iter().filter(|it| it.rule.is_enforced() && it.selected).collect();
    if let Some(oldest) = live.first() {
        if !present {
            return live.iter().find(|it| it.rule.is_claimed() && it.wants()).map(|it| Change::Add(it.rule));
        }
        let released = live.iter().all(|it| it.rule.is_claimed() && it.satisfied);
        return released.then_some(Change::Remove(oldest.rule));
    }
    if !present {
        return None;
    }
    // A rule that is only paused still stands behind the taint that it has put.
    let is_paused =
        |it: &Judged<'_>| matches!(it.rule.stage, RuleStage::DryRun | RuleStage::Suspended | RuleStage::Invalid);
    if group.iter().any(|it| is_paused(it) && named == Some(it.rule.name.as_ref())) {
        return None;
    }
    group.iter().find(|it| it.lets_go(named)).map(|it| Change::Remove(it.rule))
}

/// A rule and what it says about the node.
#[allow(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
struct Judged<'r> {
    rule: &'r CompiledRule,
    selected: bool,
    satisfied: bool,
    missing: bool,
    complete: bool,
    known: bool,
    until: Option<Uptime>,
}

impl<'r> Judged<'r> {
    fn new(rule: &'r CompiledRule, node: &SlimNode, known: &impl Fn(&str) -> bool, now: Uptime) -> Self {
        let selected = rule.selects(node);
        let evaluation = if selected { evaluate(rule, node, now) } else { Evaluation::default() };
        Judged {
            rule,
            selected,
            satisfied: evaluation.satisfied,
            missing: evaluation.missing,
            complete: rule.is_complete_on(node),
            known: known(&rule.name),
            until: evaluation.until,
        }
    }

    /// It would have the taint on the Node.
    fn wants(&self) -> bool {
        !self.satisfied && !self.complete
    }

    /// It is for the time of bootstrap, and that is not over.
    fn is_due(&self) -> bool {
        self.rule.spec.is_bootstrap_only() && !self.complete
    }

    /// It enforces nothing here, or nothing any more, and the taint is one that it has put or looked after.
    fn lets_go(&self, named: Option<&str>) -> bool {
        let ours = self.known || named == Some(self.rule.name.as_ref());
        match self.rule.stage {
            RuleStage::Enforced { .. } => !self.selected && ours,
            RuleStage::Deleting { dry_run } => ours || self.selected && !dry_run,
            RuleStage::DryRun | RuleStage::Suspended | RuleStage::Invalid => false,
        }
    }

    #[allow(clippy::fn_params_excessive_bools, reason = "facts that do not depend on one another")]
    fn outcome(
        &self,
        was_held: bool,
        held: bool,
        completes: bool,
        unnoted: bool,
        change: Option<&Change<'_>>,
    ) -> Option<RuleOutcome> {
        let change = match change {
            Some(Change::Add(owner)) if owner.name == self.rule.name => Some(TaintChange::Added),
            Some(Change::Remove(owner)) if owner.name == self.rule.name => Some(TaintChange::Removed),
            _ => None,
        };
        (self.selected || change.is_some()).then(|| RuleOutcome {
            rule: Arc::clone(&self.rule.name),
            selected: self.selected,
            satisfied: self.satisfied,
            missing: self.missing,
            held,
            was_held,
            completes,
            adopted: self.rule.is_enforced() && self.selected && was_held && held && unnoted,
            change,
        })
    }
}

#[cfg(test)]
mod tests;
