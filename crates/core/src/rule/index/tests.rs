use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::evaluate::evaluate;
use super::super::event::RuleEventKind;
use super::super::node::OWNED;
use super::super::object::{ConditionStatus, NodeReadinessRule, RuleStatus};
use super::super::testing::{CONDITION, NodeBuilder, RuleBuilder, TAINT, node, rule, taint};
use super::*;

fn wall(now: Uptime) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + jiff::SignedDuration::try_from(now).unwrap()
}

fn seconds(seconds: u64) -> Uptime {
    Duration::from_secs(seconds)
}

/// An API server that has nodes and rules, an index that watches it, and what is under way between them.
struct World {
    now: Uptime,
    version: u64,
    nodes: BTreeMap<String, Value>,
    rules: BTreeMap<String, Value>,
    index: RuleIndex,
    node_events: VecDeque<(bool, Value)>,
    rule_events: VecDeque<(bool, Value)>,
    node_jobs: VecDeque<NodeJob>,
    rule_jobs: VecDeque<RuleJob>,
    node_writes: usize,
    status_writes: usize,
    events: Vec<RuleEvent>,
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return *into = patch.clone() };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

impl World {
    fn new() -> Self {
        let mut world = World {
            now: Duration::ZERO,
            version: 10,
            nodes: BTreeMap::new(),
            rules: BTreeMap::new(),
            index: RuleIndex::default(),
            node_events: VecDeque::new(),
            rule_events: VecDeque::new(),
            node_jobs: VecDeque::new(),
            rule_jobs: VecDeque::new(),
            node_writes: 0,
            status_writes: 0,
            events: Vec::new(),
        };
        world.restart();
        world
    }

    fn put_node(&mut self, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.nodes.insert(name_of(&object), object.clone());
        self.node_events.push_back((true, object));
    }

