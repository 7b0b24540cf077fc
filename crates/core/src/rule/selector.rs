//! Which nodes a rule is for: a LabelSelector, read and refused in the words of Kubernetes' own libraries, which upstream's
//! webhook repeats; and whether two of them can select the same node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// As in the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl LabelSelector {
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

/// What a label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Demand {
    In(Vec<Box<str>>),
    /// Also where there is no such label.
    NotIn(Vec<Box<str>>),
    Exists,
    DoesNotExist,
}

/// A selector that was read; all of its demands hold for a node that it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSelector(Vec<(Box<str>, Demand)>);

/// Why a selector cannot be read, in apimachinery's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl NodeSelector {
    pub fn new(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let mut demands = Vec::with_capacity(selector.match_labels.len() + selector.match_expressions.len());
        for (key, value) in &selector.match_labels {
            check_requirement(key, std::slice::from_ref(value), None)?;
            demands.push((key.as_str().into(), Demand::In(boxed(std::slice::from_ref(value)))));
        }
        for LabelRequirement { key, operator, values } in &selector.match_expressions {
            let (demand, needs_values) = match operator.as_str() {
                "In" => (Demand::In(boxed(values)), true),
                "NotIn" => (Demand::NotIn(boxed(values)), true),
                "Exists" => (Demand::Exists, false),
                "DoesNotExist" => (Demand::DoesNotExist, false),
                other => return Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
            };
            check_requirement(key, values, Some(needs_values))?;
            demands.push((key.as_str().into(), demand));
        }
        Ok(NodeSelector(demands))
    }

    /// `label` gives the value of a label, where the node has it.
    pub fn selects<'n>(&self, label: impl Fn(&str) -> Option<&'n str>) -> bool {
        self.0.iter().all(|(key, demand)| demand.holds(label(key)))
    }

    /// Whether a node can be that both select: decided for each label by itself, since labels do not depend on one another.
    pub fn overlaps(&self, other: &NodeSelector) -> bool {
        let keys: BTreeSet<&str> = self.0.iter().chain(&other.0).map(|(key, _)| key.as_ref()).collect();
        keys.into_iter().all(|key| {
            let of_key = self.0.iter().chain(&other.0).filter(|(its, _)| its.as_ref() == key);
            can_hold_together(of_key.map(|(_, demand)| demand))
        })
    }
}

impl fmt::Display for NodeSelector {
    /// As `kubectl -l` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, demand)) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            match demand {
                Demand::In(values) if values.len() == 1 => write!(f, "{key}={}", values.concat())?,
                Demand::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Demand::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Demand::Exists => write!(f, "{key}")?,
                Demand::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

impl Demand {
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[Box<str>]| value.is_some_and(|value| values.iter().any(|it| it.as_ref() == value));
        match self {
            Demand::In(values) => among(values),
            Demand::NotIn(values) => !among(values),
            Demand::Exists => value.is_some(),
            Demand::DoesNotExist => value.is_none(),
        }
    }
}

/// Whether one label can be as all of them demand.
fn can_hold_together<'a>(demands: impl Iterator<Item = &'a Demand>) -> bool {
    let (mut exists, mut absent) = (false, false);
    let mut allowed: Option<BTreeSet<&str>> = None;
    let mut forbidden = BTreeSet::new();
    for demand in demands {
        match demand {
            Demand::In(values) => {
                exists = true;
                let values: BTreeSet<&str> = values.iter().map(AsRef::as_ref).collect();
                allowed =
                    Some(allowed.map_or(values.clone(), |so_far| so_far.intersection(&values).copied().collect()));
            }
            // A node without the label satisfies it: it does not imply that there is one.
            Demand::NotIn(values) => forbidden.extend(values.iter().map(AsRef::as_ref)),
            Demand::Exists => exists = true,
            Demand::DoesNotExist => absent = true,
        }
    }
    match allowed {
        _ if absent => !exists,
        Some(allowed) => allowed.iter().any(|value| !forbidden.contains(value)),
        // A value that is not forbidden is always to be found.
        None => true,
    }
}

fn boxed(values: &[String]) -> Vec<Box<str>> {
    values.iter().map(|value| value.as_str().into()).collect()
}

