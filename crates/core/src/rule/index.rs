//! Everything the controller knows, without I/O: nodes, rules, which nodes must be looked at, what is being written, and when to
//! look again. Events of watches and answers of writes go in; jobs come out. In whatever order they come, the end is the same:
//! what [`decide`](super::decide()) says of the last state of every node and rule.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::compiled::{CompiledRule, RuleStage};
use super::conflict::{conflict_message, conflicts};
use super::decide::{NodeDecision, NodeWrite, RuleOutcome, TaintChange, decide};
use super::evaluate::{results, verdicts};
use super::event::{EventGate, EventObject, RuleEvent, RuleEventKind, note};
use super::metrics::{BOOTSTRAP, LATENCY, QueueMetrics, RuleCounters, RuleGauges};
use super::node::{SlimNode, Texts, Uptime};
use super::object::{ConditionStatus, FINALIZER, NodeReadinessRule, RuleCondition, RuleStatus, TaintStatus};
use super::status::{RuleStanding, StatusNode, status};

/// After a conflict the newer Node is on its way; who has not seen it by then tries again.
const NEWER_COMES_WITHIN: Duration = Duration::from_secs(10);
/// A write that the API server refuses is tried again ever more rarely.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// One write of a rule's status in this time at most.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// While nodes still change, a status waits for them to come to rest, but no longer than this: each write costs the API server
/// as much as hundreds of nodes' writes.
const STATUS_REST: Duration = Duration::from_millis(500);
const STATUS_WITHIN: Duration = Duration::from_secs(5);
/// Another controller is at work where our write of the same node is undone so often, within the time.
const UNDONE: u8 = 3;
const UNDONE_WITHIN: Duration = Duration::from_mins(1);
/// For so long Carrick then leaves the rule to the other.
const YIELD: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub struct RuleIndex {
    pub texts: Texts,
    nodes: HashMap<Arc<str>, NodeEntry>,
    rules: BTreeMap<Arc<str>, RuleEntry>,
    queue: VecDeque<Arc<str>>,
    timers: BTreeSet<(Uptime, Arc<str>)>,
    conflicts: BTreeMap<Arc<str>, Arc<str>>,
    gate: EventGate,
    events: Vec<RuleEvent>,
    /// While a list comes in: who was in it so far.
    listed_nodes: Option<HashSet<Arc<str>>>,
    listed_rules: Option<BTreeSet<Arc<str>>>,
    nodes_synced: bool,
    rules_synced: bool,
    /// The server's definition has the fields that are Carrick's own. `None`: not known yet.
    extended: Option<bool>,
    pub node_queue: QueueMetrics,
    pub rule_queue: QueueMetrics,
}

#[derive(Debug)]
struct NodeEntry {
    node: SlimNode,
    records: Vec<NodeRecord>,
    state: WriteState,
    /// In the queue since.
    queued: Option<Uptime>,
    timer: Option<Uptime>,
    failure: Option<Box<str>>,
    attempts: u8,
    last_write: Option<Box<LastWrite>>,
}

#[derive(Debug, PartialEq, Eq)]
enum WriteState {
    Idle,
    Writing,
    /// For a version other than this.
    Waiting {
        version: Box<str>,
        until: Uptime,
    },
    /// Not before this moment.
    Delayed {
        until: Uptime,
    },
}

/// What is known of one rule on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
struct NodeRecord {
    rule: Arc<str>,
    selected: bool,
    held: bool,
    satisfied: bool,
    missing: bool,
    /// It is, or was, this rule that looks after the taint.
    managed: bool,
    /// Of what a status shows.
    print: u64,
    since: Timestamp,
}

/// What we wrote last, to see whether somebody takes it back.
#[derive(Debug)]
struct LastWrite {
    at: Uptime,
    changes: Vec<(Arc<str>, TaintChange)>,
    undone: u8,
}

#[derive(Debug)]
struct RuleEntry {
    rule: CompiledRule,
    /// What it is by the object alone; `rule.stage` may be otherwise while another controller is at work.
    stage: RuleStage,
    /// Nodes as the status told of them when the rule was first seen.
    told: BTreeMap<Box<str>, Told>,
    seen: StatusPrint,
    conditions: Vec<RuleCondition>,
    /// When a status was last written, and since when and when last something is to be told.
    written: Option<Uptime>,
    changed: Option<(Uptime, Uptime)>,
    busy: bool,
    retry: Option<Uptime>,
    attempts: u8,
    rival: Option<(String, Uptime)>,
    /// How often, and when last, somebody else has written the status.
    foreign_writes: (u8, Uptime),
    counters: RuleCounters,
}

#[derive(Clone, Debug)]
struct Told {
    held: bool,
    print: u64,
    since: Timestamp,
}

/// What tells one status from another: upstream's fields, and Carrick's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StatusPrint {
    upstream: u64,
    own: u64,
}

