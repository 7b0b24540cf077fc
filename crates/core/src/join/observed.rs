//! Evidence of a join, out of facts and of what the API server answers. Pure: what is looked at is looked at by the engine.

use std::net::{IpAddr, SocketAddr};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::existing::RequestedCluster;
use super::failure::{Circumstance, JoinCause};
use super::placement;
use super::state::later;
use super::taint::Taint;
use super::verify::{
    AgentAddress, AgentPod, CertificateRequest, ClientCertificate, ClusterPins, ContainerStart, KeptOff, Kubelet,
    KubeletFlag, KubeletHalt, KubeletReach, LeaseRenewal, Node, NodeEvidence, Pressure, Resource, RuntimeConditions,
    Signing,
};
use crate::catalogue::About;
use crate::check::Evidence;
use crate::cni::{FLAVOURS, Flavour, REFERENCE_IPAM, REFERENCE_PLUGINS, TellsAddress};
use crate::diagnose::BoundPods;
use crate::fact::cni::Candidate;
use crate::fact::identity::{self, MachineIdentity};
use crate::fact::listen::Proto;
use crate::fact::netfilter::Passage;
use crate::fact::overlay::Overlay;
use crate::fact::unit::UnitState;
use crate::fact::{
    Facts, Known, OrAbsent, Source, Why, cni, firewall, kubeconfig, kubelet_config, net, pki, process, unit,
};
use crate::id;
use crate::redact::redact;
use crate::report::Confidence;
use crate::reset::pods::ListedSandbox;

/// What is looked at again and again while a join is watched; the runtime's status comes over its socket.
pub const WATCHED: &[Source] = &[
    Source::Query(&unit::SHOW),
    Source::Query(&unit::KUBELET),
    Source::Query(&process::KUBELET),
    Source::Query(&process::STATE),
    // The node's name may stand in any of the three.
    Source::File(unit::KUBEADM_FLAGS),
    Source::File(unit::DEFAULTS),
    Source::File(unit::SYSCONFIG),
    Source::File(unit::UPTIME),
    Source::File(kubelet_config::FILE),
    Source::File(kubeconfig::KUBELET),
    Source::File(kubeconfig::BOOTSTRAP),
    Source::File(pki::CLIENT),
    // Where kubelet.conf names it instead of holding it.
    Source::File(pki::CA),
    Source::File(identity::HOSTNAME),
    // What the Node's address is held against.
    Source::Query(&net::LINKS),
];

/// `kubelet.service` and the process in it.
pub fn kubelet(facts: &Facts) -> Result<Kubelet, Why> {
    let state = facts.unit_state("kubelet").map_err(|missing| missing.why)?;
    let active = state.is_active();
    // What runs decides; where nothing runs, what would.
    let standalone = match facts.kubelet_process() {
        Ok(Some(process)) if active => !process.has_flag("--kubeconfig"),
        _ => facts.kubelet_command().is_ok_and(|command| !command.has_flag("--kubeconfig")),
    };
    let halted = state.active_state == "inactive";
    let unconfigured = facts.file(kubelet_config::FILE).is_err_and(|missing| missing.why == Why::Absent);
    Ok(Kubelet {
        active,
        standalone,
        restarts: state.restarts.unwrap_or_default(),
        exit: state.exec_main_status.filter(|_| !active),
        started_at: kubelet_started_at(facts),
        node_ip: flag(facts, "--node-ip"),
        cloud_provider: flag(facts, "--cloud-provider"),
        halt: match (halted, unconfigured) {
            (true, true) => Some(KubeletHalt::Removed),
            (true, false) => Some(KubeletHalt::Stopped),
            (false, _) => facts.kubelet_is_suspended().is_ok_and(|is| is).then_some(KubeletHalt::Suspended),
        },
    })
}

/// A flag of the kubelet's, where it is set.
fn flag(facts: &Facts, name: &str) -> Option<KubeletFlag> {
    let command = facts.kubelet_command().ok()?;
    let (value, word) = command.flag(name)?;
    let word_and_value = if word.text.contains('=') { word.text.clone() } else { format!("{} {value}", word.text) };
    Some(KubeletFlag { word: word_and_value, file: word.seen.source.clone() })
}

/// This machine's own addresses.
pub fn addresses(facts: &Facts) -> Result<Vec<IpAddr>, Why> {
    let links = facts.links().map_err(|missing| missing.why)?;
    Ok(links.iter().flat_map(|link| &link.addresses).map(|cidr| cidr.address).collect())
}

/// When the kubelet's process was started, by this machine's clock as it goes now. `ps` counts the seconds in which the machine
/// slept, as /proc/uptime does; systemd's clock stands still in them, and in a container the uptime may be the container's while
/// systemd's times are the host's. Where the two agree, systemd's is the exact one; where they do not, `ps` is right, and late
/// by less than a second: never does what a kubelet before this one did count as this one's.
pub fn kubelet_started_at(facts: &Facts) -> Option<Timestamp> {
    const APART: SignedDuration = SignedDuration::from_secs(2);
    let elapsed = facts.kubelet_process().ok()??.elapsed?;
    let by_process = facts.taken_at.checked_sub(SignedDuration::from_secs(i64::try_from(elapsed).ok()?)).ok()?;
    let after_boot = facts.unit_state("kubelet").ok().and_then(|state| state.started_after_boot);
    let by_systemd = awake_since_boot(facts, after_boot);
    Some(by_systemd.filter(|at| by_process.duration_since(*at).abs() <= APART).unwrap_or(by_process))
}

/// So many microseconds after the boot, if the machine never slept.
fn awake_since_boot(facts: &Facts, micros: Option<u64>) -> Option<Timestamp> {
    let up: f64 = facts.file(unit::UPTIME).ok()?.text.split_whitespace().next()?.parse().ok()?;
    let up = SignedDuration::try_from_secs_f64(up).ok()?;
    let since_boot = SignedDuration::from_micros(i64::try_from(micros?).ok()?);
    facts.taken_at.checked_sub(up).ok()?.checked_add(since_boot).ok()
}

/// The client certificate of the kubelet that is this node, held against the CAs of the cluster that was asked for, else those
/// it trusts. `Absent`: it has none yet.
pub fn certificate(facts: &Facts, node: &str, asked: &RequestedCluster) -> Result<ClientCertificate, Why> {
    let judged = || -> Known<ClientCertificate> {
        let client = facts.client_certificate()?;
        let conf = facts.kubelet_kubeconfig().or_absent()?;
        let trusted = conf.as_ref().map(|conf| facts.trusted_by(conf)).unwrap_or_default();
        let is_elsewhere = conf.is_some_and(|conf| asked.is_in(facts, &conf) == Some(false));
        let stale = |why: String| Ok(ClientCertificate::Stale { why });
        if client.node() != Some(node) {
            return stale(format!("it is {}'s", client.common_name));
        }
        if !client.is_valid_at(facts.taken_at) {
            return stale(format!("it is valid from {} to {}", client.not_before, client.not_after));
        }
        // Of two CAs, the one that signed it may be missing in what the cluster shows, and still be trusted by it.
        let own = if is_elsewhere { &[][..] } else { &trusted };
        if client.is_signed_by_any(&asked.cas) || client.is_signed_by_any(own) {
            return Ok(ClientCertificate::Trusted);
        }
        if is_elsewhere {
            stale("another cluster's CA has signed it".to_owned())
        } else {
            Ok(ClientCertificate::Unvouched)
        }
    };
    judged().map_err(|missing| missing.why)
}

/// The cluster in kubelet.conf, beside the one that was asked for.
pub fn cluster(facts: &Facts, asked: &RequestedCluster) -> Result<ClusterPins, Why> {
    if asked.is_unknown() {
        return Err(Why::NotAsked);
    }
    let conf = facts.kubelet_kubeconfig().map_err(|missing| missing.why)?;
    let is_same = asked.is_in(facts, &conf).ok_or_else(|| Why::Broken("kubelet.conf holds no CA".to_owned()))?;
    let (own, asked) = (pki::shown_pins(&facts.trusted_by(&conf)), asked.keys().join(", "));
    Ok(ClusterPins { own, asked, is_same })
}

/// What the runtime says of itself.
pub fn runtime(facts: &Facts) -> Result<RuntimeConditions, Why> {
    let status = facts.runtime_status().map_err(|missing| match (missing.why, starting_runtime(facts)) {
        (why @ (Why::TimedOut | Why::NotCollected), _) | (why, None) => why,
        // It will listen when it is up.
        (_, Some(unit)) => Why::Busy(format!("{} is {} ({})", unit.id, unit.active_state, unit.sub_state)),
    })?;
    let holds = |kind| status.condition(kind).is_some_and(|condition| condition.status);
    let not_holding = status.conditions.iter().find(|condition| !condition.status);
    let says = not_holding.map(|condition| format!("{}: {} {}", condition.kind, condition.reason, condition.message));
    Ok(RuntimeConditions {
        ready: holds("RuntimeReady"),
        network_ready: holds("NetworkReady"),
        says: says.unwrap_or_default().trim().to_owned(),
    })
}

/// The unit of a container runtime that systemd is starting.
fn starting_runtime(facts: &Facts) -> Option<UnitState> {
    let starts = |state: &UnitState| matches!(state.active_state.as_str(), "activating" | "reloading");
    let units = ["containerd", "crio", "cri-docker", "docker"];
    units.into_iter().filter_map(|unit| facts.unit_state(unit).ok()).find(starts)
}

