//! What `reset` looks at on the machine beyond a check. What it makes of it: `carrick_core::reset`.

use std::time::Duration;

use carrick_core::fact::{Facts, Source};
use carrick_core::reset;
use carrick_host::{Probe, Progress, cri, gather};

/// Adds to the facts of a machine what a reset has to know.
pub async fn look(probe: &dyn Probe, mut facts: Facts, time_box: Duration) -> Facts {
    let (sources, progress): (Vec<Source>, _) = (reset::sources().collect(), Progress::default());
    let endpoints = cri::endpoints(probe);
    let (mut seen, pods) =
        tokio::join!(probe.observe(&sources, &progress), cri::pods::observe(probe, &endpoints, time_box));
    seen.push(pods);
    let (more, _) = gather(probe.name(), probe.now(), seen);
    for (key, capture) in more.iter() {
        facts.insert(key.to_owned(), capture.clone());
    }
    facts
}
