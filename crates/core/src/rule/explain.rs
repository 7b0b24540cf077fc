//! Why a node is gated, or is not: the controller's own decision, with the line of evidence.

use super::compiled::{CompiledRule, RuleProblem, RuleStage};
use super::evaluate::{ConditionVerdict, evaluate, verdicts};
use super::node::{SlimNode, Uptime};

/// How a node stands with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The taint is there, and a condition is not as required.
    Gated,
    /// No taint, and none is due.
    Released,
    /// The taint is there although every condition holds.
    ReleaseDue,
    /// No taint although a condition is not as required.
    GateDue,
    /// Another rule keeps the same taint there.
    GatedByAnother,
    /// The rule does not enforce anything here.
    NotEnforced,
    NotSelected,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Explanation {
    pub node: String,
    pub rule: String,
    pub taint: String,
    pub standing: Standing,
    /// One sentence.
    pub says: String,
    pub evidence: Vec<String>,
    /// Commands.
    pub next: Vec<String>,
}

/// `others`: all rules there are; the rule itself may be among them.
pub fn explain<'r>(
    rule: &CompiledRule,
    node: &SlimNode,
    others: impl IntoIterator<Item = &'r CompiledRule>,
) -> Explanation {
    let taint = rule.spec.taint.id();
    let present = node.has_taint(&rule.spec.taint);
    let tainted = if present {
        format!("node {} has the taint {taint}", node.name)
    } else {
        format!("node {} does not have the taint {taint}", node.name)
    };
    let build = |standing, says: String, evidence: Vec<String>, next: Vec<String>| Explanation {
        node: node.name.to_string(),
        rule: rule.name.to_string(),
        taint: taint.clone(),
        standing,
        says,
        evidence,
        next,
    };
    if let Some(why) = not_enforced(rule) {
        return build(
            Standing::NotEnforced,
            why,
            vec![tainted],
            vec![format!("kubectl get nodereadinessrule {} -o yaml", rule.name)],
        );
    }
    if !rule.selects(node) {
        let selector = rule.selector().map(ToString::to_string).unwrap_or_default();
        let says = format!("rule {} does not select node {}: {selector}", rule.name, node.name);
        return build(Standing::NotSelected, says, vec![tainted], vec![format!("kubectl get nodes -l '{selector}'")]);
    }
    let evidence: Vec<String> = verdicts(rule, node, Uptime::ZERO).map(|verdict| evidence_of(&verdict, node)).collect();
    let unmet: Vec<String> =
        verdicts(rule, node, Uptime::ZERO).filter(|it| !it.holds()).map(|it| unmet_of(&it)).collect();
    let satisfied = evaluate(rule, node, Uptime::ZERO).satisfied;
    let complete = rule.is_complete_on(node);
    let blocking = others.into_iter().find(|other| {
        other.name != rule.name
            && other.is_enforced()
            && other.spec.taint.is(&rule.spec.taint)
            && other.selects(node)
            && !evaluate(other, node, Uptime::ZERO).satisfied
    });
    let look = vec![format!("kubectl describe node {}", node.name)];
    let running = vec!["kubectl get lease -A | grep ba65f13e.readiness.node.x-k8s.io".to_owned()];
    let mut seen = vec![tainted];
    seen.extend(evidence);
    match (satisfied, present) {
        (true, true) => {
            let Some(other) = blocking else {
                let says = format!(
                    "every condition of rule {} holds on node {}: the taint is due to be removed",
                    rule.name, node.name
                );
                return build(Standing::ReleaseDue, says, seen, running);
            };
            let says =
                format!("rule {} holds node {} with the same taint, and is not satisfied", other.name, node.name);
            build(
                Standing::GatedByAnother,
                says,
                seen,
                vec![format!("carrick rule explain {} {}", other.name, node.name)],
            )
        }
        (true, false) => build(
            Standing::Released,
            format!("every condition of rule {} holds on node {}", rule.name, node.name),
            seen,
            Vec::new(),
        ),
        (false, false) if complete => {
            let says =
                format!("bootstrap of node {} is over for rule {}: it is not tainted again", node.name, rule.name);
            build(Standing::Released, says, seen, Vec::new())
        }
        (false, false) => build(
            Standing::GateDue,
            format!("node {} is due to be tainted: {}", node.name, unmet.join(", ")),
            seen,
            running,
        ),
        (false, true) => {
            build(Standing::Gated, format!("node {} is gated: {}", node.name, unmet.join(", ")), seen, look)
        }
    }
}