/// A Node as the API server has it, held against this machine; when that is, the caller knows.
pub fn node(node: &Value, own: &MachineIdentity) -> Node {
    let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (uuid, id) = (text("/status/nodeInfo/systemUUID"), text("/status/nodeInfo/machineID"));
    let conditions =
        node.pointer("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.get("type").is_some_and(|it| it == kind));
    let is_true = |condition: &Value| condition.get("status").is_some_and(|status| status == "True");
    let said = |condition: &Value| {
        let part = |key| condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("{} {}", part("reason"), part("message")).trim().to_owned()
    };
    let addresses = node.pointer("/status/addresses").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let address = addresses.iter().find_map(|address| address.get("address")?.as_str()).unwrap_or("no address");
    let internal = addresses.iter().filter(|address| address.get("type").is_some_and(|kind| kind == "InternalIP"));
    let pressed = |of: &Resource| condition(of.condition()).filter(|condition| is_true(condition)).map(said);
    let pressure = |of: Resource| pressed(&of).map(|says| Pressure { of, says });
    Node {
        name: text("/metadata/name").to_owned(),
        identity: own.is(uuid, id),
        other_machine_id: own.has_another_machine_id(uuid, id),
        whose: format!("systemUUID {uuid}, machineID {id}, {address}"),
        ready: condition("Ready").is_some_and(is_true),
        silent: condition("Ready").is_some_and(|ready| ready.get("status").is_some_and(|status| status == "Unknown")),
        says: condition("Ready").map_or_else(|| "no condition Ready yet".to_owned(), said),
        network_unavailable: condition("NetworkUnavailable").filter(|condition| is_true(condition)).map(said),
        created_at: text("/metadata/creationTimestamp").parse().ok(),
        seen_at: None,
        takes_pods: text("/status/allocatable/pods").parse().ok(),
        pressures: Resource::ALL.into_iter().filter_map(pressure).collect(),
        taints: placement::taints(node),
        internal_ips: internal.filter_map(|address| address.get("address")?.as_str()?.parse().ok()).collect(),
        agent_addresses: agent_addresses(node),
    }
}

/// What network agents have written to a Node about the address they use: `10.0.0.21`, `10.0.0.21/24`, or several.
fn agent_addresses(node: &Value) -> Vec<AgentAddress> {
    let Some(written) = node.pointer("/metadata/annotations") else { return Vec::new() };
    let tells = |flavour: &&'static Flavour| flavour.tells_address.as_ref().map(|tells| (flavour.name, tells));
    let of = |(network, tells): (&str, &'static TellsAddress)| {
        let address = |annotation: &&'static str, text: &str| {
            let address = text.split('/').next()?.trim().parse().ok()?;
            let (network, annotation) = (network.to_owned(), (*annotation).to_owned());
            Some(AgentAddress { network, annotation, address, set_by: tells.set_by.to_owned() })
        };
        let all = |annotation: &'static &'static str| {
            let text = written.get(annotation).and_then(Value::as_str).unwrap_or_default();
            text.split(',').filter_map(|text| address(annotation, text)).collect::<Vec<_>>()
        };
        tells.annotations.iter().flat_map(all).collect::<Vec<_>>()
    };
    FLAVOURS.iter().copied().filter_map(|flavour| tells(&flavour)).flat_map(of).collect()
}

/// Which far ends of this node's tunnels are reached over another interface than the one that has the agent's address; none
/// where the machine does not have that address.
pub fn detours(facts: &Facts, agent: &[AgentAddress]) -> Result<Vec<String>, Why> {
    let told = || -> Known<Vec<String>> {
        let (links, routes, peers) = (facts.links()?, facts.routes()?, facts.tunnel_peers()?);
        let mut detours = Vec::new();
        for AgentAddress { address, .. } in agent {
            let has = |link: &&net::Link| link.addresses.iter().any(|own| own.address == *address);
            let Some(own) = links.iter().find(has) else { continue };
            for peer in peers.iter().filter(|peer| peer.address.is_ipv6() == address.is_ipv6()) {
                let Some(route) = net::route_to(&routes, peer.address) else { continue };
                if !route.links.contains(&own.name) && !route.links.is_empty() {
                    let over = route.links.join(", ");
                    detours.push(format!("{} goes over {over}; {address} is on {}", peer.address, own.name));
                }
            }
        }
        detours.dedup();
        Ok(detours)
    };
    told().map_err(|missing| missing.why)
}

/// Agents whose containers the API server takes for running and the runtime does not are not ready: the kubelet is a second behind.
pub fn held_against_runtime(agents: &mut [AgentPod], facts: &Facts) {
    let Ok(running) = facts.containers() else { return };
    for pod in agents.iter_mut().filter(|pod| pod.ready) {
        let gone = pod.running.iter().find(|id| !running.iter().any(|container| container.id == **id));
        if gone.is_some() {
            (pod.ready, pod.says) = (false, "a container of it has just ended".to_owned());
        }
    }
}

/// Where pods on this node get their addresses from.
pub fn pod_ranges(node: &Value) -> Vec<String> {
    let texts =
        |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let ranges: Vec<String> = node.pointer("/spec/podCIDRs").map(texts).unwrap_or_default();
    if !ranges.is_empty() {
        return ranges;
    }
    node.pointer("/spec/podCIDR").and_then(Value::as_str).map(str::to_owned).into_iter().collect()
}

/// A lease as it is now; when that is, the caller knows.
pub fn renewal(lease: &Value) -> LeaseRenewal {
    let text = |pointer: &str| lease.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let lasts = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
    LeaseRenewal {
        version: text("/metadata/resourceVersion").to_owned(),
        renewed_at: text("/spec/renewTime").parse().ok(),
        seen_at: None,
        lasts: lasts.and_then(|seconds| u32::try_from(seconds).ok()).filter(|seconds| *seconds > 0),
    }
}

/// The newest request of this node's kubelet. `Absent`: it has made none. `before`: names of those of earlier joins. By name,
/// as the API server's clock may be another than this machine's.
pub fn request(list: &Value, node: &str, before: &[String]) -> Result<CertificateRequest, Why> {
    let made = |item: &Value| item.pointer("/metadata/creationTimestamp")?.as_str()?.parse::<Timestamp>().ok();
    let own = items(list).iter().filter(|item| is_of(item, node));
    let new = own.filter(|item| !before.iter().any(|name| name == name_of(item)));
    let newest = new.max_by_key(|item| made(item)).ok_or(Why::Absent)?;
    Ok(CertificateRequest { name: name_of(newest).to_owned(), state: signing(newest) })
}

/// The names of those requests of this node's kubelet that are in such a state.
pub fn requests(list: &Value, node: &str, is_such: impl Fn(&Signing) -> bool) -> Vec<String> {
    let own = items(list).iter().filter(|item| is_of(item, node) && is_such(&signing(item)));
    own.map(|item| name_of(item).to_owned()).collect()
}

