//! Evidence of a join, out of facts and of what the API server answers. Pure: what is looked at is looked at by the engine.

use std::net::{IpAddr, SocketAddr};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::existing::RequestedCluster;
use super::failure::JoinCause;
use super::state::later;
use super::verify::{
    AgentPod, CertificateRequest, ClientCertificate, ClusterPins, Kubelet, KubeletReach, LeaseRenewal, Node,
    RuntimeConditions, Signing,
};
use crate::check::Evidence;
use crate::cni::Flavour;
use crate::fact::identity::{self, MachineIdentity};
use crate::fact::listen::Proto;
use crate::fact::netfilter::Passage;
use crate::fact::overlay::Overlay;
use crate::fact::{Facts, Known, OrAbsent, Source, Why, firewall, kubeconfig, net, pki, process, unit};
use crate::id;
use crate::redact::redact;
use crate::reset::pods::ListedSandbox;

/// What is looked at again and again while a join is watched; the runtime's status comes over its socket.
pub const WATCHED: &[Source] = &[
    Source::Query(&unit::SHOW),
    Source::Query(&unit::KUBELET),
    Source::Query(&process::KUBELET),
    // The node's name may stand in any of the three.
    Source::File(unit::KUBEADM_FLAGS),
    Source::File(unit::DEFAULTS),
    Source::File(unit::SYSCONFIG),
    Source::File(unit::UPTIME),
    Source::File(kubeconfig::KUBELET),
    Source::File(kubeconfig::BOOTSTRAP),
    Source::File(pki::CLIENT),
    Source::File(identity::HOSTNAME),
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
    Ok(Kubelet {
        active,
        standalone,
        restarts: state.restarts.unwrap_or_default(),
        exit: state.exec_main_status.filter(|_| !active),
        started_at: after_boot(facts, state.started_after_boot),
    })
}

/// So many microseconds after the boot, by this machine's clock: systemd's own words for a time depend on the zone.
pub fn after_boot(facts: &Facts, micros: Option<u64>) -> Option<Timestamp> {
    let up: f64 = facts.file(unit::UPTIME).ok()?.text.split_whitespace().next()?.parse().ok()?;
    let up = SignedDuration::try_from_secs_f64(up).ok()?;
    let since_boot = SignedDuration::from_micros(i64::try_from(micros?).ok()?);
    facts.taken_at.checked_sub(up).ok()?.checked_add(since_boot).ok()
}

/// The kubelet's client certificate, held against a CA. `Absent`: it has none yet.
pub fn certificate(facts: &Facts, ca: Option<&pki::Certificate>) -> Result<ClientCertificate, Why> {
    let judged = || -> Known<ClientCertificate> {
        let client = facts.client_certificate()?;
        let own = facts.own_common_name()?;
        let conf = facts.kubelet_kubeconfig().or_absent()?;
        let own_ca = conf.and_then(|conf| conf.ca());
        let stale = |why: String| Ok(ClientCertificate::Stale { why });
        if client.common_name != own {
            return stale(format!("it is {}'s", client.common_name));
        }
        if !client.is_valid_at(facts.taken_at) {
            return stale(format!("it is valid from {} to {}", client.not_before, client.not_after));
        }
        match ca.or(own_ca.as_ref()) {
            Some(ca) if !client.is_signed_by(ca) => stale("another cluster's CA has signed it".to_owned()),
            Some(_) => Ok(ClientCertificate::Trusted),
            None => stale("there is no CA to hold it against".to_owned()),
        }
    };
    judged().map_err(|missing| missing.why)
}

/// The cluster in kubelet.conf, beside the one that was asked for.
pub fn cluster(facts: &Facts, asked: &RequestedCluster) -> Result<ClusterPins, Why> {
    if asked.ca.is_none() && asked.pins.is_empty() {
        return Err(Why::NotAsked);
    }
    let conf = facts.kubelet_kubeconfig().map_err(|missing| missing.why)?;
    let own = conf.ca().ok_or_else(|| Why::Broken("kubelet.conf holds no CA".to_owned()))?.pin;
    let asked = asked.pin(&own).ok_or(Why::NotAsked)?;
    Ok(ClusterPins { own, asked })
}

