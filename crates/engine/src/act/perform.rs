//! Makes one change.

use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::ClusterClient;
use carrick_core::plan::Effect;
use carrick_host::{File, Host, Trouble, WriteMode, cri};
use tokio::time::Instant;

use super::{StepProgress, leave};
use crate::stop::Stop;

/// systemd gives a unit 90 s to start or to stop; the command waits for it.
const UNIT_TIME: Duration = Duration::from_mins(2);
/// Swap is read back into memory: gigabytes from a slow disk.
const SWAP_TIME: Duration = Duration::from_mins(10);
pub(super) const SHORT: Duration = Duration::from_secs(30);

/// When a restarted runtime is asked whether it is back. A large one takes 20 s to load its plugins and images.
const TRIES: [u64; 7] = [1, 5, 10, 15, 20, 25, 30];
/// How long one answer may take.
const TRY: Duration = Duration::from_secs(30);

/// A note: it could not be made, and why the rest goes on without it.
pub(super) async fn perform(
    machine: &Arc<dyn Host>,
    (admin, stop): (Option<&ClusterClient>, &Stop),
    effect: &Effect,
    new: Option<&File>,
    tell: &mut (dyn FnMut(StepProgress<'_>) + Send),
) -> Result<Option<String>, Trouble> {
    let host = machine.as_ref();
    match effect {
        Effect::MakeDir { path, mode } => host.make_dir(path, *mode).await?,
        Effect::Write { path, in_place, .. } => put(host, path, new, how(*in_place)).await?,
        Effect::Edit { path, .. } => put(host, path, new, WriteMode::Replace).await?,
        Effect::SetMode { path, mode } => host.set_mode(path, *mode).await?,
        Effect::Remove { path } => host.remove(path).await?,
        Effect::ReloadUnits => reload_units(host).await?,
        Effect::LoadModule { name } => run(host, &["modprobe", "--", name], SHORT).await?,
        Effect::Sysctl { key, value } => sysctl(host, key, value).await?,
        Effect::SwapOff { device } => run(host, &["swapoff", "--", device], SWAP_TIME).await?,
        Effect::Enable { unit, enabled } => enable(host, unit, *enabled).await?,
        Effect::Run { unit, running } => start_or_stop(host, unit, *running).await?,
        Effect::RestartRuntime { unit, .. } => {
            restart(host, unit).await?;
            answers(host, unit, tell).await?;
        }
        Effect::Drain { node, pods, seconds } => leave::drain((admin, stop), node, pods, *seconds, tell).await?,
        Effect::MarkNotReady { node, system_uuid, machine_id } => {
            return leave::mark_not_ready(machine, node, system_uuid, machine_id).await;
        }
        Effect::EndJoin { removes } => leave::end_join(host, removes).await?,
        Effect::Unmount { .. } => leave::unmount(host).await?,
        Effect::KubeadmReset { socket, .. } => leave::kubeadm_reset(host, socket).await?,
        Effect::DeleteLink { name } => leave::delete_link(host, name).await?,
        Effect::RemoveChains { tool, .. } => leave::remove_chains(host, tool).await?,
        Effect::ClearDir { path, .. } => leave::clear_dir(host, path).await?,
    }
    Ok(None)
}

pub(super) fn how(in_place: bool) -> WriteMode {
    if in_place { WriteMode::InPlace } else { WriteMode::Replace }
}

pub(super) async fn reload_units(host: &dyn Host) -> Result<(), Trouble> {
    run(host, &["systemctl", "daemon-reload"], SHORT).await
}

pub(super) async fn sysctl(host: &dyn Host, key: &str, value: &str) -> Result<(), Trouble> {
    run(host, &["sysctl", "-q", "-w", &format!("{key}={value}")], SHORT).await
}

pub(super) async fn enable(host: &dyn Host, unit: &str, enabled: bool) -> Result<(), Trouble> {
    run(host, &["systemctl", if enabled { "enable" } else { "disable" }, unit], SHORT).await
}

pub(super) async fn start_or_stop(host: &dyn Host, unit: &str, running: bool) -> Result<(), Trouble> {
    run(host, &["systemctl", if running { "start" } else { "stop" }, unit], UNIT_TIME).await
}

pub(super) async fn restart(host: &dyn Host, unit: &str) -> Result<(), Trouble> {
    run(host, &["systemctl", "restart", unit], UNIT_TIME).await
}

async fn put(host: &dyn Host, path: &str, new: Option<&File>, how: WriteMode) -> Result<(), Trouble> {
    match new {
        Some(new) => host.write(path, new, how).await,
        None => Err(Trouble::new(path, "nothing to write")),
    }
}

pub(super) async fn run(host: &dyn Host, argv: &[&str], limit: Duration) -> Result<(), Trouble> {
    host.run(argv, limit).await?.well(argv).map(drop)
}

/// Waits for the runtime to answer through CRI, and says what it is doing where it does not.
async fn answers(host: &dyn Host, unit: &str, tell: &mut (dyn FnMut(StepProgress<'_>) + Send)) -> Result<(), Trouble> {
    let begun = Instant::now();
    for at in TRIES.map(Duration::from_secs) {
        match cri::answers(host, &cri::endpoints(host), TRY).await {
            Ok(()) => return Ok(()),
            Err(why) => tell(StepProgress::Waits(begun.elapsed(), &why.to_string())),
        }
        tokio::time::sleep_until(begun + at).await;
    }
    match cri::answers(host, &cri::endpoints(host), TRY).await {
        Ok(()) => Ok(()),
        Err(why) => Err(silent(host, unit, &why.to_string()).await),
    }
}

/// The state of its unit and socket, and its last words.
async fn silent(host: &dyn Host, unit: &str, why: &str) -> Trouble {
    let said = |argv: &'static [&'static str]| async move {
        host.run(argv, SHORT).await.map_or_else(|trouble| trouble.to_string(), |ended| ended.out.trim().to_owned())
    };
    let state = host.run(&["systemctl", "is-active", unit], SHORT).await.map(|ended| ended.out.trim().to_owned());
    let sockets = said(&["ls", "-l", "/run/containerd/containerd.sock", "/run/crio/crio.sock"]).await;
    let log = host.run(&["journalctl", "--no-pager", "-o", "cat", "-n", "10", "-u", unit], SHORT).await;
    let log = log.map(|ended| ended.out).unwrap_or_default();
    let lines = [format!("unit: {}", state.unwrap_or_default()), format!("socket: {sockets}")];
    let told: Vec<String> = lines.into_iter().chain(log.lines().map(|line| format!("log: {line}"))).collect();
    Trouble::new(unit, format!("does not answer through CRI: {why}\n{}", told.join("\n")))
}
