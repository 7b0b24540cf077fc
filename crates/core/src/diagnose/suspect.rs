//! What may be the cause: signatures that were seen and checks that fail, under one id for one thing.
//!
//! A line that is normal at this stage, that is over, or that did not last is no suspect; it is listed with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::past::Lapsed;
use super::progress::ReachedPhases;
use super::scan::{Hit, Moment, Sighting};
use crate::check::{Evidence, Outcome, Subsystem};
use crate::report::{Confidence, Judged, Noted};
use crate::signature::{Library, Phase, Severity, Signature};

/// How much evidence stands under one cause; the rest is in the text itself.
const EVIDENCE: usize = 6;

#[derive(Clone, Debug)]
pub(super) struct Suspect {
    pub id: String,
    /// The signature that speaks, where it is not a check.
    pub signature: Option<String>,
    pub subsystem: Subsystem,
    pub title: String,
    pub why: String,
    pub severity: Severity,
    pub certainty: Confidence,
    pub evidence: Vec<Evidence>,
    pub remedy: Vec<String>,
    pub prevent: Vec<String>,
    pub next: Vec<String>,
    /// Ids of what it brings about, directly.
    pub explains: BTreeSet<String>,
    pub count: u64,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// A check of facts says so, not only a line of text.
    pub checked: bool,
    /// It is only a warning, and stands on a line that reports an error.
    pub failing: bool,
}

/// What was seen, weighed.
#[derive(Debug, Default)]
pub(super) struct Weighed {
    pub suspects: Vec<Suspect>,
    pub excused: Vec<Excused>,
}

/// A line that is no suspect, and why not.
#[derive(Debug)]
pub(super) struct Excused {
    pub noted: Noted,
    pub excuse: Excuse,
}

/// Why a line does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Excuse {
    /// It never does; what it means.
    Harmless(String),
    /// Not before this phase: it is how a machine looks that has not come so far.
    NotYet(Phase),
    /// Every start shows it, for up to so many seconds.
    Starting(u32),
    /// It is over; what says so.
    Over(String),
}

impl Excuse {
    /// Whether it is how the machine should look at its stage, and no more than that.
    pub(super) fn is_of_the_stage(&self) -> bool {
        match self {
            Excuse::NotYet(_) | Excuse::Starting(_) => true,
            Excuse::Harmless(_) | Excuse::Over(_) => false,
        }
    }
}

impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excuse::Harmless(meaning) => write!(f, "harmless: {meaning}"),
            Excuse::NotYet(Phase::Joined) => f.write_str("normal before the node has joined"),
            Excuse::NotYet(Phase::Before | Phase::Joining) => f.write_str("normal before a join"),
            Excuse::Starting(seconds) => write!(f, "normal while starting, for up to {seconds} s"),
            Excuse::Over(sign) => write!(f, "over: {sign}"),
        }
    }
}

/// Weighs what was seen on one node.
pub(super) fn weigh(
    library: &Library,
    sightings: &[&Sighting],
    findings: &[Judged],
    progress: &ReachedPhases,
    lapsed: &Lapsed,
) -> Weighed {
    let mut suspects: BTreeMap<String, Suspect> = BTreeMap::new();
    let mut excused = Vec::new();
    let good: Vec<&Sighting> =
        sightings.iter().copied().filter(|one| library.get(one.signature).severity <= Severity::Good).collect();
    for sighting in sightings {
        let signature = library.get(sighting.signature);
        if signature.severity <= Severity::Good {
            continue;
        }
        if let Some(excuse) = excuse(library, sighting, &good, findings, progress, lapsed) {
            excused.push(Excused { noted: noted(signature, sighting, excuse.to_string()), excuse });
            continue;
        }
        let mut suspect = of_sighting(signature, sighting, findings);
        // Nothing tells whether the machine had come so far that it matters.
        if signature.phase > Phase::Before && progress.end().is_none() {
            suspect.certainty = suspect.certainty.min(Confidence::Likely);
        }
        merge(&mut suspects, suspect);
    }
    let counts = |finding: &&Judged| !finding.ignored && matches!(finding.verdict, Outcome::Fail | Outcome::Warn);
    for finding in findings.iter().filter(counts) {
        merge(&mut suspects, of_finding(finding));
    }
    // What looks like a failure and is none comes before plain noise.
    excused.sort_by_key(|it| matches!(it.excuse, Excuse::Harmless(_)));
    Weighed { suspects: suspects.into_values().collect(), excused }
}

