//! A rule's status: the same for the same nodes, whoever writes it and in whatever order things happened. Counts are of all nodes;
//! lists have room for as many as fit, those that are not ready first, so that the object stays far below what etcd takes.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;

use super::compiled::{CompiledRule, RuleProblem, RuleStage};
use super::conflict::conflict_message;
use super::evaluate::results;
use super::node::{SlimNode, Uptime};
use super::object::{
    ConditionStatus, DryRunResults, FailedNode, NodeEvaluation, RuleCondition, RuleStatus, RuleSummary, TaintStatus,
};

/// What the lists of one rule may take, with what the API server keeps beside each entry (managedFields). etcd takes 1.5 MiB; every
/// write costs the API server about half a millisecond an entry, so more than a few hundred would slow down the nodes' own writes.
pub(super) const LIST_BUDGET: usize = 512 << 10;
/// The definition's own limit.
const MOST_ITEMS: usize = 5000;
/// Of a message that the definition allows 10 kB for.
const LONGEST_MESSAGE: usize = 256;

/// A node that the rule selects, as it was last decided.
#[derive(Clone, Debug)]
pub struct StatusNode<'n> {
    pub node: &'n SlimNode,
    pub held: bool,
    pub satisfied: bool,
    pub missing: bool,
    /// The API server refuses its write.
    pub failure: Option<&'n str>,
    /// When any of this last changed.
    pub since: Timestamp,
}

/// What is told about the rule itself.
#[derive(Clone, Debug, Default)]
pub struct RuleStanding<'n> {
    /// An older rule that it meets.
    pub conflicts_with: Option<Arc<str>>,
    /// Another controller changes the same nodes or the same status.
    pub rival: Option<&'n str>,
    /// The moment it is told at.
    pub now: Uptime,
}

pub fn status<'n>(
    rule: &CompiledRule,
    nodes: impl IntoIterator<Item = StatusNode<'n>>,
    standing: &RuleStanding<'_>,
    before: &[RuleCondition],
    now: Timestamp,
) -> RuleStatus {
    let mut nodes: Vec<StatusNode<'n>> = nodes.into_iter().collect();
    // Those that somebody has to look at first; the name decides among equals.
    nodes.sort_by(|one, other| {
        let rank = |it: &StatusNode<'_>| (Reverse(it.failure.is_some()), Reverse(it.held), it.satisfied);
        rank(one).cmp(&rank(other)).then_with(|| one.node.name.cmp(&other.node.name))
    });
    let mut status = RuleStatus {
        observed_generation: Some(rule.generation).filter(|generation| *generation > 0),
        conditions: conditions(rule, standing, before, now),
        ..RuleStatus::default()
    };
    if rule.stage == RuleStage::DryRun {
        status.dry_run_results = Some(dry_run(&nodes));
        return status;
    }
    let mut room = LIST_BUDGET;
    for it in nodes.iter().take(MOST_ITEMS) {
        let entry = evaluation(rule, it, standing.now);
        let Some(left) = room.checked_sub(cost(&entry, it.failure)) else { break };
        room = left;
        match it.failure {
            Some(failure) => status.failed_nodes.push(FailedNode {
                node_name: it.node.name.to_string(),
                reason: "EvaluationError".to_owned(),
                message: failure.chars().take(LONGEST_MESSAGE).collect(),
                last_evaluation_time: it.since,
            }),
            None => status.applied_nodes.push(it.node.name.to_string()),
        }
        status.node_evaluations.push(entry);
    }
    status.summary = Some(summary(&nodes, status.node_evaluations.len()));
    status.applied_nodes.sort();
    status.failed_nodes.sort_by(|one, other| one.node_name.cmp(&other.node_name));
    status.node_evaluations.sort_by(|one, other| one.node_name.cmp(&other.node_name));
    status
}

fn evaluation(rule: &CompiledRule, it: &StatusNode<'_>, now: Uptime) -> NodeEvaluation {
    NodeEvaluation {
        node_name: it.node.name.to_string(),
        condition_results: results(rule, it.node, now),
        taint_status: if it.held { TaintStatus::Present } else { TaintStatus::Absent },
        last_evaluation_time: it.since,
    }
}

/// What an entry takes: its JSON, its name in a second list, and the API server's book of who has set it. Measured: 667 bytes with
/// one condition of 41 characters and a name of 43 on a real server; this says 764.
fn cost(entry: &NodeEvaluation, failure: Option<&str>) -> usize {
    let name = entry.node_name.len();
    let results: usize = entry.condition_results.iter().map(|result| 2 * result.kind.len() + 230).sum();
    let failure = failure.map_or(0, |failure| failure.len().min(LONGEST_MESSAGE) * 4 + name * 2 + 200);
    name * 4 + 280 + results + failure
}

fn count(nodes: &[StatusNode<'_>], is: impl Fn(&StatusNode<'_>) -> bool) -> u32 {
    u32::try_from(nodes.iter().filter(|it| is(it)).count()).unwrap_or(u32::MAX)
}

