//! Of a Node what rules are about: labels, taints, conditions, and the annotations that say what was done before. A Node has 8 to
//! 19 kB, this 1 kB: it is read without building the rest, and texts that many nodes share are kept once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

pub use crate::lease::Uptime;

use super::object::{ConditionStatus, NodeTaint};

/// Bootstrap is over for the rule whose uid, or before v0.4.1 whose name, stands behind it.
pub const COMPLETED: &str = "readiness.k8s.io/bootstrap-completed-";
/// Which taints of a Node a rule has put there: `{"KEY:EFFECT":"RULE"}`. Upstream passes over it.
pub const OWNED: &str = "carrick.dev/readiness-taints";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlimNode {
    pub name: Arc<str>,
    pub uid: Box<str>,
    pub resource_version: Box<str>,
    pub created: Option<Timestamp>,
    /// By key.
    labels: Box<[(Arc<str>, Arc<str>)]>,
    pub taints: Vec<NodeTaint>,
    pub conditions: Box<[NodeCondition]>,
    /// [`COMPLETED`] and [`OWNED`].
    pub marks: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCondition {
    pub kind: Arc<str>,
    pub status: ConditionStatus,
    pub transition: Option<Timestamp>,
    pub heartbeat: Option<Timestamp>,
    /// When its heartbeat, or anything else about it, was last seen to be another one.
    pub heard: Uptime,
}

impl SlimNode {
    /// Reads a Node as the API server sent it, at this moment.
    pub fn read(json: &[u8], texts: &mut Texts, now: Uptime) -> serde_json::Result<Self> {
        serde_json::from_slice(json).map(|wire| Self::of(wire, texts, now))
    }

    pub fn of(wire: WireNode, texts: &mut Texts, now: Uptime) -> Self {
        let WireNode { metadata, spec, status } = wire;
        let labels = metadata.labels.unwrap_or_default();
        let labels = labels.iter().map(|(key, value)| (texts.keep(key), texts.keep(value))).collect();
        let conditions = status.conditions.unwrap_or_default().into_iter().map(|condition| NodeCondition {
            kind: texts.keep(&condition.kind),
            status: status_of(&condition.status),
            transition: condition.last_transition_time,
            heartbeat: condition.last_heartbeat_time,
            heard: now,
        });
        SlimNode {
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            created: metadata.creation_timestamp,
            labels,
            taints: spec.taints.unwrap_or_default(),
            conditions: conditions.collect(),
            marks: metadata.annotations,
        }
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(its, _)| its.as_ref().cmp(key)).ok()?;
        self.labels.get(at).map(|(_, value)| value.as_ref())
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| condition.kind.as_ref() == kind)
    }

    pub fn has_taint(&self, taint: &NodeTaint) -> bool {
        self.taints.iter().any(|its| its.is(taint))
    }

    /// Whether a rule's bootstrap is over here, by its uid or, as before v0.4.1, by its name.
    pub fn has_completed(&self, uid: &str, name: &str) -> bool {
        let mut marks = self.marks.keys().filter_map(|key| key.strip_prefix(COMPLETED));
        marks.any(|of| of == name || of == uid && !uid.is_empty())
    }

    /// Rules that have put a taint here, by the taint's `KEY:EFFECT`. Who cannot read the note has none.
    pub fn owned(&self) -> BTreeMap<String, String> {
        let note = self.marks.get(OWNED);
        note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or_default()
    }

    /// What did not change since the Node was last seen was last heard then.
    pub fn remember(&mut self, before: &SlimNode) {
        for condition in &mut self.conditions {
            let Some(old) = before.condition(&condition.kind) else { continue };
            let same = old.status == condition.status
                && old.heartbeat == condition.heartbeat
                && old.transition == condition.transition;
            if same {
                condition.heard = old.heard;
            }
        }
    }

    /// Whether a rule can tell the two apart: anything but a heartbeat.
    pub fn differs(&self, other: &SlimNode) -> bool {
        let statuses = |node: &SlimNode| -> Vec<(Arc<str>, ConditionStatus)> {
            node.conditions.iter().map(|condition| (Arc::clone(&condition.kind), condition.status)).collect()
        };
        self.uid != other.uid
            || self.labels != other.labels
            || self.taints != other.taints
            || self.marks != other.marks
            || statuses(self) != statuses(other)
    }
}