/// What the runtime says of itself.
pub fn runtime(facts: &Facts) -> Result<RuntimeConditions, Why> {
    let status = facts.runtime_status().map_err(|missing| missing.why)?;
    let holds = |kind| status.condition(kind).is_some_and(|condition| condition.status);
    let not_holding = status.conditions.iter().find(|condition| !condition.status);
    let says = not_holding.map(|condition| format!("{}: {} {}", condition.kind, condition.reason, condition.message));
    Ok(RuntimeConditions {
        ready: holds("RuntimeReady"),
        network_ready: holds("NetworkReady"),
        says: says.unwrap_or_default().trim().to_owned(),
    })
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
    Node {
        name: text("/metadata/name").to_owned(),
        identity: own.is(uuid, id),
        whose: format!("systemUUID {uuid}, machineID {id}, {address}"),
        ready: condition("Ready").is_some_and(is_true),
        says: condition("Ready").map_or_else(|| "no condition Ready yet".to_owned(), said),
        network_unavailable: condition("NetworkUnavailable").filter(|condition| is_true(condition)).map(said),
        created_at: text("/metadata/creationTimestamp").parse().ok(),
        seen_at: None,
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
    if find("Approved").is_some() { Signing::Approved } else { Signing::Pending }
}

/// The network agents and kube-proxy among a node's pods.
pub fn agents(pods: &Value) -> Vec<AgentPod> {
    items(pods).iter().filter(|pod| is_kube_proxy(pod) || network_of(pod).is_some()).map(agent).collect()
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
    items(pods).iter().find(|pod| network_of(pod).is_some() && !is_over(pod) && !is_ready(pod)).map(name)
}

/// When an agent of the pod network last started on this node; `None` where none is known to run.
pub fn agents_since(pods: &Value) -> Option<Timestamp> {
    let agents = items(pods).iter().filter(|pod| network_of(pod).is_some());
    let containers = |pod: &'_ Value| pod.pointer("/status/containerStatuses").and_then(Value::as_array).cloned();
    let started = |it: &Value| it.pointer("/state/running/startedAt")?.as_str()?.parse::<Timestamp>().ok();
    agents.filter_map(containers).flatten().filter_map(|container| started(&container)).max()
}

/// A pod with an address whose sandbox is younger than this: what the pod network gave it, it gave since then. Whether its
/// containers run says nothing of the network.
pub fn fresh(pods: &Value, sandboxes: &[ListedSandbox], since: Timestamp) -> Option<(String, IpAddr)> {
    // The API server has whole seconds: an agent's start may be up to one later than it says.
    let since = later(since, SignedDuration::from_secs(1));
    let is_young = |pod: &&Value| {
        let uid = pod.pointer("/metadata/uid").and_then(Value::as_str);
        let own = sandboxes.iter().filter(|sandbox| sandbox.ready && Some(sandbox.uid.as_str()) == uid);
        own.into_iter().any(|sandbox| sandbox.created_at.is_some_and(|created| created >= since))
    };
    let mut own = items(pods).iter().filter(|pod| !is_in_host_network(pod)).filter(is_young);
    own.find_map(|pod| Some((name(pod), address(pod)?)))
}

/// A pod that is bound to this node and has yet to get an address of its own.
pub fn on_its_way(pods: &Value) -> Option<String> {
    let leaves = |pod: &Value| pod.pointer("/metadata/deletionTimestamp").is_some_and(|it| !it.is_null());
    let waits = |pod: &&Value| !is_in_host_network(pod) && !is_over(pod) && !leaves(pod) && address(pod).is_none();
    items(pods).iter().find(waits).map(name)
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

/// Of a Pod or a Node.
pub fn is_ready(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut ready = conditions.filter(|it| it.get("type").is_some_and(|kind| kind == "Ready"));
    ready.any(|it| it.get("status").is_some_and(|status| status == "True"))
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
    signs.extend(peers.iter().filter_map(|peer| facts.no_way_to(*peer).unwrap_or_default()));
    signs.dedup();
    signs
}

/// Those in a loop already: held back after more restarts than a start may take.
pub fn looping(agents: &[AgentPod]) -> Vec<AgentPod> {
    agents.iter().filter(|pod| is_looping(pod)).cloned().collect()
}

fn is_looping(pod: &AgentPod) -> bool {
    pod.restarts >= STUMBLES && pod.down.as_deref() == Some("CrashLoopBackOff")
}

/// What keeps the pod network from coming up on this node, by what its agents wait for. It may pass: a registry comes back.
pub fn held_up(agents: &[AgentPod]) -> Vec<JoinCause> {
    let cause = |pod: &AgentPod| match pod.down.as_deref()? {
        down @ ("ErrImagePull" | "ImagePullBackOff" | "InvalidImageName") => {
            Some(JoinCause::of(id!("cni.image-pull"), format!("the image of {} cannot be pulled: {down}", pod.name)))
        }
        _ if is_looping(pod) => {
            let says = format!("{} has ended {} times: {}", pod.name, pod.restarts, pod.why);
            Some(JoinCause::of(id!("cni.daemon-crash-loop"), says))
        }
        _ => None,
    };
    agents.iter().filter(|pod| !pod.is_kube_proxy).filter_map(cause).collect()
}

/// A flannel that starts before kube-proxy's rules are there ends once or twice, and is well.
const STUMBLES: u64 = 3;

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
    daemon_set(pod).is_some_and(|set| set.starts_with("kube-proxy"))
}

/// The pod network this pod is the agent of: agents are in the host's own network, as there is no other yet.
fn network_of(pod: &Value) -> Option<&'static Flavour> {
    daemon_set(pod).filter(|_| is_in_host_network(pod)).and_then(Flavour::of_daemon_set)
}