/// `needs_values`: `In` and `NotIn` do, `Exists` and `DoesNotExist` must have none; a label of `matchLabels` has its one.
fn check_requirement(key: &str, values: &[String], needs_values: Option<bool>) -> Result<(), SelectorError> {
    let mut errors = Vec::new();
    let about_key = qualified_name_errors(key);
    if !about_key.is_empty() {
        errors.push(format!("key: Invalid value: {key:?}: {}", about_key.join("; ")));
    }
    match needs_values {
        // Go's JSON of no values at all.
        Some(true) if values.is_empty() => errors
            .push("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".to_owned()),
        Some(false) if !values.is_empty() => errors.push(format!(
            "values: Invalid value: {}: values set must be empty for exists and does not exist",
            serde_json::json!(values)
        )),
        _ => {}
    }
    for (at, value) in values.iter().enumerate() {
        let about_value = label_value_errors(value);
        if !about_value.is_empty() {
            errors.push(format!("values[{at}][{key}]: Invalid value: {value:?}: {}", about_value.join("; ")));
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(SelectorError(one.clone())),
        several => Err(SelectorError(format!("[{}]", several.join(", ")))),
    }
}

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_MUST: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
/// Kubernetes' limits of a label: of a name or a value, and of the domain before it.
const LONGEST_NAME: usize = 63;
const LONGEST_DOMAIN: usize = 253;

fn qualified_name_errors(key: &str) -> Vec<String> {
    let name_must = || NAME_MUST.to_owned() + &example(NAME, &["MyName", "my.name", "123-abc"]);
    let parts: Vec<&str> = key.split('/').collect();
    let mut errors = Vec::new();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain_errors(prefix).into_iter().map(|error| format!("prefix part {error}")));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                name_must()
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LONGEST_NAME {
        errors.push(format!("name part {}", too_long(LONGEST_NAME)));
    }
    if !is_word(name) {
        errors.push(format!("name part {}", name_must()));
    }
    errors
}

fn subdomain_errors(domain: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if domain.len() > LONGEST_DOMAIN {
        errors.push(too_long(LONGEST_DOMAIN));
    }
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = |label: &str| !label.starts_with('-') && !label.ends_with('-');
    let label = |label: &str| !label.is_empty() && label.bytes().all(inner) && ends(label);
    if !domain.split('.').all(label) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character".to_owned()
                + &example(SUBDOMAIN, &["example.com"]),
        );
    }
    errors
}

fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LONGEST_NAME {
        errors.push(too_long(LONGEST_NAME));
    }
    if !value.is_empty() && !is_word(value) {
        let says = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        errors.push(says.to_owned() + &example(&format!("({NAME})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Letters, digits and what may stand between them.
pub(super) fn is_word(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.bytes().all(inner) && end(text.as_bytes().first()) && end(text.as_bytes().last())
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

/// Go's list of examples, with its odd spaces.
fn example(pattern: &str, examples: &[&str]) -> String {
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(" (e.g. {}regex used for validation is '{pattern}')", quoted.join(" or "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(selector: Value) -> LabelSelector {
        serde_json::from_value(selector).unwrap()
    }

    fn selector(selector: Value) -> NodeSelector {
        NodeSelector::new(&read(selector)).unwrap()
    }

    fn labels(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<&'static str> {
        move |key| pairs.iter().find(|(its, _)| *its == key).map(|(_, value)| *value)
    }

    #[test]
    fn a_selector_selects() {
        let worker = labels(&[("role", "worker"), ("zone", "a")]);
        for (given, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"role": "worker"}}), true),
            (json!({"matchLabels": {"role": "worker", "zone": "b"}}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}), true),
            (json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}), false),
            (json!({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["a"]}]}), true),
            (json!({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}), true),
        ] {
            assert_eq!(selector(given.clone()).selects(&worker), expected, "{given}");
        }
    }

    /// As apimachinery says it, to the letter.
    #[test]
    fn what_cannot_be_read_is_refused_in_kubernetes_words() {
        let word = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        for (given, expected) in [
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Foo"}]}),
                "\"Foo\" is not a valid label selector operator".to_owned(),
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".to_owned(),
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
                "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist".to_owned(),
            ),
            (
                json!({"matchLabels": {"a": "-"}}),
                "values[0][a]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".to_owned(),
            ),
            (
                json!({"matchExpressions": [{"key": "/x_", "operator": "In"}]}),
                format!(
                    "[key: Invalid value: \"/x_\": prefix part must be non-empty; name part {word} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty]"
                ),
            ),
            (
                json!({"matchLabels": {"a/b/c": "x"}}),
                format!(
                    "key: Invalid value: \"a/b/c\": a qualified name {word} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                ),
            ),
        ] {
            assert_eq!(NodeSelector::new(&read(given.clone())).unwrap_err().0, expected, "{given}");
        }
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"key": key, "operator": operator, "values": values})
    }

    #[test]
    fn two_selectors_overlap_where_a_node_can_be_that_both_select() {
        let labels = |labels: Value| json!({"matchLabels": labels});
        let expressions = |expressions: &[Value]| json!({"matchExpressions": expressions});
        for (one, other, expected) in [
            (json!({}), json!({}), true),
            (json!({}), labels(json!({"a": "b"})), true),
            (labels(json!({"a": "b"})), labels(json!({"a": "b"})), true),
            (labels(json!({"a": "b"})), labels(json!({"a": "c"})), false),
            (labels(json!({"a": "b"})), labels(json!({"a": "b", "c": "d"})), true),
            (labels(json!({"a": "b"})), labels(json!({"c": "d"})), true),
            (
                expressions(&[expression("z", "In", &["a", "b"])]),
                expressions(&[expression("z", "In", &["b", "c"])]),
                true,
            ),
            (expressions(&[expression("z", "In", &["a"])]), expressions(&[expression("z", "In", &["b"])]), false),
            (
                expressions(&[expression("z", "Exists", &[])]),
                expressions(&[expression("z", "DoesNotExist", &[])]),
                false,
            ),
            // A node without the label is selected by both.
            (
                expressions(&[expression("z", "NotIn", &["a"])]),
                expressions(&[expression("z", "DoesNotExist", &[])]),
                true,
            ),
            (expressions(&[expression("z", "In", &["a"])]), expressions(&[expression("z", "NotIn", &["a"])]), false),
            (
                expressions(&[expression("z", "In", &["a", "b"])]),
                expressions(&[expression("z", "NotIn", &["a"])]),
                true,
            ),
            (
                expressions(&[expression("z", "In", &["a"]), expression("z", "In", &["b"])]),
                json!({}),
                false, // It selects nothing at all.
            ),
        ] {
            let (first, second) = (selector(one.clone()), selector(other.clone()));
            assert_eq!(first.overlaps(&second), expected, "{one} {other}");
            assert_eq!(second.overlaps(&first), expected, "{other} {one}");
        }
    }

    #[test]
    fn a_selector_reads_as_kubectl_takes_it() {
        let given = json!({
            "matchLabels": {"role": "worker"},
            "matchExpressions": [
                expression("zone", "In", &["a", "b"]), expression("gpu", "NotIn", &["old"]), expression("x", "Exists", &[]),
                expression("y", "DoesNotExist", &[]),
            ],
        });
        assert_eq!(selector(given).to_string(), "role=worker,zone in (a,b),gpu notin (old),x,!y");
    }

    fn any_selector() -> impl Strategy<Value = LabelSelector> {
        let value = || prop::sample::select(vec!["a", "b", "c"]);
        let demand = (
            prop::sample::select(vec!["k1", "k2"]),
            prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]),
            prop::collection::vec(value(), 1..3),
        );
        prop::collection::vec(demand, 0..4).prop_map(|demands| LabelSelector {
            match_expressions: demands
                .into_iter()
                .map(|(key, operator, values)| LabelRequirement {
                    key: key.to_owned(),
                    operator: operator.to_owned(),
                    values: if operator.ends_with("In") {
                        values.iter().map(ToString::to_string).collect()
                    } else {
                        vec![]
                    },
                })
                .collect(),
            ..LabelSelector::default()
        })
    }

    proptest! {
        /// Every node there can be is tried: two labels, each absent or with one of four values.
        #[test]
        fn overlap_is_exact(one in any_selector(), other in any_selector()) {
            let (one, other) = (NodeSelector::new(&one).unwrap(), NodeSelector::new(&other).unwrap());
            let values = [None, Some("a"), Some("b"), Some("c"), Some("d")];
            let found = values.iter().any(|first| values.iter().any(|second| {
                let label = |key: &str| if key == "k1" { *first } else { *second };
                one.selects(label) && other.selects(label)
            }));
            prop_assert_eq!(one.overlaps(&other), found);
        }
    }
}
