//! What happened, in the order of time: whoever said it, kubeadm, kubelet, containerd, the cluster.

use jiff::{SignedDuration, Timestamp};

use super::scan::Sighting;
use super::suspect::evidence;
use crate::report::TimelineEvent;
use crate::signature::{Library, Severity};

/// A kubelet on a healthy node is heard from every ten seconds; half a minute without a word is worth a mark.
const SILENCE: SignedDuration = SignedDuration::from_secs(30);

/// The events whose time is known.
pub(super) fn timeline(library: &Library, sightings: &[&Sighting]) -> Vec<TimelineEvent> {
    let mut timed: Vec<(Timestamp, &Sighting)> = sightings
        .iter()
        .filter(|sighting| !matches!(library.get(sighting.signature).severity, Severity::Sign | Severity::Benign))
        .filter_map(|sighting| Some((sighting.first?, *sighting)))
        .collect();
    timed.sort_by_key(|(at, sighting)| (*at, sighting.signature));
    let mut heard: Option<Timestamp> = None;
    let mut events = Vec::new();
    for (at, sighting) in timed {
        let silence = heard.map(|heard| at.duration_since(heard)).filter(|silence| *silence >= SILENCE);
        heard = heard.max(sighting.last);
        events.extend(event(library, sighting, at, silence));
    }
    events
}

fn event(
    library: &Library,
    sighting: &Sighting,
    at: Timestamp,
    silence: Option<SignedDuration>,
) -> Option<TimelineEvent> {
    let signature = library.get(sighting.signature);
    let first = sighting.hits.first()?;
    Some(TimelineEvent {
        at: at.to_string(),
        program: first.program.clone().unwrap_or_else(|| signature.subsystem.name().to_owned()),
        id: signature.id.clone(),
        severity: signature.severity,
        title: signature.title.clone(),
        count: sighting.count,
        until: sighting.last.filter(|last| *last > at).map(|last| last.to_string()),
        evidence: evidence(first),
        silence: silence.map(|silence| silence.as_secs().unsigned_abs()),
    })
}
