//! Everything there is to see of a machine, and of the cluster as that machine sees it.

use std::time::Duration;

use carrick_cluster::path::PathFacts;
use carrick_cluster::{ApiError, ClusterClient, bootstrap_tokens, config_maps, daemon_sets, path};
use carrick_core::discovery::{self, Discovery};
use carrick_core::fact::api_path::ApiPath;
use carrick_core::fact::{
    Capture, Facts, Source, Why, bootstrap_token, daemon_sets as sets, identity, kubeconfig, overlay, runtime_sockets,
    sources,
};
use carrick_core::redact::redact;
use carrick_host::{Observation, Probe, Progress, Redactions, cri, gather};

use crate::dialer::FromMachine;
use crate::health;

/// Whether it is known that somebody else than root acts there.
pub async fn is_unprivileged(probe: &dyn Probe) -> bool {
    let seen = probe.observe(&[Source::Query(&identity::USER)], &Progress::default()).await;
    gather(probe.name(), probe.now(), seen).0.uid().is_ok_and(|uid| uid != 0)
}

/// The socket of the runtime that the kubelet of a machine which has joined uses; `None`: it has not, or nothing names one.
pub async fn kubelets_socket(probe: &dyn Probe) -> Option<String> {
    let look = async |sources: &[Source]| {
        gather(probe.name(), probe.now(), probe.observe(sources, &Progress::default()).await).0
    };
    // Of a machine that has not, one file says so.
    if look(&[Source::File(kubeconfig::KUBELET)]).await.has_kubelet_conf() != Ok(true) {
        return None;
    }
    look(runtime_sockets::OF_KUBELET).await.kubelets_socket()
}

/// Reads every fact; `target` adds the path to that cluster, `admin` what only an admin sees of one.
pub async fn observe(
    probe: &dyn Probe,
    target: Option<&Discovery>,
    admin: Option<&ClusterClient>,
    time_box: Duration,
    progress: &Progress,
) -> (Facts, Redactions) {
    observe_for(None, probe, target, admin, time_box, progress).await
}

/// The same for a join that asks for a name of its Node: that one is looked for in the cluster, not the host's.
pub(crate) async fn observe_for(
    asked: Option<&str>,
    probe: &dyn Probe,
    target: Option<&Discovery>,
    admin: Option<&ClusterClient>,
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
    if let Some(asked) = asked {
        facts.ask_for_node_name(asked);
    }
    let (dialer, node) = (FromMachine(probe), facts.kubelet_node_name().ok());
    let path = async {
        let Some(target) = target else { return Vec::new() };
        progress.begin("the path to the API server");
        let found = path::walk(&dialer, target, node.as_deref()).await;
        progress.end("the path to the API server");
        found
    };
    let daemon_sets = async {
        let admin = admin?;
        progress.begin("the cluster's DaemonSets");
        let found = daemon_sets::statuses(admin).await.map_err(Why::from);
        progress.end("the cluster's DaemonSets");
        Some((sets::CALL, found))
    };
    let overlays = async {
        let found = overlays(admin?).await.map_err(Why::from);
        Some((overlay::CALL, found))
    };
    let (path, daemon_sets, overlays, health) =
        tokio::join!(path, daemon_sets, overlays, health::observe(probe, &facts));
    let secret = token_secret(target, admin, &path).await;
    for (call, capture) in path.into_iter().chain(daemon_sets).chain(overlays).chain(secret).chain(health) {
        let clean = |capture: Capture| Capture { text: redact(&capture.text), ..capture };
        facts.insert(Source::Api(call).key(), capture.map(clean));
    }
    (facts, redactions)
}

/// What the pod networks' ConfigMaps say of tunnels between nodes.
async fn overlays(admin: &ClusterClient) -> Result<Capture, ApiError> {
    let mut maps = serde_json::Map::new();
    for config in &overlay::CONFIGS {
        let said = config_maps::values(admin, config.namespace, config.name, config.keys).await?;
        maps.extend(said.map(|said| (format!("{}/{}", config.namespace, config.name), said)));
    }
    Ok(Capture::text(serde_json::Value::Object(maps).to_string()))
}

/// What an admin sees of the token that was given, where he is one of the cluster that answered.
async fn token_secret(
    target: Option<&Discovery>,
    admin: Option<&ClusterClient>,
    path: &PathFacts,
) -> Option<(&'static str, Result<Capture, Why>)> {
    let (admin, token) = (admin?, target?.token.as_ref()?);
    let (_, walked) = path.iter().find(|(name, _)| *name == "path")?;
    let walked: ApiPath = serde_json::from_str(&walked.as_ref().ok()?.text).ok()?;
    let own = discovery::pins(admin.ca()).ok()?;
    let is_same = own.iter().any(|pin| walked.ca_pins.contains(pin));
    let state = async { bootstrap_tokens::state(admin, token).await.map_err(Why::from) };
    if is_same { Some((bootstrap_token::SECRET, state.await)) } else { None }
}