/// A write of a Node.
#[derive(Debug)]
pub struct NodeJob {
    pub node: Arc<str>,
    pub resource_version: Box<str>,
    pub write: NodeWrite,
    outcomes: Vec<RuleOutcome>,
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

impl RuleIndex {
    /// Whether all nodes and rules have been seen once.
    pub fn is_synced(&self) -> bool {
        self.nodes_synced && self.rules_synced
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub fn nodes(&self) -> impl Iterator<Item = &SlimNode> {
        self.nodes.values().map(|entry| &entry.node)
    }

    pub fn rules(&self) -> impl Iterator<Item = &CompiledRule> {
        self.rules.values().map(|entry| &entry.rule)
    }

    /// Events that are to be told now.
    pub fn take_events(&mut self, now: Uptime) -> Vec<RuleEvent> {
        let mut events = std::mem::take(&mut self.events);
        events.extend(self.gate.take_due(now));
        events
    }

    /// When something is due though nothing happens.
    pub fn next_due(&self, now: Uptime) -> Option<Uptime> {
        if !self.queue.is_empty() {
            return Some(now);
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        let rules = self.rules.values().filter(|entry| !entry.busy).filter_map(RuleEntry::next_due).min();
        [timer, rules, self.gate.next_due()].into_iter().flatten().min()
    }

    /// Looks at every node once more: the repair of what no event told.
    pub fn queue_all(&mut self, now: Uptime, wall: Timestamp) {
        let names: Vec<Arc<str>> = self.nodes.keys().cloned().collect();
        for name in names {
            self.queue_node(&name, now);
        }
        for entry in self.rules.values_mut() {
            entry.counters.last_reconciliation = Some(wall.as_second());
        }
        self.texts.sweep();
    }

    pub fn counters_and_gauges(&self, now: Uptime) -> BTreeMap<Arc<str>, (RuleCounters, RuleGauges)> {
        let mut all: BTreeMap<Arc<str>, (RuleCounters, RuleGauges)> = BTreeMap::new();
        for (name, entry) in &self.rules {
            let blocked = entry.rule.spec.conditions.iter().map(|it| (Arc::from(it.kind.as_str()), 0)).collect();
            let gauges = RuleGauges {
                enforcement_mode: entry.rule.spec.enforcement_mode.as_str(),
                dry_run: entry.rule.spec.is_dry_run(),
                deleting: entry.rule.is_deleting(),
                blocked,
                ..RuleGauges::default()
            };
            all.insert(Arc::clone(name), (entry.counters.clone(), gauges));
        }
        for entry in self.nodes.values() {
            for record in entry.records.iter().filter(|record| record.selected) {
                let Some((_, gauges)) = all.get_mut(&record.rule) else { continue };
                gauges.matched += 1;
                *(if record.held { &mut gauges.held } else { &mut gauges.released }) += 1;
                let Some(rule) = self.rules.get(&record.rule).filter(|_| record.held && !record.satisfied) else {
                    continue;
                };
                for unmet in verdicts(&rule.rule, &entry.node, now).filter(|verdict| !verdict.holds()) {
                    if let Some(count) = gauges.blocked.get_mut(unmet.kind) {
                        *count += 1;
                    }
                }
            }
        }
        all
    }
}

/// Nodes.
impl RuleIndex {
    /// A list begins: who is not in it by its end is gone.
    pub fn begin_nodes(&mut self) {
        self.listed_nodes = Some(HashSet::new());
    }

    pub fn end_nodes(&mut self, now: Uptime) {
        let Some(listed) = self.listed_nodes.take() else { return };
        let gone: Vec<Arc<str>> = self.nodes.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        for name in gone {
            self.delete_node(&name, now);
        }
        self.nodes_synced = true;
    }

    pub fn apply_node(&mut self, mut node: SlimNode, now: Uptime) {
        if let Some(listed) = &mut self.listed_nodes {
            listed.insert(Arc::clone(&node.name));
        }
        let name = Arc::clone(&node.name);
        let Some(entry) = self.nodes.get_mut(&name) else {
            self.nodes.insert(Arc::clone(&name), NodeEntry::new(node));
            return self.queue_node(&name, now);
        };
        // What was under way when we wrote arrives after our own write.
        if self.listed_nodes.is_none() && is_older(&node.resource_version, &entry.node.resource_version) {
            return;
        }
        if node.uid == entry.node.uid {
            node.remember(&entry.node);
        } else {
            // Another Node by the same name.
            *entry = NodeEntry { queued: entry.queued, timer: entry.timer, ..NodeEntry::new(node.clone()) };
        }
        let differs = node.differs(&entry.node) || entry.records.is_empty();
        let newer = matches!(&entry.state, WriteState::Waiting { version, .. } if *version != node.resource_version);
        if newer {
            entry.state = WriteState::Idle;
        }
        let undone = if differs { entry.undone(&node, &self.rules, now) } else { None };
        node.name = Arc::clone(&entry.node.name);
        entry.node = node;
        if differs || newer {
            self.queue_node(&name, now);
        }
        if let Some(rule) = undone {
            let says = format!("another controller changes node {name} back: Carrick leaves this rule to it for now");
            self.yield_rule(&rule, says, now);
        }
    }

    pub fn delete_node(&mut self, name: &str, now: Uptime) {
        let Some(entry) = self.nodes.remove(name) else { return };
        if let Some(at) = entry.timer {
            self.timers.remove(&(at, Arc::clone(&entry.node.name)));
        }
        for record in entry.records.iter().filter(|record| record.selected) {
            if let Some(rule) = self.rules.get_mut(&record.rule) {
                rule.touch(now);
            }
        }
    }

    fn queue_node(&mut self, name: &Arc<str>, now: Uptime) {
        let Some(entry) = self.nodes.get_mut(name).filter(|entry| entry.queued.is_none()) else { return };
        entry.queued = Some(now);
        self.node_queue.adds += 1;
        self.queue.push_back(Arc::clone(name));
        self.node_queue.depth = self.queue.len() as u64;
    }

    fn set_timer(&mut self, name: &Arc<str>, at: Option<Uptime>) {
        let Some(entry) = self.nodes.get_mut(name) else { return };
        if entry.timer == at {
            return;
        }
        if let Some(old) = entry.timer {
            self.timers.remove(&(old, Arc::clone(name)));
        }
        entry.timer = at;
        self.timers.extend(at.map(|at| (at, Arc::clone(name))));
    }

    /// The next write that is to be made. None before all rules are known: a rule that is still to come may hold a taint that
    /// the others would let go of.
    pub fn next_node(&mut self, now: Uptime, wall: Timestamp) -> Option<NodeJob> {
        if !self.rules_synced {
            return None;
        }
        while let Some((at, name)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.set_timer(&name, None);
            self.queue_node(&name, now);
        }
        while let Some(name) = self.queue.pop_front() {
            self.node_queue.depth = self.queue.len() as u64;
            if let Some(job) = self.look(&name, now, wall) {
                return Some(job);
            }
        }
        None
    }

    /// Decides what becomes of one node; notes what is so already.
    fn look(&mut self, name: &Arc<str>, now: Uptime, wall: Timestamp) -> Option<NodeJob> {
        let entry = self.nodes.get_mut(name)?;
        let since = entry.queued.take().unwrap_or(now);
        self.node_queue.waited.observe(super::metrics::QUEUE, now.saturating_sub(since));
        match entry.state {
            // Whoever hears the answer looks again.
            WriteState::Writing => return None,
            WriteState::Waiting { until, .. } | WriteState::Delayed { until } if now < until => {
                self.set_timer(name, Some(until));
                return None;
            }
            _ => entry.state = WriteState::Idle,
        }
        let decision = decided(entry, &self.rules, now);
        self.record(name, &decision, now, wall);
        let again = decision.again;
        self.set_timer(name, again);
        let Some(write) = decision.write else {
            self.node_queue.succeeded += 1;
            self.set_failure(name, None, now);
            return None;
        };
        let entry = self.nodes.get_mut(name)?;
        entry.state = WriteState::Writing;
        self.node_queue.active += 1;
        let outcomes = decision.outcomes.into_iter().filter(|it| it.change.is_some() || it.completes).collect();
        let resource_version = entry.node.resource_version.clone();
        Some(NodeJob { node: Arc::clone(name), resource_version, write, outcomes })
    }

    /// Keeps what was found, for statuses, and tells of taints that somebody else has put.
    fn record(&mut self, name: &Arc<str>, decision: &NodeDecision, now: Uptime, wall: Timestamp) {
        let Some(entry) = self.nodes.get_mut(name) else { return };
        let mut records = Vec::with_capacity(decision.outcomes.len());
        for outcome in decision.outcomes.iter().filter(|outcome| outcome.selected) {
            let Some(of) = self.rules.get_mut(&outcome.rule) else { continue };
            let old = entry.records.iter().find(|record| record.rule == outcome.rule);
            let told = of.told.remove(name.as_ref());
            let print = print_of(outcome.was_held, results(&of.rule, &entry.node).iter().map(|it| it.current_status));
            let since = match (old, &told) {
                (Some(old), _) if old.print == print => old.since,
                (None, Some(told)) if told.print == print => told.since,
                _ => wall,
            };
            let enforced = of.rule.is_enforced();
            let managed = outcome.was_held
                && (enforced || old.is_some_and(|old| old.managed) || told.as_ref().is_some_and(|told| told.held));
            for unmet in verdicts(&of.rule, &entry.node, now).filter(|verdict| !verdict.holds()) {
                let kind = self.texts.keep(unmet.kind);
                *of.counters.condition_failures.entry(kind).or_default() += 1;
            }
            if outcome.adopted && !old.is_some_and(|old| old.managed) && told.is_none() {
                let event = of.node_event(RuleEventKind::TaintAdopted, &entry.node, "");
                let taint = of.rule.spec.taint.id();
                self.events.extend(self.gate.offer(event, &taint, now));
            }
            let record = NodeRecord {
                rule: Arc::clone(&outcome.rule),
                selected: true,
                held: outcome.was_held,
                satisfied: outcome.satisfied,
                missing: outcome.missing,
                managed,
                print,
                since,
            };
            if old != Some(&record) {
                of.touch(now);
            }
            records.push(record);
        }
        for old in &entry.records {
            if records.iter().any(|record| record.rule == old.rule) {
                continue;
            }
            let Some(of) = self.rules.get_mut(&old.rule) else { continue };
            if old.selected {
                of.touch(now);
            }
            // It has left the selector: the taint is still ours until it is gone.
            if old.managed && entry.node.has_taint(&of.rule.spec.taint) {
                records.push(NodeRecord { selected: false, ..old.clone() });
            }
        }
        entry.records = records;
    }

    pub fn answer_node(&mut self, job: &NodeJob, answer: NodeAnswer, now: Uptime, wall: Timestamp) {
        self.node_queue.active = self.node_queue.active.saturating_sub(1);
        let Some(entry) = self.nodes.get_mut(&job.node) else { return };
        if entry.state != WriteState::Writing {
            // Another Node by this name has come meanwhile.
            return self.queue_node(&job.node, now);
        }
        entry.state = WriteState::Idle;
        match answer {
            NodeAnswer::Written(version) => {
                self.node_queue.succeeded += 1;
                entry.attempts = 0;
                if is_older(&entry.node.resource_version, &version) {
                    job.write.apply(&mut entry.node);
                    entry.node.resource_version = version;
                }
                self.set_failure(&job.node, None, now);
                self.tell(job, now, wall);
            }
            NodeAnswer::Conflict => {
                self.node_queue.requeued += 1;
                if entry.node.resource_version == job.resource_version {
                    let until = now + NEWER_COMES_WITHIN;
                    entry.state = WriteState::Waiting { version: job.resource_version.clone(), until };
                }
                for outcome in &job.outcomes {
                    let operation = match outcome.change {
                        Some(TaintChange::Added) => "add_taint",
                        Some(TaintChange::Removed) => "remove_taint",
                        None => "mark_bootstrap_completed",
                    };
                    if let Some(of) = self.rules.get_mut(&outcome.rule) {
                        *of.counters.conflicts.entry(operation).or_default() += 1;
                    }
                }
            }
            // The watch will tell.
            NodeAnswer::Gone => entry.state = WriteState::Delayed { until: now + NEWER_COMES_WITHIN },
            NodeAnswer::Later(after) => {
                self.node_queue.retries += 1;
                entry.attempts = entry.attempts.saturating_add(1);
                let until = now + after.unwrap_or_else(|| backoff(entry.attempts));
                entry.state = WriteState::Delayed { until };
            }
            NodeAnswer::Refused(why) => {
                self.node_queue.failed += 1;
                entry.attempts = entry.attempts.saturating_add(1);
                entry.state = WriteState::Delayed { until: now + backoff(entry.attempts) };
                let new = entry.failure.as_deref() != Some(&why);
                self.set_failure(&job.node, Some(&why), now);
                self.fail(job, &why, new, now);
            }
        }
        self.queue_node(&job.node, now);
    }

    /// Events and counts of a write that succeeded.
    fn tell(&mut self, job: &NodeJob, now: Uptime, wall: Timestamp) {
        let Some(entry) = self.nodes.get_mut(&job.node) else { return };
        let mut changes = Vec::new();
        for outcome in &job.outcomes {
            let Some(of) = self.rules.get_mut(&outcome.rule) else { continue };
            let transitions =
                of.rule.spec.conditions.iter().filter_map(|it| entry.node.condition(&it.kind)?.transition);
            let since = transitions.max();
            let latency = since.map(|since| Duration::try_from(wall.duration_since(since)).unwrap_or_default());
            let taint = of.rule.spec.taint.id();
            let mut kinds = Vec::new();
            match outcome.change {
                Some(TaintChange::Added) => {
                    of.counters.taints_added += 1;
                    if let Some(latency) = latency {
                        of.counters.add_latency.observe(LATENCY, latency);
                    }
                    kinds.push(RuleEventKind::TaintAdded);
                }
                Some(TaintChange::Removed) => {
                    of.counters.taints_removed += 1;
                    if let Some(latency) = latency {
                        of.counters.remove_latency.observe(LATENCY, latency);
                    }
                    kinds.push(RuleEventKind::TaintRemoved);
                }
                None => {}
            }
            if outcome.completes {
                of.counters.bootstraps_completed += 1;
                kinds.push(RuleEventKind::BootstrapCompleted);
                if let (Some(since), Some(created)) = (since, entry.node.created)
                    && outcome.change.is_some()
                    && of.rule.created.is_none_or(|rule| created >= rule)
                    && let Ok(took) = Duration::try_from(since.duration_since(created))
                    && !took.is_zero()
                {
                    of.counters.bootstrap.observe(BOOTSTRAP, took);
                }
            }
            for kind in kinds {
                let event = of.node_event(kind, &entry.node, "");
                self.events.extend(self.gate.offer(event, &taint, now));
            }
            changes.extend(outcome.change.map(|change| (Arc::clone(&outcome.rule), change)));
        }
        let recent = entry.last_write.as_ref().filter(|last| now < last.at + UNDONE_WITHIN);
        let undone = recent.map_or(0, |last| last.undone);
        entry.last_write = (!changes.is_empty()).then(|| Box::new(LastWrite { at: now, changes, undone }));
    }

    /// Every rule of the node lists it with what it failed by.
    fn set_failure(&mut self, name: &Arc<str>, failure: Option<&str>, now: Uptime) {
        let Some(entry) = self.nodes.get_mut(name).filter(|entry| entry.failure.as_deref() != failure) else { return };
        entry.failure = failure.map(Into::into);
        for record in entry.records.iter().filter(|record| record.selected) {
            if let Some(of) = self.rules.get_mut(&record.rule) {
                of.touch(now);
            }
        }
    }

    fn fail(&mut self, job: &NodeJob, why: &str, new: bool, now: Uptime) {
        let Some(entry) = self.nodes.get(&job.node) else { return };
        for outcome in &job.outcomes {
            let Some(of) = self.rules.get_mut(&outcome.rule) else { continue };
            *of.counters.failures.entry("EvaluationError").or_default() += 1;
            let (reason, kind) = match outcome.change {
                Some(TaintChange::Added) => ("AddTaintError", RuleEventKind::AddTaintError),
                Some(TaintChange::Removed) => ("RemoveTaintError", RuleEventKind::RemoveTaintError),
                None => continue,
            };
            *of.counters.failures.entry(reason).or_default() += 1;
            if new {
                let (event, taint) = (of.node_event(kind, &entry.node, why), of.rule.spec.taint.id());
                self.events.extend(self.gate.offer(event, &taint, now));
            }
        }
    }
}

/// Rules.
impl RuleIndex {
    pub fn begin_rules(&mut self) {
        self.listed_rules = Some(BTreeSet::new());
    }

    pub fn end_rules(&mut self, now: Uptime) {
        let Some(listed) = self.listed_rules.take() else { return };
        let gone: Vec<Arc<str>> = self.rules.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        for name in gone {
            self.delete_rule(&name, now);
        }
        self.rules_synced = true;
        self.find_conflicts(now);
    }

    pub fn apply_rule(&mut self, mut rule: NodeReadinessRule, now: Uptime) {
        let told = std::mem::take(&mut rule.status);
        let compiled = CompiledRule::new(rule);
        let name = Arc::clone(&compiled.name);
        let listing = self.listed_rules.is_some();
        if let Some(listed) = &mut self.listed_rules {
            listed.insert(Arc::clone(&name));
        }
        let Some(entry) = self.rules.get_mut(&name).filter(|entry| entry.rule.uid == compiled.uid) else {
            let entry = RuleEntry::new(compiled, &told, now);
            let before = self.rules.insert(Arc::clone(&name), entry);
            self.queue_for(&name, before.map(|before| before.rule).as_ref(), now);
            return self.complain(&name, now);
        };
        if !listing && is_older(&compiled.resource_version, &entry.rule.resource_version) {
            return;
        }
        let print = StatusPrint::of(&told);
        // Somebody else has written what we had written.
        let foreign = entry.written.is_some() && !entry.busy && print.upstream != entry.seen.upstream;
        entry.seen = print;
        entry.conditions = told.conditions;
        let changed =
            entry.stage != compiled.stage || entry.rule.spec != compiled.spec || entry.rule.max_age != compiled.max_age;
        let generation = entry.rule.generation != compiled.generation;
        entry.stage = compiled.stage;
        let before = std::mem::replace(&mut entry.rule, compiled);
        if entry.rival.is_some() && entry.rule.is_enforced() {
            entry.rule.stage = RuleStage::Suspended;
        }
        if changed || generation || foreign {
            entry.touch(now);
        }
        if foreign {
            let (count, last) = entry.foreign_writes;
            let count = if now < last + UNDONE_WITHIN { count + 1 } else { 1 };
            entry.foreign_writes = (count, now);
            if count >= UNDONE {
                let says = "another controller writes this rule's status: Carrick leaves the rule to it for now";
                self.yield_rule(&name, says.to_owned(), now);
            }
        }
        if changed {
            self.queue_for(&name, Some(&before), now);
            self.complain(&name, now);
        }
    }

    pub fn delete_rule(&mut self, name: &str, now: Uptime) {
        let Some(entry) = self.rules.remove(name) else { return };
        let has = |it: &NodeEntry| it.records.iter().any(|record| *record.rule == *entry.rule.name);
        let names: Vec<Arc<str>> =
            self.nodes.iter().filter(|(_, it)| has(it)).map(|(name, _)| Arc::clone(name)).collect();
        for name in names {
            self.queue_node(&name, now);
        }
        self.find_conflicts(now);
    }

    /// Every node that a rule, as it is or as it was, may have to do with.
    fn queue_for(&mut self, name: &Arc<str>, before: Option<&CompiledRule>, now: Uptime) {
        let Some(entry) = self.rules.get(name) else { return };
        let concerns = |node: &SlimNode| {
            entry.rule.selects(node)
                || node.has_taint(&entry.rule.spec.taint)
                || before.is_some_and(|it| it.selects(node))
        };
        let names: Vec<Arc<str>> =
            self.nodes.iter().filter(|(_, it)| concerns(&it.node)).map(|(name, _)| Arc::clone(name)).collect();
        for name in names {
            self.queue_node(&name, now);
        }
        if self.listed_rules.is_none() {
            self.find_conflicts(now);
        }
    }

    fn find_conflicts(&mut self, now: Uptime) {
        let found = conflicts(self.rules.values().map(|entry| &entry.rule));
        for (rule, other) in &found {
            if self.conflicts.get(rule) == Some(other) {
                continue;
            }
            if let Some(entry) = self.rules.get_mut(rule) {
                let says = conflict_message(&entry.rule, other);
                self.events.push(entry.rule_event(RuleEventKind::Conflicting, says));
            }
        }
        for rule in found.keys().chain(self.conflicts.keys()) {
            if let Some(entry) = self.rules.get_mut(rule) {
                entry.touch(now);
            }
        }
        self.conflicts = found;
    }

    /// Says what is wrong with a rule, once for each time it was changed.
    fn complain(&mut self, name: &Arc<str>, now: Uptime) {
        let Some(entry) = self.rules.get_mut(name).filter(|entry| !entry.rule.problems.is_empty()) else { return };
        let says: Vec<String> = entry.rule.problems.iter().map(ToString::to_string).collect();
        let event = entry.rule_event(RuleEventKind::Invalid, says.join("; "));
        let taint = entry.rule.spec.taint.id();
        self.events.extend(self.gate.offer(event, &taint, now));
    }

    /// Another controller is at work on the same rule: whoever fights it makes nodes flap.
    fn yield_rule(&mut self, name: &Arc<str>, says: String, now: Uptime) {
        let Some(entry) = self.rules.get_mut(name).filter(|entry| entry.rule.is_enforced()) else { return };
        entry.rule.stage = RuleStage::Suspended;
        let event = entry.rule_event(RuleEventKind::OtherController, says.clone());
        entry.rival = Some((says, now + YIELD));
        entry.touch(now);
        self.events.push(event);
    }

    /// Writes of rules that are due, at most so many: finalizers first, then statuses.
    pub fn rule_jobs(&mut self, most: usize, now: Uptime, wall: Timestamp) -> Vec<RuleJob> {
        if !self.is_synced() {
            return Vec::new();
        }
        self.end_of_yielding(now);
        let names: Vec<Arc<str>> = self.rules.keys().cloned().collect();
        let mut jobs = Vec::new();
        for name in names {
            let Some(entry) = self.rules.get_mut(&name) else { continue };
            if entry.busy || entry.retry.is_some_and(|at| now < at) {
                continue;
            }
            entry.retry = None;
            if jobs.len() == most {
                break;
            }
            let job = self.finalizer_job(&name, now).or_else(|| self.status_job(&name, now, wall));
            if let (Some(job), Some(entry)) = (job, self.rules.get_mut(&name)) {
                entry.busy = true;
                self.rule_queue.adds += 1;
                jobs.push(job);
            }
        }
        jobs
    }

    fn end_of_yielding(&mut self, now: Uptime) {
        let is_over = |entry: &RuleEntry| entry.rival.as_ref().is_some_and(|(_, until)| now >= *until);
        let over: Vec<Arc<str>> =
            self.rules.iter().filter(|(_, entry)| is_over(entry)).map(|(name, _)| Arc::clone(name)).collect();
        for name in over {
            if let Some(entry) = self.rules.get_mut(&name) {
                (entry.rival, entry.foreign_writes.0, entry.rule.stage) = (None, 0, entry.stage);
                entry.touch(now);
            }
            for node in self.nodes.values_mut() {
                node.last_write = None;
            }
            self.queue_for(&name, None, now);
        }
    }

    fn finalizer_job(&self, name: &Arc<str>, now: Uptime) -> Option<RuleJob> {
        let rule = &self.rules.get(name)?.rule;
        let (kind, finalizers) = if rule.stage == (RuleStage::Enforced { claimed: false }) {
            let with_ours = rule.finalizers.iter().cloned().chain([FINALIZER.to_owned()]).collect::<Vec<_>>();
            (RuleJobKind::AddFinalizer, with_ours)
        } else if rule.is_deleting() && rule.has_finalizer() && self.is_clean(rule, now) {
            let others = rule.finalizers.iter().filter(|it| *it != FINALIZER).cloned().collect::<Vec<_>>();
            (RuleJobKind::RemoveFinalizer, others)
        } else {
            return None;
        };
        let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
        let metadata = json!({ "finalizers": finalizers, "resourceVersion": rule.resource_version });
        Some(RuleJob { rule: Arc::clone(name), kind, patch: json!({ "metadata": metadata }) })
    }

    /// No node has a taint left that goes with the rule.
    fn is_clean(&self, rule: &CompiledRule, now: Uptime) -> bool {
        let removed = |outcome: &RuleOutcome| outcome.rule == rule.name && outcome.change == Some(TaintChange::Removed);
        self.nodes
            .values()
            .filter(|entry| entry.node.has_taint(&rule.spec.taint))
            .all(|entry| !decided(entry, &self.rules, now).outcomes.iter().any(removed))
    }

    fn status_job(&mut self, name: &Arc<str>, now: Uptime, wall: Timestamp) -> Option<RuleJob> {
        let entry = self.rules.get(name)?;
        let due = entry.status_due()?;
        if now < due || entry.rule.is_deleting() {
            return None;
        }
        let desired = self.status_of(name, wall)?;
        let extended = self.extended != Some(false);
        let print = StatusPrint::of(&desired);
        let entry = self.rules.get_mut(name)?;
        entry.changed = None;
        let same = print.upstream == entry.seen.upstream && (!extended || print.own == entry.seen.own);
        if same {
            return None;
        }
        let version = &entry.rule.resource_version;
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status_patch(&desired, extended) });
        Some(RuleJob { rule: Arc::clone(name), kind: RuleJobKind::Status, patch })
    }