fn not_enforced(rule: &CompiledRule) -> Option<String> {
    let name = &rule.name;
    match rule.stage {
        RuleStage::Enforced { .. } => None,
        RuleStage::DryRun => Some(format!("rule {name} is in dry run: it changes no taint")),
        RuleStage::Suspended => Some(format!("rule {name} is suspended: taints stay as they are")),
        RuleStage::Deleting { .. } => Some(format!("rule {name} is being deleted: its taints are being removed")),
        RuleStage::Invalid => {
            let problem = rule.problems.iter().find(|problem| !problem.is_passed_over());
            Some(format!("rule {name} cannot be applied: {}", problem.map_or_else(String::new, RuleProblem::to_string)))
        }
    }
}

fn evidence_of(verdict: &ConditionVerdict<'_>, node: &SlimNode) -> String {
    let ConditionVerdict { kind, required, default, .. } = verdict;
    match verdict.current {
        None => format!("condition {kind} is missing: counts as {default}; required {required}"),
        Some(status) => {
            let condition = node.condition(kind);
            let since = condition.and_then(|it| it.transition).map(|at| format!(" since {at}")).unwrap_or_default();
            let heard = condition.and_then(|it| it.heartbeat).map(|at| format!(", heartbeat {at}")).unwrap_or_default();
            format!("condition {kind} is {status}{since}{heard}; required {required}")
        }
    }
}

fn unmet_of(verdict: &ConditionVerdict<'_>) -> String {
    match verdict.current {
        None => format!("condition {} is missing", verdict.kind),
        Some(status) => format!("condition {} is {status}, not {}", verdict.kind, verdict.required),
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::ConditionStatus;
    use super::super::testing::{NodeBuilder, RuleBuilder, TAINT, node, rule};
    use super::*;

    #[test]
    fn every_standing_has_its_sentence() {
        let live = || rule("r").claimed();
        let completed = |node: NodeBuilder| node.annotation("readiness.k8s.io/bootstrap-completed-uid-of-r", "");
        let other = || rule("x").claimed().conditions(&[("b", ConditionStatus::True, None)]);
        let table: Vec<(RuleBuilder, NodeBuilder, Vec<RuleBuilder>, Standing, &str)> = vec![
            (
                live(),
                node("n").taint(TAINT),
                vec![],
                Standing::Gated,
                "node n is gated: condition example.com/Ready is missing",
            ),
            (
                live(),
                node("n").taint(TAINT).condition("example.com/Ready", "False"),
                vec![],
                Standing::Gated,
                "node n is gated: condition example.com/Ready is False, not True",
            ),
            (
                live(),
                node("n"),
                vec![],
                Standing::GateDue,
                "node n is due to be tainted: condition example.com/Ready is missing",
            ),
            (live(), node("n").ready(), vec![], Standing::Released, "every condition of rule r holds on node n"),
            (
                live(),
                node("n").ready().taint(TAINT),
                vec![],
                Standing::ReleaseDue,
                "every condition of rule r holds on node n: the taint is due to be removed",
            ),
            (
                live(),
                node("n").ready().taint(TAINT),
                vec![other()],
                Standing::GatedByAnother,
                "rule x holds node n with the same taint, and is not satisfied",
            ),
            (
                live().bootstrap_only(),
                completed(node("n")),
                vec![],
                Standing::Released,
                "bootstrap of node n is over for rule r: it is not tainted again",
            ),
            (
                live(),
                node("n").unlabelled(),
                vec![],
                Standing::NotSelected,
                "rule r does not select node n: role=worker",
            ),
            (live().dry_run(), node("n"), vec![], Standing::NotEnforced, "rule r is in dry run: it changes no taint"),
        ];
        for (rule, node, others, standing, says) in table {
            let others: Vec<CompiledRule> = others.into_iter().map(RuleBuilder::compiled).collect();
            let given = explain(&rule.compiled(), &node.build(), &others);
            assert_eq!((given.standing, given.says.as_str()), (standing, says));
            assert!(!given.evidence.is_empty());
        }
    }
}