    fn put_rule(&mut self, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|it| !it.is_empty());
        if deleting && !finalizers {
            self.rules.remove(&name_of(&object));
            return self.rule_events.push_back((false, object));
        }
        self.rules.insert(name_of(&object), object.clone());
        self.rule_events.push_back((true, object));
    }

    fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = self.nodes.get(name).cloned() {
            change(&mut object);
            self.put_node(object);
        }
    }

    fn change_rule(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(mut object) = self.rules.get(name).cloned() else { return };
        let before = object["spec"].clone();
        change(&mut object);
        if object["spec"] != before {
            object["metadata"]["generation"] = (object["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
        self.put_rule(object);
    }

    fn slim(&mut self, object: &Value) -> SlimNode {
        SlimNode::read(object.to_string().as_bytes(), &mut self.index.texts, self.now).unwrap()
    }

    /// Another process of ours: it knows nothing, and lists.
    fn restart(&mut self) {
        self.index = RuleIndex::default();
        self.node_jobs.clear();
        self.rule_jobs.clear();
        self.relist();
    }

    fn relist(&mut self) {
        self.node_events.clear();
        self.rule_events.clear();
        self.index.begin_rules();
        for rule in self.rules.values().cloned().collect::<Vec<_>>() {
            self.index.apply_rule(serde_json::from_value(rule).unwrap(), self.now);
        }
        self.index.end_rules(self.now);
        self.index.begin_nodes();
        for object in self.nodes.values().cloned().collect::<Vec<_>>() {
            let node = self.slim(&object);
            self.index.apply_node(node, self.now);
        }
        self.index.end_nodes(self.now);
    }

    fn hear_node(&mut self) {
        let Some((is, object)) = self.node_events.pop_front() else { return };
        if is {
            let node = self.slim(&object);
            self.index.apply_node(node, self.now);
        } else {
            self.index.delete_node(&name_of(&object), self.now);
        }
    }

    fn hear_rule(&mut self) {
        let Some((is, object)) = self.rule_events.pop_front() else { return };
        if is {
            self.index.apply_rule(serde_json::from_value(object).unwrap(), self.now);
        } else {
            self.index.delete_rule(&name_of(&object), self.now);
        }
    }

    fn take_jobs(&mut self) {
        while let Some(job) = self.index.next_node(self.now, wall(self.now)) {
            self.node_jobs.push_back(job);
        }
        self.rule_jobs.extend(self.index.rule_jobs(8, self.now, wall(self.now)));
        self.events.extend(self.index.take_events(self.now));
    }

    /// Promise 9, as far as the rules are known: the Node is the very one that was decided on.
    fn keeps_promise(&self, before: &SlimNode, after: &SlimNode) {
        for rule in self.index.rules().filter(|rule| rule.is_enforced() && rule.selects(before)) {
            if before.has_taint(&rule.spec.taint) && !after.has_taint(&rule.spec.taint) {
                assert!(evaluate(rule, before, self.now).satisfied, "{} let go of {}", rule.name, before.name);
            }
        }
    }

    fn serve_node(&mut self, fault: Option<NodeAnswer>) {
        let Some(job) = self.node_jobs.pop_front() else { return };
        let Some(stored) = self.nodes.get(job.node.as_ref()).cloned() else {
            return self.index.answer_node(&job, NodeAnswer::Gone, self.now, wall(self.now));
        };
        let lost = matches!(fault, Some(NodeAnswer::Later(_)));
        let answer = match fault {
            Some(fault) if !lost => fault,
            _ if stored["metadata"]["resourceVersion"] != *job.resource_version => NodeAnswer::Conflict,
            _ => {
                let before = self.slim(&stored);
                let mut object = stored;
                merge(&mut object, &job.patch());
                let after = self.slim(&object);
                self.keeps_promise(&before, &after);
                self.put_node(object);
                self.node_writes += 1;
                NodeAnswer::Written(self.version.to_string().into())
            }
        };
        // It is written, and nobody hears of it.
        let answer = if lost { NodeAnswer::Later(None) } else { answer };
        self.index.answer_node(&job, answer, self.now, wall(self.now));
    }

    fn serve_rule(&mut self, fault: Option<RuleAnswer>) {
        let Some(job) = self.rule_jobs.pop_front() else { return };
        let Some(stored) = self.rules.get(job.rule.as_ref()).cloned() else {
            return self.index.answer_rule(&job, RuleAnswer::Gone, self.now);
        };
        let answer = match fault {
            Some(fault) => fault,
            None if stored["metadata"]["resourceVersion"] != job.patch.metadata["resourceVersion"] => {
                RuleAnswer::Conflict
            }
            None => {
                let mut object = stored;
                merge(&mut object, &json!(job.patch));
                self.status_writes += usize::from(job.kind == RuleJobKind::Status);
                self.put_rule(object);
                let stored = self.rules.get(job.rule.as_ref()).cloned();
                RuleAnswer::Written(stored.map(|it| Box::new(serde_json::from_value(it).unwrap())))
            }
        };
        self.index.answer_rule(&job, answer, self.now);
    }

    /// Until nothing is left to be done, however long it takes.
    fn settle(&mut self) {
        // Longer than anything waits for: a rule that was left to another controller, a refusal that is tried again.
        for _ in 0..160 {
            while !(self.node_events.is_empty() && self.rule_events.is_empty()) {
                self.hear_node();
                self.hear_rule();
            }
            self.take_jobs();
            while !(self.node_jobs.is_empty() && self.rule_jobs.is_empty()) {
                self.serve_node(None);
                self.serve_rule(None);
            }
            self.now += seconds(5);
        }
    }

    /// Every node is as the pure function has it, every rule's status is true, and nothing more is written.
    fn is_as_it_should_be(&mut self) {
        let rules: Vec<CompiledRule> =
            self.rules.values().map(|rule| CompiledRule::new(serde_json::from_value(rule.clone()).unwrap())).collect();
        for object in self.nodes.values().cloned().collect::<Vec<_>>() {
            let node = self.slim(&object);
            let decision = decide(&node, &rules, |_| false, self.now);
            assert_eq!(decision.write, None, "{object}");
            for rule in rules.iter().filter(|rule| rule.is_claimed() && rule.selects(&node)) {
                let wants = !evaluate(rule, &node, self.now).satisfied && !rule.is_complete_on(&node);
                assert!(!wants || node.has_taint(&rule.spec.taint), "{} does not hold {}", rule.name, node.name);
            }
        }
        for rule in &rules {
            assert!(!rule.is_deleting(), "{} is still there", rule.name);
            assert!(!rule.is_enforced() || rule.is_claimed(), "{} has no finalizer", rule.name);
            let stored: NodeReadinessRule = serde_json::from_value(self.rules[rule.name.as_ref()].clone()).unwrap();
            let desired = self.index.status_of(&rule.name, self.now, wall(self.now)).unwrap();
            let times = |mut status: RuleStatus| {
                status.conditions.iter_mut().for_each(|it| it.last_transition_time = Timestamp::UNIX_EPOCH);
                status
            };
            assert_eq!(times(stored.status.clone()), times(desired), "{}", rule.name);
            let selected = self.nodes.values().filter(|object| {
                let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
                rule.selector().is_some_and(|selector| selector.selects(label))
            });
            let matched = stored.status.summary.map_or(0, |it| it.matched_nodes as usize);
            assert!(rule.spec.is_dry_run() || matched == selected.count(), "{}: {matched}", rule.name);
        }
        let (nodes, statuses) = (self.node_writes, self.status_writes);
        self.settle();
        assert_eq!((self.node_writes, self.status_writes), (nodes, statuses), "it wrote although nothing changed");
    }
}

fn live(name: &str) -> RuleBuilder {
    rule(name).claimed()
}

fn world(nodes: Vec<NodeBuilder>, rules: Vec<RuleBuilder>) -> World {
    let mut world = World::new();
    for rule in rules {
        world.put_rule(json!(rule.0));
    }
    for node in nodes {
        world.put_node(node.wire);
    }
    world
}

fn set_condition(object: &mut Value, kind: &str, status: &str) {
    let built = node("x").condition(kind, status).wire["status"]["conditions"][0].clone();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let others = conditions.into_iter().filter(|it| it["type"] != kind);
    object["status"]["conditions"] = others.chain((!status.is_empty()).then_some(built)).collect();
}

#[test]
fn a_flip_costs_one_write_a_node_and_a_heartbeat_none() {
    let nodes = (0..200).map(|n| node(&format!("n{n}")));
    let mut world = world(nodes.collect(), vec![rule("r")]);
    world.settle();
    assert_eq!(world.node_writes, 200);
    // Of two rounds: the taints as they came, and one that they are all there. The finalizer is no status.
    assert!(world.status_writes <= 2, "{}", world.status_writes);
    world.is_as_it_should_be();
    for n in 0..200 {
        world.change_node(&format!("n{n}"), |it| set_condition(it, CONDITION, "True"));
    }
    world.settle();
    assert_eq!(world.node_writes, 400);
    for n in 0..200 {
        world.change_node(&format!("n{n}"), |it| {
            it["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-18T13:00:00Z".into();
        });
    }
    world.settle();
    assert_eq!(world.node_writes, 400);
    world.is_as_it_should_be();
}

/// Upstream's objects: finalizer, completion by uid and by name, taints without a note, a status.
#[test]
fn taking_over_writes_no_node_and_adopts_quietly() {
    let completed = format!("{}uid-of-b", super::super::node::COMPLETED);
    let told = json!({
        "observedGeneration": 1, "appliedNodes": ["held"],
        "nodeEvaluations": [{
            "nodeName": "held", "taintStatus": "Present", "lastEvaluationTime": "2026-08-23T12:00:00Z",
            "conditionResults": [{"type": CONDITION, "currentStatus": "Unknown", "requiredStatus": "True", "defaultStatus": "Unknown"}],
        }],
    });
    let mut world = World::new();
    let mut first = json!(live("r").0);
    first["status"] = told;
    world.put_rule(first);
    let other = live("b").bootstrap_only().with(|it| it.spec.taint = taint("readiness.k8s.io/b"));
    world.put_rule(json!(other.0));
    world.put_node(node("held").taint(TAINT).annotation(&completed, "{}").wire);
    world.put_node(node("released").ready().annotation(&completed, "{}").wire);
    world.put_node(node("legacy").ready().annotation("readiness.k8s.io/bootstrap-completed-b", "true").wire);
    world.settle();
    assert_eq!(world.node_writes, 0);
    assert_eq!(world.events, []);
    // What did not change was evaluated when upstream did.
    let status = world.index.status_of("r", world.now, wall(world.now)).unwrap();
    let held = status.node_evaluations.iter().find(|it| it.node_name == "held").unwrap();
    assert_eq!(held.last_evaluation_time.to_string(), "2026-08-23T12:00:00Z");
    world.is_as_it_should_be();
}

#[test]
fn a_node_that_leaves_the_selector_loses_the_taint_also_after_a_restart() {
    for restart in [false, true] {
        let mut world = world(vec![node("n")], vec![live("r")]);
        world.settle();
        assert_eq!(world.nodes["n"]["spec"]["taints"][0]["key"], TAINT);
        if restart {
            world.restart();
        }
        world.change_node("n", |it| it["metadata"]["labels"] = json!({}));
        world.settle();
        assert_eq!(world.nodes["n"]["spec"]["taints"], Value::Null, "{restart}");
        assert_eq!(world.nodes["n"]["metadata"]["annotations"].get(OWNED), None);
        world.is_as_it_should_be();
    }
    // One that upstream has put: known by having been seen, or by the rule's status.
    for restart in [false, true] {
        let mut world = world(vec![node("n").taint(TAINT)], vec![live("r")]);
        world.settle();
        if restart {
            world.change_node("n", |it| it["metadata"]["labels"] = json!({}));
            world.restart();
        } else {
            world.change_node("n", |it| it["metadata"]["labels"] = json!({}));
        }
        world.settle();
        assert_eq!(world.nodes["n"]["spec"]["taints"], Value::Null, "{restart}");
    }
}

#[test]
fn a_deleted_rule_goes_when_its_taints_have_gone() {
    let mut world = world(vec![node("a"), node("b")], vec![live("r")]);
    world.settle();
    world.change_rule("r", |it| it["metadata"]["deletionTimestamp"] = "2026-11-18T12:00:00Z".into());
    world.hear_rule();
    world.take_jobs();
    assert_eq!((world.node_jobs.len(), world.rule_jobs.len()), (2, 0));
    world.serve_node(None);
    world.take_jobs();
    assert_eq!(world.rule_jobs.len(), 0, "its finalizer went before its taints");
    world.settle();
    assert!(world.rules.is_empty());
    assert!(world.nodes.values().all(|it| it["spec"]["taints"].is_null()));
}

#[test]
fn a_refused_write_is_told_and_tried_again() {
    let mut world = world(vec![node("n")], vec![live("r")]);
    world.hear_node();
    world.hear_rule();
    world.take_jobs();
    world.serve_node(Some(NodeAnswer::Refused("403 Forbidden".to_owned())));
    world.take_jobs();
    let warned: Vec<&str> = world.events.iter().map(|it| it.note.as_str()).collect();
    assert_eq!(warned, ["Failed to add taint 'readiness.k8s.io/gate:NoSchedule' by rule \"r\": 403 Forbidden"]);
    let status = world.index.status_of("r", world.now, wall(world.now)).unwrap();
    assert_eq!(status.failed_nodes[0].message, "403 Forbidden");
    world.settle();
    assert_eq!(world.index.status_of("r", world.now, wall(world.now)).unwrap().failed_nodes, []);
    world.is_as_it_should_be();
}

#[test]
fn nothing_is_written_before_all_rules_are_known() {
    let mut index = RuleIndex::default();
    index.begin_rules();
    index.apply_rule(live("r").0, Duration::ZERO);
    index.begin_nodes();
    index.apply_node(node("n").build(), Duration::ZERO);
    assert!(index.next_node(Duration::ZERO, wall(Duration::ZERO)).is_none());
    index.end_rules(Duration::ZERO);
    assert!(index.next_node(Duration::ZERO, wall(Duration::ZERO)).is_some());
}

#[test]
fn who_fights_another_controller_gives_way_and_says_so() {
    let mut world = world(vec![node("n")], vec![live("r")]);
    for _ in 0..30 {
        while !(world.node_events.is_empty() && world.rule_events.is_empty()) {
            world.hear_node();
            world.hear_rule();
        }
        world.take_jobs();
        world.serve_node(None);
        world.serve_rule(None);
        // The other takes it away again, at once.
        if world.nodes["n"]["spec"]["taints"].is_array() {
            world.change_node("n", |it| it["spec"] = json!({}));
        }
        world.now += seconds(1);
    }
    assert!(world.node_writes <= 4, "{}", world.node_writes);
    assert!(world.events.iter().any(|it| it.kind == RuleEventKind::OtherController));
    let said = |world: &World| {
        let status = world.index.status_of("r", world.now, wall(world.now)).unwrap();
        status.conditions.iter().find(|it| it.kind == "Enforced").map(|it| it.reason.clone())
    };
    assert_eq!(said(&world).as_deref(), Some("OtherController"));
    // It looks again after a while.
    world.settle();
    assert_eq!(said(&world).as_deref(), Some("Enforcing"));
    world.is_as_it_should_be();
}

/// The watch may be quicker than the answer: a write of our own is not somebody else's.
#[test]
fn a_write_that_is_seen_before_it_is_answered_is_no_other_controllers() {
    let mut world = world(vec![node("n")], vec![live("r")]);
    world.settle();
    for round in 0..8 {
        world.change_node("n", |it| set_condition(it, CONDITION, if round % 2 == 0 { "True" } else { "False" }));
        world.hear_node();
        world.take_jobs();
        let job = world.node_jobs.pop_front().unwrap();
        world.change_node("n", |it| merge(it, &job.patch()));
        world.hear_node();
        let version = world.version.to_string().into();
        world.index.answer_node(&job, NodeAnswer::Written(version), world.now, wall(world.now));
        world.now += seconds(1);
        world.take_jobs();
        assert!(world.node_jobs.is_empty(), "round {round}");
    }
    assert!(world.events.iter().all(|it| it.kind != RuleEventKind::OtherController));
}

#[test]
fn upstreams_definition_prunes_and_that_is_no_reason_to_write_for_ever() {
    let mut world = world(vec![node("n")], vec![live("r")]);
    for _ in 0..30 {
        while !(world.node_events.is_empty() && world.rule_events.is_empty()) {
            world.hear_node();
            world.hear_rule();
        }
        world.take_jobs();
        world.serve_node(None);
        if let Some(job) = world.rule_jobs.pop_front() {
            let mut patch = json!(job.patch);
            let status = patch["status"].as_object_mut().unwrap();
            status.remove("summary");
            status.remove("conditions");
            let mut object = world.rules["r"].clone();
            merge(&mut object, &patch);
            world.put_rule(object);
            world.status_writes += 1;
            let stored = Box::new(serde_json::from_value(world.rules["r"].clone()).unwrap());
            world.index.answer_rule(&job, RuleAnswer::Written(Some(stored)), world.now);
        }
        world.now += seconds(1);
    }
    assert!(world.status_writes <= 3, "{}", world.status_writes);
}

/// A reporter that comes back says the same as before: only its heartbeat is another one.
#[test]
fn who_falls_silent_holds_the_node_until_it_is_heard_again() {
    let beat = |world: &mut World, at: &str| {
        world.change_node("n", |it| it["status"]["conditions"][0]["lastHeartbeatTime"] = at.into());
    };
    let aged = live("r").with(|it| it.spec.max_age = Some("10m".to_owned()));
    let mut world = world(vec![node("n").ready()], vec![aged]);
    world.settle();
    let held = |world: &World| world.nodes["n"]["spec"]["taints"].is_array();
    assert!(held(&world), "it was silent for longer than ten minutes");
    let status = world.index.status_of("r", world.now, wall(world.now)).unwrap();
    assert_eq!(status.node_evaluations[0].condition_results[0].current_status, ConditionStatus::Unknown);
    beat(&mut world, "2026-11-18T13:00:00Z");
    world.hear_node();
    world.hear_node();
    world.take_jobs();
    world.serve_node(None);
    assert!(!held(&world), "it was heard again");
}

/// Ours that arrived though its answer did not is not somebody else's.
#[test]
fn a_status_whose_answer_was_lost_is_no_other_controllers() {
    let mut world = world(vec![node("n")], vec![live("r")]);
    world.settle();
    for round in 0..5 {
        world.change_node("n", |it| set_condition(it, CONDITION, if round % 2 == 0 { "True" } else { "False" }));
        for _ in 0..10 {
            while !(world.node_events.is_empty() && world.rule_events.is_empty()) {
                world.hear_node();
                world.hear_rule();
            }
            world.take_jobs();
            world.serve_node(None);
            if let Some(job) = world.rule_jobs.pop_front() {
                let mut object = world.rules["r"].clone();
                merge(&mut object, &json!(job.patch));
                world.put_rule(object);
                world.index.answer_rule(&job, RuleAnswer::Later(None), world.now);
            }
            world.now += Duration::from_millis(500);
        }
    }
    assert!(world.events.iter().all(|it| it.kind != RuleEventKind::OtherController));
}

#[test]
fn a_standby_knows_what_the_leader_told_last() {
    let mut leader = world(vec![node("n").taint(TAINT)], vec![live("r")]);
    let mut standby = RuleIndex::default();
    standby.begin_rules();
    standby.apply_rule(live("r").0, seconds(0));
    standby.end_rules(seconds(0));
    leader.settle();
    standby.apply_rule(serde_json::from_value(leader.rules["r"].clone()).unwrap(), seconds(1));
    standby.begin_nodes();
    let node = leader.slim(&leader.nodes["n"].clone());
    standby.apply_node(node, seconds(1));
    standby.end_nodes(seconds(1));
    assert!(standby.next_node(seconds(1), wall(leader.now + seconds(60))).is_none());
    assert!(standby.take_events(seconds(1)).is_empty(), "it adopted what was told to be adopted");
    let told = leader.index.status_of("r", leader.now, wall(leader.now)).unwrap();
    let says = standby.status_of("r", seconds(1), wall(leader.now + seconds(60))).unwrap();
    assert_eq!(says.node_evaluations, told.node_evaluations);
}

/// Who has nothing to do is not woken.
#[test]
fn nothing_is_due_before_everything_is_known_or_when_all_is_done() {
    let mut index = RuleIndex::default();
    index.begin_rules();
    index.apply_rule(live("r").0, seconds(0));
    index.begin_nodes();
    index.apply_node(node("n").build(), seconds(0));
    assert_eq!((index.next_node_due(), index.next_rule_due()), (None, None));
    let mut world = world(vec![node("n")], vec![live("r")]);
    world.settle();
    assert_eq!((world.index.next_node_due(), world.index.next_rule_due()), (None, None));
    // Deleted, and its taint cannot be removed: it is looked at again, and not without a pause.
    world.change_rule("r", |it| it["metadata"]["deletionTimestamp"] = "2026-11-18T12:00:00Z".into());
    world.hear_rule();
    world.take_jobs();
    assert!(world.index.next_rule_due().is_some_and(|due| due > world.now));
}

#[derive(Clone, Debug)]
enum Move {
    Pass(u64),
    HearNode,
    HearRule,
    HearTwice,
    Jobs,
    ServeNode(Option<NodeAnswer>),
    ServeRule(Option<RuleAnswer>),
    Relist,
    Restart,
    Condition(usize, usize, &'static str),
    Label(usize, bool),
    Zone(usize, bool),
    Stranger(usize, bool),
    TakeTaint(usize),
    DeleteNode(usize),
    MakeNode(usize),
    MakeRule(usize, bool, usize),
    DeleteRule(usize),
    DryRun(usize, bool),
    Suspend(usize, bool),
}

const RULES: [&str; 3] = ["a", "b", "c"];
const KINDS: [&str; 2] = [CONDITION, "second"];

fn any_move() -> impl Strategy<Value = Move> {
    let (which, flag) = (0..3usize, any::<bool>());
    let status = prop::sample::select(vec!["True", "False", ""]);
    let of_node = prop_oneof![
        6 => Just(None),
        1 => Just(Some(NodeAnswer::Conflict)),
        1 => Just(Some(NodeAnswer::Later(None))),
        1 => Just(Some(NodeAnswer::Refused("no".to_owned()))),
    ];
    let of_rule = prop_oneof![
        6 => Just(None),
        1 => Just(Some(RuleAnswer::Conflict)),
        1 => Just(Some(RuleAnswer::Later(None))),
    ];
    prop_oneof![
        2 => (0u64..5000).prop_map(Move::Pass),
        6 => Just(Move::HearNode),
        4 => Just(Move::HearRule),
        1 => Just(Move::HearTwice),
        6 => Just(Move::Jobs),
        6 => of_node.prop_map(Move::ServeNode),
        4 => of_rule.prop_map(Move::ServeRule),
        1 => Just(Move::Relist),
        1 => Just(Move::Restart),
        6 => (which.clone(), 0..2usize, status).prop_map(|(node, kind, status)| Move::Condition(node, kind, status)),
        2 => (which.clone(), flag).prop_map(|(node, flag)| Move::Label(node, flag)),
        2 => (which.clone(), flag).prop_map(|(node, flag)| Move::Zone(node, flag)),
        1 => (which.clone(), flag).prop_map(|(node, flag)| Move::Stranger(node, flag)),
        1 => which.clone().prop_map(Move::TakeTaint),
        1 => which.clone().prop_map(Move::DeleteNode),
        2 => which.clone().prop_map(Move::MakeNode),
        3 => (which.clone(), flag, 0..3usize).prop_map(|(rule, flag, shape)| Move::MakeRule(rule, flag, shape)),
        1 => which.clone().prop_map(Move::DeleteRule),
        1 => (which.clone(), flag).prop_map(|(rule, flag)| Move::DryRun(rule, flag)),
        1 => (which, flag).prop_map(|(rule, flag)| Move::Suspend(rule, flag)),
    ]
}

impl World {
    fn play(&mut self, step: Move) {
        let name = |at: usize| format!("n{at}");
        match step {
            Move::Pass(time) => self.now += Duration::from_millis(time),
            Move::HearNode => self.hear_node(),
            Move::HearRule => self.hear_rule(),
            Move::HearTwice => {
                if let Some(event) = self.node_events.front().cloned() {
                    self.node_events.push_front(event);
                }
            }
            Move::Jobs => self.take_jobs(),
            Move::ServeNode(fault) => self.serve_node(fault),
            Move::ServeRule(fault) => self.serve_rule(fault),
            Move::Relist => self.relist(),
            Move::Restart => self.restart(),
            Move::Condition(at, kind, status) => {
                self.change_node(&name(at), |it| set_condition(it, KINDS[kind], status));
            }
            Move::Label(at, is) => self.change_node(&name(at), |it| {
                merge(&mut it["metadata"]["labels"], &json!({"role": if is { json!("worker") } else { Value::Null }}));
            }),
            Move::Zone(at, is) => self.change_node(&name(at), |it| {
                merge(&mut it["metadata"]["labels"], &json!({"zone": if is { json!("a") } else { Value::Null }}));
            }),
            Move::Stranger(at, is) => self.change_node(&name(at), |it| {
                let taints = it["spec"]["taints"].as_array().cloned().unwrap_or_default();
                let others = taints.into_iter().filter(|it| it["key"] != "stranger");
                let new = is.then(|| json!({"key": "stranger", "effect": "NoSchedule"}));
                it["spec"]["taints"] = others.chain(new).collect();
            }),
            Move::TakeTaint(at) => self.change_node(&name(at), |it| it["spec"] = json!({})),
            Move::DeleteNode(at) => {
                if let Some(object) = self.nodes.remove(&name(at)) {
                    self.node_events.push_back((false, object));
                }
            }
            Move::MakeNode(at) => {
                if !self.nodes.contains_key(&name(at)) {
                    let mut object = node(&name(at)).wire;
                    object["metadata"]["uid"] = format!("uid-{}", self.version).into();
                    self.put_node(object);
                }
            }
            Move::MakeRule(at, bootstrap, shape) => {
                if !self.rules.contains_key(RULES[at]) {
                    let built = if bootstrap { rule(RULES[at]).bootstrap_only() } else { rule(RULES[at]) };
                    let built = match shape {
                        0 => built,
                        1 => built.labels(&[("zone", "a")]),
                        _ => built.with(|it| it.spec.taint = taint("readiness.k8s.io/other")).conditions(&[(
                            "second",
                            ConditionStatus::True,
                            None,
                        )]),
                    };
                    let uid = format!("uid-{}", self.version);
                    self.put_rule(json!(built.with(|it| it.metadata.uid = uid).0));
                }
            }
            Move::DeleteRule(at) => self.change_rule(RULES[at], |it| {
                it["metadata"]["deletionTimestamp"] = "2026-11-18T12:00:00Z".into();
            }),
            Move::DryRun(at, is) => self.change_rule(RULES[at], |it| it["spec"]["dryRun"] = is.into()),
            Move::Suspend(at, is) => self.change_rule(RULES[at], |it| it["spec"]["suspend"] = is.into()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens, in whatever order: promise 9 at every write, and in the end what the pure function says.
    #[test]
    fn the_end_does_not_depend_on_the_way(moves in prop::collection::vec(any_move(), 1..100)) {
        let mut world = World::new();
        for at in 0..3 {
            world.play(Move::MakeNode(at));
        }
        for step in moves {
            world.play(step);
        }
        world.settle();
        world.is_as_it_should_be();
    }
}