    /// A rule's status as it should be.
    pub fn status_of(&self, name: &str, wall: Timestamp) -> Option<RuleStatus> {
        let entry = self.rules.get(name)?;
        let nodes = self.nodes.values().filter_map(|node| {
            let record = node.records.iter().find(|record| record.selected && *record.rule == *name)?;
            Some(StatusNode {
                node: &node.node,
                held: record.held,
                satisfied: record.satisfied,
                missing: record.missing,
                failure: node.failure.as_deref(),
                since: to_the_second(record.since),
            })
        });
        let standing = RuleStanding {
            conflicts_with: self.conflicts.get(name).cloned(),
            rival: entry.rival.as_ref().map(|(says, _)| says.as_str()),
        };
        // What it is by the object, not what it is made for the time being.
        let mut rule = entry.rule.clone();
        rule.stage = entry.stage;
        Some(status(&rule, nodes, &standing, &entry.conditions, to_the_second(wall)))
    }

    pub fn answer_rule(&mut self, job: &RuleJob, answer: RuleAnswer, now: Uptime) {
        let Some(entry) = self.rules.get_mut(&job.rule) else { return };
        match answer {
            RuleAnswer::Written(stored) => {
                self.rule_queue.succeeded += 1;
                entry.attempts = 0;
                if job.kind == RuleJobKind::Status {
                    entry.written = Some(now);
                    if let Some(stored) = &stored
                        && job.patch.pointer("/status/conditions").is_some()
                    {
                        self.extended = Some(!stored.status.conditions.is_empty());
                    }
                }
                match stored {
                    Some(stored) => {
                        // Still ours to write: what comes back is what we wrote.
                        self.apply_rule(*stored, now);
                        if let Some(entry) = self.rules.get_mut(&job.rule) {
                            entry.busy = false;
                        }
                    }
                    None => self.delete_rule(&job.rule, now),
                }
            }
            // The newer one is on its way.
            RuleAnswer::Conflict => {
                self.rule_queue.requeued += 1;
                let operation = match job.kind {
                    RuleJobKind::AddFinalizer => "finalizer_add",
                    RuleJobKind::RemoveFinalizer => "finalizer_remove",
                    RuleJobKind::Status => "rule_status_rule_sweep",
                };
                *entry.counters.conflicts.entry(operation).or_default() += 1;
                entry.again(now, STATUS_EVERY);
            }
            RuleAnswer::Gone => entry.again(now, NEWER_COMES_WITHIN),
            RuleAnswer::Later(after) => {
                self.rule_queue.retries += 1;
                let wait = after.unwrap_or_else(|| backoff(entry.attempts.saturating_add(1)));
                entry.again(now, wait);
            }
            RuleAnswer::Refused(why) => {
                self.rule_queue.failed += 1;
                let wait = backoff(entry.attempts.saturating_add(1));
                entry.again(now, wait);
                let kind = if job.kind == RuleJobKind::RemoveFinalizer {
                    RuleEventKind::CleanupTaintsError
                } else {
                    RuleEventKind::Invalid
                };
                let (event, taint) = (entry.rule_event(kind, why), entry.rule.spec.taint.id());
                self.events.extend(self.gate.offer(event, &taint, now));
            }
        }
    }
}

impl NodeEntry {
    fn new(node: SlimNode) -> Self {
        NodeEntry {
            node,
            records: Vec::new(),
            state: WriteState::Idle,
            queued: None,
            timer: None,
            failure: None,
            attempts: 0,
            last_write: None,
        }
    }