fn summary(nodes: &[StatusNode<'_>], listed: usize) -> RuleSummary {
    RuleSummary {
        matched_nodes: count(nodes, |_| true),
        held_nodes: count(nodes, |it| it.held),
        released_nodes: count(nodes, |it| !it.held),
        failed_nodes: count(nodes, |it| it.failure.is_some()),
        listed_nodes: u32::try_from(listed).unwrap_or(u32::MAX),
    }
}

/// In upstream's words.
fn dry_run(nodes: &[StatusNode<'_>]) -> DryRunResults {
    let affected_nodes = count(nodes, |_| true);
    let taints_to_add = count(nodes, |it| !it.satisfied && !it.held);
    let taints_to_remove = count(nodes, |it| it.satisfied && it.held);
    let risky_operations = count(nodes, |it| it.missing);
    let parts = [
        (taints_to_add, format!("would add {taints_to_add} taints")),
        (taints_to_remove, format!("would remove {taints_to_remove} taints")),
        (risky_operations, format!("{risky_operations} nodes have missing conditions")),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, says)| says).collect();
    let summary = if parts.is_empty() { "No changes needed".to_owned() } else { parts.join(", ") };
    DryRunResults { affected_nodes, taints_to_add, taints_to_remove, risky_operations, summary }
}

/// Where upstream's definition is installed, these are pruned: events say the same.
fn conditions(
    rule: &CompiledRule,
    standing: &RuleStanding<'_>,
    before: &[RuleCondition],
    now: Timestamp,
) -> Vec<RuleCondition> {
    let (enforced, reason, message) = enforced(rule, standing);
    let (conflicting, conflict) = match &standing.conflicts_with {
        Some(other) => (ConditionStatus::True, conflict_message(rule, other)),
        None => (ConditionStatus::False, "no other rule manages this taint on the same nodes".to_owned()),
    };
    let conflict_reason = if conflicting == ConditionStatus::True { "OverlappingRule" } else { "NoOverlap" };
    let of = |kind: &str, status, reason: &str, message: String| {
        let old = before.iter().find(|old| old.kind == kind && old.status == status);
        RuleCondition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message,
            observed_generation: Some(rule.generation),
            last_transition_time: old.map_or(now, |old| old.last_transition_time),
        }
    };
    vec![of("Conflicting", conflicting, conflict_reason, conflict), of("Enforced", enforced, reason, message)]
}

