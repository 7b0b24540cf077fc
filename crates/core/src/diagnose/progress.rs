//! How far the machine had come, and when: read from the good signs, each of which proves the phase it names.

use jiff::Timestamp;

use super::scan::Sighting;
use crate::signature::{Library, Phase, Severity};

#[derive(Debug, Default)]
pub(super) struct ReachedPhases {
    /// What was reached, and since when, where that is known.
    reached: Vec<(Phase, Option<Timestamp>)>,
}

impl ReachedPhases {
    /// `facts` is how far the machine's files show it to be.
    pub(super) fn of(library: &Library, sightings: &[&Sighting], facts: Phase) -> Self {
        let signs = sightings.iter().filter_map(|sighting| {
            let signature = library.get(sighting.signature);
            (signature.severity == Severity::Good).then_some((signature.phase, sighting.first))
        });
        ReachedPhases { reached: signs.chain([(facts, None)]).collect() }
    }

    /// By the end.
    pub(super) fn end(&self) -> Phase {
        self.reached.iter().map(|(phase, _)| *phase).max().unwrap_or_default()
    }

    /// By this time. What was reached at an unknown time counts only where no other sign tells when that was.
    pub(super) fn at(&self, time: Option<Timestamp>) -> Phase {
        let Some(time) = time else { return self.end() };
        let by_then = |&&(phase, since): &&(Phase, Option<Timestamp>)| match since {
            Some(since) => since <= time,
            None => !self.reached.iter().any(|(other, since)| *other == phase && since.is_some()),
        };
        self.reached.iter().filter(by_then).map(|(phase, _)| *phase).max().unwrap_or_default()
    }
}
