//! Whether a rule's conditions hold on a node: the one function that `controller`, `rule explain` and `rule simulate` share.

use super::compiled::CompiledRule;
use super::node::{SlimNode, Uptime};
use super::object::{ConditionResult, ConditionStatus};

/// One required condition on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionVerdict<'r> {
    pub kind: &'r str,
    pub required: ConditionStatus,
    /// What counts where the Node does not have it.
    pub default: ConditionStatus,
    /// `None`: the Node does not have it.
    pub current: Option<ConditionStatus>,
    /// Its heartbeat has not changed for longer than the rule allows: whatever it says does not count.
    pub silent: bool,
    /// Until when it is believed, if nothing is heard.
    pub fresh_until: Option<Uptime>,
}

impl ConditionVerdict<'_> {
    pub fn holds(&self) -> bool {
        !self.silent && self.current.unwrap_or(self.default) == self.required
    }
}

/// What a rule says about a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    pub satisfied: bool,
    /// At least one condition is missing on the Node, whatever its default is.
    pub missing: bool,
    /// When this may be another one though nothing has happened.
    pub until: Option<Uptime>,
}

pub fn verdicts<'r>(
    rule: &'r CompiledRule,
    node: &SlimNode,
    now: Uptime,
) -> impl Iterator<Item = ConditionVerdict<'r>> {
    rule.spec.conditions.iter().map(move |required| {
        let current = node.condition(&required.kind);
        let fresh_until = current.zip(rule.max_age).map(|(current, age)| current.heard.saturating_add(age));
        ConditionVerdict {
            kind: &required.kind,
            required: required.required_status,
            default: required.default_status.unwrap_or_default(),
            current: current.map(|current| current.status),
            silent: fresh_until.is_some_and(|until| now >= until),
            fresh_until,
        }
    })
}

pub fn evaluate(rule: &CompiledRule, node: &SlimNode, now: Uptime) -> Evaluation {
    let (mut all, mut any, mut missing, mut until) = (true, false, false, None::<Uptime>);
    for verdict in verdicts(rule, node, now) {
        let holds = verdict.holds();
        all &= holds;
        any |= holds;
        missing |= verdict.current.is_none();
        if holds {
            until = [until, verdict.fresh_until].into_iter().flatten().min();
        }
    }
    Evaluation { satisfied: if rule.spec.is_any_of() { any } else { all }, missing, until }
}

/// As they stand in a rule's status: what was observed, without the default applied. What has fallen silent is not known.
pub fn results(rule: &CompiledRule, node: &SlimNode, now: Uptime) -> Vec<ConditionResult> {
    let result = |verdict: ConditionVerdict<'_>| ConditionResult {
        kind: verdict.kind.to_owned(),
        current_status: verdict.current.filter(|_| !verdict.silent).unwrap_or_default(),
        required_status: verdict.required,
        default_status: Some(verdict.default),
    };
    verdicts(rule, node, now).map(result).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::object::ConditionPolicy;
    use super::super::testing::{NodeBuilder, RuleBuilder, node, rule};
    use super::*;

    fn requires(conditions: &[(&str, ConditionStatus, Option<ConditionStatus>)]) -> RuleBuilder {
        rule("r").conditions(conditions)
    }

    fn any_of(builder: RuleBuilder) -> RuleBuilder {
        builder.with(|rule| rule.spec.condition_policy = Some(ConditionPolicy::AnyOf))
    }

    #[test]
    fn a_rule_is_satisfied() {
        use ConditionStatus::{False, True, Unknown};
        let a = |status| vec![("a", status, None)];
        let both = [("a", True, None), ("b", True, None)];
        let table: Vec<(&str, RuleBuilder, NodeBuilder, bool, bool)> = vec![
            ("as required", requires(&a(True)), node("n").condition("a", "True"), true, false),
            ("not as required", requires(&a(True)), node("n").condition("a", "False"), false, false),
            ("missing", requires(&a(True)), node("n"), false, true),
            ("missing, and that is required", requires(&a(Unknown)), node("n"), true, true),
            ("missing, with a default", requires(&[("a", True, Some(True))]), node("n"), true, true),
            (
                "there, whatever the default",
                requires(&[("a", True, Some(True))]),
                node("n").condition("a", "False"),
                false,
                false,
            ),
            ("required to be False", requires(&a(False)), node("n").condition("a", "False"), true, false),
            ("one of two", requires(&both), node("n").condition("a", "True"), false, true),
            ("one of two, any", any_of(requires(&both)), node("n").condition("a", "True"), true, true),
            ("none of two, any", any_of(requires(&both)), node("n").condition("a", "False"), false, true),
            ("another case", requires(&a(True)), node("n").condition("A", "True"), false, true),
        ];
        for (case, rule, node, satisfied, missing) in table {
            let given = evaluate(&rule.compiled(), &node.build(), Uptime::ZERO);
            assert_eq!((given.satisfied, given.missing), (satisfied, missing), "{case}");
        }
    }

    #[test]
    fn a_reporter_that_falls_silent_is_believed_for_the_time_that_the_rule_says() {
        let seconds = Duration::from_secs;
        let aged = requires(&[("a", ConditionStatus::True, None)]).with(|rule| rule.spec.max_age = Some("10s".into()));
        let rule = aged.compiled();
        // It was heard at 5 s.
        let node = node("n").condition("a", "True").at(seconds(5)).build();
        let at = |now| evaluate(&rule, &node, seconds(now));
        assert_eq!((at(14).satisfied, at(14).until), (true, Some(seconds(15))));
        assert_eq!((at(15).satisfied, at(15).until), (false, None));
        // Silence is no status that could be required.
        let unknown =
            requires(&[("a", ConditionStatus::Unknown, None)]).with(|it| it.spec.max_age = Some("10s".into()));
        assert!(!evaluate(&unknown.compiled(), &node, seconds(20)).satisfied);
    }

    #[test]
    fn results_say_what_was_observed() {
        use ConditionStatus::{False, True, Unknown};
        let rule = requires(&[("a", True, Some(True)), ("b", True, None)]);
        let given = results(&rule.compiled(), &node("n").condition("b", "False").build(), Uptime::ZERO);
        let said: Vec<_> = given.iter().map(|it| (it.kind.as_str(), it.current_status, it.default_status)).collect();
        assert_eq!(said, [("a", Unknown, Some(True)), ("b", False, Some(Unknown))]);
    }
}