fn enforced(rule: &CompiledRule, standing: &RuleStanding<'_>) -> (ConditionStatus, &'static str, String) {
    let passed_over: Vec<String> = rule.problems.iter().map(ToString::to_string).collect();
    let first_problem = || {
        let fatal = rule.problems.iter().find(|problem| !problem.is_passed_over());
        fatal.map_or_else(String::new, RuleProblem::to_string)
    };
    match rule.stage {
        RuleStage::Enforced { .. } if standing.rival.is_some() => {
            (ConditionStatus::False, "OtherController", standing.rival.unwrap_or_default().to_owned())
        }
        RuleStage::Enforced { .. } if passed_over.is_empty() => {
            (ConditionStatus::True, "Enforcing", "taints follow the nodes' conditions".to_owned())
        }
        RuleStage::Enforced { .. } => (ConditionStatus::True, "EnforcingPartly", passed_over.join("; ")),
        RuleStage::DryRun => (ConditionStatus::False, "DryRun", "dryRun is set: no taint is changed".to_owned()),
        RuleStage::Suspended => {
            (ConditionStatus::False, "Suspended", "the rule is suspended: taints stay as they are".to_owned())
        }
        RuleStage::Deleting { .. } => (ConditionStatus::False, "Deleting", "its taints are being removed".to_owned()),
        RuleStage::Invalid => (ConditionStatus::False, "Invalid", first_problem()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node, rule};
    use super::*;

    fn now() -> Timestamp {
        "2026-11-18T12:00:00Z".parse().unwrap()
    }

    fn built(count: usize, name: impl Fn(usize) -> String) -> Vec<SlimNode> {
        (0..count).map(|n| node(&name(n)).build()).collect()
    }

    fn of(node: &SlimNode, held: bool) -> StatusNode<'_> {
        StatusNode { node, held, satisfied: !held, missing: false, failure: None, since: now() }
    }

    fn said<'n>(rule: &CompiledRule, nodes: impl IntoIterator<Item = StatusNode<'n>>) -> RuleStatus {
        status(rule, nodes, &RuleStanding::default(), &[], now())
    }

    #[test]
    fn a_status_is_upstreams_with_counts_beside_it() {
        let nodes = built(3, |n| format!("n{n}"));
        let mut third = of(&nodes[2], true);
        third.failure = Some("403 Forbidden");
        let given = said(&rule("r").claimed().compiled(), [third, of(&nodes[1], false), of(&nodes[0], true)]);
        assert_eq!(given.applied_nodes, ["n0", "n1"]);
        assert_eq!(given.failed_nodes[0].message, "403 Forbidden");
        let names: Vec<&str> = given.node_evaluations.iter().map(|it| it.node_name.as_str()).collect();
        assert_eq!(names, ["n0", "n1", "n2"]);
        assert_eq!(given.node_evaluations[0].taint_status, TaintStatus::Present);
        assert_eq!(given.observed_generation, Some(1));
        let summary = given.summary.unwrap();
        assert_eq!(
            (summary.matched_nodes, summary.held_nodes, summary.released_nodes, summary.failed_nodes),
            (3, 2, 1, 1)
        );
    }

    /// However many nodes, however long their names: far below 1 MiB, counts true, those that are held first.
    #[test]
    fn fifteen_thousand_nodes_fit() {
        let long = "a".repeat(200);
        let nodes = built(15_000, |n| format!("worker-{n:05}.{long}"));
        let conditions: Vec<String> = (0..32).map(|n| format!("{n}/{}", "c".repeat(300))).collect();
        let required: Vec<_> = conditions.iter().map(|kind| (kind.as_str(), ConditionStatus::True, None)).collect();
        for rule in [rule("r").claimed(), rule("r").claimed().conditions(&required)] {
            let rule = rule.compiled();
            let failing = "x".repeat(5000);
            let given = said(
                &rule,
                nodes.iter().enumerate().map(|(at, node)| {
                    let mut it = of(node, at >= 14_990);
                    it.failure = (at == 7000).then_some(failing.as_str());
                    it
                }),
            );
            let size = serde_json::to_vec(&given).unwrap().len();
            assert!(size < LIST_BUDGET, "{size} bytes");
            let summary = given.summary.unwrap();
            assert_eq!((summary.matched_nodes, summary.held_nodes, summary.failed_nodes), (15_000, 10, 1));
            assert!(given.node_evaluations.len() >= 12);
            assert!(given.node_evaluations.iter().any(|it| it.node_name.starts_with("worker-14999")));
            assert_eq!(given.failed_nodes.len(), 1);
            assert_eq!(given.applied_nodes.len() + 1, given.node_evaluations.len());
        }
    }

    #[test]
    fn order_does_not_matter() {
        let nodes = built(50, |n| format!("n{n}"));
        let rule = rule("r").claimed().compiled();
        let forwards = said(&rule, nodes.iter().map(|node| of(node, true)));
        let backwards = said(&rule, nodes.iter().rev().map(|node| of(node, true)));
        assert_eq!(forwards, backwards);
    }

    #[test]
    fn a_dry_run_says_what_it_would_do() {
        let nodes = built(4, |n| format!("n{n}"));
        let dry = rule("r").dry_run().compiled();
        let it = |at: usize, held, satisfied, missing| StatusNode { satisfied, missing, ..of(&nodes[at], held) };
        let given = said(
            &dry,
            [
                it(0, false, false, true),
                it(1, true, true, false),
                it(2, false, true, false),
                it(3, false, false, false),
            ],
        );
        let results = given.dry_run_results.unwrap();
        assert_eq!(results.summary, "would add 2 taints, would remove 1 taints, 1 nodes have missing conditions");
        assert_eq!(
            (results.affected_nodes, results.taints_to_add, results.taints_to_remove, results.risky_operations),
            (4, 2, 1, 1)
        );
        assert!(given.node_evaluations.is_empty());
        assert_eq!(said(&dry, []).dry_run_results.unwrap().summary, "No changes needed");
    }

    #[test]
    fn conditions_say_what_is_in_the_way() {
        let older = RuleStanding { conflicts_with: Some("old".into()), ..RuleStanding::default() };
        let rival = RuleStanding { rival: Some("manager writes this status too"), ..RuleStanding::default() };
        for (case, rule, standing, expected) in [
            ("enforced", rule("r").claimed(), RuleStanding::default(), ("Enforcing", "NoOverlap")),
            ("a conflict", rule("r").claimed(), older, ("Enforcing", "OverlappingRule")),
            ("a rival", rule("r").claimed(), rival, ("OtherController", "NoOverlap")),
            ("dry run", rule("r").dry_run(), RuleStanding::default(), ("DryRun", "NoOverlap")),
            ("invalid", rule("r").conditions(&[]), RuleStanding::default(), ("Invalid", "NoOverlap")),
        ] {
            let given = status(&rule.compiled(), [], &standing, &[], now());
            let reason =
                |kind: &str| given.conditions.iter().find(|it| it.kind == kind).map(|it| it.reason.clone()).unwrap();
            assert_eq!((reason("Enforced").as_str(), reason("Conflicting").as_str()), expected, "{case}");
        }
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let rule = rule("r").claimed().compiled();
        let first = said(&rule, []);
        let later = now() + jiff::SignedDuration::from_secs(60);
        let again = status(&rule, [], &RuleStanding::default(), &first.conditions, later);
        assert_eq!(again, first);
    }
}