    /// The rule whose last change of this node somebody has taken back, once too often.
    fn undone(&mut self, node: &SlimNode, rules: &BTreeMap<Arc<str>, RuleEntry>, now: Uptime) -> Option<Arc<str>> {
        let last = self.last_write.as_mut().filter(|last| now < last.at + UNDONE_WITHIN)?;
        let taken_back = last.changes.iter().find(|(rule, change)| {
            let Some(of) = rules.get(rule) else { return false };
            match change {
                TaintChange::Added => !node.has_taint(&of.rule.spec.taint),
                TaintChange::Removed => node.has_taint(&of.rule.spec.taint),
            }
        });
        let rule = Arc::clone(&taken_back?.0);
        last.changes.clear();
        last.undone += 1;
        (last.undone >= UNDONE).then_some(rule)
    }
}

impl RuleEntry {
    fn new(rule: CompiledRule, told: &RuleStatus, now: Uptime) -> Self {
        let entries = told.node_evaluations.iter().map(|it| {
            let held = it.taint_status == TaintStatus::Present;
            let print = print_of(held, it.condition_results.iter().map(|it| it.current_status));
            (Box::from(it.node_name.as_str()), Told { held, print, since: it.last_evaluation_time })
        });
        RuleEntry {
            stage: rule.stage,
            told: entries.collect(),
            seen: StatusPrint::of(told),
            conditions: told.conditions.clone(),
            written: None,
            changed: Some((now, now)),
            busy: false,
            retry: None,
            attempts: 0,
            rival: None,
            foreign_writes: (0, Duration::ZERO),
            counters: RuleCounters::default(),
            rule,
        }
    }

