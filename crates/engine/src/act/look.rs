//! What stands where an effect acts, and what will.

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_core::plan::{Effect, PlaceState, Plan, Step};
use carrick_host::{File, Host, PathEntry, Trouble};
use ring::digest::{SHA256, digest};

use super::leave;

/// `systemctl` that only looks.
const LOOK_TIME: Duration = Duration::from_secs(20);

/// A step with what stands there now, and what will.
#[derive(Clone, Debug)]
pub struct Grounded {
    pub step: Step,
    pub was: PlaceState,
    pub becomes: PlaceState,
    /// The file as it is, whole: kept until the run is taken back.
    pub old: Option<File>,
    /// The file as it will be.
    pub new: Option<File>,
}

/// A look at one place.
pub(super) struct FoundState {
    pub(super) state: PlaceState,
    pub(super) file: Option<File>,
}

/// Directories whose place is the machine's own affair: people put them on another disk, and a link there is how.
const PLACED_BY_PEOPLE: [&str; 6] = ["/etc", "/opt", "/run", "/var", "/var/lib", "/var/lib/kubelet"];

/// The directories on the way to what is changed, each looked at once: no change is made through a link in the place of one.
/// What it leads to is somebody else's, and may be used by others.
#[derive(Default)]
pub(super) struct Ways {
    plain: BTreeSet<String>,
}

impl Ways {
    pub(super) async fn are_plain(&mut self, host: &dyn Host, effect: &Effect) -> Result<(), Trouble> {
        let Some(path) = effect.path() else { return Ok(()) };
        for (end, _) in path.match_indices('/').skip(1) {
            let dir = path.get(..end).unwrap_or_default();
            // What is below /run the machine itself has made at its boot.
            let is_placed = PLACED_BY_PEOPLE.contains(&dir) || dir.starts_with("/run/");
            if is_placed || self.plain.contains(dir) {
                continue;
            }
            if let Some(PathEntry::Link(to)) = host.look(dir).await? {
                let says = format!("is a link to {to}, and Carrick changes nothing through a link: would {effect}");
                return Err(Trouble::new(dir, says));
            }
            self.plain.insert(dir.to_owned());
        }
        Ok(())
    }
}

/// Reads what stands where a plan would act. What is so already is no change, and drops out.
pub async fn ground(host: &dyn Host, plan: &Plan) -> Result<Vec<Grounded>, Trouble> {
    let (mut grounded, mut on_the_way) = (Vec::new(), Ways::default());
    for step in &plan.steps {
        on_the_way.are_plain(host, &step.effect).await?;
        let FoundState { state: was, file: old } = at(host, &step.effect).await?;
        let new = changed(&step.effect, old.as_ref())?;
        let becomes = becomes(&step.effect, &was, new.as_ref());
        if was != becomes || becomes == PlaceState::Moment {
            grounded.push(Grounded { step: step.clone(), was, becomes, old, new });
        }
    }
    Ok(grounded)
}

/// The file as the effect will leave it.
fn changed(effect: &Effect, old: Option<&File>) -> Result<Option<File>, Trouble> {
    let like_old = |bytes: Vec<u8>, mode| match old {
        Some(old) => File { bytes, mode, uid: old.uid, gid: old.gid },
        None => File::new(bytes, mode),
    };
    match effect {
        Effect::Write { text, mode, .. } => Ok(Some(like_old(text.clone().into_bytes(), *mode))),
        Effect::Edit { path, edit } => {
            let old = old.ok_or_else(|| Trouble::new(path, "is not there to be edited"))?;
            let text = std::str::from_utf8(&old.bytes).map_err(|_| Trouble::new(path, "is not text"))?;
            let text = edit.apply(text).map_err(|unfit| Trouble::new(path, unfit))?;
            Ok(Some(like_old(text.into_bytes(), old.mode)))
        }
        Effect::MakeDir { .. }
        | Effect::SetMode { .. }
        | Effect::Remove { .. }
        | Effect::ReloadUnits
        | Effect::LoadModule { .. }
        | Effect::Sysctl { .. }
        | Effect::SwapOff { .. }
        | Effect::Enable { .. }
        | Effect::Run { .. }
        | Effect::RestartRuntime { .. }
        | Effect::Drain { .. }
        | Effect::MarkNotReady { .. }
        | Effect::EndJoin { .. }
        | Effect::Unmount { .. }
        | Effect::KubeadmReset { .. }
        | Effect::DeleteLink { .. }
        | Effect::RemoveChains { .. }
        | Effect::ClearDir { .. } => Ok(None),
    }
}

