//! What takes a machine out of its cluster: in the cluster by the node's own credential or an admin's, on the machine by the
//! tools that put it there.

use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::nodes::{self, MarkedNode, UnmarkedNode};
use carrick_cluster::pods::{self as cluster_pods, Evicted};
use carrick_cluster::{ApiError, ClusterClient};
use carrick_core::StopSignal;
use carrick_core::fact::identity::MachineIdentity;
use carrick_core::fact::mounts::{MOUNTINFO, Mount, is_at_or_under, parse};
use carrick_core::fact::{Why, join_state, kubeconfig};
use carrick_core::join::place;
use carrick_core::plan::{Effect, PlaceState, Undo};
use carrick_core::reset::pods::{self, Pod};
use carrick_core::reset::{chains, has_containers, symlinks, volumes};
use carrick_host::{File, Host, PathEntry, Trouble, WriteMode, cri};
use tokio::time::{Instant, sleep, timeout};

use super::journal::HOME;
use super::perform::{SHORT, reload_units, run};
use super::{StepProgress, look};
use crate::credentials;
use crate::stop::Stop;
use crate::unit::{self, UnitProgress};

/// A cluster that answers takes 50 ms for each of three questions. One that does not is not waited for: the machine can go
/// without its word.
const SAY: Duration = Duration::from_secs(10);
/// kubeadm tries each sandbox five times.
const KUBEADM_TIME: Duration = Duration::from_mins(10);
/// What it says, where it fails.
const KUBEADM_LOG: &str = "/var/lib/carrick/kubeadm-reset.log";
/// A healthy unmount writes what is left to a disk; one that takes longer hangs.
const UNMOUNT_TIME: Duration = Duration::from_mins(1);
/// Between two questions whether a pod may go, or is gone: as `kubectl drain` does.
const AGAIN: Duration = Duration::from_secs(5);
/// A mount over a mount over a mount: no more than these.
const LAYERS: usize = 8;

/// The kernel takes tens of thousands of chains apart one by one.
const RULES_TIME: Duration = Duration::from_mins(5);

/// Where the rules of iptables go through: a program writes and reads them as a file, whole and as they are.
const RULES: &str = "/var/lib/carrick/rules";

/// A line for each network interface, its name before the colon.
const CARDS: &str = "/proc/net/dev";

const PKI: &str = "/etc/kubernetes/pki";

/// Whether a join is at work, or has left something of that.
pub(super) async fn join_at_work(host: &dyn Host) -> Result<PlaceState, Trouble> {
    let mut is_there = unit::state(host, unit::JOIN).await? != UnitProgress::None;
    for path in [place::CONFIG, place::DROP_IN] {
        is_there |= host.look(path).await?.is_some();
    }
    Ok(PlaceState::value(if is_there { "begun" } else { "ended" }))
}

pub(super) async fn end_join(host: &dyn Host, removes: &[String]) -> Result<(), Trouble> {
    unit::clear(host, unit::JOIN).await?;
    for path in removes.iter().filter(|thing| *thing != place::UNIT) {
        host.remove(path).await?;
    }
    reload_units(host).await
}

/// Whether volumes of pods are mounted.
pub(super) async fn volumes(host: &dyn Host) -> Result<PlaceState, Trouble> {
    let mounted = volumes::below(&mounts(host).await?).volumes.len();
    Ok(PlaceState::value(if mounted == 0 { "not mounted" } else { "mounted" }))
}

/// Whether `kubeadm reset` has anything to remove.
pub(super) async fn join(host: &dyn Host) -> Result<PlaceState, Trouble> {
    Ok(PlaceState::value(if left(host).await?.is_empty() { "clean" } else { "joined" }))
}

pub(super) async fn link(host: &dyn Host, name: &str) -> Result<PlaceState, Trouble> {
    let cards = text(host, CARDS).await?;
    let is_there = cards.lines().any(|line| line.split(':').next().map(str::trim) == Some(name));
    Ok(if is_there { PlaceState::value("there") } else { PlaceState::Absent })
}

pub(super) async fn chains(host: &dyn Host, tool: &str) -> Result<PlaceState, Trouble> {
    let save = format!("{tool}-save");
    let saved = host.run(&[&save], SHORT).await?.well(&[&save])?;
    Ok(PlaceState::value(format!("{} chains", chains::named(&chains::find(&saved)).len())))
}