/// Why a line does not count, where it does not.
fn excuse(
    library: &Library,
    sighting: &Sighting,
    good: &[&Sighting],
    findings: &[Judged],
    progress: &ReachedPhases,
    lapsed: &Lapsed,
) -> Option<Excuse> {
    let signature = library.get(sighting.signature);
    if signature.severity == Severity::Benign {
        let said = sighting.hits.first().map(|hit| hit.why.clone());
        return Some(Excuse::Harmless(said.unwrap_or_else(|| signature.cause.clone())));
    }
    if progress.at(sighting.last).is_some_and(|reached| reached < signature.phase) {
        return Some(Excuse::NotYet(signature.phase));
    }
    let clears = |sign: &&&Sighting| {
        signature.cleared_by.contains(&library.get(sign.signature).id) && comes_after(sign, sighting)
    };
    if let Some(sign) = good.iter().find(clears) {
        return Some(Excuse::Over(format!("later {}", library.get(sign.signature).title)));
    }
    if let Some(what) = settled_since(library, sighting, good, lapsed) {
        return Some(Excuse::Over(what.to_owned()));
    }
    if lapsed.is_silent(signature, sighting) {
        return Some(Excuse::Over("the kubelet tries again within minutes, and has not said it again".to_owned()));
    }
    let settled = passes(findings, signature.cause_id())
        && signature.otherwise.as_deref().is_none_or(|otherwise| passes(findings, otherwise));
    if settled {
        return Some(Excuse::Over(format!("{} passes now", signature.cause_id())));
    }
    let seconds = signature.lasts?;
    let lasts = SignedDuration::from_secs(i64::from(seconds));
    let lasted = match (sighting.first, sighting.last) {
        (Some(first), Some(last)) => last.duration_since(first) >= lasts,
        // Without times nobody can say that it did not last; once is not lasting.
        _ => sighting.count > 1,
    };
    (!lasted).then_some(Excuse::Starting(seconds))
}

/// What has become of every pod that something was said of: it is gone, or what could not be set up has started. A container that
/// crashes has started, too: of that a start says nothing.
fn settled_since(library: &Library, sighting: &Sighting, good: &[&Sighting], lapsed: &Lapsed) -> Option<&'static str> {
    let is_setup =
        |hit: &Hit| ["andbox", "network for", "ull image", "ImagePull"].iter().any(|words| hit.text.contains(words));
    let started = |pod: &String, failed: &Moment| {
        let signs = good.iter().filter(|sign| STARTED.contains(&library.get(sign.signature).id.as_str()));
        signs.filter_map(|sign| sign.pods.get(pod)).any(|since| since.comes_after(failed))
    };
    if sighting.of_other_pods || sighting.pods.is_empty() {
        return None;
    }
    let stay: Vec<_> = sighting.pods.iter().filter(|(pod, failed)| !lapsed.is_gone(pod, failed)).collect();
    if stay.is_empty() {
        return Some("the pods it was said of are not on this node any more");
    }
    let have_started = sighting.hits.iter().all(is_setup) && stay.iter().all(|(pod, failed)| started(pod, failed));
    have_started.then_some("the pods it was said of have started since")
}

/// Signs of one pod, not of the node.
const STARTED: [&str; 2] = ["pod.started", "pod.sandbox-created"];

/// The sign came later: by its time; in one text without times by its place. Otherwise nobody can say, and nothing is past.
fn comes_after(sign: &Sighting, sighting: &Sighting) -> bool {
    match (sign.last, sighting.last, sign.hits.last(), sighting.hits.last()) {
        (Some(sign), Some(sighting), ..) => sign >= sighting,
        (_, _, Some(sign), Some(hit)) if sign.source == hit.source => sign.line >= hit.line,
        _ => false,
    }
}

fn passes(findings: &[Judged], id: &str) -> bool {
    findings.iter().any(|finding| finding.id == id && finding.verdict == Outcome::Pass)
}

