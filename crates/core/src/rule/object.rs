//! NodeReadinessRule as it goes over the wire: `readiness.node.x-k8s.io/v1alpha1`, field by field as node-readiness-controller
//! has it. What Carrick adds is optional, and works as an annotation too: upstream's own definition prunes what it does not know.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::selector::LabelSelector;

pub const GROUP: &str = "readiness.node.x-k8s.io";
pub const VERSION: &str = "v1alpha1";
pub const API_VERSION: &str = "readiness.node.x-k8s.io/v1alpha1";
pub const KIND: &str = "NodeReadinessRule";
pub const PLURAL: &str = "nodereadinessrules";

/// Keeps a rule that is being deleted until its taints are gone.
pub const FINALIZER: &str = "readiness.node.x-k8s.io/cleanup-taints";
/// What every taint of a rule begins with; autoscalers know it.
pub const TAINT_PREFIX: &str = "readiness.k8s.io/";
/// `spec.maxAge`, where the definition has no such field.
pub const MAX_AGE: &str = "carrick.dev/max-age";
/// `spec.suspend`, where the definition has no such field.
pub const SUSPEND: &str = "carrick.dev/suspend";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReadinessRule {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(default)]
    pub metadata: RuleMetadata,
    pub spec: RuleSpec,
    #[serde(default, skip_serializing_if = "RuleStatus::is_empty")]
    pub status: RuleStatus,
}

/// The rules in a file of YAML or JSON, one document or several, a List too; other objects are passed over.
pub fn read_rules(text: &str) -> Result<Vec<Result<NodeReadinessRule, String>>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| format!("not YAML: {error}"))?;
    let is_list = |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let objects = documents.into_iter().flat_map(|object| match &object["items"] {
        Value::Array(items) if is_list(&object) => items.clone(),
        _ => vec![object],
    });
    let rules = objects.filter(|object| object["kind"] == KIND).map(|object| {
        if object["apiVersion"] != API_VERSION {
            return Err(format!("apiVersion {} is not {API_VERSION}", object["apiVersion"]));
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        serde_json::from_value(object).map_err(|error| format!("{name}: {error}"))
    });
    Ok(rules.collect())
}

/// Of an object's metadata what a controller needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleMetadata {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleSpec {
    pub conditions: Vec<RequiredCondition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_policy: Option<ConditionPolicy>,
    pub enforcement_mode: EnforcementMode,
    pub taint: NodeTaint,
    pub node_selector: LabelSelector,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Carrick's own: for how long a condition is believed whose heartbeat has not been seen to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<String>,
    /// Carrick's own: taints stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

impl RuleSpec {
    pub fn is_any_of(&self) -> bool {
        self.condition_policy == Some(ConditionPolicy::AnyOf)
    }

    pub fn is_bootstrap_only(&self) -> bool {
        self.enforcement_mode == EnforcementMode::BootstrapOnly
    }

    pub fn is_dry_run(&self) -> bool {
        self.dry_run == Some(true)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequiredCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub required_status: ConditionStatus,
    /// What a condition counts for that the Node does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_status: Option<ConditionStatus>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    True,
    False,
    #[default]
    Unknown,
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConditionPolicy {
    #[default]
    AllOf,
    AnyOf,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnforcementMode {
    BootstrapOnly,
    #[default]
    Continuous,
}

impl EnforcementMode {
    pub fn as_str(self) -> &'static str {
        match self {
            EnforcementMode::BootstrapOnly => "bootstrap-only",
            EnforcementMode::Continuous => "continuous",
        }
    }
}

/// A taint, on a Node or in a rule. Two are the same where key and effect are: the value does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTaint {
    pub key: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<str>>,
    pub effect: Box<str>,
    /// As it was written: it goes back with the list that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Box<str>>,
}

impl NodeTaint {
    pub fn is(&self, other: &NodeTaint) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// `KEY:EFFECT`: what tells it from others.
    pub fn id(&self) -> String {
        format!("{}:{}", self.key, self.effect)
    }
}

/// What a controller has found out about a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applied_nodes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_nodes: Vec<FailedNode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_evaluations: Vec<NodeEvaluation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run_results: Option<DryRunResults>,
    /// Carrick's own: counts of all nodes, however many of them are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<RuleSummary>,
    /// Carrick's own: whether the rule is enforced, and what is in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<RuleCondition>,
}

