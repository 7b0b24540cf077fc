//! What Carrick prints as JSON has exactly the keys that docs/reference says: no other one, none that is required missing, and
//! none that no example shows. `cargo xtask docs --check` holds docs/reference against the types.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // Files of a test.

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_core::StopSignal;
use carrick_core::check::CheckPolicy;
use carrick_core::fact::example::troubled_worker;
use carrick_core::join::ending::WhatRemains;
use carrick_core::join::event_line::{EventKind, EventLine};
use carrick_core::join::state::Stage;
use carrick_core::join::verify::Until;
use carrick_core::judge::{self, Ignore};
use carrick_core::plan::edit::Set;
use carrick_core::plan::printed::{PlanReport, PlannedStep};
use carrick_core::plan::{Edit, Effect, PlaceState, RunningContainers, Step};
use carrick_core::record::printed::{HistoryLine, JOIN, JoinEnd, JoinLine, RunLine};
use carrick_core::record::{self, Damage, JournalLine, Mark, PastRun, Recorded, Run};
use carrick_core::report::{self, Report, example};
use carrick_core::testing::every_effect;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

#[test]
fn events_are_as_documented() {
    let kinds = [EventKind::Reached, EventKind::Waits, EventKind::Says, EventKind::Again];
    let line = |stage, kind| {
        let limit = if stage < Stage::Joined { Duration::from_mins(1) } else { Duration::ZERO };
        EventLine::new(kind, stage, Duration::from_millis(400), limit, "kubeadm to end", 1)
    };
    let lines: Vec<EventLine> = Stage::ALL.into_iter().flat_map(|stage| kinds.map(|kind| line(stage, kind))).collect();
    let schema = Schema::read("event");
    schema.holds_for(&lines);
    let keys = ["schema", "event", "state", "elapsed", "deadline", "evidence", "attempt"];
    assert_eq!(schema.0["required"], json!(keys), "none is ever left out");
}

#[test]
fn plans_are_as_documented() {
    let states = states();
    let step = |(at, effect): (usize, Effect)| {
        let step = Step { effect, why: vec!["kernel.ip-forward".into()] };
        PlannedStep::new(&step, &states[at % states.len()], vec!["+ a".into()])
    };
    let comment_out = Edit::CommentOut { lines: vec!["/swap.img none swap sw 0 0".into()] };
    let remove_key = Edit::Toml { set: vec![Set { key: vec!["plugins".into()], to: String::new() }] };
    let both = Edit::Both { edits: vec![comment_out, remove_key] };
    let more = [
        Effect::Edit { path: "/etc/fstab".into(), edit: both },
        Effect::Write { path: "/etc/cni/net.d/10-a.conf".into(), text: "{}".into(), mode: 0o600, in_place: true },
        Effect::RestartRuntime { unit: "crio".into(), running: RunningContainers::default() },
    ];
    let steps: Vec<PlannedStep> = every_effect().into_iter().chain(more).enumerate().map(step).collect();
    let mut refused = PlanReport { refused: Some("refused".into()), ..PlanReport::new("w1", steps.clone()) };
    refused.steps[0].refused = Some("it is protected".into());
    let reset = PlanReport { stays: Some(vec!["/etc/cni/net.d/a/".into()]), run: Some(7), ..refused.clone() };
    Schema::read("plan").holds_for(&[PlanReport::new("w1", Vec::new()), PlanReport::new("w1", steps), refused, reset]);
}

