//! Any script of changes, faults and restarts: promise 9 at every write, at most one write a node for a change, and in the end
//! what the pure function says.

use std::collections::BTreeMap;

use carrick_core::rule::testing::taint;
use carrick_core::rule::{CompiledRule, FINALIZER, NodeTaint, OWNED, RuleStage, SlimNode, Texts, decide, evaluate};
use serde_json::Value;

use super::*;

const NODES: u64 = 5;
const STEPS: u64 = 80;
const SEEDS: u64 = 24;
/// Longer than a watch that was cut is without news, with all that was done to it.
const SEEN_BY_THEN: Duration = Duration::from_mins(2);

/// A small generator: the same script for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.roll(all.len() as u64)).unwrap()]
    }
}

fn slim(object: &Value) -> SlimNode {
    SlimNode::read(object.to_string().as_bytes(), &mut Texts::default(), Duration::ZERO).unwrap()
}

fn compiled(object: &Value) -> CompiledRule {
    CompiledRule::new(serde_json::from_value(object.clone()).unwrap())
}

/// What the script itself has changed, and when what was.
struct Script {
    api: MemoryApi,
    dice: Dice,
    begun: Instant,
    /// Versions that are the script's own doing.
    own: Vec<u64>,
    /// A moment, and the version by then.
    marks: Vec<(Duration, u64)>,
}

impl Script {
    fn put(&mut self, object: &Value) {
        self.api.put(object);
        self.own.push(self.api.version());
    }

    fn take(&mut self, path: &str) {
        self.api.take(path);
        self.own.push(self.api.version());
    }

    async fn pass(&mut self, time: Duration) {
        sleep(time).await;
        self.marks.push((self.begun.elapsed(), self.api.version()));
    }

    fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut node) = self.api.object(&format!("/api/v1/nodes/{name}")) {
            change(&mut node);
            self.put(&node);
        }
    }

    fn make_node(&mut self, name: &str) {
        let mut wire = node(name).wire;
        let metadata = wire["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        metadata.remove("uid");
        self.put(&wire);
    }

    fn make_rule(&mut self, name: &str) {
        let built = match name {
            "a" => rule("a"),
            "b" => rule("b").bootstrap_only().with(|it| it.spec.taint = taint("readiness.k8s.io/b")),
            // The taint of `a`, on some of the same nodes.
            _ => rule("c").labels(&[("zone", "x")]),
        };
        let mut object = json!(built.0);
        object["metadata"].as_object_mut().unwrap().remove("uid");
        self.put(&object);
    }

    fn change_rule(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(mut rule) = self.api.object(&format!("{RULES}/{name}")) else { return };
        let generation = rule["metadata"]["generation"].as_i64().unwrap_or(1);
        change(&mut rule["spec"]);
        rule["metadata"]["generation"] = (generation + 1).into();
        self.put(&rule);
    }

    fn delete_or_make_rule(&mut self, name: &str) {
        let path = format!("{RULES}/{name}");
        let Some(mut rule) = self.api.object(&path) else { return self.make_rule(name) };
        if rule["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
            return self.take(&path);
        }
        rule["metadata"]["deletionTimestamp"] = "2026-11-18T12:00:00Z".into();
        rule["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        self.put(&rule);
    }

    /// Something happens to nodes or rules.
    fn happen(&mut self) {
        let name = format!("n{}", self.dice.roll(NODES));
        let toggled = |object: &mut Value, on: &str, off: &str| {
            *object = if *object == on { off } else { on }.into();
        };
        match self.dice.roll(14) {
            0..=5 => {
                let status = self.dice.one_of(&["True", "False", "Unknown"]);
                self.change_node(&name, |node| {
                    node["status"]["conditions"] = json!([{
                        "type": CONDITION, "status": status,
                        "lastHeartbeatTime": "2026-11-18T12:00:00Z", "lastTransitionTime": "2026-11-18T12:00:00Z",
                    }]);
                });
            }
            6 => self.change_node(&name, |node| toggled(&mut node["metadata"]["labels"]["role"], "worker", "other")),
            7 => self.change_node(&name, |node| toggled(&mut node["metadata"]["labels"]["zone"], "x", "y")),
            8 => self.change_node(&name, |node| {
                let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                let had = taints.iter().any(|taint| taint["key"] == "stranger");
                let others = taints.into_iter().filter(|taint| taint["key"] != "stranger");
                let new = (!had).then(|| json!({"key": "stranger", "effect": "NoSchedule"}));
                node["spec"]["taints"] = others.chain(new).collect();
            }),
            9 if self.api.object(&format!("/api/v1/nodes/{name}")).is_some() => {
                self.take(&format!("/api/v1/nodes/{name}"));
            }
            9 => self.make_node(&name),
            10 => self.change_rule("a", |spec| spec["dryRun"] = (spec["dryRun"] != true).into()),
            11 => self.change_rule("c", |spec| spec["suspend"] = (spec["suspend"] != true).into()),
            12 => {
                let rule = self.dice.one_of(&["a", "b", "c"]);
                self.delete_or_make_rule(rule);
            }
            // Somebody removes what the controller has put.
            _ => self.change_node(&name, |node| node["spec"] = json!({})),
        }
    }

    /// Something goes wrong on the way.
    fn go_wrong(&mut self) {
        let seconds = Duration::from_secs;
        let status = "patch nodereadinessrules.readiness.node.x-k8s.io/status";
        match self.dice.roll(13) {
            0 => self.api.cut_watches(),
            1 => self.api.expire_watches(),
            2 => self.api.end_watches(),
            3 => {
                self.api.compact();
                self.api.cut_watches();
            }
            4 => self.api.fail("patch nodes", Some(2), Fault::Conflict),
            5 => self.api.fail("patch nodes", Some(2), Fault::TooManyRequests),
            6 => self.api.fail("patch nodes", Some(1), Fault::Cut),
            7 => self.api.fail("patch nodes", Some(2), Fault::Delay(seconds(3))),
            8 => {
                self.api.fail("watch", Some(2), Fault::Delay(seconds(2)));
                self.api.cut_watches();
            }
            9 => self.api.fail(status, Some(2), Fault::Status(503)),
            10 => self.api.fail(status, Some(1), Fault::Cut),
            11 => {
                self.api.fail("watch", Some(1), Fault::Status(504));
                self.api.cut_watches();
            }
            _ => {
                let name = self.dice.roll(NODES);
                self.api.repeat(&format!("/api/v1/nodes/n{name}"));
                let rule = self.dice.one_of(&["a", "b", "c"]);
                self.api.repeat(&format!("{RULES}/{rule}"));
            }
        }
    }

    /// When a version came to be, at the earliest.
    fn time_of(&self, version: u64) -> Duration {
        let before = self.marks.iter().take_while(|(_, by_then)| *by_then < version).last();
        before.map_or(Duration::ZERO, |(time, _)| *time)
    }

    /// Goes through everything that was written, in order.
    fn judge(&self, seed: u64) {
        // Rules as they are at each moment, and since when they are enforced as they are.
        let mut rules: BTreeMap<String, (CompiledRule, Duration)> = BTreeMap::new();
        let (mut causes, mut rule_changes) = (BTreeMap::<String, usize>::new(), 0);
        let mut writes = BTreeMap::<String, usize>::new();
        for (version, before, after) in self.api.changes() {
            let object = after.as_ref().or(before.as_ref()).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            if object["kind"] == "NodeReadinessRule" {
                rule_changes += usize::from(spec_of(before.as_ref()) != spec_of(after.as_ref()));
                let Some(after) = &after else {
                    rules.remove(&name);
                    continue;
                };
                let (new, now) = (compiled(after), self.time_of(version));
                let same = rules.get(&name).filter(|(old, _)| old.uid == new.uid && old.stage == new.stage);
                let since = same.map_or(now, |(_, since)| *since);
                rules.insert(name, (new, since));
            } else if object["kind"] == "Node" {
                if self.own.contains(&version) {
                    *causes.entry(name).or_default() += 1;
                    continue;
                }
                let (before, after) = (before.unwrap(), after.unwrap());
                let made = writes.entry(name.clone()).or_default();
                *made += 1;
                let allowed = causes.get(&name).copied().unwrap_or_default() + rule_changes;
                assert!(*made <= allowed, "seed {seed}: {made} writes of {name} for {allowed} changes");
                self.keeps_promise(seed, version, &slim(&before), &slim(&after), &rules);
            }
        }
    }

    fn keeps_promise(
        &self,
        seed: u64,
        version: u64,
        before: &SlimNode,
        after: &SlimNode,
        rules: &BTreeMap<String, (CompiledRule, Duration)>,
    ) {
        let now = self.time_of(version);
        for (rule, since) in rules.values().filter(|(rule, _)| rule.is_claimed() && rule.selects(before)) {
            let known = *since + SEEN_BY_THEN < now;
            if known && before.has_taint(&rule.spec.taint) && !after.has_taint(&rule.spec.taint) {
                let satisfied = evaluate(rule, before, Duration::ZERO).satisfied;
                assert!(satisfied, "seed {seed}: version {version} opens {} on {}", rule.name, before.name);
            }
        }
        let strangers = |node: &SlimNode| -> Vec<String> {
            node.taints.iter().map(NodeTaint::id).filter(|id| id.starts_with("stranger")).collect()
        };
        assert_eq!(strangers(before), strangers(after), "seed {seed}: version {version}");
    }

    /// Every node is as the pure function has it, and every taint has a rule that stands behind it.
    fn is_as_it_should_be(&self, seed: u64, said: &[String]) {
        let objects: Vec<Value> =
            ["a", "b", "c"].iter().filter_map(|name| self.api.object(&format!("{RULES}/{name}"))).collect();
        let rules: Vec<CompiledRule> = objects.iter().map(compiled).collect();
        for rule in &rules {
            assert!(!rule.is_deleting(), "seed {seed}: {} is still there: {said:?}", rule.name);
            assert!(!rule.is_enforced() || rule.is_claimed(), "seed {seed}: {} has no {FINALIZER}", rule.name);
        }
        for n in 0..NODES {
            let Some(object) = self.api.object(&format!("/api/v1/nodes/n{n}")) else { continue };
            let node = slim(&object);
            let decision = decide(&node, &rules, |_| false, Duration::ZERO);
            assert_eq!(decision.write, None, "seed {seed}: {object}: {said:?}");
            for taint in node.taints.iter().filter(|taint| taint.key.starts_with("readiness.k8s.io/")) {
                let stands = |rule: &&CompiledRule| match rule.stage {
                    RuleStage::Enforced { .. } => {
                        rule.selects(&node) && !evaluate(rule, &node, Duration::ZERO).satisfied
                    }
                    RuleStage::DryRun | RuleStage::Suspended => true,
                    RuleStage::Deleting { .. } | RuleStage::Invalid => false,
                };
                let behind = rules.iter().filter(|rule| rule.spec.taint.is(taint)).find(stands);
                assert!(behind.is_some(), "seed {seed}: nobody holds {object}: {said:?}");
            }
            let owned = node.marks.get(OWNED).map_or(0, |_| node.owned().len());
            assert!(owned <= node.taints.len(), "seed {seed}: {object}");
        }
        for (rule, object) in rules.iter().zip(&objects).filter(|(rule, _)| rule.is_claimed()) {
            let nodes = (0..NODES).filter_map(|n| self.api.object(&format!("/api/v1/nodes/n{n}")));
            let matched = nodes.filter(|object| rule.selects(&slim(object))).count();
            assert_eq!(object["status"]["summary"]["matchedNodes"], matched, "seed {seed}: {object}: {said:?}");
        }
    }
}

/// What of a rule counts as a change for nodes: not its status.
fn spec_of(object: Option<&Value>) -> Value {
    let Some(object) = object else { return Value::Null };
    json!([object["spec"], object["metadata"]["finalizers"], object["metadata"]["deletionTimestamp"]])
}

#[tokio::test(start_paused = true)]
async fn the_end_does_not_depend_on_the_way() {
    for seed in 0..SEEDS {
        let (begun, own, marks) = (Instant::now(), Vec::new(), Vec::new());
        let mut script = Script { api: MemoryApi::new(clock), dice: Dice(seed), begun, own, marks };
        for name in ["a", "b"] {
            script.make_rule(name);
        }
        for n in 0..NODES {
            script.make_node(&format!("n{n}"));
        }
        let mut running = Running::start(&script.api, options("p", seed % 2 == 1));
        for _ in 0..STEPS {
            match script.dice.roll(20) {
                0 => {
                    running.task.abort();
                    running = Running::start(&script.api, options("q", seed % 2 == 1));
                }
                1 => {
                    running.stop().await;
                    running = Running::start(&script.api, options("p", seed % 2 == 1));
                }
                2..=7 => script.go_wrong(),
                _ => script.happen(),
            }
            // Now and then it comes to rest.
            let pause = if script.dice.roll(10) == 0 { 200_000 } else { script.dice.roll(2000) };
            script.pass(Duration::from_millis(pause)).await;
        }
        // Longer than Carrick leaves a rule to another controller that it thinks it has seen, and then some.
        script.pass(Duration::from_mins(15)).await;
        let said = running.said.lock().unwrap().clone();
        script.is_as_it_should_be(seed, &said);
        script.judge(seed);
        running.stop().await;
    }
}
