//! Label and field selectors.

use serde_json::Value;

use super::resource::Resource;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Demand {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

/// What a label or a field shall be; all of them hold for an object that is selected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<(String, Demand)>,
    /// With the JSON pointer of each.
    fields: Vec<(String, Demand)>,
    /// `metadata.name=X`, for who may see this one alone.
    pub name: Option<String>,
    /// `spec.nodeName=X`.
    pub node: Option<String>,
}

impl Selector {
    pub(crate) fn parse(labels: &str, fields: &str, resource: &Resource) -> Result<Self, String> {
        let mut selector = Selector { labels: parse_labels(labels)?, ..Selector::default() };
        for (field, equal, value) in parse_fields(fields)? {
            if equal && field == "metadata.name" {
                selector.name = Some(value.clone());
            }
            if equal && field == "spec.nodeName" {
                selector.node = Some(value.clone());
            }
            let demand = if equal { Demand::In(vec![value]) } else { Demand::NotIn(vec![value]) };
            selector.fields.push((pointer(&field, resource)?, demand));
        }
        Ok(selector)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str).map(str::to_owned);
        let field = |pointer: &str| match object.pointer(pointer) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Null) | None if pointer == "/spec/unschedulable" => Some("false".to_owned()),
            Some(Value::Null) | None => Some(String::new()),
            Some(other) => Some(other.to_string()),
        };
        self.labels.iter().all(|(key, demand)| demand.holds(label(key)))
            && self.fields.iter().all(|(pointer, demand)| demand.holds(field(pointer)))
    }
}

impl Demand {
    fn holds(&self, value: Option<String>) -> bool {
        match self {
            Demand::In(values) => value.is_some_and(|value| values.contains(&value)),
            Demand::NotIn(values) => value.is_none_or(|value| !values.contains(&value)),
            Demand::Exists => value.is_some(),
            Demand::Absent => value.is_none(),
        }
    }
}

fn pointer(field: &str, resource: &Resource) -> Result<String, String> {
    match field {
        "metadata.name" => return Ok("/metadata/name".to_owned()),
        "metadata.namespace" if resource.namespaced => return Ok("/metadata/namespace".to_owned()),
        _ => {}
    }
    let known = resource.fields.iter().find(|(name, _)| *name == field);
    if let Some((_, pointer)) = known {
        return Ok((*pointer).to_owned());
    }
    // What has selectors of its own says it in its own words.
    Err(if resource.fields.is_empty() {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    })
}

fn parse_fields(text: &str) -> Result<Vec<(String, bool, String)>, String> {
    let terms = text.split(',').filter(|term| !term.is_empty());
    let parsed = terms.map(|term| {
        let (term_of, equal) = (|mark: &str| term.split_once(mark), true);
        let (field, equal, value) = if let Some((field, value)) = term_of("!=") {
            (field, false, value)
        } else if let Some((field, value)) = term_of("==").or_else(|| term_of("=")) {
            (field, equal, value)
        } else {
            return Err(format!("invalid selector: '{term}'; can't understand '{term}'"));
        };
        Ok((field.to_owned(), equal, value.to_owned()))
    });
    parsed.collect()
}

fn parse_labels(text: &str) -> Result<Vec<(String, Demand)>, String> {
    let mut terms = Vec::new();
    // Commas inside parentheses are of a set.
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                let term = text.get(begin..at).unwrap_or_default().trim();
                begin = at + 1;
                if !term.is_empty() {
                    terms.push(parse_label(term)?);
                }
            }
            _ => {}
        }
    }
    Ok(terms)
}

fn parse_label(term: &str) -> Result<(String, Demand), String> {
    let one = |value: &str| vec![value.trim().to_owned()];
    let set = |text: &str| -> Result<Vec<String>, String> {
        let inside = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let inside = inside.ok_or_else(|| format!("unable to parse requirement: found '{text}', expected: '('"))?;
        Ok(inside.split(',').map(|value| value.trim().to_owned()).collect())
    };
    let (key, demand) = if let Some((key, values)) = term.split_once(" notin ") {
        (key, Demand::NotIn(set(values)?))
    } else if let Some((key, values)) = term.split_once(" in ") {
        (key, Demand::In(set(values)?))
    } else if let Some((key, value)) = term.split_once("!=") {
        (key, Demand::NotIn(one(value)))
    } else if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (key, Demand::In(one(value)))
    } else if let Some(key) = term.strip_prefix('!') {
        (key, Demand::Absent)
    } else {
        (term, Demand::Exists)
    };
    Ok((key.trim().to_owned(), demand))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select() {
        let pods = Resource::find("", "v1", "pods").unwrap();
        let pod =
            json!({"metadata": {"name": "web", "labels": {"app": "web", "tier": "1"}}, "spec": {"nodeName": "w1"}});
        for (labels, fields, expected) in [
            ("", "", true),
            ("app=web", "", true),
            ("app==web,tier=1", "", true),
            ("app!=web", "", false),
            ("other!=web", "", true),
            ("app in (db, web)", "", true),
            ("app notin (db, web)", "", false),
            ("app", "", true),
            ("!app", "", false),
            ("!other", "", true),
            ("", "spec.nodeName=w1", true),
            ("", "spec.nodeName=w2", false),
            ("", "spec.nodeName!=w2,metadata.name=web", true),
            ("", "status.phase=", true),
        ] {
            let selector = Selector::parse(labels, fields, pods).unwrap();
            assert_eq!(selector.selects(&pod), expected, "{labels} {fields}");
        }
        for fields in ["spec.image=x", "what"] {
            assert!(Selector::parse("", fields, pods).is_err(), "{fields}");
        }
    }

    #[test]
    fn a_node_that_says_nothing_is_schedulable() {
        let nodes = Resource::find("", "v1", "nodes").unwrap();
        let selector = Selector::parse("", "spec.unschedulable=false", nodes).unwrap();
        assert!(selector.selects(&json!({"spec": {}})));
        assert!(!selector.selects(&json!({"spec": {"unschedulable": true}})));
    }
}
