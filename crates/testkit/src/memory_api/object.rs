//! What the API server makes of an object that is written: what it fills in, keeps, counts and refuses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::request::Asked;
use super::resource::{NODES, PODS, REQUESTS, Resource};
use super::status::StatusError;
use super::user::User;

/// As metadata has it: whole seconds.
pub(crate) fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The body of a create or an update: an object of this resource, in the namespace of the path.
pub(crate) fn parse(asked: &Asked, resource: &Resource) -> Result<Value, StatusError> {
    let mut object: Value = serde_json::from_slice(&asked.body)
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| StatusError::not_modelled("a body that is no JSON object"))?;
    for (key, expected) in [("apiVersion", resource.api_version()), ("kind", resource.kind.to_owned())] {
        match text(&object, &format!("/{key}")) {
            "" => object[key] = expected.into(),
            given if given == expected => {}
            _ => return Err(StatusError::not_modelled(&format!("a body of another {key}"))),
        }
    }
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = json!({});
    }
    let metadata = &mut object["metadata"];
    match metadata.get("namespace").and_then(Value::as_str).unwrap_or_default() {
        given if given == asked.namespace => {}
        "" => metadata["namespace"] = asked.namespace.clone().into(),
        _ => {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(StatusError::bad_request(why));
        }
    }
    Ok(object)
}

/// Fills in what every new object gets.
pub(crate) fn begin(object: &mut Value, resource: &Resource, user: &User, now: Timestamp, number: u64) {
    let metadata = &mut object["metadata"];
    for key in ["managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        remove(metadata, key);
    }
    if text(metadata, "/name").is_empty() {
        metadata["name"] = format!("{}{}", text(metadata, "/generateName"), suffix(number)).into();
    }
    metadata["uid"] = format!("00000000-0000-4000-8000-{number:012x}").into();
    metadata["creationTimestamp"] = time(now).into();
    if resource.generation {
        metadata["generation"] = 1.into();
    }
    fill_in(object, resource, user);
}

/// Five letters, none of which makes a word.
fn suffix(number: u64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let digits = (0..5u32).map(|place| number / 27u64.pow(place) % 27);
    digits.map(|digit| char::from(LETTERS[usize::try_from(digit).unwrap_or_default()])).collect()
}

fn remove(object: &mut Value, key: &str) {
    if let Some(map) = object.as_object_mut() {
        map.shift_remove(key);
    }
}

/// Puts defaults where nothing stands.
fn fill(object: &mut Value, defaults: &Value) {
    let Value::Object(defaults) = defaults else { return };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    for (key, default) in defaults {
        match object.get_mut(key) {
            Some(there) if there.is_object() => fill(there, default),
            Some(there) if !there.is_null() => {}
            _ => object[key] = default.clone(),
        }
    }
}

