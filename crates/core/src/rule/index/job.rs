//! What is to be written, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::rule::decide::{NodeWrite, RuleOutcome};
use crate::rule::object::{NodeReadinessRule, RuleStatus};

/// A write of a Node.
#[derive(Debug)]
pub struct NodeJob {
    pub node: Arc<str>,
    pub resource_version: Box<str>,
    pub write: NodeWrite,
    pub(super) outcomes: Vec<RuleOutcome>,
}

impl NodeJob {
    pub fn patch(&self) -> Value {
        self.write.patch(&self.resource_version)
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAnswer {
    /// It has this version now.
    Written(Box<str>),
    Conflict,
    /// There is no such Node any more.
    Gone,
    /// Not now: too many requests, no answer, an error of the server's own.
    Later(Option<Duration>),
    /// The server will say the same again.
    Refused(String),
}

/// A write of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleJob {
    pub rule: Arc<str>,
    pub kind: RuleJobKind,
    pub patch: RulePatch,
}

/// A merge patch of a rule. It is written out of the status itself: with hundreds of nodes in it, a tree of JSON would be megabytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RulePatch {
    pub(super) metadata: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<PatchedStatus>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PatchedStatus {
    pub(super) status: RuleStatus,
    /// The server's definition may have the fields that are Carrick's own.
    pub(super) extended: bool,
}

/// With what is not there as null: a merge patch leaves alone what it does not name.
impl Serialize for PatchedStatus {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fn filled<T>(list: &[T]) -> Option<&[T]> {
            Some(list).filter(|list| !list.is_empty())
        }
        let RuleStatus {
            observed_generation,
            applied_nodes,
            failed_nodes,
            node_evaluations,
            dry_run_results,
            summary,
            conditions,
        } = &self.status;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("observedGeneration", observed_generation)?;
        map.serialize_entry("appliedNodes", &filled(applied_nodes))?;
        map.serialize_entry("failedNodes", &filled(failed_nodes))?;
        map.serialize_entry("nodeEvaluations", &filled(node_evaluations))?;
        map.serialize_entry("dryRunResults", dry_run_results)?;
        if self.extended {
            map.serialize_entry("summary", summary)?;
            map.serialize_entry("conditions", &filled(conditions))?;
        }
        map.end()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleJobKind {
    AddFinalizer,
    RemoveFinalizer,
    /// Of the subresource.
    Status,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RuleAnswer {
    /// As it is stored now; `None`: it is gone with this write.
    Written(Option<Box<NodeReadinessRule>>),
    Conflict,
    Gone,
    Later(Option<Duration>),
    Refused(String),
}
