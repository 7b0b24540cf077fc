//! Writes a value as YAML that a person can read and no parser can misunderstand: every text stands in double quotes.

use serde_json::{Map, Value};

/// A document that is a mapping.
pub(super) fn document(fields: &Map<String, Value>) -> String {
    let mut text = String::new();
    mapping(fields, 0, &mut text);
    text
}

fn mapping(fields: &Map<String, Value>, depth: usize, text: &mut String) {
    for (key, value) in fields {
        text.push_str(&"  ".repeat(depth));
        text.push_str(&shown_key(key));
        text.push(':');
        below(value, depth, text);
    }
}

/// What follows a key or a dash: on the same line where it is small.
fn below(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            mapping(fields, depth + 1, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            for item in items {
                text.push_str(&"  ".repeat(depth + 1));
                text.push('-');
                below(item, depth + 1, text);
            }
        }
        // JSON's texts, numbers, `{}` and `[]` are YAML as they stand.
        small => {
            text.push(' ');
            text.push_str(&small.to_string());
            text.push('\n');
        }
    }
}

/// Bare where it cannot be taken for anything but a text.
fn shown_key(key: &str) -> String {
    let is_plain = key.len() > 5 && key.chars().all(|c| c.is_ascii_alphabetic());
    let is_known = ["kind", "name", "value", "token", "file", "key"].contains(&key);
    if is_plain || is_known { key.to_owned() } else { Value::from(key).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_like_a_file_somebody_wrote() {
        let value = serde_json::json!({
            "kind": "JoinConfiguration",
            "nodeRegistration": {"taints": [], "kubeletExtraArgs": [{"name": "v", "value": "yes"}], "on": null, "n": 3},
        });
        let expected = "\
kind: \"JoinConfiguration\"
nodeRegistration:
  taints: []
  kubeletExtraArgs:
    -
      name: \"v\"
      value: \"yes\"
  \"on\": null
  \"n\": 3
";
        assert_eq!(document(value.as_object().unwrap()), expected);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        // Unprintable characters are no YAML at all, in whatever quotes; kubeadm refuses them as we do.
        let text = || "[ -~ä-ü€]{0,12}|yes|null|1e3|- a|#|: |\t|---".prop_map(Value::from);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text()
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[ -~]{0,10}", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn comes_back_as_it_was(value in any_value()) {
            let root = serde_json::json!({ "nodeRegistration": value });
            let text = document(root.as_object().unwrap());
            let read: Value = serde_saphyr::from_str(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(read, root);
        }
    }
}