#[test]
fn histories_are_as_documented() {
    let (schema, at) = (record::SCHEMA.to_owned(), Timestamp::UNIX_EPOCH);
    let comment_out = Edit::CommentOut { lines: vec!["/swap.img none swap sw 0 0".into()] };
    let toml = Edit::Toml { set: vec![Set { key: vec!["plugins".into()], to: String::new() }] };
    let more = [
        Effect::Edit { path: "/etc/fstab".into(), edit: Edit::Both { edits: vec![comment_out, toml] } },
        Effect::Write { path: "/etc/cni/net.d/10-a.conf".into(), text: "{}".into(), mode: 0o600, in_place: true },
        Effect::RestartRuntime { unit: "crio".into(), running: RunningContainers::default() },
    ];
    let states = states();
    let step = |(at, effect): (usize, Effect)| Recorded {
        step: Step { effect, why: vec!["kernel.ip-forward".into()] },
        was: states[at % states.len()].clone(),
        becomes: PlaceState::Moment,
    };
    let steps: Vec<Recorded> = every_effect().into_iter().chain(more).enumerate().map(step).collect();
    let marks = [Mark::Begun, Mark::Done, Mark::Failed, Mark::Finished, Mark::Final, Mark::UndoBegun, Mark::Undone];
    let line = |mark| JournalLine { at, step: Some(0), mark, error: "no".into() };
    let damage = Some(Damage { line: 9, why: "expected value".into() });
    let run = |continues, steps, lines, damage| {
        let (verb, by, version) = ("reset".into(), "root".into(), "1".into());
        let run = Run { schema: schema.clone(), run: 7, verb, by, begun: at, version, continues, steps };
        HistoryLine::Run(RunLine::new(&PastRun { run, lines, damage }))
    };
    let ends = [JoinEnd::Joined, JoinEnd::Failed, JoinEnd::CutOff, JoinEnd::Superseded, JoinEnd::AtWork];
    let join = |state| {
        let (log, next) = ("/var/lib/carrick/joins/0.log".into(), vec!["carrick join".into()]);
        let (stage, runs) = (Stage::Joining, vec![7]);
        HistoryLine::Join(JoinLine { schema: JOIN, begun: at, state, stage, attempt: 1, runs, log, next })
    };
    let full = run(Some(6), steps, marks.map(line).to_vec(), damage);
    let lines: Vec<HistoryLine> =
        [run(None, Vec::new(), Vec::new(), None), full].into_iter().chain(ends.map(join)).collect();
    Schema::read("history").holds_for(&lines);
}

/// One of each.
fn states() -> [PlaceState; 6] {
    let file = PlaceState::File { sha256: "0".repeat(64), mode: 0o644, uid: 0, gid: 0 };
    let dir = PlaceState::Dir { mode: 0o755, uid: 0, gid: 0 };
    let link = PlaceState::Link { to: "/dev/null".into() };
    [PlaceState::Absent, file, dir, link, PlaceState::value("0"), PlaceState::Moment]
}

#[test]
fn reports_are_as_documented() {
    let check = |ignore: Ignore| judge::check(&troubled_worker(), &CheckPolicy::default(), &ignore);
    let verified = || report::Reached { until: Until::default(), reached: None };
    let verify = Report { reached: Some(verified()), ..check(Ignore::of(["all"]).unwrap()) };
    let remains = WhatRemains::PutBack.told(Some(StopSignal::Interrupt));
    let join = Report { remains: Some(remains), ..check(Ignore::of(["all"]).unwrap()) };
    Schema::read("report").holds_for(&[check(Ignore::default()), verify, join, example::standalone_kubelet()]);
}