fn agent(pod: &Value) -> AgentPod {
    // An init container that ends again and again keeps the rest from ever starting.
    let of = |list: &str| pod.pointer(&format!("/status/{list}")).and_then(Value::as_array).into_iter().flatten();
    let containers: Vec<&Value> = of("initContainerStatuses").chain(of("containerStatuses")).collect();
    let restarts = |container: &&Value| container.get("restartCount").and_then(Value::as_u64).unwrap_or_default();
    let ended = containers.iter().find_map(|container| {
        let last = container.pointer("/lastState/terminated")?;
        let reason = last.get("reason").and_then(Value::as_str).unwrap_or("ended");
        Some(format!("{reason}, exit {}", last.get("exitCode").and_then(Value::as_i64).unwrap_or_default()))
    });
    // What waits because of another is told after what that one waits for.
    let waits = containers.iter().filter_map(|container| container.pointer("/state/waiting/reason")?.as_str());
    let down = waits.clone().find(|reason| *reason != "PodInitializing").or_else(|| waits.clone().next());
    AgentPod {
        name: name(pod),
        restarts: containers.iter().map(restarts).sum(),
        why: ended.unwrap_or_else(|| "nothing ended".to_owned()),
        down: down.map(str::to_owned),
        is_kube_proxy: is_kube_proxy(pod),
    }
}

