//! NodeReadinessRule: which taint keeps pods off a node until its conditions hold. Pure: the controller, `carrick rule` and the
//! webhook all go by what stands here, and node-readiness-controller's wire is kept to the letter.
//!
//! * `object`: the object, as it goes over the wire
//! * `selector`: which nodes a rule is for, and whether two rules can meet on one
//! * `node`: of a Node what rules are about
//! * `compiled`: a rule as it is applied now
//! * [`evaluate`](evaluate()): whether its conditions hold on a node
//! * [`decide`](decide()): what becomes of a node's taints under all rules, as one write
//! * [`conflicts`]: rules that manage one taint on the same nodes
//! * [`status`](status()): what a rule's status says, however many nodes there are
//! * [`admit`]: what the admission webhook says
//! * `event`: what people are told
//! * [`explain`](explain()): why a node is gated, or is not
//! * `metrics`: what Prometheus is told
//! * [`Pace`]: how fast to write
//! * [`RuleIndex`]: all of it together: nodes, rules, who must be looked at, what is to be written

mod compiled;
mod conflict;
mod decide;
mod evaluate;
mod event;
mod explain;
mod index;
mod metrics;
mod node;
mod object;
mod pace;
mod selector;
mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod validate;

pub use compiled::{CompiledRule, RuleProblem, RuleStage, parse_duration};
pub use conflict::{conflict, conflict_message, conflicts};
pub use decide::{NodeDecision, NodeWrite, RuleOutcome, TaintChange, decide};
pub use evaluate::{ConditionVerdict, Evaluation, evaluate, results, verdicts};
pub use event::{EventGate, EventObject, RuleEvent, RuleEventKind};
pub use explain::{Explanation, Standing, explain};
pub use index::{NodeAnswer, NodeJob, RuleAnswer, RuleIndex, RuleJob, RuleJobKind, RulePatch};
pub use metrics::{ControllerMetrics, Histogram, QueueMetrics, RuleCounters, RuleGauges};
pub use node::{COMPLETED, NodeCondition, OWNED, SlimNode, Texts, Uptime, WireNode};
pub use object::{
    API_VERSION, ConditionPolicy, ConditionResult, ConditionStatus, DryRunResults, EnforcementMode, FINALIZER,
    FailedNode, GROUP, KIND, MAX_AGE, NodeEvaluation, NodeReadinessRule, NodeTaint, PLURAL, RequiredCondition,
    RuleCondition, RuleMetadata, RuleSpec, RuleStatus, RuleSummary, SUSPEND, TAINT_PREFIX, TaintStatus, VERSION,
    read_rules,
};
pub use pace::{MOST_AT_ONCE, Pace, PaceAnswer};
pub use selector::{LabelRequirement, LabelSelector, NodeSelector, SelectorError};
pub use status::{RuleStanding, StatusNode, status};
pub use validate::{Admission, admit};