#[test]
fn what_is_not_as_documented_is_found() {
    let said = json!({"$defs": {"E": {"type": "string", "enum": ["a"]}}, "type": "object", "required": ["a"],
        "properties": {"a": {"$ref": "#/$defs/E"}, "b": {"type": ["number", "null"]}}});
    for (value, complaint) in [
        (json!({"a": "a", "b": null}), None),
        (json!({"b": 1.5}), Some("at : a is missing")),
        (json!({"a": "b"}), Some(r#"at /a: "b" is none of ["a"]"#)),
        (json!({"a": "a", "b": "c"}), Some(r#"at /b: "c" is not of type ["number","null"]"#)),
        (json!({"a": "a", "c": 1}), Some("at : c is not documented")),
    ] {
        let found = Schema(said.clone()).complaint(&value);
        assert_eq!(found.err().as_deref(), complaint, "{value}");
    }
    let unshown = Schema(said).unshown(&[json!({"a": "a"})]);
    assert_eq!(unshown, ["/properties/b"]);
}

/// As much of JSON Schema as docs/reference uses; a keyword that is not known here is a complaint.
struct Schema(Value);

/// What a value showed of a schema.
#[derive(Default)]
struct Shown {
    /// The keys that are documented for this value itself.
    keys: BTreeSet<String>,
    /// Every documented property, anywhere, that was there, by its address.
    properties: BTreeSet<*const Value>,
}

impl Schema {
    fn read(name: &str) -> Self {
        let path = format!("{}/../../docs/reference/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        Schema(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    #[track_caller]
    fn holds_for(&self, examples: &[impl Serialize]) {
        let examples: Vec<Value> = examples.iter().map(|example| json!(example)).collect();
        for example in &examples {
            self.complaint(example).unwrap_or_else(|complaint| panic!("{complaint}\n{example:#}"));
        }
        assert_eq!(self.unshown(&examples), [""; 0], "documented, and in no example");
    }

    fn complaint(&self, value: &Value) -> Result<Shown, String> {
        self.whole(&self.0, value, "")
    }

    fn unshown(&self, examples: &[Value]) -> Vec<String> {
        let shown = examples.iter().filter_map(|example| self.complaint(example).ok());
        let shown: BTreeSet<*const Value> = shown.flat_map(|shown| shown.properties).collect();
        let mut all = Vec::new();
        properties(&self.0, "", &mut all);
        all.into_iter()
            .filter(|(_, property)| !shown.contains(&std::ptr::from_ref(*property)))
            .map(|(path, _)| path)
            .collect()
    }

    /// A value, and nothing in it that is not documented.
    fn whole(&self, schema: &Value, value: &Value, at: &str) -> Result<Shown, String> {
        let shown = self.part(schema, value, at)?;
        let undocumented = value.as_object().and_then(|it| it.keys().find(|key| !shown.keys.contains(*key)));
        undocumented.map_or(Ok(shown), |key| Err(format!("at {at}: {key} is not documented")))
    }

    /// A value, of which other parts of the schema may document more.
    fn part(&self, schema: &Value, value: &Value, at: &str) -> Result<Shown, String> {
        let mut shown = Shown::default();
        let Some(schema) = schema.as_object() else { return Ok(shown) };
        for (keyword, said) in schema {
            match keyword.as_str() {
                "$ref" => {
                    let to = said.as_str().and_then(|to| to.strip_prefix('#')).and_then(|to| self.0.pointer(to));
                    shown.add(self.part(to.ok_or(format!("at {at}: {said} leads nowhere"))?, value, at)?);
                }
                "type" if !is_of_type(value, said) => return Err(format!("at {at}: {value} is not of type {said}")),
                "const" if value != said => return Err(format!("at {at}: {value} is not {said}")),
                "enum" if !said.as_array().unwrap().contains(value) => {
                    return Err(format!("at {at}: {value} is none of {said}"));
                }
                "type" | "const" | "enum" | "$schema" | "$defs" | "title" | "description" | "format" | "default"
                | "minimum" => {}
                "required" => {
                    let missing =
                        said.as_array().unwrap().iter().find(|key| value.get(key.as_str().unwrap()).is_none());
                    missing.map_or(Ok(()), |key| Err(format!("at {at}: {} is missing", key.as_str().unwrap())))?;
                }
                "properties" => shown.add(self.properties(said.as_object().unwrap(), value, at)?),
                "items" => {
                    for (n, item) in value.as_array().into_iter().flatten().enumerate() {
                        shown.properties.extend(self.whole(said, item, &format!("{at}/{n}"))?.properties);
                    }
                }
                "oneOf" | "anyOf" => {
                    let each = said.as_array().unwrap().iter().map(|one| self.part(one, value, at));
                    let (fit, not): (Vec<_>, Vec<_>) = each.partition(Result::is_ok);
                    if fit.is_empty() || keyword == "oneOf" && fit.len() > 1 {
                        let why: Vec<String> = not.into_iter().filter_map(Result::err).collect();
                        return Err(format!("at {at}: {} of {keyword} fit: {}", fit.len(), why.join("; ")));
                    }
                    fit.into_iter().flatten().for_each(|one| shown.add(one));
                }
                _ => return Err(format!("at {at}: this test does not know the keyword {keyword}")),
            }
        }
        Ok(shown)
    }

    fn properties(&self, documented: &Map<String, Value>, value: &Value, at: &str) -> Result<Shown, String> {
        let mut shown = Shown { keys: documented.keys().cloned().collect(), ..Shown::default() };
        for (key, schema) in documented {
            let Some(value) = value.get(key) else { continue };
            shown.properties.extend(self.whole(schema, value, &format!("{at}/{key}"))?.properties);
            shown.properties.insert(schema);
        }
        Ok(shown)
    }
}

impl Shown {
    fn add(&mut self, more: Shown) {
        self.keys.extend(more.keys);
        self.properties.extend(more.properties);
    }
}

fn is_of_type(value: &Value, said: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    };
    said.as_array().map_or_else(|| is(said), |any| any.iter().any(is))
}

/// Every documented property, with the path to it.
fn properties<'a>(schema: &'a Value, path: &str, found: &mut Vec<(String, &'a Value)>) {
    if let Some(documented) = schema.get("properties").and_then(Value::as_object) {
        found.extend(documented.iter().map(|(key, property)| (format!("{path}/properties/{key}"), property)));
    }
    match schema {
        Value::Object(all) => {
            all.iter().for_each(|(key, inner)| properties(inner, &format!("{path}/{key}"), found));
        }
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(n, inner)| properties(inner, &format!("{path}/{n}"), found));
        }
        _ => {}
    }
}
