//! What every renderer prints: one report a machine. Only its shape: who finds out what is in it, [`crate::judge`] and others, is
//! not known here.
//!
//! The JSON form is an API (`carrick.report/v1`): fields are added, never renamed.

use serde::{Deserialize, Serialize};

use crate::catalogue::About;
use crate::check::{Evidence, Outcome, Subsystem, Verdict};
use crate::join::ending::WhatRemains;
use crate::join::verify::Until;
use crate::shown;
use crate::signature::{Phase, Severity};

#[cfg(any(test, feature = "testing"))]
pub mod example;

pub const SCHEMA: &str = "carrick.report/v1";

/// What a verb found out about one machine.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    pub verb: &'static str,
    pub host: String,
    /// The worst of the findings that count.
    pub verdict: Overall,
    pub machine: MachineVersions,
    /// Root causes, the first first; empty where nothing is wrong, and for verbs that look for none.
    pub causes: Vec<Cause>,
    pub findings: Vec<Judged>,
    pub subsystems: Vec<SubsystemReport>,
    /// What `diagnose` read out of text.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
    /// What `verify` was asked for, and how far the evidence reaches.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// How `join` leaves a machine that it could not join, or not prove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remains: Option<Remainder>,
}

/// How a machine stands after a join that did not come to its end, and what goes on from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remainder {
    pub state: WhatRemains,
    /// The same for people: how the machine stands, and what each command does about it.
    pub says: String,
    /// The commands that go on from there.
    pub next: Vec<&'static str>,
    /// The signal that was heeded: SIGINT, SIGTERM or SIGHUP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<&'static str>,
}

/// How far a machine has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reached {
    /// How far was far enough.
    pub until: Until,
    /// How far it got; null where not even the Node is proven to be this machine's.
    pub reached: Option<Until>,
}

/// What was read out of text, beside the causes.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// How far the machine had come by the end of the capture.
    pub phase: Option<Phase>,
    /// What is wrong because of a cause: the consequences, not the reason.
    pub symptoms: Vec<Noted>,
    /// What looks bad and is normal at this stage, or is over.
    pub normal: Vec<Noted>,
    /// What reads like an error and is not known: the last, then the most frequent.
    pub unrecognised: Vec<UnrecognisedError>,
    /// What was said of other nodes than this one.
    pub elsewhere: Vec<Elsewhere>,
    pub timeline: Vec<TimelineEvent>,
    /// The pod network on this machine, piece by piece.
    pub pod_network: Vec<Piece>,
    /// What to run where the evidence is not enough.
    pub next: Vec<String>,
    pub bytes: u64,
    pub lines: u64,
}

/// One piece of the pod network, and how it stands with it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Piece {
    pub what: &'static str,
    /// What was found, or why it is not known.
    pub says: String,
    pub known: bool,
    /// Not as it will be, and right so at this stage.
    #[serde(skip)]
    pub expected: bool,
}

/// Something that was seen and is not the root.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Noted {
    pub id: String,
    pub subsystem: Subsystem,
    pub title: String,
    /// Why it is a consequence, or why it does not count.
    pub why: String,
    pub count: u64,
    pub evidence: Vec<Evidence>,
    /// Ids of the causes it follows from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// A line that reads like an error, and how often it was there but for its numbers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnrecognisedError {
    pub count: u64,
    pub evidence: Evidence,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Elsewhere {
    pub node: String,
    pub seen: Vec<Noted>,
}

/// Something that happened at a known time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineEvent {
    /// RFC 3339, UTC.
    pub at: String,
    /// Who says so: kubeadm, kubelet, containerd, systemd, …
    pub program: String,
    pub id: String,
    pub severity: Severity,
    pub title: String,
    /// How often it was seen, from `at` on, and until when.
    pub count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    pub evidence: Evidence,
    /// Seconds without any event before this one, where that is long enough to be noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Overall {
    Pass,
    Unknown,
    Warn,
    Fail,
}

/// What the machine is, as far as it is known.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Machine"))]
pub struct MachineVersions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containerd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<String>,
}