fn status_of(text: &str) -> ConditionStatus {
    match text {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}

/// Texts that are kept once, however many nodes have them.
#[derive(Debug, Default)]
pub struct Texts(HashSet<Arc<str>>);

impl Texts {
    pub fn keep(&mut self, text: &str) -> Arc<str> {
        if let Some(kept) = self.0.get(text) {
            return Arc::clone(kept);
        }
        let kept: Arc<str> = text.into();
        self.0.insert(Arc::clone(&kept));
        kept
    }

    /// Forgets those that nobody has any more.
    pub fn sweep(&mut self) {
        self.0.retain(|text| Arc::strong_count(text) > 1);
    }
}

/// A Node as it is on the wire; what is not named here is skipped while it is read.
#[derive(Debug, Default, Deserialize)]
pub struct WireNode {
    #[serde(default)]
    metadata: WireMetadata,
    #[serde(default)]
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

impl WireNode {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    name: String,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<Timestamp>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "marks")]
    annotations: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireSpec {
    taints: Option<Vec<NodeTaint>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    conditions: Option<Vec<WireCondition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_heartbeat_time: Option<Timestamp>,
    last_transition_time: Option<Timestamp>,
}

/// Of the annotations, ours and upstream's.
fn marks<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Box<str>, Box<str>>, D::Error> {
    struct Marks;
    impl<'de> Visitor<'de> for Marks {
        type Value = BTreeMap<Box<str>, Box<str>>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("annotations")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut kept = BTreeMap::new();
            while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                if key == OWNED || key.starts_with(COMPLETED) {
                    kept.insert(key.as_ref().into(), map.next_value::<Box<str>>()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(kept)
        }
    }
    from.deserialize_any(Marks)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use std::time::Duration;

    use super::*;

    fn read(node: &serde_json::Value, now: u64) -> SlimNode {
        SlimNode::read(node.to_string().as_bytes(), &mut Texts::default(), Duration::from_secs(now)).unwrap()
    }

    fn node(heartbeat: &str) -> serde_json::Value {
        json!({
            "kind": "Node", "apiVersion": "v1",
            "metadata": {
                "name": "n1", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-11-18T12:00:00Z",
                "labels": {"zone": "a", "arch": "amd64"},
                "annotations": {
                    "flannel.alpha.coreos.com/backend-data": "{}",
                    "readiness.k8s.io/bootstrap-completed-6f0c": "{\"rule-name\":\"r1\"}",
                    OWNED: "{\"readiness.k8s.io/x:NoSchedule\":\"r2\"}",
                },
                "managedFields": [{"fieldsV1": {"f:spec": {}}}],
            },
            "spec": {"podCIDR": "10.0.0.0/24", "taints": [
                {"key": "a", "effect": "NoExecute", "timeAdded": "2026-11-18T12:00:00Z"}, {"key": "b", "value": "c", "effect": "NoSchedule"},
            ]},
            "status": {"images": [{"names": ["x"]}], "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat, "lastTransitionTime": "2026-11-18T12:00:00Z", "message": "m"},
                {"type": "Odd", "status": "perhaps"},
            ]},
        })
    }

    #[test]
    fn what_rules_are_about_is_read_and_nothing_else() {
        let node = read(&node("2026-11-18T12:00:10Z"), 5);
        assert_eq!((node.name.as_ref(), node.resource_version.as_ref()), ("n1", "7"));
        assert_eq!((node.label("zone"), node.label("arch"), node.label("none")), (Some("a"), Some("amd64"), None));
        assert_eq!(node.taints.len(), 2);
        assert_eq!(node.condition("Ready").map(|it| it.status), Some(ConditionStatus::True));
        assert_eq!(node.condition("Odd").map(|it| it.status), Some(ConditionStatus::Unknown));
        assert!(node.has_completed("6f0c", "r1") && !node.has_completed("9", "r2"));
        assert_eq!(node.owned().get("readiness.k8s.io/x:NoSchedule").map(String::as_str), Some("r2"));
        assert_eq!(node.marks.len(), 2);
    }

    #[test]
    fn a_node_without_anything_is_read_too() {
        let bare =
            read(&json!({"metadata": {"name": "n", "labels": null, "annotations": null}, "spec": {"taints": null}}), 0);
        assert!(bare.taints.is_empty() && bare.marks.is_empty() && bare.label("a").is_none());
    }

    #[test]
    fn an_annotation_by_a_rules_name_counts_as_before() {
        let legacy = json!({"metadata": {"annotations": {"readiness.k8s.io/bootstrap-completed-r1": "true"}}});
        assert!(read(&legacy, 0).has_completed("uid", "r1"));
        // A rule without a uid is none that was ever stored.
        let empty = json!({"metadata": {"annotations": {"readiness.k8s.io/bootstrap-completed-": "true"}}});
        assert!(!read(&empty, 0).has_completed("", "r1"));
    }

    #[test]
    fn a_heartbeat_is_heard_when_it_changes_and_tells_a_rule_nothing() {
        let first = read(&node("2026-11-18T12:00:10Z"), 5);
        let mut same = read(&node("2026-11-18T12:00:10Z"), 9);
        same.remember(&first);
        assert_eq!(same.condition("Ready").map(|it| it.heard), Some(Duration::from_secs(5)));
        let mut later = read(&node("2026-11-18T12:00:40Z"), 9);
        later.remember(&first);
        assert_eq!(later.condition("Ready").map(|it| it.heard), Some(Duration::from_secs(9)));
        assert!(!later.differs(&first));
    }

    #[test]
    fn texts_are_kept_once_and_only_while_somebody_has_them() {
        let mut texts = Texts::default();
        let one = texts.keep("a");
        assert!(Arc::ptr_eq(&one, &texts.keep("a")));
        texts.keep("b");
        texts.sweep();
        assert_eq!(texts.0.len(), 1);
    }
}