/// What must hold right before an effect that cannot be taken back: looked at before it is begun. `Some`: something was mounted
/// since the plan was made, which another plan may know what to do about.
pub(super) async fn ready(host: &dyn Host, effect: &Effect) -> Result<Option<Trouble>, Trouble> {
    let tree = match effect.undo() {
        Undo::Final { deletes } => deletes,
        Undo::Content | Undo::Setting | Undo::Again | Undo::Stays => return Ok(None),
    };
    // kubeadm before 1.30 takes any mount for one of the kubelet's whose path has the kubelet's in it.
    let inside = format!("{tree}/");
    if let Some(mount) = mounts(host).await?.into_iter().find(|mount| mount.point.contains(&inside)) {
        return Ok(Some(Trouble::new(mount.point, "is mounted there: what is on it would be deleted, too")));
    }
    if tree != volumes::DIR {
        return Ok(None);
    }
    for place in symlinks::PLACES {
        if let Some(PathEntry::Link(to)) = host.look(place).await? {
            return Err(Trouble::new(place, format!("is a link to {to}: what is there would be deleted")));
        }
    }
    let kubelet = look::word(host, &["systemctl", "is-active", "kubelet"]).await?;
    match kubelet.as_value() {
        Some("inactive" | "failed") => Ok(None),
        said => Err(Trouble::new("kubelet", format!("is {}: somebody started it again", said.unwrap_or("unknown")))),
    }
}

pub(super) async fn kubeadm_reset(host: &dyn Host, socket: &str) -> Result<(), Trouble> {
    let program = ["kubeadm", "reset", "--force", "--cri-socket", socket];
    unit::run(host, unit::RESET, &program, KUBEADM_LOG, KUBEADM_TIME).await?;
    let left = left(host).await?;
    if left.is_empty() {
        return Ok(());
    }
    Err(Trouble::new("kubeadm reset", format!("ended and left {}", left.join(", "))))
}

/// It may have gone with the pods.
pub(super) async fn delete_link(host: &dyn Host, name: &str) -> Result<(), Trouble> {
    if link(host, name).await? == PlaceState::Absent {
        return Ok(());
    }
    run(host, &["ip", "link", "delete", "dev", name], SHORT).await
}

pub(super) async fn clear_dir(host: &dyn Host, path: &str) -> Result<(), Trouble> {
    run(host, &["find", path, "-xdev", "-mindepth", "1", "-delete"], UNMOUNT_TIME).await
}

async fn mounts(host: &dyn Host) -> Result<Vec<Mount>, Trouble> {
    Ok(parse(&text(host, MOUNTINFO).await?).0)
}

/// Of a file that every machine has.
async fn text(host: &dyn Host, path: &str) -> Result<String, Trouble> {
    match host.look(path).await? {
        Some(PathEntry::File(file)) => Ok(String::from_utf8_lossy(&file.bytes).into_owned()),
        Some(PathEntry::Dir { .. } | PathEntry::Link(_) | PathEntry::Other(_)) | None => {
            Err(Trouble::new(path, "cannot be read"))
        }
    }
}

/// What `kubeadm reset` would still have to remove.
async fn left(host: &dyn Host) -> Result<Vec<String>, Trouble> {
    let mut left = Vec::new();
    for path in [kubeconfig::KUBELET, kubeconfig::BOOTSTRAP] {
        left.extend(host.look(path).await?.map(|_| path.to_owned()));
    }
    for dir in [join_state::MANIFESTS, PKI, volumes::DIR] {
        left.extend(host.list(dir).await?.into_iter().map(|name| format!("{dir}/{name}")));
    }
    let listed = cri::pods::observe(host, &cri::endpoints(host), SHORT).await.capture;
    match listed.and_then(|listed| pods::parse_sandboxes(&listed.text).map_err(Why::Broken)) {
        Ok(sandboxes) => left.extend(sandboxes.into_iter().map(|sandbox| format!("pod {}", sandbox.pod))),
        // As the plan has it: a runtime that does not answer has no pods only where nothing of a container is mounted.
        Err(why) if why == Why::Denied || has_containers(&mounts(host).await?) => {
            return Err(Trouble::because("the pods that are left", &why));
        }
        Err(_) => {}
    }
    Ok(left)
}

/// The last that was mounted first: one may lie on another.
pub(super) async fn unmount(host: &dyn Host) -> Result<(), Trouble> {
    for _ in 0..LAYERS {
        let below = volumes::below(&mounts(host).await?);
        if let Some(foreign) = below.foreign.first() {
            return Err(Trouble::new(&foreign.point, "is mounted there and is not a volume of a pod"));
        }
        if below.volumes.is_empty() {
            return Ok(());
        }
        for volume in below.volumes.iter().rev().filter(|volume| is_at_or_under(&volume.point, volumes::DIR)) {
            run(host, &["umount", "--", &volume.point], UNMOUNT_TIME).await?;
        }
    }
    Err(Trouble::new(volumes::DIR, "volumes are mounted there again and again"))
}