fn name_of(item: &Value) -> &str {
    item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Who signs kubelets' client certificates.
pub const KUBELET_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// The request is signed for by the node's name, which stands in it as PEM.
pub fn is_of(item: &Value, node: &str) -> bool {
    let of_kubelet = item.pointer("/spec/signerName").is_some_and(|it| it == KUBELET_SIGNER);
    let request = item.pointer("/spec/request").and_then(Value::as_str).and_then(kubeconfig::decode);
    of_kubelet
        && request.is_some_and(|pem| pki::requested_name(&pem).as_deref() == Some(&format!("system:node:{node}")))
}

fn signing(request: &Value) -> Signing {
    let conditions =
        request.pointer("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let find = |kind: &str| conditions.iter().find(|condition| condition.get("type").is_some_and(|it| it == kind));
    let why =
        |condition: &Value| condition.get("message").and_then(Value::as_str).unwrap_or("no reason given").to_owned();
    if let Some(denied) = find("Denied") {
        return Signing::Denied { why: why(denied) };
    }
    if let Some(failed) = find("Failed") {
        return Signing::Failed { why: why(failed) };
    }
    let issued = request.pointer("/status/certificate").and_then(Value::as_str).is_some_and(|it| !it.is_empty());
    match (find("Approved"), issued) {
        (_, true) => Signing::Issued,
        (Some(_), false) => Signing::Approved,
        (None, false) => Signing::Pending,
    }
}

/// The network agents and kube-proxy among a node's pods; not those that are on their way out.
pub fn agents(pods: &Value) -> Vec<AgentPod> {
    let stays = |pod: &&Value| pod.pointer("/metadata/deletionTimestamp").is_none();
    let is_agent = |pod: &&Value| is_kube_proxy(pod) || network_of(pod).is_some();
    items(pods).iter().filter(stays).filter(is_agent).map(agent).collect()
}

/// The names of these pods, without those that are being removed. `at`: when they were asked for.
pub fn bound(pods: &Value, at: Timestamp) -> BoundPods {
    let stays = |pod: &&Value| pod.pointer("/metadata/deletionTimestamp").is_none();
    BoundPods { names: items(pods).iter().filter(stays).map(name).collect(), at }
}

/// The first of these DaemonSets that is kube-proxy's and selects this Node, by its full name.
pub fn kube_proxy_set(sets: &[Value], node: &Value) -> Option<String> {
    let is_proxys = |set: &&Value| set.pointer("/metadata/name").and_then(Value::as_str).is_some_and(is_kube_proxys);
    sets.iter().filter(is_proxys).find(|set| placement::selects(set, node)).map(name)
}

/// The same, of a known pod network.
pub fn network_set(sets: &[Value], node: &Value) -> Option<String> {
    let is_networks = |set: &&Value| {
        let name = set.pointer("/metadata/name").and_then(Value::as_str);
        name.and_then(Flavour::of_daemon_set).is_some()
            && set.pointer("/spec/template/spec/hostNetwork") == Some(&Value::Bool(true))
    };
    sets.iter().filter(is_networks).find(|set| placement::selects(set, node)).map(name)
}

/// Whether the plugins that are loaded here serve a sandbox that is no Pod of the cluster's: what they refuse then, they refuse
/// to Pods. By what they are; where that cannot be seen, by whose agent runs here. Of others it is not known.
pub fn serves_sandboxes(loaded: &[Candidate], pods: &Value) -> bool {
    let is_plain = |plugin: &cni::Plugin| {
        let serves = |flavour: &&Flavour| flavour.plugins.contains(&plugin.kind.as_str()) && !flavour.needs_pod;
        let by_itself = REFERENCE_PLUGINS.contains(&plugin.kind.as_str()) || FLAVOURS.iter().any(serves);
        by_itself && plugin.ipam.as_deref().is_none_or(|ipam| REFERENCE_IPAM.contains(&ipam))
    };
    if loaded.is_empty() {
        return network(pods).is_some_and(|flavour| !flavour.needs_pod);
    }
    loaded.iter().all(|file| matches!(&file.conf, Ok(Ok(conf)) if conf.plugins.iter().all(is_plain)))
}

/// The pod network's DaemonSet that is meant for this Node and kept off by a taint; none where another of its kind is not.
pub fn kept_off(sets: &[Value], node: &Value) -> Option<KeptOff> {
    let is_agents = |set: &&Value| {
        let named = set.pointer("/metadata/name").and_then(Value::as_str);
        let in_host_network = set.pointer("/spec/template/spec/hostNetwork").is_some_and(|it| it == true);
        in_host_network && named.and_then(Flavour::of_daemon_set).is_some()
    };
    let meant: Vec<&Value> = sets.iter().filter(is_agents).filter(|set| placement::is_for(set, node)).collect();
    let kept: Vec<KeptOff> = meant
        .iter()
        .filter_map(|set| Some(KeptOff { set: name(set), taint: placement::kept_off_by(set, node)? }))
        .collect();
    (kept.len() == meant.len()).then(|| kept.into_iter().next()).flatten()
}

/// The pod network whose agent runs among these pods; who only calls another is not the one that gives addresses.
pub fn network(pods: &Value) -> Option<&'static Flavour> {
    let found = || items(pods).iter().filter_map(network_of);
    found().find(|flavour| !flavour.calls_another).or_else(|| found().next())
}

/// Whether a plugin of this node's pod network asks the cluster for the Pod: one that calls another does so first.
pub fn needs_pod(pods: &Value) -> bool {
    items(pods).iter().filter_map(network_of).any(|flavour| flavour.needs_pod)
}

/// An agent of the pod network that is not Ready.
pub fn agent_down(pods: &Value) -> Option<String> {
    let leaves = |pod: &Value| pod.pointer("/metadata/deletionTimestamp").is_some_and(|it| !it.is_null());
    let is_down = |pod: &&Value| network_of(pod).is_some() && !is_over(pod) && !leaves(pod) && !is_ready(pod);
    items(pods).iter().find(is_down).map(name)
}

/// When an agent of the pod network last started on this node; `None` where none is known to run.
pub fn agents_since(pods: &Value) -> Option<Timestamp> {
    let of_set = |pod: &&Value| is_in_host_network(pod) && daemon_set(pod).is_some() && !is_kube_proxy(pod);
    let is_known = items(pods).iter().any(|pod| network_of(pod).is_some());
    // Of a network that is not known, each that may be its agent counts.
    let agents = items(pods).iter().filter(|pod| if is_known { network_of(pod).is_some() } else { of_set(pod) });
    agents.filter_map(last_start).max()
}

/// When the last of a pod's containers was started that run.
fn last_start(pod: &Value) -> Option<Timestamp> {
    let containers = pod.pointer("/status/containerStatuses").and_then(Value::as_array)?;
    let started = |it: &Value| it.pointer("/state/running/startedAt")?.as_str()?.parse::<Timestamp>().ok();
    containers.iter().filter_map(started).max()
}

/// A pod of which this kubelet has started a container that runs. Both times are of this machine's clock, and that of a
/// container is in whole seconds: one of the kubelet's own second does not count.
pub fn started_since(pods: &Value, kubelet: Timestamp) -> Option<String> {
    let is_since = |pod: &&Value| last_start(pod).is_some_and(|started| started >= kubelet);
    items(pods).iter().find(is_since).map(name)
}

/// A pod with an address whose sandbox is younger than this: what the pod network gave it, it gave since then. Whether its
/// containers run says nothing of the network.
pub fn fresh(pods: &Value, sandboxes: &[ListedSandbox], since: Timestamp) -> Option<FreshPod> {
    // The API server has whole seconds: an agent's start may be up to one later than it says.
    let since = later(since, SignedDuration::from_secs(1));
    let is_young = |pod: &&Value| {
        let own = sandboxes.iter().filter(|sandbox| sandbox.ready && sandbox.uid == uid(pod));
        own.into_iter().any(|sandbox| sandbox.created_at.is_some_and(|created| created >= since))
    };
    let mut own = items(pods).iter().filter(|pod| !is_in_host_network(pod)).filter(is_young);
    own.find_map(|pod| Some(FreshPod { name: name(pod), uid: uid(pod).to_owned(), address: address(pod)? }))
}

/// A pod whose sandbox proves what the pod network does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshPod {
    /// `NAMESPACE/NAME`.
    pub name: String,
    pub uid: String,
    pub address: IpAddr,
}