fn fill_in(object: &mut Value, resource: &Resource, user: &User) {
    match resource.plural {
        "namespaces" => {
            let name = text(object, "/metadata/name").to_owned();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        NODES => {
            let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            let taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let has = taints.iter().any(|there| there["key"] == taint["key"] && there["effect"] == taint["effect"]);
            object["spec"]["taints"] = if has { taints } else { taints.into_iter().chain([taint]).collect() }.into();
            fill_in_status(object, resource);
        }
        PODS => {
            fill_in_pod(&mut object["spec"]);
            let spec = &mut object["spec"];
            fill(spec, &json!({"enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0}));
            let tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
            let more = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
                .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
            // Without a key it is for all of them.
            let tolerates =
                |it: &Value| tolerations.iter().any(|there| there["key"].is_null() || there["key"] == it["key"]);
            let missing = more.into_iter().filter(|it| !tolerates(it));
            spec["tolerations"] = tolerations.iter().cloned().chain(missing).collect();
            let containers = spec["containers"].as_array().cloned().unwrap_or_default();
            let asks = containers.iter().any(|it| it["resources"].as_object().is_some_and(|asks| !asks.is_empty()));
            // Which asks for as much as it may have, and is guaranteed it, is in no row.
            let class = if asks { "Burstable" } else { "BestEffort" };
            object["status"] = json!({"phase": "Pending", "qosClass": class});
        }
        "secrets" => {
            fill(object, &json!({"type": "Opaque"}));
            encode_strings(object);
        }
        REQUESTS => {
            object["spec"]["username"] = user.name.clone().into();
            object["spec"]["groups"] = user.groups.clone().into();
            object["status"] = json!({});
        }
        "daemonsets" => {
            fill_in_pod(&mut object["spec"]["template"]["spec"]);
            fill(
                object,
                &json!({
                    "metadata": {"annotations": {"deprecated.daemonset.template.generation": "1"}},
                    "spec": {
                        "revisionHistoryLimit": 10,
                        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
                    },
                }),
            );
            let counts = ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"];
            object["status"] = zeros(&counts);
        }
        "poddisruptionbudgets" => {
            object["status"] = zeros(&["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"]);
        }
        _ => {
            if resource.custom {
                remove(object, "status");
            }
        }
    }
}

/// What a status shows even where nobody said it.
fn fill_in_status(object: &mut Value, resource: &Resource) {
    match resource.plural {
        NODES => fill(
            object,
            &json!({"status": {
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {
                    "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                    "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                    "operatingSystem": "", "architecture": "",
                },
            }}),
        ),
        PODS => {
            let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
            for condition in conditions.into_iter().flatten() {
                fill(condition, &json!({"lastProbeTime": null, "lastTransitionTime": null}));
            }
        }
        _ => {}
    }
}

fn zeros(keys: &[&str]) -> Value {
    Value::Object(keys.iter().map(|key| ((*key).to_owned(), 0.into())).collect())
}

fn fill_in_pod(spec: &mut Value) {
    fill(
        spec,
        &json!({
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        }),
    );
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        spec["serviceAccount"] = account;
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for kind in ["secret", "configMap", "projected"] {
            if let Some(source) = volume.get_mut(kind) {
                fill(source, &json!({"defaultMode": 0o644}));
            }
        }
    }
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        let image = text(container, "/image");
        let latest = !image.contains('@') && !image.rsplit('/').next().unwrap_or_default().contains(':')
            || image.ends_with(":latest");
        fill(
            container,
            &json!({
                "imagePullPolicy": if latest { "Always" } else { "IfNotPresent" },
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }),
        );
    }
}

/// `stringData` is for writing only.
fn encode_strings(object: &mut Value) {
    let Some(Value::Object(strings)) = object.as_object_mut().and_then(|map| map.shift_remove("stringData")) else {
        return;
    };
    for (key, value) in strings {
        object["data"][key] = STANDARD.encode(value.as_str().unwrap_or_default()).into();
    }
}

/// What is left of an update: only what the path it came by may change. Counts the generation.
pub(crate) fn settle(new: &mut Value, old: &Value, resource: &Resource, subresource: &str, now: Timestamp) {
    if resource.plural == "secrets" {
        encode_strings(new);
    }
    let keep = |new: &mut Value, key: &str| match old.get(key) {
        Some(value) => new[key] = value.clone(),
        None => remove(new, key),
    };
    match subresource {
        "" if resource.status => keep(new, "status"),
        "" => {}
        _ if resource.custom => {
            let status = new.get("status").cloned();
            *new = old.clone();
            match status {
                Some(status) => new["status"] = status,
                None => remove(new, "status"),
            }
        }
        _ => keep(new, "spec"),
    }
    if resource.plural == REQUESTS {
        settle_request(new, old, subresource, now);
    }
    fill_in_status(new, resource);
    let immutable = ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for key in immutable.into_iter().chain(["name", "namespace", "resourceVersion"]) {
        match old["metadata"].get(key) {
            Some(value) => new["metadata"][key] = value.clone(),
            None => remove(&mut new["metadata"], key),
        }
    }
    remove(&mut new["metadata"], "managedFields");
    if resource.generation && subresource.is_empty() && counted(new, resource) != counted(old, resource) {
        new["metadata"]["generation"] = (old["metadata"]["generation"].as_i64().unwrap_or_default() + 1).into();
    }
}

/// What the generation counts the changes of: of a custom resource all but metadata and status.
fn counted(object: &Value, resource: &Resource) -> Value {
    if !resource.custom {
        return object.get("spec").cloned().unwrap_or_default();
    }
    let mut rest = object.clone();
    for key in ["metadata", "status"] {
        remove(&mut rest, key);
    }
    rest
}

/// A request is never changed; who approves changes conditions, who signs the rest of the status.
fn settle_request(new: &mut Value, old: &Value, subresource: &str, now: Timestamp) {
    new["spec"] = old["spec"].clone();
    if subresource == "approval" {
        let conditions = new["status"].get("conditions").cloned();
        new["status"] = old["status"].clone();
        if let Some(conditions) = conditions {
            new["status"]["conditions"] = conditions;
        }
    }
    for condition in new["status"]["conditions"].as_array_mut().into_iter().flatten() {
        let now = time(now);
        for key in ["lastUpdateTime", "lastTransitionTime"] {
            fill(condition, &json!({key: now}));
        }
    }
    if new["status"]["conditions"].is_null() {
        remove(&mut new["status"], "conditions");
    }
}

/// What a real server would refuse of an object, in its words; as far as Carrick's tests go.
pub(crate) fn validate(object: &Value, resource: &Resource) -> Result<(), StatusError> {
    let name = text(object, "/metadata/name");
    let invalid = |field: &str, kind: &str, what: &str| Err(StatusError::invalid(resource, name, field, kind, what));
    if name.is_empty() {
        return invalid("metadata.name", "FieldValueRequired", "Required value: name or generateName is required");
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let edges = name.bytes().next().is_some_and(fits) && name.bytes().last().is_some_and(fits);
    if !edges || !name.bytes().all(|byte| fits(byte) || matches!(byte, b'-' | b'.')) {
        let what = format!("Invalid value: {name:?}: {SUBDOMAIN}");
        return invalid("metadata.name", "FieldValueInvalid", &what);
    }
    for (at, taint) in object.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let effect = text(taint, "/effect");
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            let what = format!(
                "Unsupported value: {effect:?}: supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
            );
            return invalid(&format!("metadata.taints[{at}].effect"), "FieldValueNotSupported", &what);
        }
    }
    if resource.custom {
        let mode = text(object, "/spec/enforcementMode");
        if !["bootstrap-only", "continuous"].contains(&mode) {
            let what = format!("Unsupported value: {mode:?}: supported values: \"bootstrap-only\", \"continuous\"");
            return invalid("spec.enforcementMode", "FieldValueNotSupported", &what);
        }
    }
    Ok(())
}

/// What a real server would refuse of a change.
pub(crate) fn validate_change(new: &Value, old: &Value, resource: &Resource) -> Result<(), StatusError> {
    let ranges = |object: &Value| object.pointer("/spec/podCIDRs").cloned().unwrap_or_default();
    let provider = text(old, "/spec/providerID");
    if resource.plural == NODES && !provider.is_empty() && provider != text(new, "/spec/providerID") {
        return Err(StatusError::not_modelled("a change of spec.providerID"));
    }
    if resource.plural != NODES || ranges(old).is_null() || ranges(old) == ranges(new) {
        return Ok(());
    }
    let what = "Forbidden: node updates may not change podCIDR except from \"\" to valid";
    let name = text(old, "/metadata/name");
    Err(StatusError::invalid(resource, name, "spec.podCIDRs", "FieldValueForbidden", what))
}

/// What a patch may not change: metadata is looked at twice.
pub(crate) fn immutable(resource: &Resource, name: &str, field: &str, value: &str) -> StatusError {
    let what = format!("Invalid value: {value:?}: field is immutable");
    StatusError::invalid(resource, name, field, "FieldValueInvalid", &what).twice()
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Metadata alone.
pub(crate) fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
