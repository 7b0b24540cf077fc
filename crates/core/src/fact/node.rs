//! This machine's Node: what the kubelet has told the cluster of itself.
//!
//! Shared: asked of the cluster; no source of a machine.

use serde_json::Value;

use super::{Facts, Known, Missing, OrAbsent};

/// The Node's condition `Ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyCondition {
    /// `True`, `False`, or `Unknown` where the kubelet is no longer heard of.
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl ReadyCondition {
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// The kubelet waits for the pod network, in its words.
    pub fn blames_network(&self) -> bool {
        ["network not ready", "NetworkPluginNotReady", "NetworkReady=false"].iter().any(|it| self.message.contains(it))
    }
}

/// `None` where the kubelet has not yet told.
pub fn parse(text: &str) -> Result<Option<ReadyCondition>, String> {
    let node: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let text = |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let ready = conditions.into_iter().find(|condition| text(condition, "type") == "Ready");
    Ok(ready.map(|ready| ReadyCondition {
        status: text(ready, "status"),
        reason: text(ready, "reason"),
        message: text(ready, "message"),
    }))
}

impl Facts {
    /// What the Node says of Ready; the outer `None` where the cluster has no Node of this machine's name.
    pub fn node_ready(&self) -> Known<Option<Option<ReadyCondition>>> {
        let Some(node) = self.api("node").or_absent()? else { return Ok(None) };
        parse(&node.text).map(Some).map_err(|detail| Missing::broken("api node", detail))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fact::{Source, Why};
    use crate::testing::facts;

    #[test]
    fn reads_what_the_kubelet_says_of_itself() {
        let node =
            |condition: &str| facts().with_api("node", &format!(r#"{{"status":{{"conditions":[{condition}]}}}}"#));
        let waits = r#"{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"False","reason":"KubeletNotReady",
            "message":"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"}"#;
        let ready = node(waits).node_ready().unwrap().unwrap().unwrap();
        assert!(!ready.is_true() && ready.blames_network());
        assert_eq!(ready.reason, "KubeletNotReady");
        let ready = node(
            r#"{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status"}"#,
        );
        assert!(ready.node_ready().unwrap().unwrap().unwrap().is_true());
        let other = node(r#"{"type":"Ready","status":"False","message":"PLEG is not healthy"}"#).node_ready();
        assert!(!other.unwrap().unwrap().unwrap().blames_network());
        assert_eq!(node("").node_ready(), Ok(Some(None)));
        assert_eq!(facts().without(Source::Api("node"), Why::Absent).node_ready(), Ok(None));
        assert!(facts().with_api("node", "{").node_ready().is_err() && facts().node_ready().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_node_or_not(text in "(\\{\"status\":|\\{\"conditions\":\\[|.)*") {
            let _ = parse(&text);
        }
    }
}
