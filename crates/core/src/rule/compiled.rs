//! A rule as it is applied: its selector read, what it may do now, and what is wrong with it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::node::{COMPLETED, SlimNode};
use super::object::{FINALIZER, MAX_AGE, NodeReadinessRule, RuleSpec, SUSPEND, TAINT_PREFIX};
use super::selector::{NodeSelector, is_word};

/// What a rule may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleStage {
    /// Taints are kept as it says; once it has its finalizer, they are put as well.
    Enforced { claimed: bool },
    /// Counts what it would do.
    DryRun,
    /// Taints stay as they are.
    Suspended,
    /// Its taints go, then it does.
    Deleting { dry_run: bool },
    /// It cannot be applied: see its problems.
    Invalid,
}

/// What is wrong with a rule that its definition let through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    #[error("nodeSelector: {0}")]
    Selector(String),
    #[error("taint: {0}")]
    Taint(String),
    #[error("conditions: a rule without conditions would hold every node for ever")]
    NoConditions,
    #[error("{field}: {value:?} is not a duration such as 90s, 5m or 1h30m")]
    MaxAge { field: &'static str, value: String },
    #[error("{SUSPEND}: {0:?} is neither true nor false")]
    Suspend(String),
}

impl RuleProblem {
    /// Whether the rule can be applied all the same.
    pub fn is_passed_over(&self) -> bool {
        match self {
            RuleProblem::MaxAge { .. } | RuleProblem::Suspend(_) => true,
            RuleProblem::Selector(_) | RuleProblem::Taint(_) | RuleProblem::NoConditions => false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct CompiledRule {
    pub name: Arc<str>,
    pub uid: Box<str>,
    pub resource_version: Box<str>,
    pub generation: i64,
    pub created: Option<Timestamp>,
    pub finalizers: Vec<String>,
    pub stage: RuleStage,
    pub spec: RuleSpec,
    pub max_age: Option<Duration>,
    pub problems: Vec<RuleProblem>,
    /// `None`: it could not be read, and selects nothing.
    selector: Option<NodeSelector>,
}

impl CompiledRule {
    pub fn new(rule: NodeReadinessRule) -> Self {
        let NodeReadinessRule { metadata, spec, .. } = rule;
        let mut problems = Vec::new();
        let selector = NodeSelector::new(&spec.node_selector);
        let selector = selector.map_err(|error| problems.push(RuleProblem::Selector(error.0))).ok();
        problems.extend(taint_problem(&spec).map(RuleProblem::Taint));
        if spec.conditions.is_empty() {
            problems.push(RuleProblem::NoConditions);
        }
        let annotation = |key: &str| metadata.annotations.get(key).map(String::as_str);
        let max_age = match (spec.max_age.as_deref(), annotation(MAX_AGE)) {
            (Some(value), _) => Some(("maxAge", value)),
            (None, value) => value.map(|value| (MAX_AGE, value)),
        };
        let max_age = max_age.and_then(|(field, value)| {
            let age = parse_duration(value);
            if age.is_none() {
                problems.push(RuleProblem::MaxAge { field, value: value.to_owned() });
            }
            age
        });
        let suspended = match (spec.suspend, annotation(SUSPEND)) {
            (Some(suspend), _) => suspend,
            (None, None | Some("false")) => false,
            (None, Some("true")) => true,
            (None, Some(other)) => {
                problems.push(RuleProblem::Suspend(other.to_owned()));
                false
            }
        };
        let usable = problems.iter().all(RuleProblem::is_passed_over);
        let claimed = metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        let stage = if metadata.deletion_timestamp.is_some() {
            RuleStage::Deleting { dry_run: spec.is_dry_run() }
        } else if !usable {
            RuleStage::Invalid
        } else if suspended {
            RuleStage::Suspended
        } else if spec.is_dry_run() {
            RuleStage::DryRun
        } else {
            RuleStage::Enforced { claimed }
        };
        CompiledRule {
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            generation: metadata.generation,
            created: metadata.creation_timestamp,
            finalizers: metadata.finalizers,
            stage,
            spec,
            max_age,
            problems,
            selector,
        }
    }

    pub fn selects(&self, node: &SlimNode) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.selects(|key| node.label(key)))
    }

    pub fn selector(&self) -> Option<&NodeSelector> {
        self.selector.as_ref()
    }

    pub fn is_enforced(&self) -> bool {
        matches!(self.stage, RuleStage::Enforced { .. })
    }

    pub fn is_claimed(&self) -> bool {
        self.stage == RuleStage::Enforced { claimed: true }
    }

    pub fn is_deleting(&self) -> bool {
        matches!(self.stage, RuleStage::Deleting { .. })
    }

    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// The older of two rules goes first: it was there when the other was made.
    pub fn age_order(&self) -> (Option<Timestamp>, &str) {
        (self.created, &self.name)
    }

    /// Whether bootstrap is over on a node.
    pub fn is_complete_on(&self, node: &SlimNode) -> bool {
        self.spec.is_bootstrap_only() && node.has_completed(&self.uid, &self.name)
    }

    /// The annotation that says so, as upstream writes it.
    pub fn completion(&self) -> (String, String) {
        let name = serde_json::json!({ "rule-name": self.name.as_ref() });
        (format!("{COMPLETED}{}", self.uid), name.to_string())
    }
}

/// What the definition's own rules refuse, for servers whose definition has none of them: an API server would refuse every write of
/// a Node with such a taint.
fn taint_problem(spec: &RuleSpec) -> Option<String> {
    let taint = &spec.taint;
    let Some(name) = taint.key.strip_prefix(TAINT_PREFIX) else {
        return Some(format!("key {:?} does not begin with {TAINT_PREFIX}", taint.key));
    };
    if name.len() > 63 || !is_word(name) {
        return Some(format!("key {:?} is not {TAINT_PREFIX} and a name of 1-63 characters", taint.key));
    }
    if !matches!(taint.effect.as_ref(), "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        return Some(format!("effect {:?} is not NoSchedule, PreferNoSchedule or NoExecute", taint.effect));
    }
    let value = taint.value.as_deref().unwrap_or_default();
    let fits = value.is_empty() || value.len() <= 63 && is_word(value);
    (!fits).then(|| format!("value {value:?} is not a label value: no Node takes it"))
}

/// As Kubernetes writes durations: `1h30m`, `90s`, `500ms`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut whole = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let number: u64 = number.parse().ok()?;
        let part = match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
        whole = whole.checked_add(part)?;
        rest = after;
    }
    // Nothing is ever fresh within no time at all.
    Some(whole).filter(|age| !age.is_zero())
}

