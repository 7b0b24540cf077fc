//! Rules and nodes for tests, as short as a line of a table.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::compiled::CompiledRule;
use super::node::{SlimNode, Texts, Uptime};
use super::object::{
    API_VERSION, ConditionStatus, EnforcementMode, FINALIZER, KIND, NodeReadinessRule, NodeTaint, RequiredCondition,
    RuleMetadata, RuleSpec,
};
use super::selector::LabelSelector;

/// The condition, the taint and the label of a rule that says nothing else.
pub const CONDITION: &str = "example.com/Ready";
pub const TAINT: &str = "readiness.k8s.io/gate";
pub const LABEL: (&str, &str) = ("role", "worker");

#[derive(Clone, Debug)]
pub struct RuleBuilder(pub NodeReadinessRule);

/// Continuous, one condition, one label; without a finalizer, as a person makes it.
pub fn rule(name: &str) -> RuleBuilder {
    let (key, value) = LABEL;
    RuleBuilder(NodeReadinessRule {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: RuleMetadata {
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            resource_version: "1".to_owned(),
            generation: 1,
            creation_timestamp: Some(Timestamp::UNIX_EPOCH),
            ..RuleMetadata::default()
        },
        spec: RuleSpec {
            conditions: vec![RequiredCondition {
                kind: CONDITION.to_owned(),
                required_status: ConditionStatus::True,
                default_status: None,
            }],
            enforcement_mode: EnforcementMode::Continuous,
            taint: taint(TAINT),
            node_selector: LabelSelector {
                match_labels: BTreeMap::from([(key.to_owned(), value.to_owned())]),
                ..LabelSelector::default()
            },
            ..RuleSpec::default()
        },
        ..NodeReadinessRule::default()
    })
}

pub fn taint(key: &str) -> NodeTaint {
    NodeTaint { key: key.into(), effect: "NoSchedule".into(), ..NodeTaint::default() }
}

impl RuleBuilder {
    pub fn with(mut self, change: impl FnOnce(&mut NodeReadinessRule)) -> Self {
        change(&mut self.0);
        self
    }

    pub fn claimed(self) -> Self {
        self.with(|rule| rule.metadata.finalizers = vec![FINALIZER.to_owned()])
    }

    pub fn bootstrap_only(self) -> Self {
        self.with(|rule| rule.spec.enforcement_mode = EnforcementMode::BootstrapOnly)
    }

    pub fn dry_run(self) -> Self {
        self.with(|rule| rule.spec.dry_run = Some(true))
    }

    pub fn deleted(self) -> Self {
        self.with(|rule| rule.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH))
    }

    pub fn annotated(self, key: &str, value: &str) -> Self {
        self.with(|rule| drop(rule.metadata.annotations.insert(key.to_owned(), value.to_owned())))
    }

    pub fn labels(self, labels: &[(&str, &str)]) -> Self {
        let owned = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.with(|rule| rule.spec.node_selector.match_labels = owned)
    }

    pub fn conditions(self, conditions: &[(&str, ConditionStatus, Option<ConditionStatus>)]) -> Self {
        let conditions = conditions.iter().map(|(kind, required_status, default_status)| RequiredCondition {
            kind: (*kind).to_owned(),
            required_status: *required_status,
            default_status: *default_status,
        });
        let conditions = conditions.collect();
        self.with(|rule| rule.spec.conditions = conditions)
    }

    pub fn compiled(self) -> CompiledRule {
        CompiledRule::new(self.0)
    }
}

#[derive(Clone, Debug)]
pub struct NodeBuilder {
    pub wire: Value,
    now: Uptime,
}

/// With the label of [`rule`], no condition and no taint.
pub fn node(name: &str) -> NodeBuilder {
    let (key, value) = LABEL;
    NodeBuilder {
        wire: json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "1",
                "creationTimestamp": "1970-01-01T00:00:00Z", "labels": {key: value},
            },
            "spec": {}, "status": {},
        }),
        now: Uptime::ZERO,
    }
}

impl NodeBuilder {
    pub fn condition(mut self, kind: &str, status: &str) -> Self {
        let condition = json!({
            "type": kind, "status": status, "lastHeartbeatTime": "2026-11-18T12:00:00Z",
            "lastTransitionTime": "2026-11-18T12:00:00Z",
        });
        push(&mut self.wire["status"]["conditions"], condition);
        self
    }

    /// [`CONDITION`] is True.
    pub fn ready(self) -> Self {
        self.condition(CONDITION, "True")
    }

    pub fn taint(mut self, key: &str) -> Self {
        push(&mut self.wire["spec"]["taints"], json!({"key": key, "effect": "NoSchedule"}));
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.wire["metadata"]["labels"][key] = value.into();
        self
    }

    pub fn unlabelled(mut self) -> Self {
        self.wire["metadata"]["labels"] = json!({});
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.wire["metadata"]["annotations"][key] = value.into();
        self
    }

    pub fn version(mut self, version: &str) -> Self {
        self.wire["metadata"]["resourceVersion"] = version.into();
        self
    }

    /// Read at this moment.
    pub fn at(mut self, now: Uptime) -> Self {
        self.now = now;
        self
    }

    pub fn build(self) -> SlimNode {
        let wire = serde_json::from_value(self.wire).unwrap_or_default();
        SlimNode::of(wire, &mut Texts::default(), self.now)
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}
