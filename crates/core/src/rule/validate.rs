//! What the admission webhook says about a rule: upstream's checks in upstream's words, and never a word against a rule that is being
//! deleted or whose spec stays as it is. Upstream denies its own controller the removal of a finalizer: such a rule stays for ever.

use super::compiled::CompiledRule;
use super::conflict::{conflict, conflict_message};
use super::object::{ConditionPolicy, EnforcementMode, NodeReadinessRule};
use super::selector::NodeSelector;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    pub errors: Vec<String>,
    /// Only of what is admitted.
    pub warnings: Vec<String>,
}

impl Admission {
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty()
    }

    /// Go's way to print a list.
    pub fn message(&self) -> String {
        format!("validation failed: [{}]", self.errors.join(" "))
    }
}

/// `old`: what it was before an update; `others`: all rules there are.
pub fn admit<'r>(
    rule: &NodeReadinessRule,
    old: Option<&NodeReadinessRule>,
    others: impl IntoIterator<Item = &'r CompiledRule>,
) -> Admission {
    let unchanged = old.is_some_and(|old| old.spec == rule.spec);
    if rule.metadata.deletion_timestamp.is_some() || unchanged {
        return Admission::default();
    }
    let mut errors = Vec::new();
    if let Err(error) = NodeSelector::new(&rule.spec.node_selector) {
        let selector = serde_json::to_string(&rule.spec.node_selector).unwrap_or_default();
        errors.push(format!("spec.nodeSelector: Invalid value: {}: {error}", escaped(&selector)));
    }
    if rule.spec.node_selector.is_empty() {
        errors.push("spec.nodeSelector: Required value: nodeSelector must not be empty".to_owned());
    }
    if old.is_none() && rule.spec.is_bootstrap_only() {
        errors.extend(bootstrap_errors(rule));
    }
    errors.extend(conflict_errors(rule, others));
    let warnings = if errors.is_empty() && old.is_none() { warning(rule).into_iter().collect() } else { Vec::new() };
    Admission { errors, warnings }
}

fn bootstrap_errors(rule: &NodeReadinessRule) -> impl Iterator<Item = String> {
    let with_default = rule.spec.conditions.iter().enumerate().filter(|(_, it)| it.default_status.is_some());
    let defaults = with_default.map(|(at, _)| {
        format!("spec.conditions[{at}].defaultStatus: Forbidden: defaultStatus should not be used with bootstrap-only enforcementMode")
    });
    let any_of = (rule.spec.condition_policy == Some(ConditionPolicy::AnyOf)).then(|| {
        "spec.conditionPolicy: Forbidden: anyOf conditionPolicy is not supported with bootstrap-only enforcementMode".to_owned()
    });
    defaults.chain(any_of)
}

/// A rule in dry run puts no taint: it may share one, until it is enforced.
fn conflict_errors<'r>(rule: &NodeReadinessRule, others: impl IntoIterator<Item = &'r CompiledRule>) -> Vec<String> {
    if rule.spec.is_dry_run() {
        return Vec::new();
    }
    let compiled = CompiledRule::new(rule.clone());
    let is_other = |other: &&CompiledRule| {
        other.name != compiled.name && !other.is_deleting() && !other.spec.is_dry_run() && conflict(&compiled, other)
    };
    let key = &rule.spec.taint.key;
    let error = |other: &CompiledRule| {
        format!("spec.taint.key: Invalid value: {key:?}: {}", conflict_message(&compiled, &other.name))
    };
    others.into_iter().filter(is_other).map(error).collect()
}

fn warning(rule: &NodeReadinessRule) -> Option<String> {
    let says = match rule.spec.enforcement_mode {
        EnforcementMode::Continuous => {
            "CAUTION: NoExecute with continuous mode evicts pods when conditions fail, risking workload disruption. Consider NoSchedule or bootstrap-only"
        }
        EnforcementMode::BootstrapOnly => {
            "NOTE: NoExecute will evict existing pods without tolerations. Ensure critical system pods have appropriate tolerations"
        }
    };
    (rule.spec.taint.effect.as_ref() == "NoExecute").then(|| says.to_owned())
}

