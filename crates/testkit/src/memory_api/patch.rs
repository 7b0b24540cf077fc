//! Merge patches (RFC 7386) and strategic merge patches, as the API server applies them.

use serde_json::{Map, Value};

/// Changes what the patch names; null takes away.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// The same, but that lists which have a merge key are merged by it. `Err`: a directive that is not modelled.
pub(crate) fn strategic(target: &mut Value, patch: &Value, lists: &[(&str, &str)]) -> Result<(), String> {
    merge_map(target, patch, lists, "")
}

const DIRECTIVE: &str = "$patch";

fn merge_map(target: &mut Value, patch: &Value, lists: &[(&str, &str)], place: &str) -> Result<(), String> {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        None => {}
        Some("replace") => {
            *target = Value::Object(without_directive(patch));
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(format!("{DIRECTIVE}: {other}")),
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return Ok(()) };
    for (key, value) in patch {
        if key.starts_with('$') {
            return Err(key.clone());
        }
        let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        let merge_key = lists.iter().find(|(list, _)| *list == place).map(|(_, key)| *key);
        match (value, target.get_mut(key)) {
            (Value::Null, _) => drop(target.shift_remove(key)),
            (Value::Object(_), Some(there @ Value::Object(_))) => merge_map(there, value, lists, &place)?,
            (Value::Array(new), Some(Value::Array(there))) if merge_key.is_some() => {
                *there = merge_list(there, new, merge_key.unwrap_or_default(), lists, &place)?;
            }
            (value, _) => drop(target.insert(key.clone(), without_nulls(value))),
        }
    }
    Ok(())
}

fn merge_list(
    there: &[Value],
    patch: &[Value],
    key: &str,
    lists: &[(&str, &str)],
    place: &str,
) -> Result<Vec<Value>, String> {
    let same = |a: &Value, b: &Value| if key.is_empty() { a == b } else { a.get(key) == b.get(key) };
    let is = |entry: &Value, directive: &str| entry.get(DIRECTIVE).and_then(Value::as_str) == Some(directive);
    if let Some(odd) = patch.iter().find(|entry| !key.is_empty() && entry.get(key).is_none() && !is(entry, "replace")) {
        return Err(format!("map: {odd} does not contain declared merge key: {key}"));
    }
    if patch.iter().any(|entry| is(entry, "replace")) {
        return Ok(patch.iter().filter(|entry| !is(entry, "replace")).cloned().collect());
    }
    let goes = |entry: &Value| patch.iter().any(|order| is(order, "delete") && same(order, entry));
    let mut merged: Vec<Value> = there.iter().filter(|entry| !goes(entry)).cloned().collect();
    let patch: Vec<&Value> = patch.iter().filter(|entry| !is(entry, "delete")).collect();
    for new in &patch {
        match merged.iter_mut().find(|old| same(old, new)) {
            Some(old) if key.is_empty() => *old = (*new).clone(),
            Some(old) => merge_map(old, new, lists, place)?,
            None => merged.push(without_nulls(new)),
        }
    }
    Ok(ordered(merged, &patch, there, same))
}

/// The patch's entries in the patch's order, the others in their own; one of the others comes first only where it did before.
fn ordered(merged: Vec<Value>, patch: &[&Value], there: &[Value], same: impl Fn(&Value, &Value) -> bool) -> Vec<Value> {
    let place = |entry: &Value| there.iter().position(|old| same(old, entry));
    let (mut patched, others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|entry| patch.iter().any(|new| same(new, entry)));
    patched.sort_by_key(|entry| patch.iter().position(|new| same(new, entry)));
    let (mut patched, mut others) = (patched.into_iter().peekable(), others.into_iter().peekable());
    let mut all = Vec::new();
    loop {
        let before = match (others.peek(), patched.peek()) {
            (Some(other), Some(new)) => place(other).zip(place(new)).is_some_and(|(other, new)| other < new),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return all,
        };
        all.extend(if before { others.next() } else { patched.next() });
    }
}

