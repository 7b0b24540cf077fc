//! What every renderer prints: one report a machine.
//!
//! The JSON form is an API (`carrick.report/v1`): fields are added, never renamed.

use serde::{Deserialize, Serialize};

use crate::catalogue::About;
use crate::check::{CheckPolicy, Evidence, Finding, Outcome, Subsystem, Verdict};
use crate::fact::Facts;
use crate::join::verify::Until;
use crate::signature::{Phase, Severity};

#[cfg(any(test, feature = "testing"))]
pub mod example;

pub const SCHEMA: &str = "carrick.report/v1";

/// What a verb found out about one machine.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    pub schema: &'static str,
    pub verb: &'static str,
    pub host: String,
    /// The worst of the findings that count.
    pub verdict: Overall,
    pub machine: Machine,
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
    pub phase: Phase,
    /// What is wrong because of a cause: the consequences, not the reason.
    pub symptoms: Vec<Noted>,
    /// What looks bad and is normal at this stage, or is over.
    pub normal: Vec<Noted>,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
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
    /// Commands that mend it now.
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
#[derive(Debug, Serialize)]
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

/// Runs every check on the facts of a machine; what `ignore` names does not count.
pub fn check(facts: &Facts, policy: &CheckPolicy, ignore: &Ignore) -> Report {
    let mut report = judge(facts, policy, ignore);
    offer_fixes(facts, &mut report.findings);
    report
}

/// As [`check`], of facts that may be pieces out of a text: what `--fix` would do there cannot be told.
pub(crate) fn judge(facts: &Facts, policy: &CheckPolicy, ignore: &Ignore) -> Report {
    let findings = crate::check::run(facts, policy).into_iter().map(|finding| judged(finding, ignore)).collect();
    Report { machine: machine(facts), ..of("check", &facts.host, findings) }
}

/// What a verb found: nothing is known of the machine, and no cause is named yet.
pub fn of(verb: &'static str, host: &str, findings: Vec<Judged>) -> Report {
    let seen = |name: &Subsystem| verb == "check" || findings.iter().any(|finding| finding.subsystem == *name);
    let subsystems = Subsystem::ALL.into_iter().filter(seen).map(|name| subsystem(name, &findings)).collect();
    Report {
        schema: SCHEMA,
        verb,
        host: host.to_owned(),
        verdict: overall(&findings),
        machine: Machine::default(),
        causes: Vec::new(),
        findings,
        subsystems,
        reading: None,
        reached: None,
    }
}

/// Where `check --fix` would mend something, that is the first remedy. On a control plane it changes nothing.
fn offer_fixes(facts: &Facts, findings: &mut [Judged]) {
    if facts.control_plane_marks().is_ok_and(|marks| !marks.is_empty()) {
        return;
    }
    let wrong = |finding: &&mut Judged| matches!(finding.verdict, Outcome::Fail | Outcome::Warn) && !finding.ignored;
    for finding in findings.iter_mut().filter(wrong) {
        if let Some(fix) = crate::fix::offered(facts, finding.id) {
            finding.remedy.insert(0, format!("carrick check --fix    # {}", fix.does));
        }
    }
}

pub fn judged(Finding { check, verdict }: Finding, ignore: &Ignore) -> Judged {
    let ignored = verdict.outcome > Outcome::Pass && ignore.covers(check.id);
    Judged { ignored, ..Judged::of(check.id, check.subsystem, verdict) }
}

impl Judged {
    /// A verdict as it is printed.
    pub fn of(id: &'static str, subsystem: Subsystem, verdict: Verdict) -> Self {
        let Verdict { outcome, says, evidence, remedy, explains, may_pass, means, missing: _ } = verdict;
        let evidence = evidence
            .into_iter()
            .map(|seen| Evidence { source: printable(&seen.source), text: printable(&seen.text), ..seen })
            .collect();
        let remedy = remedy.iter().map(|command| printable(command)).collect();
        let title = printable(&says);
        Judged { id, subsystem, verdict: outcome, title, evidence, remedy, explains, ignored: false, may_pass, means }
    }
}

/// What was read on a machine, fit for a terminal: a bundle from elsewhere must not be able to move its cursor.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '\t' {
                ' '
            } else if c.is_control() {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
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

/// What the facts say the machine is.
pub fn machine(facts: &Facts) -> Machine {
    Machine {
        os: facts.os_release().ok().map(|os| os.pretty_name),
        containerd: facts.containerd_version().ok().map(|version| version.to_string()),
        kubelet: facts.kubelet_version().ok().map(|version| version.to_string()),
    }
}

/// What the operator says does not count: ids, kubeadm's names, or `all`.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    all: bool,
    ids: Vec<&'static str>,
}

