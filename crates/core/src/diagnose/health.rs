//! One verdict a subsystem, and what it rests on: broken, degraded, healthy, as expected at this stage, or not seen.

use super::scan::Sighting;
use super::suspect::Excused;
use crate::check::{Outcome, Subsystem};
use crate::report::{Cause, Health, Judged, Noted, SubsystemReport};
use crate::signature::{Library, Phase, Severity};

/// What the verdicts are made from.
pub(super) struct Ground<'a> {
    pub library: &'a Library,
    pub sightings: &'a [&'a Sighting],
    pub findings: &'a [Judged],
    pub causes: &'a [(Subsystem, &'a Cause)],
    pub symptoms: &'a [Noted],
    pub excused: &'a [Excused],
    pub phase: Option<Phase>,
}

impl Ground<'_> {
    pub(super) fn judge(&self) -> Vec<SubsystemReport> {
        Subsystem::ALL
            .into_iter()
            .map(|name| {
                let (verdict, why) = self.verdict(name);
                SubsystemReport { name, verdict, why }
            })
            .collect()
    }

    fn verdict(&self, name: Subsystem) -> (Health, String) {
        if let Some((_, cause)) = self.causes.iter().find(|(subsystem, _)| *subsystem == name) {
            return (Health::Broken, cause.title.clone());
        }
        if let Some(symptom) = self.symptoms.iter().find(|symptom| symptom.subsystem == name) {
            let because = symptom.because.first().map(|id| format!(" (follows from {id})")).unwrap_or_default();
            let health = if because.is_empty() { Health::Broken } else { Health::Degraded };
            return (health, format!("{}{because}", symptom.title));
        }
        if let Some(warned) = self.warning(name) {
            return (Health::Degraded, warned);
        }
        // On a node that has joined, what was normal before is past.
        let is_expected = |it: &&Excused| it.noted.subsystem == name && it.excuse.is_of_the_stage();
        let expected = self.excused.iter().find(is_expected).filter(|_| self.phase < Some(Phase::Joined));
        let passed: Vec<&str> = self.passed(name).collect();
        match (expected, passed.as_slice(), self.good_sign(name)) {
            (Some(it), _, _) => (Health::Expected, format!("{}: {}", it.noted.title, it.noted.why)),
            (None, [], None) => (Health::NotSeen, "nothing about it in this capture".to_owned()),
            (None, [], Some(sign)) => (Health::Healthy, sign),
            (None, [only], _) => (Health::Healthy, (*only).to_owned()),
            (None, [first, rest @ ..], _) => {
                let more = if rest.len() == 1 { "check".to_owned() } else { "checks".to_owned() };
                (Health::Healthy, format!("{first}, and {} more {more}", rest.len()))
            }
        }
    }

    fn warning(&self, name: Subsystem) -> Option<String> {
        let warned =
            |finding: &&Judged| finding.subsystem == name && finding.verdict == Outcome::Warn && !finding.ignored;
        let finding = self.findings.iter().find(warned).map(|finding| finding.title.clone());
        let in_text = || {
            let excused = |id: &str| self.excused.iter().any(|it| it.noted.id == id);
            let mut signatures = self.sightings.iter().map(|sighting| self.library.get(sighting.signature));
            let is_one =
                |id: &str, of: Subsystem, severity| of == name && severity == Severity::Warning && !excused(id);
            let found = signatures.find(|one| is_one(&one.id, one.subsystem, one.severity));
            found.map(|signature| signature.title.clone())
        };
        finding.or_else(in_text)
    }

    fn passed(&self, name: Subsystem) -> impl Iterator<Item = &str> {
        let passes = move |finding: &&Judged| finding.subsystem == name && finding.verdict == Outcome::Pass;
        self.findings.iter().filter(passes).map(|finding| finding.title.as_str())
    }

    fn good_sign(&self, name: Subsystem) -> Option<String> {
        let signatures = self.sightings.iter().map(|sighting| self.library.get(sighting.signature));
        let mut good = signatures.filter(|one| one.subsystem == name && one.severity == Severity::Good);
        good.next().map(|sign| sign.title.clone())
    }
}
