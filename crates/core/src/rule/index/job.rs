//! What is to be written, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::rule::decide::{NodeWrite, RuleOutcome};
use crate::rule::object::NodeReadinessRule;

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

/// A write of a rule: a merge patch.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleJob {
    pub rule: Arc<str>,
    pub kind: RuleJobKind,
    pub patch: Value,
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