fn without_directive(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter().filter(|(key, _)| *key != DIRECTIVE).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patches_do_as_the_rfc_says() {
        // The appendix of RFC 7386.
        for (target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            let mut patched = target.clone();
            merge(&mut patched, &patch);
            assert_eq!(patched, result, "{target} and {patch}");
        }
    }

    const LISTS: &[(&str, &str)] = &[("c", "type"), ("f", "")];

    #[test]
    fn strategic_patches_merge_lists_by_their_key() {
        let entry = |kind: &str, status: &str| json!({"type": kind, "status": status});
        for (target, patch, result) in [
            // One that is there is changed in its place; a new one stands before all others.
            (
                json!({"c": [entry("A", "1"), entry("B", "1")]}),
                json!({"c": [entry("B", "2")]}),
                json!({"c": [entry("A", "1"), entry("B", "2")]}),
            ),
            (
                json!({"c": [entry("A", "1"), entry("B", "1")]}),
                json!({"c": [entry("C", "1")]}),
                json!({"c": [entry("C", "1"), entry("A", "1"), entry("B", "1")]}),
            ),
            (
                json!({"c": [entry("A", "1"), entry("B", "1")]}),
                json!({"c": [{"$patch": "delete", "type": "A"}]}),
                json!({"c": [entry("B", "1")]}),
            ),
            (
                json!({"c": [entry("A", "1")]}),
                json!({"c": [{"$patch": "replace"}, entry("B", "1")]}),
                json!({"c": [entry("B", "1")]}),
            ),
            // Without a key a list is one thing.
            (json!({"taints": [1, 2]}), json!({"taints": [3]}), json!({"taints": [3]})),
            (json!({"f": ["a", "b"]}), json!({"f": ["b", "c"]}), json!({"f": ["a", "b", "c"]})),
            (json!({"m": {"a": 1}}), json!({"m": {"b": 2, "a": null}}), json!({"m": {"b": 2}})),
            (json!({}), json!({"m": {"b": 2, "a": null}}), json!({"m": {"b": 2}})),
            (json!({"m": {"a": 1}}), json!({"m": {"$patch": "replace", "b": 2}}), json!({"m": {"b": 2}})),
        ] {
            let mut patched = target.clone();
            strategic(&mut patched, &patch, LISTS).unwrap();
            assert_eq!(patched, result, "{target} and {patch}");
        }
    }

    #[test]
    fn what_is_not_modelled_is_said() {
        for patch in [json!({"$setElementOrder/c": []}), json!({"m": {"$patch": "merge"}}), json!({"c": [{"a": 1}]})] {
            assert!(strategic(&mut json!({"c": [], "m": {}}), &patch, LISTS).is_err(), "{patch}");
        }
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4i64).prop_map(Value::from),
            "[a-c]".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        // The properties the RFC's pseudo code has.
        #[test]
        fn a_merge_patch_applied_twice_is_applied_once(mut target in documents(), patch in documents()) {
            merge(&mut target, &patch);
            let once = target.clone();
            merge(&mut target, &patch);
            prop_assert_eq!(once, target);
        }

        #[test]
        fn a_merge_patch_touches_only_what_it_names(target in documents(), patch in documents()) {
            let mut patched = target.clone();
            merge(&mut patched, &patch);
            if let (Value::Object(target), Value::Object(patch), Value::Object(patched)) = (&target, &patch, &patched) {
                for (key, value) in target.iter().filter(|(key, _)| !patch.contains_key(*key)) {
                    prop_assert_eq!(patched.get(key), Some(value));
                }
                for key in patch.iter().filter(|(_, value)| value.is_null()).map(|(key, _)| key) {
                    prop_assert!(!patched.contains_key(key));
                }
            } else if !patch.is_object() {
                prop_assert_eq!(patched, patch);
            }
        }

        #[test]
        fn without_lists_that_merge_a_strategic_patch_is_a_merge_patch(target in documents(), patch in documents()) {
            // A strategic merge patch is always an object, and has no nulls inside what is new to the target.
            if let (Value::Object(_), Value::Object(_)) = (&target, &patch) {
                let (mut merged, mut strategically) = (target.clone(), target);
                merge(&mut merged, &patch);
                strategic(&mut strategically, &patch, &[]).unwrap();
                prop_assert_eq!(merged, strategically);
            }
        }
    }
}