/// Why something does not work.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    pub id: String,
    pub confidence: Confidence,
    pub title: String,
    pub why: String,
    pub evidence: Vec<Evidence>,
    /// Commands that fix it now.
    pub remedy: Vec<String>,
    /// What keeps it from coming again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prevent: Vec<String>,
    /// Ids of what was seen because of it.
    pub explains: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Confidence {
    Possible,
    Likely,
    Certain,
}

/// One check's finding.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judged {
    pub id: &'static str,
    pub subsystem: Subsystem,
    pub verdict: Outcome,
    /// What was found, in one sentence.
    pub title: String,
    pub evidence: Vec<Evidence>,
    pub remedy: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explains: Vec<&'static str>,
    /// The operator said this does not count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    /// [`Verdict::may_pass`].
    #[serde(skip)]
    pub may_pass: bool,
    /// [`Verdict::means`].
    #[serde(skip)]
    pub means: Option<About<'static>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubsystemReport {
    pub name: Subsystem,
    pub verdict: Health,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Health {
    Healthy,
    Broken,
    Degraded,
    /// Not as it will be, and right so at this stage.
    Expected,
    NotSeen,
}

/// What a verb found: nothing is known of the machine, and no cause is named yet.
pub fn of(verb: &'static str, host: &str, findings: Vec<Judged>) -> Report {
    let seen = |name: &Subsystem| verb == "check" || findings.iter().any(|finding| finding.subsystem == *name);
    let subsystems = Subsystem::ALL.into_iter().filter(seen).map(|name| subsystem(name, &findings)).collect();
    Report {
        schema: SCHEMA,
        verb,
        host: shown::in_line(host),
        verdict: overall(&findings),
        machine: MachineVersions::default(),
        causes: Vec::new(),
        findings,
        subsystems,
        reading: None,
        reached: None,
        remains: None,
    }
}

impl Judged {
    /// A verdict as it is printed.
    pub fn of(id: &'static str, subsystem: Subsystem, verdict: Verdict) -> Self {
        let Verdict { outcome, says, evidence, remedy, explains, may_pass, means, missing: _ } = verdict;
        let evidence = evidence
            .into_iter()
            .map(|seen| Evidence { source: shown::in_line(&seen.source), text: shown::in_line(&seen.text), ..seen })
            .collect();
        let remedy = remedy.iter().map(|command| shown::in_line(command)).collect();
        let title = shown::in_line(&says);
        Judged { id, subsystem, verdict: outcome, title, evidence, remedy, explains, ignored: false, may_pass, means }
    }
}

pub fn overall(findings: &[Judged]) -> Overall {
    let worst = findings.iter().filter(|finding| !finding.ignored).map(|finding| finding.verdict).max();
    match worst {
        Some(Outcome::Fail) => Overall::Fail,
        Some(Outcome::Warn) => Overall::Warn,
        Some(Outcome::Pass) => Overall::Pass,
        // Nothing but skipped checks is nothing seen: never "pass".
        Some(Outcome::Unknown | Outcome::Skip) | None => Overall::Unknown,
    }
}

fn subsystem(name: Subsystem, findings: &[Judged]) -> SubsystemReport {
    let of: Vec<&Judged> = findings.iter().filter(|finding| finding.subsystem == name).collect();
    let worst = of.iter().filter(|finding| !finding.ignored).max_by_key(|finding| finding.verdict);
    let passed = of.iter().filter(|finding| finding.verdict == Outcome::Pass).count();
    let (verdict, why) = match worst.map(|worst| (worst.verdict, worst)) {
        Some((Outcome::Fail, worst)) => (Health::Broken, worst.title.clone()),
        Some((Outcome::Warn, worst)) => (Health::Degraded, worst.title.clone()),
        Some((Outcome::Pass, _)) => (Health::Healthy, format!("{passed} checks pass")),
        Some((Outcome::Unknown | Outcome::Skip, worst)) => (Health::NotSeen, worst.title.clone()),
        None => (Health::NotSeen, "nothing was looked at".to_owned()),
    };
    SubsystemReport { name, verdict, why }
}