#[cfg(test)]
mod tests {
    use super::super::testing::rule;
    use super::*;

    #[test]
    fn a_stage_follows_from_the_object() {
        let claimed = || rule("r").claimed();
        for (case, given, expected) in [
            ("new", rule("r"), RuleStage::Enforced { claimed: false }),
            ("with its finalizer", claimed(), RuleStage::Enforced { claimed: true }),
            ("dry run", claimed().dry_run(), RuleStage::DryRun),
            ("suspended", claimed().with(|it| it.spec.suspend = Some(true)), RuleStage::Suspended),
            ("suspended by its annotation", claimed().annotated(SUSPEND, "true"), RuleStage::Suspended),
            (
                "its field has the last word",
                claimed().annotated(SUSPEND, "true").with(|it| it.spec.suspend = Some(false)),
                RuleStage::Enforced { claimed: true },
            ),
            ("deleted", claimed().deleted(), RuleStage::Deleting { dry_run: false }),
            (
                "deleted while suspended",
                claimed().deleted().with(|it| it.spec.suspend = Some(true)),
                RuleStage::Deleting { dry_run: false },
            ),
            ("deleted in dry run", claimed().dry_run().deleted(), RuleStage::Deleting { dry_run: true }),
            ("a taint nobody takes", claimed().with(|it| it.spec.taint.value = Some("-".into())), RuleStage::Invalid),
            (
                "a foreign taint",
                claimed().with(|it| it.spec.taint.key = "node.kubernetes.io/x".into()),
                RuleStage::Invalid,
            ),
            ("no conditions", claimed().with(|it| it.spec.conditions.clear()), RuleStage::Invalid),
        ] {
            assert_eq!(given.compiled().stage, expected, "{case}");
        }
    }

    #[test]
    fn what_is_passed_over_is_told() {
        let odd = rule("r").annotated(SUSPEND, "yes").annotated(MAX_AGE, "soon").claimed().compiled();
        assert_eq!(odd.stage, RuleStage::Enforced { claimed: true });
        let said: Vec<String> = odd.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "carrick.dev/max-age: \"soon\" is not a duration such as 90s, 5m or 1h30m",
                "carrick.dev/suspend: \"yes\" is neither true nor false",
            ]
        );
    }

    #[test]
    fn durations_are_read_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("90s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("500ms", Some(500)),
            ("", None),
            ("0s", None),
            ("5", None),
            ("m", None),
            ("-5m", None),
            ("5 m", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(parse_duration(text).map(|it| it.as_millis()), expected, "{text}");
        }
    }

    #[test]
    fn completion_is_written_as_upstream_does() {
        let rule = rule("r1").with(|it| it.metadata.uid = "6f0c".to_owned()).compiled();
        let (key, value) = rule.completion();
        assert_eq!(key, "readiness.k8s.io/bootstrap-completed-6f0c");
        assert_eq!(value, "{\"rule-name\":\"r1\"}");
    }
}
