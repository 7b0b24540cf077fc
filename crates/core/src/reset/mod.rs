//! Taking a worker out of its cluster: what that would change, in order, or why it is not done.
//!
//! * [`plan`]: facts and what the operator wants in; a [`Plan`] or a [`ResetRefusal`] out
//! * [`pods`]: what runs here; [`volumes`]: what is mounted below the kubelet's directory
//! * [`links`], [`chains`]: what the pod network left in the kernel
//! * [`symlinks`]: symbolic links where something is deleted; none is followed
//!
//! The order is the point: what may fail comes before what cannot be taken back, and whoever may still use a thing is gone
//! before the thing goes. `kubeadm reset` deletes whatever is below /var/lib/kubelet: it runs when nothing is mounted there.

use crate::fact::keep::{Keep, USUAL};
use crate::fact::mounts::Mount;
use crate::fact::unit::parse_show;
use crate::fact::{Facts, Missing, OrAbsent, Query, Source, Why, cni, join_state, kubeconfig, version};
use crate::join::place;
use crate::plan::{Effect, Plan, Step};

pub mod chains;
mod links;
pub mod pods;
pub mod symlinks;
pub mod volumes;

use pods::Pod;
use symlinks::Symlink;

/// The annotation on a Node that `reset` cordoned, with the time; whoever finds it may uncordon the node, nobody else's.
pub const CORDONED: &str = "carrick.dev/cordoned-by-reset";

/// Files of the CNI plugins' notes about addresses and sandboxes.
pub const NOTES: Query = Query {
    name: "find /var/lib/cni -type f",
    argv: &["find", "/var/lib/cni", "-mindepth", "2", "-maxdepth", "3", "-type", "f"],
    // Plugins that crashed left one a pod, over years: 50,000 of them.
    keep: Keep::Head(8 << 20),
};

/// Whether kubeadm's unit of a join is there.
pub const JOIN_AT_WORK: Query = Query {
    name: "systemctl show carrick-kubeadm.service",
    argv: &["systemctl", "show", "--property=Id,LoadState,ActiveState", place::UNIT],
    keep: USUAL,
};

const CNI_DIR: &str = "/etc/cni/net.d";
const PKI: &str = "/etc/kubernetes/pki";

/// Configuration in the CNI directory that comes with a package, and is not about Kubernetes' pods.
const OF_PACKAGES: [&str; 4] = ["87-podman", "100-crio-bridge", "200-loopback", ".keep"];

/// Mounts by which one sees that containers run, also where their runtime does not answer.
const OF_CONTAINERS: [&str; 2] = ["/io.containerd.runtime.v2.task/k8s.io/", "/overlay-containers/"];

/// What is looked at for a reset beyond what a check looks at.
pub fn sources() -> impl Iterator<Item = Source> {
    let own = [Source::Dir(volumes::DIR), Source::Dir("/var/lib"), Source::Dir(PKI), Source::Query(&NOTES)];
    let of_a_join = [Source::Query(&JOIN_AT_WORK), Source::Dir(place::CONFIG_DIR), Source::Dir(place::DROP_IN_DIR)];
    let own = own.into_iter().chain(of_a_join).chain(symlinks::SOURCES.iter().copied());
    own.chain(volumes::SOURCES.iter().copied()).chain(chains::SOURCES.iter().copied())
}

/// What the operator wants.
#[derive(Clone, Debug, Default)]
pub struct ResetOptions {
    /// Pods that would not come back by themselves are stopped, too.
    pub stop_pods: bool,
    /// The pods the cluster has on this node, where it could be asked.
    pub pods: Option<Vec<Pod>>,
    /// How long they may take to go.
    pub drain_seconds: u64,
}

/// What would be done, and what is told to stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reset {
    pub plan: Plan,
    pub stays: Vec<String>,
}