/// What stands there once an effect is done.
fn becomes(effect: &Effect, was: &PlaceState, new: Option<&File>) -> PlaceState {
    match effect {
        Effect::Write { .. } | Effect::Edit { .. } => new.map_or(PlaceState::Absent, of_file),
        Effect::MakeDir { mode, .. } => with_dir(was, *mode),
        Effect::SetMode { mode, .. } => with_mode(was, *mode),
        Effect::Remove { .. } | Effect::DeleteLink { .. } => PlaceState::Absent,
        Effect::ReloadUnits | Effect::RestartRuntime { .. } => PlaceState::Moment,
        Effect::LoadModule { .. } => PlaceState::value("loaded"),
        Effect::Sysctl { value, .. } => PlaceState::value(value),
        Effect::SwapOff { .. } => PlaceState::value("off"),
        Effect::Enable { enabled, .. } => PlaceState::value(if *enabled { "enabled" } else { "disabled" }),
        Effect::Run { running, .. } => PlaceState::value(if *running { "active" } else { "inactive" }),
        Effect::Drain { .. } => PlaceState::value("drained"),
        Effect::MarkNotReady { .. } => PlaceState::value("not ready"),
        Effect::EndJoin { .. } => PlaceState::value("ended"),
        Effect::Unmount { .. } => PlaceState::value("not mounted"),
        Effect::KubeadmReset { .. } => PlaceState::value("clean"),
        Effect::RemoveChains { .. } => PlaceState::value("0 chains"),
        Effect::ClearDir { .. } => PlaceState::value("0 entries"),
    }
}

/// Which mode a directory that is there should have is for `SetMode` to say.
fn with_dir(was: &PlaceState, mode: u32) -> PlaceState {
    match was {
        PlaceState::Dir { .. } => was.clone(),
        PlaceState::Absent
        | PlaceState::File { .. }
        | PlaceState::Link { .. }
        | PlaceState::Value { .. }
        | PlaceState::Moment => PlaceState::Dir { mode, uid: 0, gid: 0 },
    }
}

/// Of what has no mode nothing changes.
fn with_mode(was: &PlaceState, mode: u32) -> PlaceState {
    let mut state = was.clone();
    match &mut state {
        PlaceState::File { mode: old, .. } | PlaceState::Dir { mode: old, .. } => *old = mode,
        PlaceState::Absent | PlaceState::Link { .. } | PlaceState::Value { .. } | PlaceState::Moment => {}
    }
    state
}

