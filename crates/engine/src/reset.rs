//! What `reset` looks at beyond a check, on the machine and in the cluster. What it makes of it: `carrick_core::reset`.

use std::time::Duration;

use carrick_cluster::client::Client;
use carrick_cluster::leaving;
use carrick_core::fact::{Facts, Source, Why};
use carrick_core::reset::{self, pods::Pod};
use carrick_host::probe::{Progress, gather};
use carrick_host::{Probe, cri};

use crate::observe::FromMachine;

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

/// The pods the cluster has on a node; none where it has no such node.
pub async fn pods(probe: &dyn Probe, admin: &Client, node: &str) -> Result<Vec<Pod>, Why> {
    leaving::pods(admin, &FromMachine(probe), node).await
}
