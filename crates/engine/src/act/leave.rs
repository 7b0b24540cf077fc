//! What takes a machine out of its cluster: in the cluster by the node's own credential or an admin's, on the machine by the
//! tools that put it there.

use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::nodes::{self, MarkedNode, UnmarkedNode};
use carrick_cluster::pods::{self as cluster_pods, Evicted};
use carrick_cluster::{ApiError, ClusterClient};
use carrick_core::fact::identity::Identity;
use carrick_core::fact::mounts::{MOUNTINFO, Mount, is_at_or_under, parse};
use carrick_core::fact::{join_state, kubeconfig};
use carrick_core::plan::{Effect, PlaceState, Undo};
use carrick_core::reset::pods::{self, Pod};
use carrick_core::reset::{chains, symlinks, volumes};
use carrick_host::{Entry, File, Host, How, Trouble, cri};
use tokio::time::{Instant, sleep, timeout};

use super::journal::HOME;
use super::perform::{SHORT, run};
use super::{StepProgress, look};
use crate::credentials;

/// A cluster that answers takes 50 ms for each of three questions. One that does not is not waited for: the machine can go
/// without its word.
const SAY: Duration = Duration::from_secs(10);
/// kubeadm tries each sandbox five times.
const KUBEADM_TIME: Duration = Duration::from_mins(10);
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

/// What must hold right before an effect that cannot be taken back: looked at before it is begun.
pub(super) async fn ready(host: &dyn Host, effect: &Effect) -> Result<(), Trouble> {
    let tree = match effect.undo() {
        Undo::Final { deletes } => deletes,
        Undo::Content | Undo::Setting | Undo::Again | Undo::Stays => return Ok(()),
    };
    // kubeadm before 1.30 takes any mount for one of the kubelet's whose path has the kubelet's in it.
    let inside = format!("{tree}/");
    if let Some(mount) = mounts(host).await?.into_iter().find(|mount| mount.point.contains(&inside)) {
        return Err(Trouble::new(mount.point, "is mounted there: what is on it would be deleted, too"));
    }
    if tree != volumes::DIR {
        return Ok(());
    }
    for place in symlinks::PLACES {
        if let Some(Entry::Link(to)) = host.look(place).await? {
            return Err(Trouble::new(place, format!("is a link to {to}: what is there would be deleted")));
        }
    }
    let kubelet = look::word(host, &["systemctl", "is-active", "kubelet"]).await?;
    match kubelet.as_value() {
        Some("inactive" | "failed") => Ok(()),
        said => Err(Trouble::new("kubelet", format!("is {}: somebody started it again", said.unwrap_or("unknown")))),
    }
}

pub(super) async fn kubeadm_reset(host: &dyn Host, socket: &str) -> Result<(), Trouble> {
    run(host, &["kubeadm", "reset", "--force", "--cri-socket", socket], KUBEADM_TIME).await?;
    let left = left(host).await?;
    if left.is_empty() {
        return Ok(());
    }
    Err(Trouble::new("kubeadm reset", format!("ended well and left {}", left.join(", "))))
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
        Some(Entry::File(file)) => Ok(String::from_utf8_lossy(&file.bytes).into_owned()),
        Some(Entry::Dir { .. } | Entry::Link(_) | Entry::Other(_)) | None => Err(Trouble::new(path, "cannot be read")),
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
    // Of a runtime that does not answer nothing is known; the plan was not made where containers run on one.
    let listed = cri::pods::observe(host, &cri::endpoints(host), SHORT).await.capture;
    let sandboxes = listed.ok().and_then(|listed| pods::parse_sandboxes(&listed.text).ok()).unwrap_or_default();
    left.extend(sandboxes.into_iter().map(|sandbox| format!("pod {}", sandbox.pod)));
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
    let Some(Entry::File(saved)) = host.look(RULES).await? else { return Err(Trouble::new(&save, "wrote no file")) };
    let tables = chains::find(&String::from_utf8_lossy(&saved.bytes));
    if let Some(cut) = tables.iter().find(|table| !table.whole) {
        return Err(Trouble::new(save, format!("wrote the table {} without its end", cut.name)));
    }
    if let Some(script) = chains::removal(&tables) {
        host.write(RULES, &File::new(script, 0o600), How::Replace).await?;
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
    let own = Identity { uuid: some(system_uuid), machine_id: some(machine_id) };
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
        let client = credentials::of_kubelet(machine).await?;
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
    admin: Option<&ClusterClient>,
    node: &str,
    named: &[String],
    seconds: u64,
    tell: &mut (dyn FnMut(StepProgress<'_>) + Send),
) -> Result<(), Trouble> {
    let admin = admin.ok_or_else(|| Trouble::new(node, "draining it needs an admin's --kubeconfig"))?;
    let limit = Duration::from_secs(seconds);
    let trouble = |error: ApiError| Trouble::new(format!("node {node}"), error);
    nodes::cordon(admin, node).await.map_err(trouble)?;
    let begun = Instant::now();
    loop {
        let pods = cluster_pods::known_on_node(admin, node).await.map_err(trouble)?;
        let moving: Vec<Pod> = pods.into_iter().filter(Pod::moves).collect();
        if moving.is_empty() {
            return Ok(());
        }
        let mut waits = Vec::new();
        for pod in &moving {
            let name = pod.full_name();
            if pod.controller.is_none() && !named.contains(&name) {
                return Err(Trouble::new(name, "came after the plan was made, and has no controller"));
            }
            match cluster_pods::evict(admin, pod).await.map_err(trouble)? {
                Evicted::Going => waits.push(format!("{name} ends")),
                Evicted::Gone => {}
                Evicted::NotNow(why) => waits.push(format!("{name}: {why}")),
            }
        }
        let first = waits.first().cloned().unwrap_or_default();
        if begun.elapsed() >= limit {
            let more = format!("{} pods are still there after {} s: {first}", moving.len(), limit.as_secs());
            return Err(Trouble::new(format!("node {node}"), more));
        }
        tell(StepProgress::Waits(begun.elapsed(), &first));
        sleep(AGAIN.min(limit)).await;
    }
}