/// How often each restarted between two looks. One that is gone in between was replaced: its successor counts from nothing.
pub fn restarted(before: &[AgentPod], after: &[AgentPod]) -> Vec<AgentPod> {
    let earlier = |pod: &AgentPod| before.iter().find(|known| known.name == pod.name).map_or(0, |known| known.restarts);
    after.iter().map(|pod| AgentPod { restarts: pod.restarts.saturating_sub(earlier(pod)), ..pod.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        };
        for (pod, expected) in [
            (pod("kube-flannel/kube-flannel-ds-1", 0, Some("ErrImagePull")), Some("cni.image-pull")),
            (pod("kube-flannel/kube-flannel-ds-1", 0, Some("PodInitializing")), None),
            (pod("kube-flannel/kube-flannel-ds-1", 1, Some("CrashLoopBackOff")), None),
            (pod("kube-flannel/kube-flannel-ds-1", 3, Some("CrashLoopBackOff")), Some("cni.daemon-crash-loop")),
            (pod("kube-system/kube-proxy-1", 9, Some("CrashLoopBackOff")), None),
            (pod("kube-flannel/kube-flannel-ds-1", 9, None), None),
        ] {
            let causes = held_up(std::slice::from_ref(&pod));
            assert_eq!(causes.first().map(|cause| cause.id.as_str()), expected, "{pod:?}");
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
        assert_eq!((theirs.identity, theirs.ready), (Some(false), false));
        assert_eq!(theirs.network_unavailable.as_deref(), Some("NoRoute not yet"));
        assert_eq!(pod_ranges(&object("", "True", "")), ["10.244.1.0/24"]);
        assert_eq!(node(&json!({}), &own()).says, "no condition Ready yet");
    }

    #[test]
    fn the_kubelet_started_so_long_after_the_boot() {
        let show = "Id=kubelet.service\nLoadState=loaded\nActiveState=active\nMainPID=17\nNRestarts=1\nExecMainStatus=0\n\
                    ExecMainStartTimestampMonotonic=990000000\n";
        let facts = joined(&SampleAuthority::make())
            .with_query(&unit::SHOW, show)
            .with_query(&process::KUBELET, "17 /usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf\n")
            .with_file(unit::UPTIME, "1000.00 3000.00\n");
        let seen = kubelet(&facts).unwrap();
        assert_eq!(seen.started_at, NOW.checked_sub(SignedDuration::from_secs(10)).ok());
        assert_eq!((seen.active, seen.standalone, seen.restarts, seen.exit), (true, false, 1, None));
        let alone = facts.with_query(&process::KUBELET, "17 /usr/bin/kubelet\n");
        assert!(kubelet(&alone).unwrap().standalone);
    }

    #[test]
    fn a_certificate_is_held_against_the_cluster_that_was_asked_for() {
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        let pin = |authority: &SampleAuthority| pki::parse_certificates(&authority.pem).unwrap().remove(0);
        let facts = joined(&ca);
        assert_eq!(certificate(&facts, None), Ok(ClientCertificate::Trusted));
        assert_eq!(certificate(&facts, Some(&pin(&ca))), Ok(ClientCertificate::Trusted));
        assert!(matches!(certificate(&facts, Some(&pin(&other))), Ok(ClientCertificate::Stale { .. })));
        assert_eq!(certificate(&facts.clone().without_file(pki::CLIENT), None), Err(Why::Absent));
        assert_eq!(cluster(&facts, &RequestedCluster::default()), Err(Why::NotAsked));
        for (authority, expected) in [(&ca, true), (&other, false)] {
            let shown = RequestedCluster { ca: Some(pin(authority)), pins: Vec::new() };
            let pinned = RequestedCluster { ca: None, pins: vec![pin(authority).pin.parse().unwrap()] };
            for asked in [shown, pinned] {
                let ClusterPins { own, asked } = cluster(&facts, &asked).unwrap();
                assert_eq!(own == asked, expected);
            }
        }
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
    }

    /// A pod of a DaemonSet in the host's network, with one container.
    fn of_set(set: &str, restarts: u64, waits: Option<&str>) -> Value {
        let state = waits.map_or(json!({"running": {}}), |reason| json!({"waiting": {"reason": reason}}));
        json!({"metadata": {"name": format!("{set}-x"), "namespace": "net", "ownerReferences": [{"kind": "DaemonSet", "name": set}]},
               "spec": {"hostNetwork": true},
               "status": {"containerStatuses": [{"restartCount": restarts, "state": state,
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
        assert_eq!(seen, [AgentPod { name, restarts: 2, why, down: None, is_kube_proxy: false }]);
        let proxy = agents(&json!({"items": [of_set("kube-proxy", 9, None)]}));
        assert_eq!(proxy.iter().map(|pod| pod.is_kube_proxy).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn a_loop_is_more_than_a_stumble() {
        for (restarts, waits, loops) in [
            (2, Some("CrashLoopBackOff"), false),
            (3, Some("CrashLoopBackOff"), true),
            (9, None, false),
            (0, Some("ContainerCreating"), false),
        ] {
            let seen = agents(&json!({"items": [of_set("kube-proxy", restarts, waits)]}));
            assert_eq!(!looping(&seen).is_empty(), loops, "{restarts} {waits:?}");
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
            uid: uid.to_owned(),
            created_at: Timestamp::from_second(NOW.as_second() + second).ok(),
        };
        let list = json!({"items": [pod("web", json!({})), pod("host", in_host_network())]});
        let (young, old) = (sandbox("web", true, 2), sandbox("web", true, -60));
        let found = Some(("a/web".to_owned(), IpAddr::from([10, 0, 0, 7])));
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
            assert_eq!(on_its_way(&json!({"items": [pod]})).is_some(), comes, "{name}");
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
                Ok(KubeletReach::Answered) | Err(_) => None,
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
            facts.with_query(&net::NEIGHBOURS, known).with_file(kubeconfig::KUBELET, "")
        };
        let drop = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p udp -m udp --dport 8472 -j DROP\nCOMMIT\n";
        let default_only = r#"[{"dst":"default","gateway":"10.0.0.1","dev":"eth0","flags":[]}]"#;
        for (name, facts, expected) in [
            ("sound", sound(), None),
            ("a rule drops", sound().with_query(&firewall::IPTABLES, drop), Some("iptables-save")),
            ("no route", sound().with_query(&net::ROUTES, "[]"), Some("ip -j route show table all")),
            // A cloud routes pods by itself.
            ("by the default route", sound().with_query(&net::ROUTES, default_only), None),
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
                let _ = (needs_pod(&value), agent_down(&value), agents_since(&value), on_its_way(&value), peers(&value, &text), fresh(&value, &[], NOW), unreached(&text));
            }
        }
    }
}
