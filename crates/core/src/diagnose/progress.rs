//! How far the machine had come, and when: read from the signs, each of which proves the phase it names.

use jiff::Timestamp;

use super::scan::Sighting;
use crate::signature::{Library, Phase, Severity, Signature};

#[derive(Debug, Default)]
pub(super) struct ReachedPhases {
    /// What was reached, and since when, where that is known.
    reached: Vec<(Phase, Option<Timestamp>)>,
}

impl ReachedPhases {
    /// `facts` is how far the machine's files show it to be, where they do; `named`: the capture names machines.
    pub(super) fn of(library: &Library, sightings: &[&Sighting], facts: Option<Phase>, named: bool) -> Self {
        // Pods, events and rows of nodes are of the whole cluster: beside a machine's own log they have to name it.
        let may_be_another = |severity, phase, node: &Option<String>| {
            named && severity == Severity::Sign && phase == Phase::Joined && node.is_none()
        };
        let signs = sightings.iter().filter_map(|sighting| {
            let Signature { severity, phase, .. } = *library.get(sighting.signature);
            // That a runtime or a kubelet runs is good before a join as after it.
            let tells = severity == Severity::Sign || (severity == Severity::Good && phase > Phase::Before);
            let counts = tells && !may_be_another(severity, phase, &sighting.node);
            counts.then_some((phase, sighting.first))
        });
        ReachedPhases { reached: signs.chain(facts.map(|phase| (phase, None))).collect() }
    }

    /// By the end. `None`: nothing tells, which is not the same as before a join.
    pub(super) fn end(&self) -> Option<Phase> {
        self.reached.iter().map(|(phase, _)| *phase).max()
    }

    /// By this time. What was reached at an unknown time counts only where no other sign tells when that was.
    pub(super) fn at(&self, time: Option<Timestamp>) -> Option<Phase> {
        let Some(time) = time else { return self.end() };
        let by_then = |&&(phase, since): &&(Phase, Option<Timestamp>)| match since {
            Some(since) => since <= time,
            None => !self.reached.iter().any(|(other, since)| *other == phase && since.is_some()),
        };
        let reached = self.reached.iter().filter(by_then).map(|(phase, _)| *phase).max();
        // Before the first sign of anything it was before a join, as far as this capture goes.
        reached.or_else(|| self.end().map(|_| Phase::Before))
    }
}