    /// Something is to be told in its status.
    fn touch(&mut self, now: Uptime) {
        let first = self.changed.map_or(now, |(first, _)| first);
        self.changed = Some((first, now));
    }

    fn again(&mut self, now: Uptime, wait: Duration) {
        self.busy = false;
        self.attempts = self.attempts.saturating_add(1);
        self.retry = Some(now + wait);
        self.touch(now);
    }

    fn status_due(&self) -> Option<Uptime> {
        let (first, last) = self.changed?;
        let rested = (last + STATUS_REST).min(first + STATUS_WITHIN);
        let allowed = self.written.map_or(Duration::ZERO, |written| written + STATUS_EVERY);
        Some(rested.max(allowed))
    }

    fn next_due(&self) -> Option<Uptime> {
        let rival = self.rival.as_ref().map(|(_, until)| *until);
        let status = self.status_due().filter(|_| !self.rule.is_deleting());
        let status = status.map(|due| self.retry.map_or(due, |retry| due.max(retry)));
        [rival, status, self.retry].into_iter().flatten().min()
    }

    fn node_event(&self, kind: RuleEventKind, node: &SlimNode, why: &str) -> RuleEvent {
        let about = EventObject {
            node: Some(Arc::clone(&node.name)),
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
        };
        let says = note(kind, &self.rule.spec.taint.id(), &self.rule.name, why);
        RuleEvent { kind, rule: Arc::clone(&self.rule.name), rule_uid: self.rule.uid.clone(), about, note: says }
    }

