//! An answer without what differs from server to server, and from run to run.

use http::Method;
use serde_json::{Map, Value, json};

use super::Ask;

/// Times and marks that each server makes for itself.
const OWN: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastUpdateTime",
    "continue",
];

/// What compares: uid, versions, times and managedFields are set aside, and what the cluster's controllers add: a Node's range
/// of pod addresses too, unless the row has `ranges` of its own.
pub(super) fn normal(value: &Value, ask: &Ask, ranges: bool) -> Value {
    if ask.path == "/version" {
        return json!({"major": value["major"], "minor": value["minor"], "gitVersion": value["gitVersion"]});
    }
    if let (true, Value::Array(events)) = (ask.is_watch(), value) {
        let mut seen: Vec<Value> = events.iter().filter_map(|event| normal_event(event, ask, ranges)).collect();
        // What only controllers changed is set aside, and is then no change.
        seen.dedup_by(|next, before| next["type"] == "MODIFIED" && next["object"] == before["object"]);
        return seen.into();
    }
    let mut value = value.clone();
    // Which binding allows it, in words.
    if let (true, Some(status)) = (value["kind"] == "SelfSubjectAccessReview", value.get_mut("status")) {
        status.as_object_mut().map(|status| status.remove("reason"));
    }
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(is_of_a_row);
        for item in items {
            normalise(item, ask, ranges);
        }
    }
    normalise(&mut value, ask, ranges);
    value
}

/// Of a watch: who comes and who goes, in order.
pub(super) fn comings(events: &Value) -> Value {
    let events = events.as_array().into_iter().flatten();
    let counts = |event: &&Value| ["ADDED", "DELETED"].iter().any(|kind| event["type"] == *kind);
    let named = |event: &Value| json!([event["type"], event.pointer("/object/metadata/name")]);
    events.filter(counts).filter(|event| is_of_a_row(&event["object"])).map(named).collect()
}

fn is_of_a_row(object: &Value) -> bool {
    object.pointer("/metadata/name").and_then(Value::as_str).is_some_and(|name| name.starts_with("row"))
}

/// Of bookmarks only the one that ends the initial events comes at a time that can be told.
fn normal_event(event: &Value, ask: &Ask, ranges: bool) -> Option<Value> {
    let object = &event["object"];
    match event["type"].as_str() {
        Some("BOOKMARK") => {
            let annotations = object.pointer("/metadata/annotations")?;
            Some(json!({"type": "BOOKMARK", "kind": object["kind"], "annotations": annotations}))
        }
        Some("ERROR") => {
            let mut status = object.clone();
            normalise(&mut status, ask, ranges);
            Some(json!({"type": "ERROR", "object": status}))
        }
        _ => {
            let mut object = Some(object).filter(|it| is_of_a_row(it))?.clone();
            normalise(&mut object, ask, ranges);
            Some(json!({"type": event["type"], "object": object}))
        }
    }
}

fn normalise(value: &mut Value, ask: &Ask, ranges: bool) {
    match value {
        Value::Array(entries) => entries.iter_mut().for_each(|entry| normalise(entry, ask, ranges)),
        Value::Object(map) => {
            if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                normalise_metadata(metadata);
            }
            if ask.method != Method::POST {
                drop_those_of_controllers(map, "taints", "key", "node.kubernetes.io/");
                drop_those_of_controllers(map, "conditions", "reason", "NodeStatusNeverUpdated");
            }
            // By which credential, since 1.32.
            map.shift_remove("extra");
            // Of the node's IPAM controller.
            if !ranges {
                map.shift_remove("podCIDR");
                map.shift_remove("podCIDRs");
            }
            for (key, entry) in map.iter_mut() {
                if OWN.contains(&key.as_str()) && entry.is_string() {
                    *entry = format!("<{key}>").into();
                } else if key == "message" {
                    *entry = without_numbers(entry.as_str().unwrap_or_default()).into();
                } else {
                    normalise(entry, ask, ranges);
                }
            }
        }
        _ => {}
    }
}

fn normalise_metadata(metadata: &mut Map<String, Value>) {
    metadata.shift_remove("managedFields");
    if metadata.contains_key("generateName") {
        metadata.insert("name".to_owned(), "<generated>".into());
    }
    if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
        metadata.shift_remove("creationTimestamp");
    }
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    let left = annotations.map(|annotations| {
        // Of the node's TTL controller.
        annotations.shift_remove("node.alpha.kubernetes.io/ttl");
        annotations.len()
    });
    if left == Some(0) {
        metadata.shift_remove("annotations");
    }
}

/// Taints and conditions that come and go when a controller looks, by how they begin.
fn drop_those_of_controllers(map: &mut Map<String, Value>, list: &str, key: &str, begins: &str) {
    let Some(entries) = map.get_mut(list).and_then(Value::as_array_mut) else { return };
    entries.retain(|entry| !entry[key].as_str().is_some_and(|text| text.starts_with(begins)));
    if entries.is_empty() {
        map.shift_remove(list);
    }
}

/// Versions and uids in a message.
fn without_numbers(message: &str) -> String {
    let word = |word: &str| {
        let inner = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let number = !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit());
        let uid = inner.len() == 36 && inner.bytes().filter(|byte| *byte == b'-').count() == 4;
        if number || uid { word.replace(inner, "<n>") } else { word.to_owned() }
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
