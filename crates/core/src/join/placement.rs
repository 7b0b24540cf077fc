//! Whether a DaemonSet's pods are to run on a Node: as its controller decides it, by the node selector, the required affinity,
//! and the taints that are not tolerated.
//!
//! What is not understood selects nothing: that a pod is missing is said only of a Node that it is certainly meant for.

use serde_json::Value;

use super::taint::Taint;

/// What the controller tolerates for every pod of a DaemonSet.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// And for one in the host's network.
const OF_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Whether the pods of this DaemonSet are to run on this Node, both as the API server has them.
pub fn selects(set: &Value, node: &Value) -> bool {
    is_for(set, node) && kept_off_by(set, node).is_none()
}

/// Whether they are, but for the Node's taints.
pub fn is_for(set: &Value, node: &Value) -> bool {
    let Some(pod) = set.pointer("/spec/template/spec") else { return false };
    is_named(pod, node) && has_labels(pod, node) && is_near(pod, node)
}

/// The first of the Node's taints that its pods do not tolerate.
pub fn kept_off_by(set: &Value, node: &Value) -> Option<Taint> {
    let pod = set.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    taints(node).into_iter().filter(Taint::keeps_off).find(|taint| !tolerates(pod, taint))
}

pub fn taints(node: &Value) -> Vec<Taint> {
    let text = |taint: &Value, key: &str| taint.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let spec = node.get("spec").unwrap_or(&Value::Null);
    let all = array(spec, "taints");
    all.map(|it| Taint { key: text(it, "key"), value: text(it, "value"), effect: text(it, "effect") }).collect()
}

fn is_named(pod: &Value, node: &Value) -> bool {
    pod.get("nodeName").is_none_or(|name| Some(name) == node.pointer("/metadata/name"))
}

fn label<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node.pointer("/metadata/labels")?.get(key)?.as_str()
}

fn has_labels(pod: &Value, node: &Value) -> bool {
    let Some(wanted) = pod.get("nodeSelector").filter(|it| !it.is_null()) else { return true };
    let has = |(key, value): (&String, &Value)| value.as_str().is_some() && label(node, key) == value.as_str();
    wanted.as_object().is_some_and(|wanted| wanted.iter().all(has))
}

/// One of the required terms holds; where none is given, none is required.
fn is_near(pod: &Value, node: &Value) -> bool {
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let Some(required) = pod.pointer(required).filter(|it| !it.is_null()) else { return true };
    array(required, "nodeSelectorTerms").any(|term| matches_term(term, node))
}

/// All that a term asks for; one that asks for nothing matches no Node.
fn matches_term(term: &Value, node: &Value) -> bool {
    let labels: Vec<&Value> = array(term, "matchExpressions").collect();
    let fields: Vec<&Value> = array(term, "matchFields").collect();
    let field = |it: &&Value| {
        let is_name = it.get("key").is_some_and(|key| key == "metadata.name");
        is_name && matches_one(it, node.pointer("/metadata/name").and_then(Value::as_str))
    };
    let key = |it: &Value| it.get("key").and_then(Value::as_str).map(str::to_owned);
    let holds = |it: &&Value| key(it).is_some_and(|key| matches_one(it, label(node, &key)));
    !(labels.is_empty() && fields.is_empty()) && labels.iter().all(holds) && fields.iter().all(field)
}