/// Go's JSON escapes what HTML could take for its own.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::super::object::ConditionStatus;
    use super::super::testing::{RuleBuilder, rule};
    use super::*;

    fn admitted(new: &RuleBuilder, old: Option<&RuleBuilder>, others: &[RuleBuilder]) -> Admission {
        let others: Vec<CompiledRule> = others.iter().map(|it| it.clone().compiled()).collect();
        admit(&new.0, old.map(|old| &old.0), &others)
    }

    fn empty(name: &str) -> RuleBuilder {
        rule(name).labels(&[])
    }

    #[test]
    fn upstreams_errors_in_upstreams_order_and_words() {
        let new = empty("new").bootstrap_only().conditions(&[
            ("a", ConditionStatus::True, None),
            ("b", ConditionStatus::True, Some(ConditionStatus::False)),
        ]);
        let new = new.with(|it| it.spec.condition_policy = Some(ConditionPolicy::AnyOf));
        let given = admitted(&new, None, &[rule("old").claimed()]);
        assert_eq!(
            given.message(),
            "validation failed: [spec.nodeSelector: Required value: nodeSelector must not be empty \
             spec.conditions[1].defaultStatus: Forbidden: defaultStatus should not be used with bootstrap-only enforcementMode \
             spec.conditionPolicy: Forbidden: anyOf conditionPolicy is not supported with bootstrap-only enforcementMode \
             spec.taint.key: Invalid value: \"readiness.k8s.io/gate\": conflicts with existing rule 'old' - same taint key 'readiness.k8s.io/gate' and effect 'NoSchedule' with overlapping node selectors]"
        );
        let bad = rule("new").with(|it| {
            it.spec.node_selector = serde_json::from_value(serde_json::json!({
                "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Foo"}],
            }))
            .unwrap();
        });
        assert_eq!(
            admitted(&bad, None, &[]).message(),
            "validation failed: [spec.nodeSelector: Invalid value: {\"matchLabels\":{\"a\":\"b\"},\"matchExpressions\":[{\"key\":\"c\",\"operator\":\"Foo\"}]}: \"Foo\" is not a valid label selector operator]"
        );
    }

    #[test]
    fn who_is_let_in() {
        let old = || rule("old").claimed();
        let new = || rule("new");
        for (case, new, before, others, allowed) in [
            ("nobody else", new(), None, vec![], true),
            ("a conflict", new(), None, vec![old()], false),
            ("another effect", new().with(|it| it.spec.taint.effect = "NoExecute".into()), None, vec![old()], true),
            ("in dry run", new().dry_run(), None, vec![old()], true),
            ("dry run ends", new(), Some(new().dry_run()), vec![old()], false),
            ("the other is in dry run", new(), None, vec![old().dry_run()], true),
            ("the other is being deleted", new(), None, vec![old().deleted()], true),
            ("itself", new().with(|it| it.spec.dry_run = Some(false)), Some(new()), vec![new()], true),
            // Both stand in the way of upstream's own finalizer.
            ("a conflict, being deleted", new().deleted(), Some(new()), vec![old()], true),
            ("a conflict, spec as it was", new().claimed(), Some(new()), vec![old()], true),
            ("an empty selector, spec as it was", empty("new").claimed(), Some(empty("new")), vec![], true),
            ("an empty selector", empty("new"), None, vec![], false),
            (
                "what only a new rule may not have",
                rule("new").bootstrap_only().conditions(&[("a", ConditionStatus::True, Some(ConditionStatus::True))]),
                Some(rule("new").bootstrap_only()),
                vec![],
                true,
            ),
        ] {
            let given = admitted(&new, before.as_ref(), &others);
            assert_eq!(given.is_allowed(), allowed, "{case}: {}", given.message());
        }
    }

    #[test]
    fn no_execute_is_warned_of_once() {
        let evicts = |new: RuleBuilder| new.with(|it| it.spec.taint.effect = "NoExecute".into());
        let said = |new: &RuleBuilder, old: Option<&RuleBuilder>| {
            admitted(new, old, &[]).warnings.first().and_then(|it| it.split(':').next().map(str::to_owned))
        };
        assert_eq!(said(&evicts(rule("r")), None).as_deref(), Some("CAUTION"));
        assert_eq!(said(&evicts(rule("r").bootstrap_only()), None).as_deref(), Some("NOTE"));
        assert_eq!(said(&evicts(rule("r")).dry_run(), Some(&evicts(rule("r")))), None);
        assert_eq!(said(&rule("r"), None), None);
    }
}
