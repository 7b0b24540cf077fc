//! The cluster's DaemonSets: whether the pod network's own is up. Needs more rights than a bootstrap token has.

use serde_json::Value;

use super::{Facts, Known, Missing, Source, Why};
use crate::cni::Flavour;

pub const CALL: &str = "daemon-sets";

pub const SOURCES: &[Source] = &[Source::Api(CALL)];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    pub namespace: String,
    pub name: String,
    pub wanted: u64,
    pub ready: u64,
}

/// A list as the API server gives it.
pub fn parse(text: &str) -> Result<Vec<DaemonSet>, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let items = root.get("items").and_then(Value::as_array).ok_or("no items")?;
    let text = |item: &Value, field: &str| {
        item.pointer(field).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("no {field}"))
    };
    let number = |item: &Value, field: &str| item.pointer(field).and_then(Value::as_u64).unwrap_or_default();
    let read = |item: &Value| {
        Ok(DaemonSet {
            namespace: text(item, "/metadata/namespace")?,
            name: text(item, "/metadata/name")?,
            wanted: number(item, "/status/desiredNumberScheduled"),
            ready: number(item, "/status/numberReady"),
        })
    };
    items.iter().map(read).collect()
}

/// The items of the list, as the API server gives them.
fn objects(text: &str) -> Vec<Value> {
    let root: Value = serde_json::from_str(text).unwrap_or_default();
    root.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
}

impl DaemonSet {
    pub fn is_of_pod_network(&self) -> bool {
        Flavour::of_daemon_set(&self.name).is_some()
    }
}

impl Facts {
    /// Those of a pod network.
    pub fn network_daemon_sets(&self) -> Known<Vec<DaemonSet>> {
        let all = parse(self.daemon_sets()?).map_err(|detail| Missing::broken("daemon sets", detail))?;
        Ok(all.into_iter().filter(DaemonSet::is_of_pod_network).collect())
    }

    /// All of them, with what says on which nodes their pods are to run.
    pub fn daemon_set_objects(&self) -> Known<Vec<Value>> {
        self.daemon_sets().map(objects)
    }

    fn daemon_sets(&self) -> Known<&str> {
        let capture = self.api(CALL).map_err(|missing| match missing.why {
            Why::Denied => {
                Missing::broken("daemon sets", "the user of --kubeconfig is not accepted, or may not list them")
            }
            _ => missing,
        })?;
        Ok(&capture.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::facts;

    const LIST: &str = r#"{"kind":"DaemonSetList","items":[
        {"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel"},"status":{"desiredNumberScheduled":3,"numberReady":2}},
        {"metadata":{"name":"kube-proxy","namespace":"kube-system"},"status":{"desiredNumberScheduled":3,"numberReady":3}}]}"#;

    #[test]
    fn finds_the_pod_networks_own() {
        let sets = facts().with_api(CALL, LIST).network_daemon_sets().unwrap();
        let set = DaemonSet { namespace: "kube-flannel".into(), name: "kube-flannel-ds".into(), wanted: 3, ready: 2 };
        assert_eq!(sets, [set]);
    }

    #[test]
    fn what_is_no_list_is_a_missing_fact() {
        for text in ["", "{}", r#"{"items":[{"metadata":{}}]}"#] {
            assert!(facts().with_api(CALL, text).network_daemon_sets().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = parse(&text);
        }
    }
}
