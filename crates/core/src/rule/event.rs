//! Events as people see them with `kubectl describe`: upstream's reasons and sentences. A flip of thousands of nodes is not
//! thousands of events: after the first few of a kind, the rest are counted and told in one, on the rule.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::node::Uptime;

/// One by one, as many of a kind and rule as a person reads.
const AT_ONCE: u32 = 25;
/// After as long a pause, they are told one by one again.
const QUIET: Duration = Duration::from_mins(1);
/// How often those that were counted are told.
const TOGETHER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleEventKind {
    TaintAdded,
    TaintRemoved,
    TaintAdopted,
    BootstrapCompleted,
    AddTaintError,
    RemoveTaintError,
    /// Of the rule itself.
    Conflicting,
    Invalid,
    OtherController,
    CleanupTaintsError,
}

impl RuleEventKind {
    pub fn reason(self) -> &'static str {
        match self {
            RuleEventKind::TaintAdded => "TaintAdded",
            RuleEventKind::TaintRemoved => "TaintRemoved",
            RuleEventKind::TaintAdopted => "TaintAdopted",
            RuleEventKind::BootstrapCompleted => "BootstrapCompleted",
            RuleEventKind::AddTaintError => "AddTaintError",
            RuleEventKind::RemoveTaintError => "RemoveTaintError",
            RuleEventKind::Conflicting => "Conflicting",
            RuleEventKind::Invalid => "Invalid",
            RuleEventKind::OtherController => "OtherController",
            RuleEventKind::CleanupTaintsError => "CleanupTaintsError",
        }
    }

    pub fn action(self) -> &'static str {
        match self {
            RuleEventKind::TaintAdded | RuleEventKind::AddTaintError => "AddTaint",
            RuleEventKind::TaintRemoved | RuleEventKind::RemoveTaintError => "RemoveTaint",
            RuleEventKind::TaintAdopted => "AdoptTaint",
            RuleEventKind::BootstrapCompleted => "BootstrapCompleted",
            RuleEventKind::Conflicting | RuleEventKind::Invalid => "ValidateRule",
            RuleEventKind::OtherController => "EnforceRule",
            RuleEventKind::CleanupTaintsError => "CleanupTaints",
        }
    }

    pub fn is_warning(self) -> bool {
        !matches!(
            self,
            RuleEventKind::TaintAdded
                | RuleEventKind::TaintRemoved
                | RuleEventKind::TaintAdopted
                | RuleEventKind::BootstrapCompleted
        )
    }
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventObject {
    /// `None`: the rule itself.
    pub node: Option<Arc<str>>,
    pub uid: Box<str>,
    pub resource_version: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleEvent {
    pub kind: RuleEventKind,
    pub rule: Arc<str>,
    pub rule_uid: Box<str>,
    pub about: EventObject,
    pub note: String,
}

/// `taint` is `KEY:EFFECT`.
pub(super) fn note(kind: RuleEventKind, taint: &str, rule: &str, what: &str) -> String {
    match kind {
        RuleEventKind::TaintAdded => format!("Taint '{taint}' added by rule '{rule}'"),
        RuleEventKind::TaintRemoved => format!("Taint '{taint}' removed by rule '{rule}'"),
        RuleEventKind::TaintAdopted => format!("Taint '{taint}' is now managed by rule '{rule}'"),
        RuleEventKind::BootstrapCompleted => format!("Bootstrap completed for rule '{rule}'"),
        RuleEventKind::AddTaintError => format!("Failed to add taint '{taint}' by rule {rule:?}: {what}"),
        RuleEventKind::RemoveTaintError => format!("Failed to remove taint '{taint}' by rule {rule:?}: {what}"),
        RuleEventKind::Conflicting
        | RuleEventKind::Invalid
        | RuleEventKind::OtherController
        | RuleEventKind::CleanupTaintsError => what.to_owned(),
    }
}

fn together(kind: RuleEventKind, taint: &str, nodes: u32) -> String {
    let did = match kind {
        RuleEventKind::TaintAdded => "added on",
        RuleEventKind::TaintRemoved => "removed from",
        RuleEventKind::TaintAdopted => "adopted on",
        RuleEventKind::BootstrapCompleted => return format!("Bootstrap completed on {nodes} more nodes"),
        RuleEventKind::AddTaintError => "could not be added on",
        RuleEventKind::RemoveTaintError => "could not be removed from",
        RuleEventKind::Conflicting
        | RuleEventKind::Invalid
        | RuleEventKind::OtherController
        | RuleEventKind::CleanupTaintsError => return format!("{} said {nodes} more times", kind.reason()),
    };
    format!("Taint '{taint}' {did} {nodes} more nodes")
}

/// Lets the first of a kind pass and counts the rest.
#[derive(Debug, Default)]
pub struct EventGate(BTreeMap<(Arc<str>, RuleEventKind), Flow>);

#[derive(Debug, Default)]
struct Flow {
    passed: u32,
    counted: u32,
    /// Of the last one that came, and of the last time the counted were told.
    last: Uptime,
    told: Uptime,
    rule_uid: Box<str>,
    taint: String,
}

impl EventGate {
    /// The event, where it is one to be told by itself.
    pub fn offer(&mut self, event: RuleEvent, taint: &str, now: Uptime) -> Option<RuleEvent> {
        let flow = self.0.entry((Arc::clone(&event.rule), event.kind)).or_default();
        if now >= flow.last + QUIET {
            flow.passed = 0;
        }
        flow.last = now;
        if flow.passed < AT_ONCE {
            flow.passed += 1;
            return Some(event);
        }
        if flow.counted == 0 {
            flow.told = now;
        }
        flow.counted += 1;
        flow.rule_uid = event.rule_uid;
        taint.clone_into(&mut flow.taint);
        None
    }

    /// Those that were counted and have waited long enough; and when to ask again.
    pub fn take_due(&mut self, now: Uptime) -> Vec<RuleEvent> {
        let mut due = Vec::new();
        for ((rule, kind), flow) in &mut self.0 {
            if flow.counted > 0 && now >= flow.told + TOGETHER {
                let about = EventObject { node: None, uid: flow.rule_uid.clone(), resource_version: Box::default() };
                let note = together(*kind, &flow.taint, flow.counted);
                let (rule, rule_uid) = (Arc::clone(rule), flow.rule_uid.clone());
                due.push(RuleEvent { kind: *kind, rule, rule_uid, about, note });
                (flow.counted, flow.told) = (0, now);
            }
        }
        self.0.retain(|_, flow| flow.counted > 0 || now < flow.last + QUIET);
        due
    }

    pub fn next_due(&self) -> Option<Uptime> {
        self.0.values().filter(|flow| flow.counted > 0).map(|flow| flow.told + TOGETHER).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(node: u32) -> RuleEvent {
        let about = EventObject {
            node: Some(format!("n{node}").into()),
            uid: Box::default(),
            resource_version: Box::default(),
        };
        let says = note(RuleEventKind::TaintAdded, "k:NoSchedule", "r", "");
        RuleEvent { kind: RuleEventKind::TaintAdded, rule: "r".into(), rule_uid: "u".into(), about, note: says }
    }

    #[test]
    fn sentences_are_upstreams() {
        assert_eq!(event(1).note, "Taint 'k:NoSchedule' added by rule 'r'");
        assert_eq!(
            note(RuleEventKind::RemoveTaintError, "k:NoSchedule", "r", "no"),
            "Failed to remove taint 'k:NoSchedule' by rule \"r\": no"
        );
        assert!(RuleEventKind::AddTaintError.is_warning() && !RuleEventKind::TaintAdopted.is_warning());
    }

    #[test]
    fn a_flip_of_thousands_is_a_handful_of_events_and_none_is_lost() {
        let seconds = Duration::from_secs;
        let mut gate = EventGate::default();
        let passed = (0..5000).filter_map(|n| gate.offer(event(n), "k:NoSchedule", seconds(1))).count();
        assert_eq!(passed, 25);
        assert_eq!(gate.next_due(), Some(seconds(11)));
        assert!(gate.take_due(seconds(10)).is_empty());
        let told = gate.take_due(seconds(11));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].note, "Taint 'k:NoSchedule' added on 4975 more nodes");
        assert_eq!(told[0].about.node, None);
        assert!(gate.take_due(seconds(30)).is_empty());
        // After a pause they are told one by one again.
        assert!(gate.offer(event(1), "k:NoSchedule", seconds(70)).is_some());
    }
}