/// Where the check that judges the same passes, it is what the signature says it is otherwise.
fn of_sighting(signature: &Signature, sighting: &Sighting, findings: &[Judged]) -> Suspect {
    let last = sighting.hits.last();
    let otherwise = signature.otherwise.as_deref().filter(|_| passes(findings, signature.cause_id()));
    let id = otherwise.unwrap_or_else(|| signature.cause_id());
    let own = (id != signature.id).then(|| signature.id.clone());
    let inferred = if otherwise.is_some() { Confidence::Likely } else { Confidence::Certain };
    Suspect {
        id: id.to_owned(),
        signature: Some(signature.id.clone()),
        subsystem: signature.subsystem,
        title: signature.title.clone(),
        why: last.map_or_else(|| signature.cause.clone(), |hit| hit.why.clone()),
        severity: signature.severity,
        certainty: signature.certainty.min(inferred),
        evidence: sighting.hits.iter().map(evidence).collect(),
        remedy: last.map_or_else(|| signature.remedy.clone(), |hit| hit.remedy.clone()),
        prevent: signature.prevent.clone(),
        next: signature.next.clone(),
        explains: signature.explains.iter().cloned().chain(own).collect(),
        count: sighting.count,
        first: sighting.first,
        last: sighting.last,
        checked: false,
        failing: sighting.failing,
    }
}

fn of_finding(finding: &Judged) -> Suspect {
    let severity = if finding.verdict == Outcome::Fail { Severity::Fatal } else { Severity::Warning };
    let own = (finding.id, finding.subsystem);
    let (id, subsystem) = finding.means.map_or(own, |about| (about.id, about.subsystem));
    Suspect {
        id: id.to_owned(),
        signature: None,
        subsystem,
        title: finding.title.clone(),
        why: finding.title.clone(),
        severity,
        certainty: Confidence::Certain,
        evidence: finding.evidence.clone(),
        remedy: finding.remedy.clone(),
        prevent: Vec::new(),
        next: Vec::new(),
        explains: finding.explains.iter().map(|&id| id.to_owned()).collect(),
        count: 1,
        first: None,
        last: None,
        checked: true,
        failing: false,
    }
}

/// One id, one suspect: the graver and surer of two speaks, the evidence of both stands under it.
fn merge(suspects: &mut BTreeMap<String, Suspect>, new: Suspect) {
    let Some(known) = suspects.get_mut(&new.id) else {
        suspects.insert(new.id.clone(), new);
        return;
    };
    let weight = |it: &Suspect| (it.checked, it.severity, it.certainty);
    // Of two that are as sure, the reason speaks: the rule of a firewall, not a packet that it dropped.
    let is_reason = |of: &Suspect, it: &Suspect| {
        it.signature.is_some() && of.signature.as_ref().is_some_and(|id| it.explains.contains(id))
    };
    let speaks = weight(&new) > weight(known) || (weight(&new) == weight(known) && is_reason(known, &new));
    let (voice, other) = if speaks { (&new, &*known) } else { (&*known, &new) };
    let joined = |of: fn(&Suspect) -> &Vec<String>| {
        let mut all = of(voice).clone();
        all.extend(of(other).iter().filter(|text| !of(voice).contains(text)).cloned());
        all
    };
    let mut evidence = voice.evidence.clone();
    evidence.extend(other.evidence.iter().filter(|seen| !voice.evidence.contains(seen)).cloned());
    evidence.truncate(EVIDENCE);
    *known = Suspect {
        evidence,
        remedy: joined(|suspect| &suspect.remedy),
        prevent: joined(|suspect| &suspect.prevent),
        next: joined(|suspect| &suspect.next),
        severity: voice.severity.max(other.severity),
        certainty: voice.certainty.max(other.certainty),
        explains: voice.explains.union(&other.explains).cloned().collect(),
        count: voice.count + other.count,
        // Since when there is a reason is not told by what it brought about.
        first: if is_reason(other, voice) {
            voice.first
        } else {
            voice.first.min(other.first).or(voice.first).or(other.first)
        },
        // What a check finds is so to the end.
        last: voice.last.max(other.last).filter(|_| !voice.checked && !other.checked),
        checked: voice.checked || other.checked,
        failing: voice.failing || other.failing,
        ..voice.clone()
    };
}

/// A signature's lines as the report lists what is no cause.
pub(super) fn noted(signature: &Signature, sighting: &Sighting, why: String) -> Noted {
    Noted {
        id: signature.id.clone(),
        subsystem: signature.subsystem,
        title: signature.title.clone(),
        why,
        count: sighting.count,
        evidence: sighting.hits.iter().take(1).map(evidence).collect(),
        because: Vec::new(),
    }
}

pub(super) fn evidence(hit: &Hit) -> Evidence {
    Evidence::at(hit.source.clone(), u32::try_from(hit.line).unwrap_or(u32::MAX), hit.text.clone())
}