fn uid(pod: &Value) -> &str {
    pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// Whether a pod of this name is of the pod network's agent or of kube-proxy, as DaemonSets name their pods.
pub fn is_agent(pod: &str) -> bool {
    let set = pod.rsplit_once('-').map_or(pod, |(set, _)| set);
    set.starts_with("kube-proxy") || Flavour::of_daemon_set(set).is_some()
}

/// A pod that is bound to this node and has yet to get an address of its own. `since`: when the last of the kubelet and the
/// network's agents was started: what has waited for longer since than every start takes waits for something else, as a Secret
/// that is not there.
pub fn on_its_way(pods: &Value, since: Option<Timestamp>, now: Timestamp) -> Option<String> {
    const COMES: SignedDuration = SignedDuration::from_secs(30);
    let leaves = |pod: &Value| pod.pointer("/metadata/deletionTimestamp").is_some_and(|it| !it.is_null());
    let waits = |pod: &&Value| !is_in_host_network(pod) && !is_over(pod) && !leaves(pod) && address(pod).is_none();
    let made = |pod: &Value| pod.pointer("/metadata/creationTimestamp")?.as_str()?.parse::<Timestamp>().ok();
    // Of which it is not known since when it waits, it waits since now.
    let comes = |pod: &&Value| made(pod).max(since).is_none_or(|began| now.duration_since(began) < COMES);
    items(pods).iter().filter(waits).find(comes).map(name)
}

/// What kube-proxy's healthz on this machine says of its rules (`HTTP/1.0 503 …`, then JSON): why they are not as the cluster has
/// them; `None` where they are, or where it is no word of kube-proxy's. That its Node is to take no more connections is none.
pub fn proxy_lag(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let said: Value = serde_json::from_str(body.trim()).ok()?;
    let updated = said.get("lastUpdated")?.as_str()?;
    let status = head.split_whitespace().nth(1)?;
    let leaves = said.get("nodeEligible").is_some_and(|eligible| *eligible == false);
    let never = updated.starts_with("0001-01-01");
    let lags = never || (status == "503" && !leaves);
    let last = if never { "never".to_owned() } else { format!("at {updated}") };
    lags.then(|| redact(&format!("status {status}: rules last written {last}")))
}

/// Whether the CA file that this kubelet lets clients in by holds none of the CAs that it trusts itself. Only of the file that
/// kubeadm names; where one of both is not known, it does not.
pub fn lets_in_by_another_ca(facts: &Facts) -> bool {
    let config = facts.file(kubelet_config::FILE).map(|file| file.text.as_str()).unwrap_or_default();
    let named = config.lines().find_map(|line| line.trim().strip_prefix("clientCAFile:"));
    if named.is_some_and(|named| named.trim().trim_matches(['"', '\'']) != pki::CA) {
        return false;
    }
    let (Ok(conf), Ok(here)) = (facts.kubelet_kubeconfig(), facts.ca_certificates()) else { return false };
    let trusted = facts.trusted_by(&conf);
    !trusted.is_empty() && !trusted.iter().any(|ca| here.iter().any(|it| it.pin == ca.pin))
}

/// Whether the container of a throw-away Pod runs; `None`: that is still to come, or its image is not here.
pub fn container_start(pod: &Value) -> Option<ContainerStart> {
    const FAILS: [&str; 5] =
        ["CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "PostStartHookError"];
    let status = pod.pointer("/status/containerStatuses/0")?;
    if status.pointer("/state/running").is_some() {
        return Some(ContainerStart::Runs { pod: name(pod) });
    }
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let state = if status.pointer("/state/waiting").is_some() { "waiting" } else { "terminated" };
    let (reason, message) = (text(&format!("/state/{state}/reason")), text(&format!("/state/{state}/message")));
    let says = redact(format!("{reason} {message}").trim());
    FAILS.contains(&reason).then(|| ContainerStart::Fails { pod: name(pod), says })
}

/// Pods of other nodes that take connections over TCP, one a node.
pub fn peers(pods: &Value, own_node: &str) -> Vec<PeerPod> {
    let mut peers: Vec<PeerPod> = Vec::new();
    for pod in items(pods).iter().filter(|pod| !is_in_host_network(pod) && is_ready(pod)) {
        let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        let known = node.is_empty() || node == own_node || peers.iter().any(|peer| peer.node == node);
        if let Some(at) = tcp_address(pod).filter(|_| !known) {
            peers.push(PeerPod { pod: name(pod), node: node.to_owned(), at });
        }
    }
    peers
}

/// A pod of another node, and where it takes connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPod {
    /// `NAMESPACE/NAME`.
    pub pod: String,
    pub node: String,
    pub at: SocketAddr,
}

fn tcp_address(pod: &Value) -> Option<SocketAddr> {
    let list = |value: &Value, key: &str| value.pointer(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let ports = list(pod, "/spec/containers").into_iter().flat_map(|container| list(&container, "/ports"));
    // Where nothing is said it is TCP.
    let mut tcp = ports.filter(|port| port.get("protocol").is_none_or(|protocol| protocol == "TCP"));
    let port = tcp.find_map(|port| u16::try_from(port.get("containerPort")?.as_u64()?).ok())?;
    Some(SocketAddr::new(address(pod)?, port))
}

fn address(pod: &Value) -> Option<IpAddr> {
    pod.pointer("/status/podIP")?.as_str()?.parse().ok()
}

fn is_over(pod: &Value) -> bool {
    pod.pointer("/status/phase").is_some_and(|phase| phase == "Succeeded" || phase == "Failed")
}

/// What the API server says where it asked the kubelet and got no answer of it. Which of its words mean that nobody
/// answered, and which that TLS failed, are Go's own; what is neither says nothing of this node.
pub fn unreached(says: &str) -> Result<KubeletReach, Why> {
    const TLS: [&str; 2] = ["x509: ", "tls: "];
    const NO_ANSWER: [&str; 5] =
        ["dial tcp ", "i/o timeout", "context deadline exceeded", "no route to host", "connection refused"];
    let has = |words: &[&str]| words.iter().any(|word| says.contains(word));
    let says = redact(says);
    if has(&TLS) {
        Ok(KubeletReach::Untrusted { says })
    } else if has(&NO_ANSWER) {
        Ok(KubeletReach::Unanswered { says })
    } else {
        Err(Why::Busy(says))
    }
}

/// What is looked at where no pod of another node answers.
pub const SIGNS: &[Source] = &[
    Source::Query(&firewall::NFT),
    Source::Query(&firewall::IPTABLES),
    Source::Query(&firewall::LEGACY),
    Source::Query(&net::LINKS),
    Source::Query(&net::ROUTES),
    Source::Query(&net::NEIGHBOURS),
    Source::File(kubeconfig::KUBELET),
    Source::File(cni::SUBNET_ENV),
    Source::Tree(cni::CONF_DIR),
];

/// What on this machine keeps packets from these addresses, or from coming back; what could not be looked at is no sign.
pub fn signs(facts: &Facts, peers: &[IpAddr]) -> Vec<Evidence> {
    let drops = |overlay: &Overlay| match facts.inbound(Proto::Udp, overlay.port) {
        Ok(Passage::Blocked(rule)) => {
            let (source, rule) = firewall::found(&rule);
            Some(Evidence::of(source, format!("{rule} (UDP {})", overlay.port)))
        }
        _ => None,
    };
    let mut signs: Vec<Evidence> = facts.overlays().unwrap_or_default().iter().filter_map(drops).collect();
    if let Ok(Some(bridge)) = facts.pod_bridge()
        && let Ok(Passage::Blocked(rule)) = facts.forwarded(&bridge)
    {
        let (source, rule) = firewall::found(&rule);
        signs.push(Evidence::of(source, format!("{rule} (forwarded by {})", bridge.link)));
    }
    signs.extend(peers.iter().filter_map(|peer| facts.no_way_to(*peer).unwrap_or_default()));
    signs.dedup();
    signs
}

/// What keeps the pod network and kube-proxy from coming up on this node, by what their pods wait for. It may pass: a registry
/// comes back.
pub(super) fn held_up(agents: &[AgentPod]) -> Vec<JoinCause> {
    let cause = |pod: &AgentPod| {
        let [image_pull, crash_loop] = held_up_by(pod.is_kube_proxy);
        let seen = Evidence::of(pod.name.as_str(), pod.state());
        if pod.waits_for_its_image() {
            let down = pod.down.as_deref().unwrap_or_default();
            let says = format!("the image of {} cannot be pulled: {down}", pod.name);
            return Some(JoinCause::of(image_pull, says).seen(seen).fixed_by([pod.look()]));
        }
        let says = format!("{} does not stay up ({} restarts): {}", pod.name, pod.restarts, pod.why);
        pod.is_crash_looping().then(|| JoinCause::of(crash_loop, says).seen(seen).fixed_by([pod.look()]))
    };
    agents.iter().filter_map(cause).collect()
}

/// The pod network has not come to this node, and a taint that is not Kubernetes' own keeps it off: for certain where its
/// DaemonSet was seen; who may not look knows of NoExecute, which few networks tolerate, that it may.
pub(super) fn kept_from_node(seen: &NodeEvidence) -> Option<JoinCause> {
    let (Ok(agents), Ok(node)) = (&seen.agents, &seen.node) else { return None };
    if agents.iter().any(|pod| !pod.is_kube_proxy) {
        return None;
    }
    let cause = |says: String, taint: &Taint| {
        let follows =
            [id!("cni.config"), id!("cni.network-ready"), id!("cni.subnet-env"), id!("node.network-not-ready")];
        JoinCause::of(id!("cni.agent-taint"), says)
            .seen([Evidence::of("Node spec.taints", taint.to_string())])
            .explaining(follows.map(|about| about.id.to_owned()))
            .under(Circumstance::GoesOn)
    };
    match &seen.kept_off {
        Ok(Some(kept)) => Some(cause(kept.says(), &kept.taint).fixed_by(kept.ways_out(&node.name))),
        Ok(None) => None,
        Err(_) => {
            let taint = node.taints.iter().find(|it| it.effect == "NoExecute" && !it.is_kubernetes_own())?;
            let says =
                format!("the pod network may not tolerate the node's taint {taint}: no pod of it is on this node");
            let looks = "kubectl get daemonsets -A -o custom-columns=NAME:.metadata.name,TOLERATES:.spec.template.spec.tolerations    # only looks";
            let out = format!(
                "kubectl taint node {} {}:{}-    # where the network's does not",
                node.name, taint.key, taint.effect
            );
            Some(cause(says, taint).sure(Confidence::Possible).fixed_by([looks.to_owned(), out]))
        }
    }
}

/// What a pod of kube-proxy's, or of the network, waits for: its image, or the time after a crash.
fn held_up_by(is_kube_proxy: bool) -> [About<'static>; 2] {
    if is_kube_proxy {
        return [id!("kube-proxy.image-pull"), id!("kube-proxy.crash-loop")];
    }
    [id!("cni.image-pull"), id!("cni.daemon-crash-loop")]
}

fn items(list: &Value) -> &[Value] {
    list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn name(pod: &Value) -> String {
    let part = |key: &str| pod.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}

fn is_in_host_network(pod: &Value) -> bool {
    pod.pointer("/spec/hostNetwork").is_some_and(|it| it == true)
}

/// The name of the DaemonSet a pod is of.
fn daemon_set(pod: &Value) -> Option<&str> {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    owners.iter().find(|owner| owner.get("kind").is_some_and(|kind| kind == "DaemonSet"))?.get("name")?.as_str()
}

fn is_kube_proxy(pod: &Value) -> bool {
    daemon_set(pod).is_some_and(is_kube_proxys)
}

fn is_kube_proxys(set: &str) -> bool {
    set.starts_with("kube-proxy")
}

/// The pod network this pod is the agent of: agents are in the host's own network, as there is no other yet.
fn network_of(pod: &Value) -> Option<&'static Flavour> {
    daemon_set(pod).filter(|_| is_in_host_network(pod)).and_then(Flavour::of_daemon_set)
}

fn agent(pod: &Value) -> AgentPod {
    // An init container that ends again and again keeps the rest from ever starting.
    let of = |list: &str| pod.pointer(&format!("/status/{list}")).and_then(Value::as_array).into_iter().flatten();
    let containers: Vec<&Value> = of("initContainerStatuses").chain(of("containerStatuses")).collect();
    let failed = |end: &&Value| end.get("exitCode").is_none_or(|code| code != 0);
    let restarts = |container: &&Value| container.get("restartCount").and_then(Value::as_u64).unwrap_or_default();
    // One that has just ended says so in its state, and in its last once it was started again.
    let ends =
        |state: &str| containers.iter().find_map(|it| it.pointer(&format!("/{state}/terminated")).filter(failed));
    let ended = ends("state").or_else(|| ends("lastState")).map(|last| {
        let reason = last.get("reason").and_then(Value::as_str).unwrap_or("ended");
        format!("{reason}, exit {}", last.get("exitCode").and_then(Value::as_i64).unwrap_or_default())
    });
    // What waits because of another is told after what that one waits for.
    let waits = containers.iter().filter_map(|container| container.pointer("/state/waiting/reason")?.as_str());
    let down = waits.clone().find(|reason| *reason != "PodInitializing").or_else(|| waits.clone().next());
    // A container that never ran says why in the message of what it waits for; one that did, where it wrote one.
    let message = |state: &str| {
        let of = containers.iter().filter_map(|container| container.pointer(&format!("/{state}/message"))?.as_str());
        of.map(|text| text.trim().to_owned()).find(|text| !text.is_empty())
    };
    // What its kubelet did not take never had a container.
    let rejected = pod.pointer("/status/reason").and_then(Value::as_str).filter(|_| is_over(pod));
    let said = pod.pointer("/status/message").and_then(Value::as_str).filter(|_| is_over(pod));
    AgentPod {
        name: name(pod),
        restarts: containers.iter().map(restarts).sum(),
        why: ended.unwrap_or_else(|| "nothing ended".to_owned()),
        down: rejected.or(down).map(str::to_owned),
        is_kube_proxy: is_kube_proxy(pod),
        ready: pod.pointer("/status/phase").is_some_and(|phase| phase == "Running") && is_ready(pod),
        says: said
            .map(str::to_owned)
            .or_else(|| message("state/waiting"))
            .or_else(|| message("lastState/terminated"))
            .unwrap_or_default(),
        network: network_of(pod).map(|flavour| flavour.name.to_owned()),
        running: containers.iter().filter_map(|container| running(container)).collect(),
        lags: None,
    }
}

/// The id of a container that runs, as the runtime knows it: `containerd://…`.
fn running(container: &Value) -> Option<String> {
    container.pointer("/state/running")?;
    Some(container.get("containerID")?.as_str()?.split_once("://")?.1.to_owned())
}

/// Of a Pod or a Node.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut ready = conditions.filter(|it| it.get("type").is_some_and(|kind| kind == "Ready"));
    ready.any(|it| it.get("status").is_some_and(|status| status == "True"))
}

/// How often each restarted between two looks. One that is gone in between was replaced: its successor counts from nothing.
pub fn restarted(before: &[AgentPod], after: &[AgentPod]) -> Vec<AgentPod> {
    let earlier = |pod: &AgentPod| before.iter().find(|known| known.name == pod.name).map_or(0, |known| known.restarts);
    after.iter().map(|pod| AgentPod { restarts: pod.restarts.saturating_sub(earlier(pod)), ..pod.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::fdb;
    use crate::fact::join_state::sample::joined;
    use crate::fact::pki::sample::SampleAuthority;
    use crate::testing::{NOW, facts};
    use proptest::prelude::*;
    use serde_json::json;

    fn own() -> MachineIdentity {
        MachineIdentity { uuid: Some("4c4c4544-0042-4a10-8034-b7c04f4d3732".into()), machine_id: Some("a".repeat(32)) }
    }

    #[test]
    fn what_holds_the_pod_network_up_is_named() {
        let pod = |name: &str, restarts, down: Option<&str>| AgentPod {
            name: name.to_owned(),
            restarts,
            why: "Error, exit 1".to_owned(),
            down: down.map(str::to_owned),
            is_kube_proxy: name.starts_with("kube-system/kube-proxy"),
            ..AgentPod::default()
        };
        for (pod, expected) in [
            (pod("kube-flannel/kube-flannel-ds-1", 0, Some("ErrImagePull")), Some("cni.image-pull")),
            (pod("kube-flannel/kube-flannel-ds-1", 0, Some("PodInitializing")), None),
            (pod("kube-flannel/kube-flannel-ds-1", 1, Some("CrashLoopBackOff")), Some("cni.daemon-crash-loop")),
            (pod("kube-flannel/kube-flannel-ds-1", 3, Some("CrashLoopBackOff")), Some("cni.daemon-crash-loop")),
            (pod("kube-system/kube-proxy-1", 9, Some("CrashLoopBackOff")), Some("kube-proxy.crash-loop")),
            (pod("kube-system/kube-proxy-1", 0, Some("ImagePullBackOff")), Some("kube-proxy.image-pull")),
            (pod("kube-flannel/kube-flannel-ds-1", 9, None), None),
        ] {
            let causes = held_up(std::slice::from_ref(&pod));
            assert_eq!(causes.first().map(|cause| cause.id.as_str()), expected, "{pod:?}");
            assert!(causes.iter().all(|cause| !cause.remedy.is_empty()));
        }
    }

    #[test]
    fn a_node_is_held_against_this_machine() {
        let object = |uuid: &str, ready: &str, network: &str| {
            json!({"metadata": {"name": "w1"}, "spec": {"podCIDR": "10.244.1.0/24"}, "status": {
                "nodeInfo": {"systemUUID": uuid, "machineID": ""},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.21"}],
                "conditions": [
                    {"type": "Ready", "status": ready, "reason": "KubeletReady", "message": "posting"},
                    {"type": "NetworkUnavailable", "status": network, "reason": "NoRoute", "message": "not yet"}]}})
        };
        let ours = node(&object("4C4C4544-0042-4A10-8034-B7C04F4D3732", "True", "False"), &own());
        assert_eq!((ours.identity, ours.ready, ours.network_unavailable), (Some(true), true, None));
        let theirs = node(&object("00000000-0000-0000-0000-0000000000aa", "Unknown", "True"), &own());
        assert_eq!((theirs.identity, theirs.ready, theirs.silent), (Some(false), false, true));
        assert!(!node(&object("", "False", ""), &own()).silent, "its kubelet says so");
        assert_eq!(theirs.network_unavailable.as_deref(), Some("NoRoute not yet"));
        assert_eq!((ours.internal_ips.as_slice(), ours.pressures.len()), (&[IpAddr::from([10, 0, 0, 21])][..], 0));
        assert_eq!(pod_ranges(&object("", "True", "")), ["10.244.1.0/24"]);
        assert_eq!(node(&json!({}), &own()).says, "no condition Ready yet");
    }

    /// Up since 1000 s, by /proc/uptime; the kubelet for so long by ps, and started so many seconds after the boot by systemd.
    fn running(elapsed: &str, after_boot: &str) -> Facts {
        let show = format!(
            "Id=kubelet.service\nLoadState=loaded\nActiveState=active\nMainPID=17\nNRestarts=1\nExecMainStatus=0\n\
             ExecMainStartTimestampMonotonic={after_boot}\n"
        );
        let process = format!("17 {elapsed} /usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf\n");
        joined(&SampleAuthority::make())
            .with_query(&unit::SHOW, &show)
            .with_query(&process::KUBELET, &process)
            .with_file(unit::UPTIME, "1000.00 3000.00\n")
    }

    #[test]
    fn what_a_node_is_short_of_and_what_keeps_pods_off_it_is_read() {
        let object = json!({
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "x"}, {"key": "gpu", "value": "a", "effect": "NoSchedule"}, 7]},
            "status": {
                "addresses": [{"type": "Hostname", "address": "w1"}, {"type": "InternalIP", "address": "fd00::21"}, {"type": "ExternalIP", "address": "1.1.1.1"}, {"type": "InternalIP", "address": "?"}],
                "conditions": [
                    {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "kubelet has disk pressure"},
                    {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                    {"type": "PIDPressure", "status": "Unknown"}]}});
        let node = node(&object, &own());
        let says = "KubeletHasDiskPressure kubelet has disk pressure".to_owned();
        assert_eq!(node.pressures, [Pressure { of: Resource::Disk, says }]);
        let taints: Vec<String> = node.taints.iter().map(Taint::to_string).collect();
        assert_eq!(taints, ["node.kubernetes.io/not-ready:NoExecute", "gpu=a:NoSchedule", ":"]);
        assert_eq!(node.internal_ips, ["fd00::21".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn what_a_network_agent_says_of_its_address_is_read_as_it_writes_it() {
        let read = |annotations: Value| {
            let node = node(&json!({"metadata": {"name": "w1", "annotations": annotations}}), &own());
            node.agent_addresses.iter().map(|it| format!("{} {}", it.network, it.address)).collect::<Vec<_>>()
        };
        assert_eq!(read(json!({"flannel.alpha.coreos.com/public-ip": "10.0.2.15"})), ["flannel 10.0.2.15"]);
        let both =
            json!({"projectcalico.org/IPv4Address": "10.0.0.21/24", "projectcalico.org/IPv6Address": "fd00::21/64"});
        assert_eq!(read(both), ["calico 10.0.0.21", "calico fd00::21"]);
        let two = json!({"node.antrea.io/transport-addresses": "10.0.0.21,fd00::21"});
        assert_eq!(read(two), ["antrea 10.0.0.21", "antrea fd00::21"]);
        for none in [json!({}), json!({"flannel.alpha.coreos.com/public-ip": "eth0"}), json!(7), Value::Null] {
            assert_eq!(read(none), [""; 0]);
        }
    }

    /// A machine of two networks: the agent's address is on eth0, its peers are reached over eth1.
    #[test]
    fn a_peer_behind_another_interface_is_a_detour() {
        let links = r#"[{"ifname":"eth0","addr_info":[{"local":"10.0.2.15","prefixlen":24}]},{"ifname":"eth1","addr_info":[{"local":"192.168.56.21","prefixlen":24}]}]"#;
        let routes = r#"[{"dst":"default","gateway":"10.0.2.2","dev":"eth0"},{"dst":"10.0.2.0/24","dev":"eth0"},{"dst":"192.168.56.0/24","dev":"eth1"}]"#;
        let peers =
            |address: &str| format!(r#"[{{"mac":"5e:8d:1c:2f:aa:01","ifname":"flannel.1","dst":"{address}"}}]"#);
        let uses = |address: &str| AgentAddress {
            network: "flannel".into(),
            annotation: String::new(),
            address: address.parse().unwrap(),
            set_by: String::new(),
        };
        let facts = |peer: &str| {
            let facts = joined(&SampleAuthority::make()).with_query(&net::LINKS, links);
            facts.with_query(&net::ROUTES, routes).with_query(&fdb::FDB, &peers(peer))
        };
        let told = |peer, own| detours(&facts(peer), &[uses(own)]);
        assert_eq!(
            told("192.168.56.11", "10.0.2.15"),
            Ok(vec!["192.168.56.11 goes over eth1; 10.0.2.15 is on eth0".into()])
        );
        assert_eq!(told("192.168.56.11", "192.168.56.21"), Ok(vec![]));
        assert_eq!(told("8.8.8.8", "10.0.2.15"), Ok(vec![]), "by the default route");
        assert_eq!(told("192.168.56.11", "203.0.113.7"), Ok(vec![]), "an address of a translation outside");
        let unknown = facts("8.8.8.8").without(Source::Query(&fdb::FDB), Why::NoTool);
        assert_eq!(detours(&unknown, &[uses("10.0.2.15")]), Err(Why::NoTool));
    }

    #[test]
    fn the_machines_addresses_and_what_its_kubelet_is_told_to_use() {
        let links = r#"[{"ifname":"lo","addr_info":[{"local":"127.0.0.1","prefixlen":8}]},{"ifname":"eth0","addr_info":[{"local":"10.0.0.21","prefixlen":24}]}]"#;
        let facts = joined(&SampleAuthority::make()).with_query(&net::LINKS, links);
        assert_eq!(addresses(&facts).map(|all| all.len()), Ok(2));
        assert_eq!(addresses(&facts.without(Source::Query(&net::LINKS), Why::NoTool)), Err(Why::NoTool));
    }

    #[test]
    fn the_kubelet_started_so_long_ago_whatever_the_machine_slept() {
        for (name, elapsed, after_boot, millis_ago) in [
            ("never slept: exact", "10", "989500000", Some(10_500)),
            ("slept before the kubelet started", "10", "390000000", Some(10_000)),
            ("slept for a second", "10", "988900000", Some(11_100)),
            ("a container whose host was up for days", "10", "864000000000", Some(10_000)),
            ("since the boot", "999", "700000", Some(999_300)),
            ("ps does not say", "", "990000000", None),
        ] {
            let started = kubelet(&running(elapsed, after_boot)).unwrap().started_at;
            assert_eq!(started.map(|at| NOW.duration_since(at).as_millis()), millis_ago, "{name}");
        }
    }

    #[test]
    fn the_kubelet_is_what_its_process_is() {
        let seen = kubelet(&running("10", "990000000")).unwrap();
        assert_eq!((seen.active, seen.standalone, seen.restarts, seen.exit), (true, false, 1, None));
        let alone = running("10", "990000000").with_query(&process::KUBELET, "17 10 /usr/bin/kubelet\n");
        assert!(kubelet(&alone).unwrap().standalone);
    }

    #[test]
    fn a_certificate_is_held_against_the_cluster_that_was_asked_for() {
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        let shown = |of: &[&SampleAuthority]| RequestedCluster { cas: authorities(of), pins: Vec::new() };
        let facts = joined(&ca);
        let judged = |facts: &Facts, asked: &RequestedCluster| certificate(facts, "w1", asked);
        for (asked, trusted) in [(shown(&[]), true), (shown(&[&ca]), true), (shown(&[&other]), false)] {
            assert_eq!(judged(&facts, &asked) == Ok(ClientCertificate::Trusted), trusted, "{:?}", asked.keys());
        }
        assert!(matches!(certificate(&facts, "w2", &shown(&[&ca])), Ok(ClientCertificate::Stale { .. })));
        assert_eq!(judged(&facts.clone().without_file(pki::CLIENT), &shown(&[])), Err(Why::Absent));
        assert_eq!(cluster(&facts, &RequestedCluster::default()), Err(Why::NotAsked));
        for (authority, expected) in [(&ca, true), (&other, false)] {
            let pins = vec![authorities(&[authority])[0].pin.parse().unwrap()];
            for asked in [shown(&[authority]), RequestedCluster { cas: Vec::new(), pins }] {
                assert_eq!(cluster(&facts, &asked).unwrap().is_same, expected);
            }
        }
    }

    fn authorities(of: &[&SampleAuthority]) -> Vec<pki::Certificate> {
        of.iter().flat_map(|authority| pki::parse_certificates(&authority.pem).unwrap()).collect()
    }

    /// While a cluster's CA is rotated, cluster-info and kubelet.conf hold two, in any order, and either may have signed.
    #[test]
    fn any_of_the_cas_of_a_cluster_may_have_signed_it() {
        let [old, new, other, next] = std::array::from_fn(|_| SampleAuthority::make());
        let conf = |of: &[&SampleAuthority]| {
            let pems: String = of.iter().map(|authority| authority.pem.as_str()).collect();
            kubeconfig::sample::kubelet("https://10.0.0.11:6443", &pems)
        };
        for (name, trusts, signed_by, shows, in_cluster) in [
            ("before", &[&old][..], &old, &[&old][..], true),
            ("cluster-info has both", &[&old], &old, &[&new, &old], true),
            ("signed by the new one", &[&old], &new, &[&old, &new], true),
            ("kubelet.conf has both", &[&new, &old], &old, &[&old], true),
            ("the old one is gone from cluster-info", &[&old, &new], &old, &[&new], true),
            ("kubelet.conf was not brought up to date", &[&old], &new, &[&new], true),
            ("another cluster", &[&other], &other, &[&old, &new], false),
            ("another cluster, itself in rotation", &[&other, &next], &other, &[&old, &new], false),
        ] {
            let client = signed_by.node("system:node:w1", 2027);
            let facts = joined(&old).with_file(kubeconfig::KUBELET, &conf(trusts)).with_file(pki::CLIENT, &client);
            let asked = RequestedCluster { cas: authorities(shows), pins: Vec::new() };
            let judged = certificate(&facts, "w1", &asked);
            assert_eq!(judged == Ok(ClientCertificate::Trusted), in_cluster, "{name}: {judged:?}");
            assert_eq!(cluster(&facts, &asked).unwrap().is_same, in_cluster, "{name}");
        }
    }

    #[test]
    fn of_a_ca_that_nobody_knows_only_the_api_server_can_tell() {
        let (ca, clients) = (SampleAuthority::make(), SampleAuthority::make());
        let facts = joined(&ca).with_file(pki::CLIENT, &clients.node("system:node:w1", 2027));
        for of in [&[][..], &[&ca]] {
            let asked = RequestedCluster { cas: authorities(of), pins: Vec::new() };
            assert_eq!(certificate(&facts, "w1", &asked), Ok(ClientCertificate::Unvouched));
        }
        let elsewhere = RequestedCluster { cas: authorities(&[&SampleAuthority::make()]), pins: Vec::new() };
        assert!(matches!(certificate(&facts, "w1", &elsewhere), Ok(ClientCertificate::Stale { .. })));
    }

    #[test]
    fn the_newest_request_of_this_node_counts() {
        let pem = |name: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pki::sample::request(name));
        let item = |name: &str, node: &str, second: i64, condition: &str| {
            let made = Timestamp::from_second(NOW.as_second() + second).unwrap().to_string();
            json!({"metadata": {"name": name, "creationTimestamp": made},
                   "spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "request": pem(node)},
                   "status": {"conditions": [{"type": condition, "message": "because"}]}})
        };
        let list = json!({"items": [
            item("old", "system:node:w1", -60, "Approved"),
            item("first", "system:node:w1", 1, "Approved"),
            item("second", "system:node:w1", 2, "Denied"),
            item("theirs", "system:node:w2", 3, "Approved")]});
        let newest = request(&list, "w1", &[]).unwrap();
        assert_eq!((newest.name.as_str(), newest.state), ("second", Signing::Denied { why: "because".into() }));
        let before: Vec<String> = ["old", "second"].map(str::to_owned).into();
        assert_eq!(
            request(&list, "w1", &before).map(|request| request.name),
            Ok("first".to_owned()),
            "by name, not time"
        );
        assert_eq!(request(&list, "w1", &requests(&list, "w1", |_| true)), Err(Why::Absent));
        assert_eq!(requests(&list, "w1", |state| *state == Signing::Pending), [""; 0]);
        assert_eq!(request(&list, "w3", &[]), Err(Why::Absent));
        assert_eq!(signing(&json!({})), Signing::Pending);
        let approved = json!({"status": {"conditions": [{"type": "Approved"}]}});
        assert_eq!(signing(&approved), Signing::Approved, "approved, and nobody has signed it yet");
        let issued = json!({"status": {"conditions": [{"type": "Approved"}], "certificate": "LS0t"}});
        assert_eq!(signing(&issued), Signing::Issued);
    }

    /// A pod of a DaemonSet in the host's network, with one container.
    fn of_set(set: &str, restarts: u64, waits: Option<&str>) -> Value {
        let state = waits.map_or(json!({"running": {}}), |reason| json!({"waiting": {"reason": reason}}));
        let ready = if waits.is_none() { "True" } else { "False" };
        json!({"metadata": {"name": format!("{set}-x"), "namespace": "net", "ownerReferences": [{"kind": "DaemonSet", "name": set}]},
               "spec": {"hostNetwork": true},
               "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}], "containerStatuses": [{"restartCount": restarts, "state": state,
                   "lastState": {"terminated": {"reason": "Error", "exitCode": 2}}}]}})
    }

    #[test]
    fn restarts_are_counted_from_the_first_look() {
        let pods = |restarts: u64| {
            let other = json!({"metadata": {"name": "app"}, "spec": {}, "status": {"containerStatuses": [{"restartCount": 9}]}});
            agents(
                &json!({"items": [of_set("kube-flannel-ds", restarts, None), of_set("node-exporter", restarts, None), other]}),
            )
        };
        let seen = restarted(&pods(3), &pods(5));
        let (name, why) = ("net/kube-flannel-ds-x".into(), "Error, exit 2".into());
        let network = Some("flannel".to_owned());
        assert_eq!(seen, [AgentPod { name, restarts: 2, why, ready: true, network, ..AgentPod::default() }]);
        let proxy = agents(&json!({"items": [of_set("kube-proxy", 9, None)]}));
        assert_eq!(proxy.iter().map(|pod| pod.is_kube_proxy).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn who_is_held_back_after_an_end_loops() {
        for (restarts, waits, loops) in
            [(1, Some("CrashLoopBackOff"), true), (9, None, false), (0, Some("ContainerCreating"), false)]
        {
            let seen = agents(&json!({"items": [of_set("kube-proxy", restarts, waits)]}));
            assert_eq!(seen[0].is_crash_looping(), loops, "{restarts} {waits:?}");
        }
        let mut held = of_set("kube-flannel-ds", 0, Some("PodInitializing"));
        held["status"]["initContainerStatuses"] =
            json!([{"restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
        let seen = agents(&json!({"items": [held]}));
        assert_eq!((seen[0].restarts, seen[0].down.as_deref()), (7, Some("CrashLoopBackOff")));
    }

    #[allow(clippy::needless_pass_by_value)] // So that a row reads as one.
    fn pod(name: &str, more: Value) -> Value {
        let mut pod = json!({"metadata": {"name": name, "namespace": "a", "uid": name}, "spec": {"nodeName": "w1"},
            "status": {"phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": "True"}]}});
        for (key, value) in more.as_object().unwrap() {
            *pod.pointer_mut(key).unwrap() = value.clone();
        }
        pod
    }

    fn in_host_network() -> Value {
        json!({"/spec": {"hostNetwork": true, "nodeName": "w1"}})
    }

    #[test]
    fn the_networks_of_a_node_are_found_among_its_pods() {
        let of = |sets: &[&str]| json!({"items": sets.iter().map(|set| of_set(set, 0, None)).collect::<Vec<_>>()});
        for (sets, name, asks) in [
            (&["kube-multus-ds", "calico-node"][..], Some("calico"), true),
            (&["kube-multus-ds", "kube-flannel-ds"], Some("flannel"), true),
            (&["kube-flannel-ds", "kube-proxy"], Some("flannel"), false),
            (&["kube-proxy"], None, false),
        ] {
            let list = of(sets);
            assert_eq!((network(&list).map(|flavour| flavour.name), needs_pod(&list)), (name, asks), "{sets:?}");
        }
    }

    #[test]
    fn only_a_pod_younger_than_the_kubelet_and_the_agent_proves_what_is() {
        let sandbox = |uid: &str, ready: bool, second: i64| ListedSandbox {
            pod: format!("a/{uid}"),
            ready,
            bound: false,
            id: String::new(),
            uid: uid.to_owned(),
            created_at: Timestamp::from_second(NOW.as_second() + second).ok(),
        };
        let list = json!({"items": [pod("web", json!({})), pod("host", in_host_network())]});
        let (young, old) = (sandbox("web", true, 2), sandbox("web", true, -60));
        let found =
            Some(FreshPod { name: "a/web".to_owned(), uid: "web".to_owned(), address: IpAddr::from([10, 0, 0, 7]) });
        for (name, sandboxes, expected) in [
            ("young", vec![young.clone()], found.clone()),
            ("old", vec![old.clone()], None),
            ("made anew", vec![old, young], found),
            ("in the agent's own second", vec![sandbox("web", true, 0)], None),
            ("stopped", vec![sandbox("web", false, 2)], None),
            ("another's", vec![sandbox("db", true, 2)], None),
            ("no time is told", vec![ListedSandbox { created_at: None, ..sandbox("web", true, 2) }], None),
            ("in the host's network", vec![sandbox("host", true, 2)], None),
        ] {
            assert_eq!(fresh(&list, &sandboxes, NOW), expected, "{name}");
        }
        let unaddressed = json!({"items": [pod("web", json!({"/status": {"phase": "Pending"}}))]});
        assert_eq!(fresh(&unaddressed, &[sandbox("web", true, 2)], NOW), None);
    }

    #[test]
    fn an_agent_is_as_old_as_its_last_start_and_down_until_it_is_ready() {
        let agent = |ready: &str, started: &[&str]| {
            let mut agent = of_set("calico-node", 0, None);
            let running = |at: &&str| json!({"state": {"running": {"startedAt": at}}});
            agent["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
            agent["status"]["containerStatuses"] = started.iter().map(running).collect();
            json!({"items": [agent, pod("web", json!({}))]})
        };
        let up = agent("True", &["2026-11-15T10:00:00Z", "2026-11-15T10:05:00Z"]);
        assert_eq!((agents_since(&up), agent_down(&up)), ("2026-11-15T10:05:00Z".parse().ok(), None));
        let unlisted = json!({"items": [{"metadata": {"name": "n-x", "namespace": "net", "ownerReferences": [{"kind": "DaemonSet", "name": "n"}]},
            "spec": {"hostNetwork": true}, "status": {"containerStatuses": [{"state": {"running": {"startedAt": "2026-11-15T10:05:00Z"}}}]}}]});
        assert_eq!(agents_since(&unlisted), "2026-11-15T10:05:00Z".parse().ok(), "whoever may be the agent counts");
        let down = agent("False", &[]);
        assert_eq!((agents_since(&down), agent_down(&down).as_deref()), (None, Some("net/calico-node-x")));
    }

    #[test]
    fn a_pod_without_an_address_is_on_its_way_unless_it_is_over() {
        let pending = json!({"/status": {"phase": "Pending"}});
        let mut leaves = pod("web", pending.clone());
        leaves["metadata"]["deletionTimestamp"] = "2026-11-15T10:00:00Z".into();
        for (name, pod, comes) in [
            ("pending", pod("web", pending.clone()), true),
            ("has an address", pod("web", json!({})), false),
            ("failed", pod("web", json!({"/status": {"phase": "Failed"}})), false),
            (
                "in the host's network",
                {
                    let mut pod = pod("web", in_host_network());
                    pod["status"] = pending["/status"].clone();
                    pod
                },
                false,
            ),
            ("leaves", leaves, false),
        ] {
            assert_eq!(on_its_way(&json!({"items": [pod]}), None, NOW).is_some(), comes, "{name}");
        }
        let at = |second: i64| Timestamp::from_second(NOW.as_second() + second).unwrap();
        for (name, made, since, comes) in [
            ("made a moment ago", -29, None, true),
            ("made long ago", -30, None, false),
            ("made long ago, the kubelet started since", -900, Some(at(-29)), true),
            ("both long ago: a Secret is missing", -900, Some(at(-30)), false),
        ] {
            let mut pod = pod("web", pending.clone());
            pod["metadata"]["creationTimestamp"] = at(made).to_string().into();
            assert_eq!(on_its_way(&json!({"items": [pod]}), since, NOW).is_some(), comes, "{name}");
        }
    }

    #[test]
    fn a_container_younger_than_the_kubelet_was_started_by_it() {
        let pod = |started: &str| {
            let mut pod = pod("web", json!({}));
            pod["status"]["containerStatuses"] = json!([{"state": {"running": {"startedAt": started}}}]);
            json!({"items": [pod]})
        };
        let kubelet = "2026-11-15T10:00:00.4Z".parse().unwrap();
        for (started, proves) in
            [("2026-11-15T10:00:01Z", true), ("2026-11-15T10:00:00Z", false), ("2026-11-14T10:00:01Z", false)]
        {
            assert_eq!(started_since(&pod(started), kubelet).is_some(), proves, "{started}");
        }
        assert_eq!(started_since(&json!({"items": [of_set("kube-proxy", 0, None)]}), kubelet), None, "no time is told");
    }

    #[test]
    fn what_becomes_of_a_container_is_told_by_its_state() {
        let of = |state: Value| {
            let mut pod = pod("carrick-verify-1", json!({}));
            pod["status"]["containerStatuses"] = json!([{"state": state}]);
            container_start(&pod)
        };
        let name = || "a/carrick-verify-1".to_owned();
        let says = "CreateContainerError no space".to_owned();
        for (state, expected) in [
            (json!({"running": {}}), Some(ContainerStart::Runs { pod: name() })),
            (
                json!({"waiting": {"reason": "CreateContainerError", "message": "no space"}}),
                Some(ContainerStart::Fails { pod: name(), says }),
            ),
            (json!({"waiting": {"reason": "ContainerCreating"}}), None),
            (json!({"waiting": {"reason": "ErrImageNeverPull"}}), None),
        ] {
            assert_eq!(of(state.clone()), expected, "{state}");
        }
        assert_eq!(container_start(&pod("carrick-verify-1", json!({}))), None);
    }

    #[test]
    fn plugins_that_are_not_known_may_serve_pods_alone() {
        let conf = |plugins: &str| {
            let text = format!(r#"{{"name":"a","cniVersion":"0.3.1","plugins":[{plugins}]}}"#);
            [Candidate::read("", "10-a.conflist", &text)]
        };
        let flannel = json!({"items": [of_set("kube-flannel-ds", 0, None)]});
        let nobody = json!({"items": []});
        for (plugins, serves) in [
            (r#"{"type":"flannel"},{"type":"portmap"}"#, true),
            (r#"{"type":"bridge","ipam":{"type":"host-local"}}"#, true),
            (r#"{"type":"ptp","ipam":{"type":"host-local"}},{"type":"bandwidth"}"#, true),
            (r#"{"type":"macvlan","ipam":{"type":"spiderpool"}}"#, false),
            (r#"{"type":"ovn-k8s-cni-overlay"}"#, false),
            (r#"{"type":"terway"}"#, false),
            (r#"{"type":"calico","ipam":{"type":"calico-ipam"}}"#, false),
        ] {
            assert_eq!(serves_sandboxes(&conf(plugins), &flannel), serves, "{plugins}");
        }
        assert!(serves_sandboxes(&[], &flannel) && !serves_sandboxes(&[], &nobody), "by whose agent is here");
    }

    #[test]
    fn kube_proxy_says_whether_it_has_written_its_rules() {
        let said =
            |status: &str, body: &str| proxy_lag(&format!("HTTP/1.0 {status}\r\nContent-Type: x\r\n\r\n{body}\n"));
        let at =
            r#""lastUpdated": "2026-11-15 10:00:00.1 +0000 UTC m=+1","currentTime": "2026-11-15 10:01:00 +0000 UTC""#;
        let never = r#"{"lastUpdated": "0001-01-01 00:00:00 +0000 UTC","currentTime": "x"}"#;
        for (name, status, body, lags) in [
            ("well", "200 OK", format!("{{{at}}}"), false),
            ("well, newer", "200 OK", format!("{{{at}, \"nodeEligible\": true}}"), false),
            ("behind", "503 Service Unavailable", format!("{{{at}}}"), true),
            ("behind, newer", "503 Service Unavailable", format!("{{{at}, \"nodeEligible\": true}}"), true),
            ("its node leaves", "503 Service Unavailable", format!("{{{at}, \"nodeEligible\": false}}"), false),
            ("never", "200 OK", never.to_owned(), true),
            ("another program", "503 Service Unavailable", "<html>".to_owned(), false),
            ("another program's JSON", "503 Service Unavailable", "{}".to_owned(), false),
        ] {
            assert_eq!(said(status, &body).is_some(), lags, "{name}");
        }
        assert_eq!(proxy_lag("HTTP/1.0 503"), None);
    }

    #[test]
    fn a_ca_file_of_another_cluster_is_told() {
        let (own, other) = (SampleAuthority::make(), SampleAuthority::make());
        let both = format!("{}{}", other.pem, own.pem);
        for (name, facts, is_other) in [
            ("its own", joined(&own), false),
            ("another's", joined(&own).with_file(pki::CA, &other.pem), true),
            ("both", joined(&own).with_file(pki::CA, &both), false),
            (
                "another's, and the kubelet goes by a third",
                joined(&own)
                    .with_file(pki::CA, &other.pem)
                    .with_file(kubelet_config::FILE, "authentication:\n  x509:\n    clientCAFile: /etc/ca\n"),
                false,
            ),
            ("none", joined(&own).without_file(pki::CA), false),
            ("nothing to hold it against", joined(&own).without_file(kubeconfig::KUBELET), false),
        ] {
            assert_eq!(lets_in_by_another_ca(&facts), is_other, "{name}");
        }
    }

    #[test]
    fn peers_are_ready_pods_of_other_nodes_that_take_tcp() {
        let dns = |name: &str, node: &str, ports: Value| {
            pod(name, json!({"/spec": {"nodeName": node, "containers": [{"ports": ports}]}}))
        };
        let both = || json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]);
        let mut down = dns("down", "w4", both());
        down["status"]["conditions"] = json!([]);
        let list = json!({"items": [dns("own", "w1", both()), dns("one", "cp1", both()), dns("two", "cp1", both()),
            dns("udp", "w2", json!([{"containerPort": 53, "protocol": "UDP"}])), dns("tcp", "w3", json!([{"containerPort": 80}])),
            down, pod("host", in_host_network())]});
        let told: Vec<(String, String)> =
            peers(&list, "w1").into_iter().map(|it| (it.pod, it.at.to_string())).collect();
        let expected = [("a/one", "10.0.0.7:53"), ("a/tcp", "10.0.0.7:80")];
        assert_eq!(told, expected.map(|(pod, at)| (pod.to_owned(), at.to_owned())));
    }

    #[test]
    fn what_the_api_server_says_of_a_kubelet_is_told_apart() {
        use KubeletReach::{Unanswered, Untrusted};
        for (says, expected) in [
            ("error trying to reach service: dial tcp 10.0.0.21:10250: i/o timeout", Some(false)),
            ("error trying to reach service: dial tcp 10.0.0.21:10250: connect: no route to host", Some(false)),
            ("error trying to reach service: dial tcp 10.0.0.21:10250: connect: connection refused", Some(false)),
            ("error trying to reach service: remote error: tls: internal error", Some(true)),
            (
                "error trying to reach service: tls: failed to verify certificate: x509: certificate signed by unknown authority",
                Some(true),
            ),
            ("error trying to reach service: No agent available", None),
            ("no preferred addresses found; known addresses: []", None),
        ] {
            let told = match unreached(says) {
                Ok(Untrusted { .. }) => Some(true),
                Ok(Unanswered { .. }) => Some(false),
                Ok(KubeletReach::Answered | KubeletReach::Refused { .. } | KubeletReach::Unknown { .. }) | Err(_) => {
                    None
                }
            };
            assert_eq!(told, expected, "{says}");
        }
    }

    #[test]
    fn a_sign_is_what_keeps_packets_from_a_peer() {
        let peer = [IpAddr::from([10, 244, 0, 2])];
        let tunnel = r#"[{"ifname":"flannel.1","linkinfo":{"info_kind":"vxlan","info_data":{"port":8472}}},
            {"ifname":"eth0","addr_info":[{"local":"10.0.0.21","prefixlen":24}]}]"#;
        let by_tunnel = r#"[{"dst":"10.244.0.0/24","gateway":"10.244.0.0","dev":"flannel.1","flags":["onlink"]},
            {"dst":"default","gateway":"10.0.0.1","dev":"eth0","flags":[]}]"#;
        let known = r#"[{"dst":"10.244.0.0","dev":"flannel.1","lladdr":"aa:bb","state":["PERMANENT"]}]"#;
        let sound = || {
            let facts = facts().with_query(&firewall::NFT, r#"{"nftables":[]}"#).with_query(&firewall::IPTABLES, "");
            let facts = facts.with_query(&net::LINKS, tunnel).with_query(&net::ROUTES, by_tunnel);
            let facts = facts.with_query(&net::NEIGHBOURS, known).with_file(kubeconfig::KUBELET, "");
            facts.with_file(cni::SUBNET_ENV, "FLANNEL_NETWORK=10.244.0.0/16\n")
        };
        let drop = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p udp -m udp --dport 8472 -j DROP\nCOMMIT\n";
        let default_only = r#"[{"dst":"default","gateway":"10.0.0.1","dev":"eth0","flags":[]}]"#;
        for (name, facts, expected) in [
            ("sound", sound(), None),
            ("a rule drops", sound().with_query(&firewall::IPTABLES, drop), Some("iptables-save")),
            ("no route", sound().with_query(&net::ROUTES, "[]"), Some("ip -j route show table all")),
            // A cloud routes pods by itself.
            (
                "by the default route",
                sound().with_query(&net::ROUTES, default_only).without_file(cni::SUBNET_ENV),
                None,
            ),
            (
                "by the default route, with flannel's tunnel",
                sound().with_query(&net::ROUTES, default_only),
                Some("ip -j route show table all"),
            ),
            ("no neighbour", sound().with_query(&net::NEIGHBOURS, "[]"), Some("ip -j neigh show")),
            (
                "one in vain",
                sound().with_query(&net::NEIGHBOURS, &known.replace("PERMANENT", "FAILED")),
                Some("ip -j neigh show"),
            ),
            ("nothing could be looked at", facts(), None),
        ] {
            let told = signs(&facts, &peer);
            assert_eq!(told.first().map(|sign| sign.source.as_str()), expected, "{name}: {told:?}");
        }
    }

    #[test]
    fn an_agent_is_ready_where_it_runs_and_stays() {
        let of = |change: fn(&mut Value)| {
            let mut pod = of_set("kube-proxy", 0, None);
            change(&mut pod);
            agents(&json!({"items": [pod]})).iter().map(|pod| (pod.ready, pod.says.clone())).collect::<Vec<_>>()
        };
        assert_eq!(of(|_| ()), [(true, String::new())]);
        assert_eq!(of(|pod| pod["status"]["phase"] = json!("Pending")), [(false, String::new())]);
        assert_eq!(of(|pod| pod["status"]["conditions"][0]["status"] = json!("False")), [(false, String::new())]);
        assert_eq!(of(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-15T10:00:00Z")), []);
        let waits = |pod: &mut Value| {
            pod["status"]["conditions"][0]["status"] = json!("False");
            pod["status"]["containerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "CreateContainerError", "message": " no such file \n"}});
        };
        assert_eq!(of(waits), [(false, "no such file".to_owned())]);
    }

    #[test]
    fn only_kube_proxys_daemon_set_is_looked_for() {
        let set = |name: &str| {
            json!({"metadata": {"namespace": "kube-system", "name": name},
                "spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}})
        };
        let node = json!({"metadata": {"name": "w1"}, "spec": {}});
        let found = kube_proxy_set(&[set("kube-flannel-ds"), set("kube-proxy")], &node);
        assert_eq!(found.as_deref(), Some("kube-system/kube-proxy"));
        assert_eq!(kube_proxy_set(&[set("kube-flannel-ds")], &node), None);
        let mut agents = set("kube-flannel-ds");
        assert_eq!(network_set(&[set("kube-proxy"), agents.clone()], &node), None, "it is not in the host's network");
        agents["spec"]["template"]["spec"]["hostNetwork"] = true.into();
        assert_eq!(network_set(&[set("kube-proxy"), agents], &node).as_deref(), Some("kube-system/kube-flannel-ds"));
    }

    #[test]
    fn a_lease_says_how_long_it_is_good() {
        let lease = |seconds: Value| {
            renewal(&json!({"metadata": {"resourceVersion": "7"},
            "spec": {"renewTime": "2026-11-15T10:00:00.123456Z", "leaseDurationSeconds": seconds}}))
        };
        assert_eq!((lease(json!(120)).lasts, lease(json!(0)).lasts, lease(json!("x")).lasts), (Some(120), None, None));
        assert!(lease(json!(40)).renewed_at.is_some());
    }

    proptest! {
        #[test]
        fn any_json_is_read(text in ".*", number: u64) {
            for value in [json!(text), json!({"items": [text, number]}), json!({"status": {"conditions": [number, {"type": text}]}})] {
                let _ = (node(&value, &own()), renewal(&value), request(&value, &text, &[]), agents(&value), pod_ranges(&value), network(&value));
                let _ = (needs_pod(&value), agent_down(&value), agents_since(&value), on_its_way(&value, None, NOW), proxy_lag(&text), container_start(&value), peers(&value, &text), fresh(&value, &[], NOW), unreached(&text));
            }
        }
    }
}