pub(super) fn of_file(file: &File) -> PlaceState {
    let sha256 = digest(&SHA256, &file.bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    PlaceState::File { sha256, mode: file.mode, uid: file.uid, gid: file.gid }
}

/// Looks at the place of one effect.
pub(super) async fn at(host: &dyn Host, effect: &Effect) -> Result<FoundState, Trouble> {
    let state = match effect {
        Effect::MakeDir { path, .. }
        | Effect::Write { path, .. }
        | Effect::Edit { path, .. }
        | Effect::SetMode { path, .. } => return plain(host, path).await,
        Effect::Remove { path } => return plain_or_link(host, path).await,
        Effect::ReloadUnits | Effect::RestartRuntime { .. } => PlaceState::Moment,
        Effect::LoadModule { name } => module(host, name).await?,
        Effect::Sysctl { key, .. } => setting(host, key).await?,
        Effect::SwapOff { device } => swap(host, device).await?,
        Effect::Enable { unit, .. } => enabled(host, unit).await?,
        // It ends with an error where the answer is no; the answer is the word.
        Effect::Run { unit, .. } => word(host, &["systemctl", "is-active", unit]).await?,
        Effect::Drain { .. } | Effect::MarkNotReady { .. } => PlaceState::value("as the cluster has it"),
        Effect::EndJoin { .. } => leave::join_at_work(host).await?,
        Effect::Unmount { .. } => leave::volumes(host).await?,
        Effect::KubeadmReset { .. } => leave::join(host).await?,
        Effect::DeleteLink { name } => leave::link(host, name).await?,
        Effect::RemoveChains { tool, .. } => leave::chains(host, tool).await?,
        Effect::ClearDir { path, .. } => PlaceState::value(format!("{} entries", host.list(path).await?.len())),
    };
    Ok(FoundState { state, file: None })
}

async fn module(host: &dyn Host, name: &str) -> Result<PlaceState, Trouble> {
    let there = host.look(&format!("/sys/module/{}", name.replace('-', "_"))).await?.is_some();
    Ok(PlaceState::value(if there { "loaded" } else { "not loaded" }))
}

/// A kernel that does not have the setting may get it with a module.
async fn setting(host: &dyn Host, key: &str) -> Result<PlaceState, Trouble> {
    match host.look(&format!("/proc/sys/{}", key.replace('.', "/"))).await? {
        Some(PathEntry::File(file)) => Ok(PlaceState::value(String::from_utf8_lossy(&file.bytes).trim())),
        Some(PathEntry::Dir { .. } | PathEntry::Link(_) | PathEntry::Other(_)) | None => Ok(PlaceState::Absent),
    }
}

async fn swap(host: &dyn Host, device: &str) -> Result<PlaceState, Trouble> {
    let argv = ["cat", "/proc/swaps"];
    let swaps = host.run(&argv, LOOK_TIME).await?.well(&argv)?;
    let on = swaps.lines().skip(1).any(|line| line.split_whitespace().next() == Some(device));
    Ok(PlaceState::value(if on { "on" } else { "off" }))
}

/// Of a unit whose file is still to be written systemd says nothing, or `not-found`. The answer is the word, not the status.
async fn enabled(host: &dyn Host, unit: &str) -> Result<PlaceState, Trouble> {
    let argv = ["systemctl", "is-enabled", unit];
    let said = host.run(&argv, LOOK_TIME).await?;
    match said.out.split_whitespace().next() {
        Some(word) => Ok(PlaceState::value(word)),
        None if said.errors.contains("No such file") || said.errors.contains("not found") => {
            Ok(PlaceState::value("not-found"))
        }
        None => Err(said.well(&argv).map_or_else(|trouble| trouble, |_| Trouble::new(argv.join(" "), "no answer"))),
    }
}

pub(super) async fn word(host: &dyn Host, argv: &[&str]) -> Result<PlaceState, Trouble> {
    let said = host.run(argv, LOOK_TIME).await?;
    match said.out.split_whitespace().next() {
        Some(word) => Ok(PlaceState::value(word)),
        None => Err(said.well(argv).map_or_else(|trouble| trouble, |_| Trouble::new(argv.join(" "), "no answer"))),
    }
}

async fn plain(host: &dyn Host, path: &str) -> Result<FoundState, Trouble> {
    let seen = plain_or_link(host, path).await?;
    match &seen.state {
        PlaceState::Link { to } => {
            Err(Trouble::new(path, format!("is a link to {to}; Carrick changes only plain files")))
        }
        PlaceState::Absent
        | PlaceState::File { .. }
        | PlaceState::Dir { .. }
        | PlaceState::Value { .. }
        | PlaceState::Moment => Ok(seen),
    }
}

async fn plain_or_link(host: &dyn Host, path: &str) -> Result<FoundState, Trouble> {
    match host.look(path).await? {
        None => Ok(FoundState { state: PlaceState::Absent, file: None }),
        Some(PathEntry::Dir { mode, uid, gid }) => {
            Ok(FoundState { state: PlaceState::Dir { mode, uid, gid }, file: None })
        }
        Some(PathEntry::File(file)) => Ok(FoundState { state: of_file(&file), file: Some(file) }),
        Some(PathEntry::Link(to)) => Ok(FoundState { state: PlaceState::Link { to }, file: None }),
        Some(PathEntry::Other(what)) => Err(Trouble::new(path, format!("is {what}; Carrick changes only plain files"))),
    }
}
