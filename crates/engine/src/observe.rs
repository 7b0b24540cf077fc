//! Everything there is to see of a machine, and of the cluster as that machine sees it.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use carrick_cluster::client::Client;
use carrick_cluster::path;
use carrick_cluster::way::{Answer, Stream, Way};
use carrick_core::aim::Aim;
use carrick_core::fact::{Capture, Facts, Source, Why, sources};
use carrick_core::redact::redact;
use carrick_host::cri;
use carrick_host::probe::{Observation, Probe, Progress, Redactions, Target, gather};
use jiff::Timestamp;

/// Reads every fact; `aim` adds the path to that cluster, `admin` what only an admin sees of one.
pub async fn observe(
    probe: &dyn Probe,
    aim: Option<&Aim>,
    admin: Option<&Client>,
    time_box: Duration,
    progress: &Progress,
) -> (Facts, Redactions) {
    let on_machine: Vec<Source> =
        sources().filter(|source| !matches!(source, Source::Cri(_) | Source::Api(_))).collect();
    let endpoints = cri::endpoints(probe);
    let (seen, runtime) = tokio::join!(probe.observe(&on_machine, progress), cri::observe(probe, &endpoints, time_box));
    let observations: Vec<Observation> = seen.into_iter().chain(runtime).collect();
    let (mut facts, redactions) = gather(probe.name(), probe.now(), observations);
    if let Some(named) = probe.runtime() {
        facts.name_socket(named);
    }
    let (way, node) = (FromMachine(probe), facts.node_name().ok());
    let path = async {
        let Some(aim) = aim else { return Vec::new() };
        progress.begin("the path to the API server");
        let found = path::walk(&way, aim, node.as_deref()).await;
        progress.end("the path to the API server");
        found
    };
    let daemon_sets = async {
        let admin = admin?;
        progress.begin("the cluster's DaemonSets");
        let found = admin.daemon_sets(&way).await;
        progress.end("the cluster's DaemonSets");
        Some(("daemon-sets", found))
    };
    let (path, daemon_sets) = tokio::join!(path, daemon_sets);
    for (call, capture) in path.into_iter().chain(daemon_sets) {
        let clean = |capture: Capture| Capture { text: redact(&capture.text), ..capture };
        facts.insert(Source::Api(call).key(), capture.map(clean));
    }
    (facts, redactions)
}

/// The way from a machine to the API server: that machine's resolver, network and clock.
pub struct FromMachine<'a>(pub &'a dyn Probe);

impl Way for FromMachine<'_> {
    fn resolve<'a>(&'a self, name: &'a str) -> Answer<'a, Result<Vec<IpAddr>, Why>> {
        self.0.resolve(name)
    }

    fn dial(&self, address: IpAddr, port: u16) -> Answer<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = self.0.connect(&Target::Tcp { host: address.to_string(), port }).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }
}