/// Why a machine is not taken out. Nothing was changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResetRefusal {
    #[error("this is a control plane ({0}): carrick reset takes out workers only")]
    ControlPlane(String),
    #[error(
        "{distribution} runs here ({path}): its links and chains cannot be told from kubeadm's; use its own uninstaller"
    )]
    Distribution { distribution: &'static str, path: String },
    #[error("{0}: Carrick resets only a plain directory /var/lib/kubelet; kubeadm reset --force would do it unguarded")]
    Place(String),
    #[error(
        "{0}, and what is there would be deleted: put a directory in its place (what it leads to can be mounted there), then again"
    )]
    Linked(String),
    #[error(
        "{0} is not a volume of a pod: kubeadm reset would unmount it and delete what is there; unmount it, then again"
    )]
    Mount(String),
    #[error("{program} (process {pid}) uses {path}, a volume of a pod: end it, then again")]
    Busy { pid: u32, program: String, path: String },
    #[error("{0}, a volume of a pod, does not answer: unmounting it would hang; fix its server or reboot, then again")]
    Hung(String),
    #[error(
        "pods run here that no DaemonSet brings back: {0}; drain the node first (kubectl drain --ignore-daemonsets, or \
         --kubeconfig with an admin's), or let them go with --stop-pods"
    )]
    Pods(String),
    #[error("pods have no controller that would start them elsewhere: {0}; let them go with --stop-pods")]
    Bare(String),
    #[error("containers run here and their runtime does not answer ({0}): start it, then again")]
    Silent(String),
    #[error("{name} stays, and with it the machine: {why}; fix that, then again")]
    Link { name: &'static str, why: String },
    #[error("{0} is neither a file nor a link: remove it, then again")]
    NotAFile(String),
    #[error("kubeadm is not installed: install the kubelet's version of it, then again")]
    NoKubeadm,
    #[error("cannot tell what is here ({0}); {next}", next = .0.next_step())]
    Unknown(#[from] Missing),
}

pub fn plan(facts: &Facts, options: &ResetOptions) -> Result<Reset, ResetRefusal> {
    guard(facts)?;
    let symlinks = symlinks::on(facts)?;
    if let Some(Symlink { path, target }) = symlinks::followed(&symlinks) {
        return Err(ResetRefusal::Linked(format!("{path} is a link to {target}")));
    }
    let mounts = facts.mounts()?;
    let below = volumes::below(&mounts.0);
    if let Some(foreign) = below.foreign.first() {
        return Err(ResetRefusal::Mount(foreign.shown()));
    }
    let running = sandboxes(facts)?;
    let mut steps = Vec::new();
    steps.extend(join_at_work(facts)?);
    steps.extend(drain(facts, options, &running)?);
    steps.extend(stop(facts)?);
    steps.extend(mark(facts)?);
    steps.extend(unmount(facts, &below.volumes)?);
    steps.extend(kubeadm(facts, &running, &symlinks)?);
    let names = links::on(facts)?.into_iter();
    steps.extend(names.map(|name| step(Effect::DeleteLink { name }, "its address is of the range the node had")));
    let chains = chains::on(facts)?.into_iter();
    let remove = |(tool, chains): (&str, _)| Effect::RemoveChains { tool: tool.to_owned(), chains };
    steps.extend(chains.map(|found| step(remove(found), "they lead to pods that are gone; every other rule stays")));
    let (files, stays) = configuration(facts, &symlinks)?;
    steps.extend(files);
    steps.extend(notes(facts)?);
    Ok(Reset { plan: Plan { steps }, stays })
}

/// Whether an effect takes out a join that is alive, and does not only sweep behind one that is gone.
pub fn is_of_a_live_join(effect: &Effect) -> bool {
    match effect {
        Effect::Drain { .. } | Effect::MarkNotReady { .. } | Effect::Run { .. } | Effect::Unmount { .. } => true,
        Effect::EndJoin { removes } => removes.iter().any(|thing| thing == place::UNIT),
        Effect::KubeadmReset { removes, .. } => {
            removes.iter().any(|path| [kubeconfig::KUBELET, kubeconfig::BOOTSTRAP].contains(&path.as_str()))
        }
        Effect::MakeDir { .. }
        | Effect::Write { .. }
        | Effect::Edit { .. }
        | Effect::SetMode { .. }
        | Effect::Remove { .. }
        | Effect::ReloadUnits
        | Effect::LoadModule { .. }
        | Effect::Sysctl { .. }
        | Effect::SwapOff { .. }
        | Effect::Enable { .. }
        | Effect::RestartRuntime { .. }
        | Effect::DeleteLink { .. }
        | Effect::RemoveChains { .. }
        | Effect::ClearDir { .. } => false,
    }
}

fn step(effect: Effect, why: &str) -> Step {
    Step { effect, why: vec![why.to_owned()] }
}

/// What no worker of kubeadm's has.
fn guard(facts: &Facts) -> Result<(), ResetRefusal> {
    if let Some(mark) = facts.control_plane_marks()?.into_iter().next() {
        return Err(ResetRefusal::ControlPlane(mark));
    }
    if facts.entry(PKI, "ca.key")?.is_some() {
        return Err(ResetRefusal::ControlPlane(format!("{PKI}/ca.key")));
    }
    if let Some(trace) = facts.other_kubernetes()?.into_iter().find(|trace| trace.runs) {
        return Err(ResetRefusal::Distribution { distribution: trace.distribution, path: trace.path });
    }
    if let Some(entry) = facts.entry("/var/lib", "kubelet")?.filter(|entry| !entry.is_dir()) {
        let target = entry.target.unwrap_or_default();
        return Err(ResetRefusal::Place(format!("{} leads to {target:?}", volumes::DIR)));
    }
    let root = facts.kubelet_command().ok().and_then(|command| Some(command.flag("--root-dir")?.0.to_owned()));
    match root.filter(|root| root.trim_end_matches('/') != volumes::DIR) {
        Some(root) => Err(ResetRefusal::Place(format!("the kubelet has --root-dir={root}"))),
        None => Ok(()),
    }
}

/// Before anything else: a kubeadm that is at work would make again what is removed.
fn join_at_work(facts: &Facts) -> Result<Option<Step>, ResetRefusal> {
    let shown = &facts.query(&JOIN_AT_WORK)?.text;
    let is_loaded = |unit: &crate::fact::unit::UnitState| unit.id == place::UNIT && unit.load_state == "loaded";
    let mut removes: Vec<String> = Vec::new();
    removes.extend(parse_show(shown).iter().any(is_loaded).then(|| place::UNIT.to_owned()));
    for path in [place::CONFIG, place::DROP_IN] {
        let (dir, name) = path.rsplit_once('/').unwrap_or_default();
        removes.extend(facts.entry(dir, name)?.map(|_| path.to_owned()));
    }
    let effect = Effect::EndJoin { removes };
    Ok((!effect.items().all().is_empty())
        .then(|| step(effect, "it would go on making what is removed; its token goes")))
}

/// The pods' sandboxes; none where the runtime does not answer and nothing shows that it has any.
fn sandboxes(facts: &Facts) -> Result<Vec<pods::ListedSandbox>, ResetRefusal> {
    match facts.sandboxes() {
        Ok(sandboxes) => Ok(sandboxes),
        Err(missing) if matches!(missing.why, Why::Denied | Why::NotCollected) => Err(missing.into()),
        Err(missing) if has_containers(&facts.mounts()?.0) => Err(ResetRefusal::Silent(missing.to_string())),
        Err(_) => Ok(Vec::new()),
    }
}

/// Whether something is mounted that a runtime mounts for a container.
pub fn has_containers(mounts: &[Mount]) -> bool {
    mounts.iter().any(|mount| OF_CONTAINERS.iter().any(|part| mount.point.contains(part)))
}

fn drain(
    facts: &Facts,
    options: &ResetOptions,
    sandboxes: &[pods::ListedSandbox],
) -> Result<Option<Step>, ResetRefusal> {
    let Some(pods) = &options.pods else {
        let lost = sandboxes.iter().filter(|sandbox| sandbox.ready && !sandbox.bound);
        let lost: Vec<&str> = lost.map(|sandbox| sandbox.pod.as_str()).collect();
        return if lost.is_empty() || options.stop_pods { Ok(None) } else { Err(ResetRefusal::Pods(some_of(&lost))) };
    };
    let moving: Vec<&Pod> = pods.iter().filter(|pod| pod.moves()).collect();
    let bare: Vec<String> = moving.iter().filter(|pod| pod.controller.is_none()).map(|pod| pod.full_name()).collect();
    if !bare.is_empty() && !options.stop_pods {
        return Err(ResetRefusal::Bare(some_of(&bare)));
    }
    if moving.is_empty() {
        return Ok(None);
    }
    let mut why = vec!["they start elsewhere; disruption budgets are kept".to_owned()];
    let with_data: Vec<String> = moving.iter().filter(|pod| pod.has_empty_dir).map(|pod| pod.full_name()).collect();
    if !with_data.is_empty() {
        why.push(format!("data in emptyDir is lost: {}", some_of(&with_data)));
    }
    if !bare.is_empty() {
        why.push(format!("without a controller, gone for good: {}", some_of(&bare)));
    }
    let (pods, seconds) = (moving.iter().map(|pod| pod.full_name()).collect(), options.drain_seconds);
    Ok(Some(Step { effect: Effect::Drain { node: node(facts)?, pods, seconds }, why }))
}

/// The first few by name.
fn some_of(names: &[impl AsRef<str>]) -> String {
    const NAMED: usize = 5;
    let shown: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The name this machine's Node has: by its certificate, else the one it would get.
pub fn node(facts: &Facts) -> Result<String, ResetRefusal> {
    let certified = facts.client_certificate().ok().map(|certificate| certificate.common_name);
    let common_name = certified.map_or_else(|| facts.own_common_name(), Ok)?;
    Ok(common_name.strip_prefix("system:node:").unwrap_or(&common_name).to_owned())
}

fn stop(facts: &Facts) -> Result<Option<Step>, ResetRefusal> {
    let kubelet = facts.unit_state("kubelet")?;
    // Also one that crashes and is started again and again.
    let lives = kubelet.is_there() && !matches!(kubelet.active_state.as_str(), "inactive" | "failed");
    let effect = Effect::Run { unit: "kubelet".to_owned(), running: false };
    Ok(lives.then(|| step(effect, "else it mounts and starts again what is taken away")))
}

/// Where the node's own credential still can say so.
fn mark(facts: &Facts) -> Result<Option<Step>, ResetRefusal> {
    let (Ok(_), Ok(certificate)) = (facts.kubelet_kubeconfig(), facts.client_certificate()) else { return Ok(None) };
    if !certificate.is_valid_at(facts.taken_at) || !certificate.common_name.starts_with("system:node:") {
        return Ok(None);
    }
    let identity = facts.identity()?;
    let effect = Effect::MarkNotReady {
        node: node(facts)?,
        system_uuid: identity.uuid.unwrap_or_default(),
        machine_id: identity.machine_id.unwrap_or_default(),
    };
    Ok(Some(step(effect, "a Node that is Ready would refuse the next join for a minute")))
}

fn unmount(facts: &Facts, volumes: &[Mount]) -> Result<Option<Step>, ResetRefusal> {
    if volumes.is_empty() {
        return Ok(None);
    }
    if let Some(volumes::Holder { pid, program, path }) = volumes::held(facts, volumes)? {
        return Err(ResetRefusal::Busy { pid, program, path });
    }
    if let Some(hung) = volumes::hung(facts, volumes)? {
        return Err(ResetRefusal::Hung(hung));
    }
    let mut points: Vec<String> = volumes.iter().map(|volume| volume.point.clone()).collect();
    points.dedup();
    Ok(Some(step(Effect::Unmount { points }, "what is mounted would be deleted with the directory")))
}

/// Everything `kubeadm reset` would remove; no step where that is nothing.
fn kubeadm(
    facts: &Facts,
    sandboxes: &[pods::ListedSandbox],
    symlinks: &[Symlink],
) -> Result<Option<Step>, ResetRefusal> {
    let mut removes = Vec::new();
    let is_link = |path: &str| symlinks.iter().any(|link| link.path == path);
    for path in [kubeconfig::KUBELET, kubeconfig::BOOTSTRAP] {
        let there = facts.file(path).or_absent()?.is_some() && !is_link(path);
        removes.extend(there.then(|| path.to_owned()));
    }
    for dir in [join_state::MANIFESTS, PKI, volumes::DIR] {
        let entries = facts.dir(dir).or_absent()?.unwrap_or_default();
        let paths = entries.iter().map(|entry| (format!("{dir}/{}", entry.name), entry.is_dir()));
        let others = paths.filter(|(path, _)| !is_link(path));
        removes.extend(others.map(|(path, is_dir)| if is_dir { path + "/" } else { path }));
    }
    removes.extend(symlinks.iter().filter(|link| goes_with_kubeadm(link)).map(Symlink::to_string));
    removes.extend(sandboxes.iter().map(|sandbox| format!("pod {}", sandbox.pod)));
    if removes.is_empty() {
        return Ok(None);
    }
    if matches!(facts.query(&version::KUBEADM), Err(missing) if missing.why == Why::NoTool) {
        return Err(ResetRefusal::NoKubeadm);
    }
    let endpoint = facts.runtime_status().ok().and_then(|status| status.endpoint);
    let socket = endpoint.unwrap_or_else(|| "unix:///run/containerd/containerd.sock".to_owned());
    Ok(Some(step(Effect::KubeadmReset { socket, removes }, "from here on nothing can be taken back; join again")))
}

/// In a directory that kubeadm empties, or one of the files it removes.
fn goes_with_kubeadm(link: &Symlink) -> bool {
    let emptied = [join_state::MANIFESTS, PKI, volumes::DIR].iter().any(|dir| link.is_below(dir));
    emptied || [kubeconfig::KUBELET, kubeconfig::BOOTSTRAP].contains(&link.path.as_str())
}

/// The files of the pod network's configuration, and what stays beside them. The directory stays: a runtime that watches it
/// would not notice a new one.
fn configuration(facts: &Facts, symlinks: &[Symlink]) -> Result<(Vec<Step>, Vec<String>), ResetRefusal> {
    const NEXT: &str = "the next cluster's pod network brings its own";
    let (mut steps, mut stays) = (Vec::new(), Vec::new());
    for entry in facts.dir(CNI_DIR).or_absent()?.unwrap_or_default() {
        let path = format!("{CNI_DIR}/{}", entry.name);
        if entry.is_dir() {
            stays.push(format!("{path}/ (a directory)"));
        } else if OF_PACKAGES.iter().any(|name| entry.name.starts_with(name)) {
            stays.push(format!("{path} (of a package)"));
        } else if let Some(target) = entry.target {
            steps.push(step(Effect::Remove { path }, &format!("a link to {target}, which stays; {NEXT}")));
        } else if entry.is_file() {
            steps.push(step(Effect::Remove { path }, NEXT));
        } else {
            return Err(ResetRefusal::NotAFile(path));
        }
    }
    let in_cni_dir = |link: &Symlink| link.path.rsplit_once('/').is_some_and(|(dir, _)| dir == CNI_DIR);
    let others = symlinks.iter().filter(|link| !goes_with_kubeadm(link) && !in_cni_dir(link));
    stays.extend(others.map(|Symlink { path, target }| format!("{path} (a link to {target})")));
    if facts.file(cni::SUBNET_ENV).or_absent()?.is_some() {
        let effect = Effect::Remove { path: cni::SUBNET_ENV.to_owned() };
        steps.push(step(effect, "pods would get addresses of the range the node had"));
    }
    Ok((steps, stays))
}

/// Addresses that plugins noted as taken; podman's networks have theirs in the same place.
fn notes(facts: &Facts) -> Result<Vec<Step>, ResetRefusal> {
    let text = &facts.whole(&NOTES)?.text;
    let files: Vec<&str> = text.lines().filter(|file| !file.contains("/podman")).collect();
    let mut dirs: Vec<(&str, Vec<String>)> = Vec::new();
    for file in files {
        let Some((dir, name)) = file.rsplit_once('/') else { continue };
        if !is_of_pods(dir) {
            continue;
        }
        match dirs.iter_mut().find(|(known, _)| *known == dir) {
            Some((_, names)) => names.push(name.to_owned()),
            None => dirs.push((dir, vec![name.to_owned()])),
        }
    }
    // What of a directory is podman's keeps all of it.
    dirs.retain(|(dir, _)| !text.lines().any(|file| file.starts_with(&format!("{dir}/podman"))));
    let clear = |(dir, holds): (&str, Vec<String>)| Effect::ClearDir { path: dir.to_owned(), holds };
    Ok(dirs.into_iter().map(|found| step(clear(found), "addresses of pods that are gone would stay taken")).collect())
}

fn is_of_pods(dir: &str) -> bool {
    match dir.strip_prefix("/var/lib/cni/").map(|rest| rest.split('/').collect::<Vec<_>>()).as_deref() {
        Some(["results" | "flannel"]) => true,
        Some(["networks", name]) => !name.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