    fn rule_event(&self, kind: RuleEventKind, says: String) -> RuleEvent {
        let about = EventObject {
            node: None,
            uid: self.rule.uid.clone(),
            resource_version: self.rule.resource_version.clone(),
        };
        RuleEvent { kind, rule: Arc::clone(&self.rule.name), rule_uid: self.rule.uid.clone(), about, note: says }
    }
}

impl StatusPrint {
    fn of(status: &RuleStatus) -> Self {
        let upstream = status.as_upstream();
        let own = (&status.summary, &status.conditions);
        StatusPrint { upstream: print(&json!(upstream)), own: print(&json!(own)) }
    }
}

fn decided(entry: &NodeEntry, rules: &BTreeMap<Arc<str>, RuleEntry>, now: Uptime) -> NodeDecision {
    let known = |rule: &str| {
        let recorded = entry.records.iter().find(|record| *record.rule == *rule);
        let told = || rules.get(rule).and_then(|of| of.told.get(entry.node.name.as_ref()));
        recorded.map_or_else(|| told().is_some_and(|told| told.held), |record| record.managed)
    };
    decide(&entry.node, rules.values().map(|of| &of.rule), known, now)
}

/// With what is not there as null: a merge patch leaves alone what it does not name.
fn status_patch(status: &RuleStatus, extended: bool) -> Value {
    let said = json!(status);
    let fields: &[&str] = &["observedGeneration", "appliedNodes", "failedNodes", "nodeEvaluations", "dryRunResults"];
    let own: &[&str] = if extended { &["summary", "conditions"] } else { &[] };
    let value = |field: &&&str| ((**field).to_owned(), said.get(**field).cloned().unwrap_or_default());
    fields.iter().chain(own).map(|field| value(&field)).collect::<serde_json::Map<_, _>>().into()
}

fn print_of(held: bool, statuses: impl Iterator<Item = ConditionStatus>) -> u64 {
    let mut hasher = DefaultHasher::new();
    held.hash(&mut hasher);
    statuses.for_each(|status| status.hash(&mut hasher));
    hasher.finish()
}

fn print(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Versions of one object count up; where they are not numbers, none is older.
fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}

fn backoff(attempts: u8) -> Duration {
    let (least, most) = RETRY;
    least.saturating_mul(1 << attempts.saturating_sub(1).min(10)).min(most)
}

/// As the API server keeps times.
fn to_the_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