pub(super) async fn remove_chains(host: &dyn Host, tool: &str) -> Result<(), Trouble> {
    let (save, restore) = (format!("{tool}-save"), format!("{tool}-restore"));
    host.make_dir(HOME, 0o700).await?;
    run(host, &[&save, "-f", RULES], RULES_TIME).await?;
    // Of tens of thousands of rules a few lines matter: the rest need not come over a slow link.
    run(host, &["sed", "-i", "-n", "-E", chains::LINES, RULES], SHORT).await?;
    let Some(PathEntry::File(saved)) = host.look(RULES).await? else {
        return Err(Trouble::new(&save, "wrote no file"));
    };
    let tables = chains::find(&String::from_utf8_lossy(&saved.bytes));
    if let Some(cut) = tables.iter().find(|table| !table.whole) {
        return Err(Trouble::new(save, format!("wrote the table {} without its end", cut.name)));
    }
    if let Some(script) = chains::removal(&tables) {
        host.write(RULES, &File::new(script, 0o600), WriteMode::Replace).await?;
        // Waits for whoever else changes rules just now.
        run(host, &[&restore, "--noflush", "--wait=10", RULES], RULES_TIME).await?;
    }
    host.remove(RULES).await
}

/// With the node's own credential. A note: the cluster was not told, and why the rest goes on.
pub(super) async fn mark_not_ready(
    machine: &Arc<dyn Host>,
    node: &str,
    system_uuid: &str,
    machine_id: &str,
) -> Result<Option<String>, Trouble> {
    const MEANWHILE: &str =
        "its Node stays Ready until the cluster misses it, about 50 s: a join before that is refused";
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let own = MachineIdentity { uuid: some(system_uuid), machine_id: some(machine_id) };
    let client = match credentials::of_kubelet(machine).await {
        Ok(client) => client,
        Err(why) => return Ok(Some(format!("{why}; {MEANWHILE}"))),
    };
    match timeout(SAY, nodes::mark_not_ready_and_cordon(&client, node, &own)).await {
        Ok(Ok(MarkedNode::Cordoned | MarkedNode::Absent)) => Ok(None),
        Ok(Ok(MarkedNode::CordonedBefore)) => Ok(Some("it is marked; somebody else had cordoned it before".to_owned())),
        Ok(Err(UnmarkedNode::ControlPlane(node))) => Err(Trouble::new(node, "is a control plane by its label")),
        Ok(Err(why @ UnmarkedNode::AnotherMachine(_))) => Ok(Some(why.to_string())),
        Ok(Err(UnmarkedNode::Api(error))) => Ok(Some(format!("{error}; {MEANWHILE}"))),
        Err(_) => Ok(Some(format!("no answer in {} s; {MEANWHILE}", SAY.as_secs()))),
    }
}

/// Takes back that a node was cordoned, as far as the node may do so itself.
pub(super) async fn back(machine: &Arc<dyn Host>, node: &str) -> Option<String> {
    let uncordoned = async {
        let client = credentials::of_kubelet(machine).await.map_err(|why| why.to_string())?;
        nodes::uncordon(&client, node).await.map_err(|error| error.to_string())
    };
    let why = match timeout(SAY, uncordoned).await {
        Ok(Ok(_)) => return None,
        Ok(Err(why)) => why,
        Err(_) => format!("no answer in {} s", SAY.as_secs()),
    };
    Some(format!("{why}; do it yourself: kubectl uncordon {node}"))
}