impl Ignore {
    /// Names as typed; an unknown one is refused, with the nearest that is known.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut ignore = Ignore::default();
        for name in names {
            if name.eq_ignore_ascii_case("all") {
                ignore.all = true;
                continue;
            }
            let before = ignore.ids.len();
            ignore.ids.extend(crate::check::find(name).map(|registered| registered.check.id));
            if ignore.ids.len() == before {
                let hint =
                    nearest(name, crate::check::ids()).map(|id| format!("; did you mean {id}?")).unwrap_or_default();
                return Err(format!("{name:?} is no check{hint}"));
            }
        }
        Ok(ignore)
    }

    pub fn covers(&self, id: &str) -> bool {
        self.all || self.ids.contains(&id)
    }
}

/// The one of these ids that is closest to what was typed.
pub fn nearest<'a>(typed: &str, ids: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let (distance, id) = ids.into_iter().map(|id| (distance(&typed, id), id)).min()?;
    (distance <= typed.len().max(3) / 2).then_some(id)
}

/// How many letters must be added, dropped or changed; a typed last part (`swap`) counts as the whole id.
fn distance(typed: &str, id: &str) -> usize {
    let last = id.rsplit('.').next().unwrap_or(id);
    levenshtein(typed, id).min(levenshtein(typed, last) + 1)
}

fn levenshtein(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, right) in b.iter().enumerate() {
            let change = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;

    #[test]
    fn a_machine_nothing_is_known_about_is_unknown() {
        let report = check(&facts(), &CheckPolicy::default(), &Ignore::default());
        assert_eq!(report.verdict, Overall::Unknown);
        assert!(report.subsystems.iter().all(|subsystem| subsystem.verdict == Health::NotSeen));
    }

    #[test]
    fn what_is_ignored_is_shown_and_does_not_count() {
        let swap = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        let facts = facts().with_file("/proc/swaps", swap);
        let verdict = |ignore: &[&str]| {
            check(&facts, &CheckPolicy::default(), &Ignore::of(ignore.iter().copied()).unwrap()).verdict
        };
        assert_eq!(verdict(&[]), Overall::Fail);
        assert_eq!(verdict(&["machine.swap"]), Overall::Unknown);
        assert_eq!(verdict(&["swap"]), Overall::Unknown);
        assert_eq!(verdict(&["ALL"]), Overall::Unknown);
        let report = check(&facts, &CheckPolicy::default(), &Ignore::of(["Swap"]).unwrap());
        let swap = report.findings.iter().find(|finding| finding.id == "machine.swap").unwrap();
        assert_eq!((swap.verdict, swap.ignored), (Outcome::Fail, true));
    }

    #[test]
    fn a_fix_is_the_first_remedy_where_it_would_mend_something() {
        let off = || facts().with_file("/proc/sys/net/ipv4/ip_forward", "0\n");
        let remedy = |facts: &Facts, ignore: &[&str]| {
            let ignore = Ignore::of(ignore.iter().copied()).unwrap();
            let report = check(facts, &CheckPolicy::default(), &ignore);
            report.findings.into_iter().find(|finding| finding.id == "kernel.ip-forward").unwrap().remedy.remove(0)
        };
        let fix = "carrick check --fix    # turns it on, now and after a reboot";
        let by_hand = "sysctl -w net.ipv4.ip_forward=1";
        assert_eq!(remedy(&off(), &[]), fix);
        assert_eq!(remedy(&off(), &["kernel.ip-forward"]), by_hand);
        let control_plane = off().with_dir("/etc/kubernetes", &[("-rw-------", "admin.conf")]);
        assert_eq!(remedy(&control_plane, &[]), by_hand);
    }

    #[test]
    fn what_was_read_cannot_steer_a_terminal() {
        let swap = "Filename Type Size Used Priority\n/dev/\x1b[2Jsda2 partition 1 0 -2\n";
        let report = check(&facts().with_file("/proc/swaps", swap), &CheckPolicy::default(), &Ignore::default());
        let swap = report.findings.iter().find(|finding| finding.id == "machine.swap").unwrap();
        assert_eq!(swap.evidence[0].text, "/dev/\u{fffd}[2Jsda2 partition 1 0 -2");
    }

    #[test]
    fn a_name_that_is_no_check_is_refused_with_the_nearest() {
        assert_eq!(
            Ignore::of(["machine.swpa"]).unwrap_err(),
            "\"machine.swpa\" is no check; did you mean machine.swap?"
        );
        assert_eq!(nearest("swapp", crate::check::ids()), Some("machine.swap"));
        assert_eq!(nearest("quite another thing altogether", crate::check::ids()), None);
    }
}