impl RuleStatus {
    pub fn is_empty(&self) -> bool {
        *self == RuleStatus::default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedNode {
    pub node_name: String,
    pub reason: String,
    pub message: String,
    pub last_evaluation_time: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvaluation {
    pub node_name: String,
    pub condition_results: Vec<ConditionResult>,
    pub taint_status: TaintStatus,
    pub last_evaluation_time: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionResult {
    #[serde(rename = "type")]
    pub kind: String,
    /// As the Node has it; `Unknown` where it has none, whatever the default is.
    pub current_status: ConditionStatus,
    pub required_status: ConditionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_status: Option<ConditionStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaintStatus {
    Present,
    Absent,
}

/// Zeros are written, as upstream does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DryRunResults {
    #[serde(default)]
    pub affected_nodes: u32,
    #[serde(default)]
    pub taints_to_add: u32,
    #[serde(default)]
    pub taints_to_remove: u32,
    #[serde(default)]
    pub risky_operations: u32,
    pub summary: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleSummary {
    /// Selected by the rule.
    pub matched_nodes: u32,
    /// With the taint.
    pub held_nodes: u32,
    /// Without it.
    pub released_nodes: u32,
    pub failed_nodes: u32,
    /// In `nodeEvaluations`; the rest had no room.
    pub listed_nodes: u32,
}

/// A condition as in `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: ConditionStatus,
    pub reason: String,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub last_transition_time: Timestamp,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_read_out_of_a_file() {
        let rule = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "r"}, "spec": {
            "conditions": [{"type": "a", "requiredStatus": "True"}], "enforcementMode": "continuous",
            "taint": {"key": "readiness.k8s.io/a", "effect": "NoSchedule"}, "nodeSelector": {},
        }});
        let file =
            format!("apiVersion: v1\nkind: ConfigMap\n---\n{rule}\n---\n{}", json!({"kind": "List", "items": [rule]}));
        let read = read_rules(&file).unwrap();
        assert_eq!(read.iter().filter(|rule| rule.is_ok()).count(), 2, "{read:?}");
        let bad = read_rules(&format!("kind: {KIND}\napiVersion: v1\n")).unwrap();
        assert_eq!(bad[0].as_ref().unwrap_err(), "apiVersion \"v1\" is not readiness.node.x-k8s.io/v1alpha1");
        assert!(read_rules("{").is_err());
    }

    /// Samples of the wire as upstream leaves it: read and written again they are the same, to the letter.
    #[test]
    fn upstreams_objects_come_back_as_they_were() {
        let rule = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": {
                "name": "r1", "uid": "6f0c", "resourceVersion": "12", "generation": 2,
                "creationTimestamp": "2026-08-23T12:00:00Z", "finalizers": [FINALIZER],
            },
            "spec": {
                "conditions": [{"type": "example.com/CNIReady", "requiredStatus": "True", "defaultStatus": "False"}],
                "conditionPolicy": "anyOf",
                "enforcementMode": "bootstrap-only",
                "taint": {
                    "key": "readiness.k8s.io/NetworkReady", "value": "pending", "effect": "NoSchedule",
                    "timeAdded": "2026-08-23T12:00:00Z",
                },
                "nodeSelector": {
                    "matchLabels": {"node-role.kubernetes.io/worker": ""},
                    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}],
                },
                "dryRun": false,
            },
            "status": {
                "observedGeneration": 1,
                "appliedNodes": ["n1"],
                "failedNodes": [{
                    "nodeName": "n2", "reason": "EvaluationError", "message": "no", "lastEvaluationTime": "2026-08-23T12:00:00Z",
                }],
                "nodeEvaluations": [{
                    "nodeName": "n1",
                    "conditionResults": [{
                        "type": "example.com/CNIReady", "currentStatus": "Unknown", "requiredStatus": "True",
                        "defaultStatus": "Unknown",
                    }],
                    "taintStatus": "Present", "lastEvaluationTime": "2026-08-23T12:00:00Z",
                }],
                "dryRunResults": {
                    "affectedNodes": 3, "taintsToAdd": 2, "taintsToRemove": 0, "riskyOperations": 1,
                    "summary": "would add 2 taints, 1 nodes have missing conditions",
                },
            },
        });
        let read: NodeReadinessRule = serde_json::from_value(rule.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), rule);
    }

    #[test]
    fn a_status_that_nobody_wrote_is_left_out() {
        let spec = json!({
            "conditions": [], "enforcementMode": "continuous", "taint": {"key": "k", "effect": "NoSchedule"},
            "nodeSelector": {},
        });
        let read: NodeReadinessRule = serde_json::from_value(json!({"spec": spec})).unwrap();
        assert!(read.status.is_empty());
        assert_eq!(serde_json::to_value(&read).unwrap().get("status"), None::<&Value>);
    }
}
