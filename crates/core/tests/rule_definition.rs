//! deploy/crd and `core::rule`'s types say the same, field by field: neither can be changed alone.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use carrick_core::rule::{
    API_VERSION, ConditionPolicy, ConditionResult, ConditionStatus, DryRunResults, FailedNode, GROUP, KIND,
    LabelRequirement, NodeEvaluation, NodeReadinessRule, PLURAL, RuleCondition, RuleStatus, RuleSummary, TaintStatus,
    VERSION,
};
use jiff::Timestamp;
use serde_json::{Value, json};

const DEFINITION: &str = include_str!("../../../deploy/crd/nodereadinessrules.readiness.node.x-k8s.io.yaml");

fn definition() -> Value {
    serde_saphyr::from_str(DEFINITION).unwrap()
}

fn schema() -> Value {
    definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// With every field that a type has.
fn whole() -> NodeReadinessRule {
    let now = Timestamp::UNIX_EPOCH;
    let result = ConditionResult {
        kind: "a".into(),
        current_status: ConditionStatus::True,
        required_status: ConditionStatus::False,
        default_status: Some(ConditionStatus::Unknown),
    };
    let mut rule = carrick_core::rule::testing::rule("r").0;
    rule.spec.conditions[0].default_status = Some(ConditionStatus::True);
    rule.spec.condition_policy = Some(ConditionPolicy::AllOf);
    rule.spec.taint.value = Some("v".into());
    rule.spec.taint.time_added = Some("1970-01-01T00:00:00Z".into());
    rule.spec.node_selector.match_expressions =
        vec![LabelRequirement { key: "k".into(), operator: "In".into(), values: vec!["v".into()] }];
    rule.spec.dry_run = Some(false);
    rule.spec.max_age = Some("5m".into());
    rule.spec.suspend = Some(false);
    rule.status = RuleStatus {
        observed_generation: Some(1),
        applied_nodes: vec!["n".into()],
        failed_nodes: vec![FailedNode {
            node_name: "n".into(),
            reason: "EvaluationError".into(),
            message: "m".into(),
            last_evaluation_time: now,
        }],
        node_evaluations: vec![NodeEvaluation {
            node_name: "n".into(),
            condition_results: vec![result],
            taint_status: TaintStatus::Present,
            last_evaluation_time: now,
        }],
        dry_run_results: Some(DryRunResults { summary: "s".into(), ..DryRunResults::default() }),
        summary: Some(RuleSummary::default()),
        conditions: vec![RuleCondition {
            kind: "Enforced".into(),
            status: ConditionStatus::True,
            reason: "Enforcing".into(),
            message: "m".into(),
            observed_generation: Some(1),
            last_transition_time: now,
        }],
    };
    rule
}

/// Every path of a schema: `spec.taint.key`, `spec.conditions[].type`.
fn paths(schema: &Value, at: &str, into: &mut BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        into.insert(path.clone());
        paths(inner, &path, into);
    }
    if schema["items"].is_object() {
        paths(&schema["items"], &format!("{at}[]"), into);
    }
}

fn fields(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                into.insert(path.clone());
                // Labels are no fields.
                if name != "matchLabels" {
                    fields(inner, &path, into);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, &format!("{at}[]"), into)),
        _ => {}
    }
}

#[test]
fn the_definition_and_the_types_have_the_same_fields() {
    let (mut defined, mut typed) = (BTreeSet::new(), BTreeSet::new());
    paths(&schema(), "", &mut defined);
    fields(&json!(whole()), "", &mut typed);
    typed.retain(|path| !path.starts_with("metadata."));
    assert_eq!(defined, typed);
}