/// Cordons a node and evicts what can be elsewhere, until it is gone. Only pods that the plan names, or that have a
/// controller.
pub(super) async fn drain(
    (admin, stop): (Option<&ClusterClient>, &Stop),
    node: &str,
    named: &[String],
    seconds: u64,
    tell: &mut (dyn FnMut(StepProgress<'_>) + Send),
) -> Result<(), Trouble> {
    let admin = admin.ok_or_else(|| Trouble::new(node, "draining it needs an admin's --kubeconfig"))?;
    let limit = Duration::from_secs(seconds);
    let (begun, mut cordoned) = (Instant::now(), false);
    loop {
        let waits = match moving(admin, node, &mut cordoned).await {
            Ok(pods) if pods.is_empty() => return Ok(()),
            Ok(pods) => evict(admin, node, &pods, named).await?,
            // The next look may well be answered.
            Err(error) if error.may_pass() => {
                Waits { still: "it cannot be drained".to_owned(), says: error.to_string(), pause: error.retry_after() }
            }
            Err(error) => return Err(Trouble::new(format!("node {node}"), error)),
        };
        if begun.elapsed() >= limit {
            let more = format!("{} after {} s: {}", waits.still, limit.as_secs(), waits.says);
            return Err(Trouble::new(format!("node {node}"), more));
        }
        tell(StepProgress::Waits(begun.elapsed(), &waits.says));
        let told = |signal: StopSignal| Trouble::new(format!("node {node}"), format!("stopped by {}", signal.name()));
        stop.or(sleep(waits.pause.unwrap_or(AGAIN).min(limit))).await.map_err(told)?;
    }
}

/// What a drain waits for.
struct Waits {
    /// What has not come about.
    still: String,
    /// For the first reason there is.
    says: String,
    /// For how long the API server asks to be left alone.
    pause: Option<Duration>,
}

/// The pods that have to go. Cordoned first, once: no other may come.
async fn moving(admin: &ClusterClient, node: &str, cordoned: &mut bool) -> Result<Vec<Pod>, ApiError> {
    if !*cordoned {
        nodes::cordon(admin, node).await?;
        *cordoned = true;
    }
    let pods = cluster_pods::known_on_node(admin, node).await?;
    Ok(pods.into_iter().filter(Pod::moves).collect())
}

/// Asks each of them to go.
async fn evict(admin: &ClusterClient, node: &str, moving: &[Pod], named: &[String]) -> Result<Waits, Trouble> {
    let (mut first, mut pause) = (None, None);
    for pod in moving {
        let name = pod.full_name();
        if pod.controller.is_none() && !named.contains(&name) {
            return Err(Trouble::new(name, "came after the plan was made, and has no controller"));
        }
        let evicted = cluster_pods::evict(admin, pod).await;
        let says = match evicted.map_err(|error| Trouble::new(format!("node {node}"), error))? {
            Evicted::Going => format!("{name} ends"),
            Evicted::Gone => continue,
            Evicted::NotNow { why, retry_after } => {
                pause = pause.max(retry_after);
                format!("{name}: {why}")
            }
        };
        first.get_or_insert(says);
    }
    let still = format!("{} pods are still there", moving.len());
    Ok(Waits { still, says: first.unwrap_or_default(), pause })
}

#[cfg(test)]
mod tests {
    use carrick_testkit::MemoryApi;
    use carrick_testkit::memory_api::Fault;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::dialer::stub::asking;

    const POD: &str = "/api/v1/namespaces/default/pods/web";

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    /// A node with one pod on it, which a ReplicaSet would make anew elsewhere.
    fn api() -> MemoryApi {
        let api = MemoryApi::new(now);
        api.put(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}}));
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
        api.put(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", "ownerReferences": [owner]},
            "spec": {"nodeName": "w1", "containers": [{"name": "web", "image": "web:1"}]},
        }));
        api
    }

    /// How it ended; and what was told while it waited, and when.
    async fn drained(api: &MemoryApi, seconds: u64) -> (Result<(), Trouble>, Vec<(u64, String)>) {
        let mut told = Vec::new();
        let mut tell = |it: StepProgress<'_>| {
            let StepProgress::Waits(elapsed, says) = it else { return };
            // Its kubelet ends it.
            if says.ends_with(" ends") {
                api.take(POD);
            }
            told.push((elapsed.as_secs(), says.to_owned()));
        };
        let ended = drain((Some(&asking(api, now())), &Stop::never()), "w1", &[], seconds, &mut tell).await;
        (ended, told)
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_goes_on_when_the_api_server_is_busy_and_leaves_it_alone_as_it_asks() {
        let api = api();
        api.fail("patch nodes", Some(1), Fault::Status(503));
        api.fail("list pods", Some(1), Fault::TooManyRequests);
        api.fail("create pods/eviction", Some(1), Fault::TooManyRequests);
        let (ended, told) = drained(&api, 60).await;
        assert!(ended.is_ok(), "{ended:?}: {told:?}");
        // After five seconds where the server names no time, and after its own one where it does.
        assert_eq!(told.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 5, 6, 7], "{told:?}");
        assert_eq!(api.object("/api/v1/nodes/w1").unwrap()["spec"]["unschedulable"], true);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_ends_when_its_time_is_over_or_asking_again_is_of_no_use() {
        for (fault, says, waited) in [
            (
                Fault::TooManyRequests,
                "it cannot be drained after 3 s: API server 10.0.0.11:6443 refused the request",
                true,
            ),
            (Fault::Status(400), "API server 10.0.0.11:6443 answered 400 Bad Request", false),
        ] {
            let api = api();
            api.fail("list pods", None, fault);
            let (ended, told) = drained(&api, 3).await;
            let trouble = ended.unwrap_err().to_string();
            assert!(trouble.contains(says), "{trouble}");
            assert_eq!(!told.is_empty(), waited, "{told:?}");
        }
    }
}