fn matches_one(asked: &Value, value: Option<&str>) -> bool {
    let values: Vec<&str> = array(asked, "values").filter_map(Value::as_str).collect();
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = values.first().and_then(|text| number(text));
    match asked.get("operator").and_then(Value::as_str) {
        Some("In") => value.is_some_and(|value| values.contains(&value)),
        Some("NotIn") => value.is_none_or(|value| !values.contains(&value)),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value > bound),
        Some("Lt") => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

fn tolerates(pod: &Value, taint: &Taint) -> bool {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let Taint { key, value, effect } = taint;
    let in_host_network = pod.get("hostNetwork").is_some_and(|it| it == true);
    let by_controller = TOLERATED.iter().chain(in_host_network.then_some(&OF_HOST_NETWORK));
    let own = |toleration: &Value| {
        let (for_key, for_effect) = (text(toleration, "key"), text(toleration, "effect"));
        let exists = text(toleration, "operator") == "Exists";
        let is_key = for_key == *key || (for_key.is_empty() && exists);
        let is_value = exists || text(toleration, "value") == *value;
        is_key && is_value && (for_effect.is_empty() || for_effect == *effect)
    };
    by_controller.into_iter().any(|known| *known == (key.as_str(), effect.as_str()))
        || array(pod, "tolerations").any(own)
}

fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// As kubeadm makes it.
    fn kube_proxy() -> Value {
        json!({"spec": {"template": {"spec": {"hostNetwork": true, "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"operator": "Exists"}]}}}})
    }

    fn node() -> Value {
        json!({"metadata": {"name": "w1", "labels": {"kubernetes.io/os": "linux", "zone": "a", "cores": "4"}},
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}})
    }

    fn with(pod: &Value) -> Value {
        json!({"spec": {"template": {"spec": pod}}})
    }

    fn tainted(key: &str, value: &str, effect: &str) -> Value {
        let mut node = node();
        node["spec"]["taints"] = json!([{"key": key, "value": value, "effect": effect}]);
        node
    }

    #[test]
    fn kubeadms_own_is_for_every_linux_node() {
        assert!(selects(&kube_proxy(), &node()));
        let mut other = node();
        other["metadata"]["labels"]["kubernetes.io/os"] = json!("windows");
        assert!(!selects(&kube_proxy(), &other));
        assert!(!selects(&json!({}), &node()));
    }

    #[test]
    fn affinity_is_judged_as_the_controller_does() {
        let near = |terms: Value| {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            with(&json!({"affinity": {"nodeAffinity": required}, "tolerations": [{"operator": "Exists"}]}))
        };
        let one = |key: &str, operator: &str, values: &[&str]| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        for (terms, expected) in [
            (one("zone", "In", &["a", "b"]), true),
            (one("zone", "In", &["b"]), false),
            (one("zone", "NotIn", &["b"]), true),
            (one("gpu", "NotIn", &["b"]), true),
            (one("gpu", "Exists", &[]), false),
            (one("gpu", "DoesNotExist", &[]), true),
            (one("cores", "Gt", &["3"]), true),
            (one("cores", "Lt", &["4"]), false),
            (one("zone", "Near", &["a"]), false),
            (json!([{}]), false),
            (json!([]), false),
            (json!([{}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w1"]}]}]), true),
            (json!([{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["w1"]}]}]), false),
        ] {
            assert_eq!(selects(&near(terms.clone()), &node()), expected, "{terms}");
        }
    }

    #[test]
    fn a_taint_that_is_not_tolerated_keeps_it_off() {
        let equal = json!([{"key": "gpu", "operator": "Equal", "value": "yes"}]);
        let exists = json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]);
        for (tolerations, taint, expected) in [
            (json!([]), tainted("gpu", "yes", "NoSchedule"), false),
            (json!([]), tainted("gpu", "yes", "PreferNoSchedule"), true),
            (equal.clone(), tainted("gpu", "yes", "NoSchedule"), true),
            (equal, tainted("gpu", "no", "NoSchedule"), false),
            (exists.clone(), tainted("gpu", "no", "NoSchedule"), true),
            (exists, tainted("gpu", "no", "NoExecute"), false),
            (json!([]), tainted("node.kubernetes.io/not-ready", "", "NoExecute"), true),
            (json!([]), tainted("node.kubernetes.io/not-ready", "", "NoSchedule"), false),
            (json!([]), tainted("node.kubernetes.io/network-unavailable", "", "NoSchedule"), false),
        ] {
            assert_eq!(selects(&with(&json!({"tolerations": tolerations})), &taint), expected, "{tolerations} {taint}");
        }
        let in_host_network = with(&json!({"hostNetwork": true}));
        assert!(selects(&in_host_network, &tainted("node.kubernetes.io/network-unavailable", "", "NoSchedule")));
    }

    proptest! {
        #[test]
        fn any_json_is_read(text in ".*", number: u64) {
            for value in [json!(text), json!({"spec": {"taints": [number, text], "template": {"spec": {"tolerations": [text], "nodeSelector": number}}}})] {
                let _ = selects(&value, &value);
            }
        }
    }
}