/// What the definition requires, a type cannot be read without; what it does not, a type can.
#[test]
fn what_is_required_is_required_by_both() {
    let object = json!(whole());
    let mut defined = BTreeSet::new();
    paths(&schema(), "", &mut defined);
    let mut tried = 0;
    for path in &defined {
        let Some((parent, field)) = path.rsplit_once('.') else { continue };
        if path.starts_with("spec.nodeSelector.matchExpressions[].") || path.starts_with("status.dryRunResults.") {
            // Read leniently on purpose: what is wrong with a selector is told, and zeros may be left out.
            continue;
        }
        let pointer = |path: &str| format!("/{}", path.replace("[]", "/0").replace('.', "/"));
        let in_schema = format!("/properties/{}", parent.replace("[]", "/items").replace('.', "/properties/"));
        let required = schema().pointer(&in_schema).map(|it| it["required"].clone()).unwrap_or_default();
        let required = required.as_array().is_some_and(|names| names.iter().any(|name| name == field));
        let mut without = object.clone();
        without.pointer_mut(&pointer(parent)).unwrap().as_object_mut().unwrap().remove(field).expect(path);
        let read = serde_json::from_value::<NodeReadinessRule>(without);
        // Texts of a failed node are optional in the definition, and always written.
        let lenient = ["status.failedNodes[].reason", "status.failedNodes[].message", "status.conditions[].message"];
        if !lenient.contains(&path.as_str()) {
            assert_eq!(read.is_err(), required, "{path}: {read:?}");
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
}

#[test]
fn every_value_of_an_enum_is_read() {
    let mut seen = 0;
    let mut walk = vec![(schema(), String::new())];
    while let Some((schema, at)) = walk.pop() {
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            walk.push((inner.clone(), format!("{at}/{name}")));
        }
        if schema["items"].is_object() {
            walk.push((schema["items"].clone(), format!("{at}/0")));
        }
        for value in schema["enum"].as_array().into_iter().flatten() {
            let mut object = json!(whole());
            *object.pointer_mut(&at).unwrap() = value.clone();
            let read: NodeReadinessRule = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(json!(read), object, "{at}");
            *object.pointer_mut(&at).unwrap() = "sometimes".into();
            assert!(serde_json::from_value::<NodeReadinessRule>(object).is_err(), "{at}");
            seen += 1;
        }
    }
    assert!(seen >= 22, "{seen}");
}

#[test]
fn names_columns_and_rules_are_upstreams() {
    let definition = definition();
    let spec = &definition["spec"];
    assert_eq!((&spec["group"], &spec["scope"]), (&json!(GROUP), &json!("Cluster")));
    assert_eq!(spec["names"]["kind"], KIND);
    assert_eq!((&spec["names"]["plural"], &spec["names"]["shortNames"]), (&json!(PLURAL), &json!(["nrr"])));
    assert_eq!(definition["metadata"]["name"], format!("{PLURAL}.{GROUP}"));
    let version = &spec["versions"][0];
    assert_eq!(format!("{GROUP}/{}", version["name"].as_str().unwrap()), API_VERSION);
    assert_eq!(version["name"], VERSION);
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns: Vec<&str> =
        version["additionalPrinterColumns"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Mode", "Taint", "Effect", "DryRun", "Age"]);
    let selectable: Vec<&str> =
        version["selectableFields"].as_array().unwrap().iter().map(|it| it["jsonPath"].as_str().unwrap()).collect();
    assert_eq!(selectable, [".spec.enforcementMode", ".spec.taint.key", ".spec.dryRun"]);
    let messages = |path: &str| -> Vec<String> {
        let rules = schema().pointer(path).unwrap()["x-kubernetes-validations"].clone();
        rules.as_array().unwrap().iter().map(|it| it["message"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        messages("/properties/spec"),
        ["conditionPolicy is immutable", "defaultStatus is not supported when conditionPolicy is anyOf"]
    );
    assert_eq!(messages("/properties/spec/properties/taint").len(), 11);
    for (field, message) in [
        ("conditions", "conditions is immutable"),
        ("enforcementMode", "enforcementMode is immutable"),
        ("nodeSelector", "nodeSelector is immutable"),
    ] {
        assert_eq!(messages(&format!("/properties/spec/properties/{field}")), [message]);
    }
    // No defaults: they would be written into objects that upstream left without.
    assert!(!DEFINITION.contains("default:"));
}
