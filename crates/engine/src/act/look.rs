//! What stands where an effect acts, and what will.

use std::time::Duration;

use carrick_core::plan::{Effect, Plan, State, Step};
use carrick_host::Host;
use carrick_host::host::{Entry, File, Trouble};
use ring::digest::{SHA256, digest};

use super::leave;

/// `systemctl` that only looks.
const LOOK_TIME: Duration = Duration::from_secs(20);

/// A step with what stands there now, and what will.
#[derive(Clone, Debug)]
pub struct Grounded {
    pub step: Step,
    pub was: State,
    pub becomes: State,
    /// The file as it is, whole: kept until the run is taken back.
    pub old: Option<File>,
    /// The file as it will be.
    pub new: Option<File>,
}

/// A look at one place.
pub(super) struct Seen {
    pub(super) state: State,
    pub(super) file: Option<File>,
}

/// Reads what stands where a plan would act. What is so already is no change, and drops out.
pub async fn ground(host: &dyn Host, plan: &Plan) -> Result<Vec<Grounded>, Trouble> {
    let mut grounded = Vec::new();
    for step in &plan.steps {
        let Seen { state: was, file: old } = at(host, &step.effect).await?;
        let new = changed(&step.effect, old.as_ref())?;
        let becomes = becomes(&step.effect, &was, new.as_ref());
        if was != becomes || becomes == State::Moment {
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
        | Effect::Unmount { .. }
        | Effect::KubeadmReset { .. }
        | Effect::DeleteLink { .. }
        | Effect::RemoveChains { .. }
        | Effect::ClearDir { .. } => Ok(None),
    }
}

/// What stands there once an effect is done.
fn becomes(effect: &Effect, was: &State, new: Option<&File>) -> State {
    match effect {
        Effect::Write { .. } | Effect::Edit { .. } => new.map_or(State::Absent, of_file),
        Effect::MakeDir { mode, .. } => with_dir(was, *mode),
        Effect::SetMode { mode, .. } => with_mode(was, *mode),
        Effect::Remove { .. } | Effect::DeleteLink { .. } => State::Absent,
        Effect::ReloadUnits | Effect::RestartRuntime { .. } => State::Moment,
        Effect::LoadModule { .. } => State::value("loaded"),
        Effect::Sysctl { value, .. } => State::value(value),
        Effect::SwapOff { .. } => State::value("off"),
        Effect::Enable { enabled, .. } => State::value(if *enabled { "enabled" } else { "disabled" }),
        Effect::Run { running, .. } => State::value(if *running { "active" } else { "inactive" }),
        Effect::Drain { .. } => State::value("drained"),
        Effect::MarkNotReady { .. } => State::value("not ready"),
        Effect::Unmount { .. } => State::value("not mounted"),
        Effect::KubeadmReset { .. } => State::value("clean"),
        Effect::RemoveChains { .. } => State::value("0 chains"),
        Effect::ClearDir { .. } => State::value("0 entries"),
    }
}

/// Which mode a directory that is there should have is for `SetMode` to say.
fn with_dir(was: &State, mode: u32) -> State {
    match was {
        State::Dir { .. } => was.clone(),
        State::Absent | State::File { .. } | State::Link { .. } | State::Value { .. } | State::Moment => {
            State::Dir { mode, uid: 0, gid: 0 }
        }
    }
}

/// Of what has no mode nothing changes.
fn with_mode(was: &State, mode: u32) -> State {
    let mut state = was.clone();
    match &mut state {
        State::File { mode: old, .. } | State::Dir { mode: old, .. } => *old = mode,
        State::Absent | State::Link { .. } | State::Value { .. } | State::Moment => {}
    }
    state
}

pub(super) fn of_file(file: &File) -> State {
    let sha256 = digest(&SHA256, &file.bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    State::File { sha256, mode: file.mode, uid: file.uid, gid: file.gid }
}

/// Looks at the place of one effect.
pub(super) async fn at(host: &dyn Host, effect: &Effect) -> Result<Seen, Trouble> {
    let state = match effect {
        Effect::MakeDir { path, .. }
        | Effect::Write { path, .. }
        | Effect::Edit { path, .. }
        | Effect::SetMode { path, .. } => return plain(host, path).await,
        Effect::Remove { path } => return plain_or_link(host, path).await,
        Effect::ReloadUnits | Effect::RestartRuntime { .. } => State::Moment,
        Effect::LoadModule { name } => module(host, name).await?,
        Effect::Sysctl { key, .. } => setting(host, key).await?,
        Effect::SwapOff { device } => swap(host, device).await?,
        Effect::Enable { unit, .. } => enabled(host, unit).await?,
        // It ends with an error where the answer is no; the answer is the word.
        Effect::Run { unit, .. } => word(host, &["systemctl", "is-active", unit]).await?,
        Effect::Drain { .. } | Effect::MarkNotReady { .. } => State::value("as the cluster has it"),
        Effect::Unmount { .. } => leave::volumes(host).await?,
        Effect::KubeadmReset { .. } => leave::join(host).await?,
        Effect::DeleteLink { name } => leave::link(host, name).await?,
        Effect::RemoveChains { tool, .. } => leave::chains(host, tool).await?,
        Effect::ClearDir { path, .. } => State::value(format!("{} entries", host.list(path).await?.len())),
    };
    Ok(Seen { state, file: None })
}

async fn module(host: &dyn Host, name: &str) -> Result<State, Trouble> {
    let there = host.look(&format!("/sys/module/{}", name.replace('-', "_"))).await?.is_some();
    Ok(State::value(if there { "loaded" } else { "not loaded" }))
}

/// A kernel that does not have the setting may get it with a module.
async fn setting(host: &dyn Host, key: &str) -> Result<State, Trouble> {
    match host.look(&format!("/proc/sys/{}", key.replace('.', "/"))).await? {
        Some(Entry::File(file)) => Ok(State::value(String::from_utf8_lossy(&file.bytes).trim())),
        Some(Entry::Dir { .. } | Entry::Link(_) | Entry::Other(_)) | None => Ok(State::Absent),
    }
}

async fn swap(host: &dyn Host, device: &str) -> Result<State, Trouble> {
    let argv = ["cat", "/proc/swaps"];
    let swaps = host.run(&argv, LOOK_TIME).await?.well(&argv)?;
    let on = swaps.lines().skip(1).any(|line| line.split_whitespace().next() == Some(device));
    Ok(State::value(if on { "on" } else { "off" }))
}

/// Of a unit whose file is still to be written systemd says nothing, or `not-found`. The answer is the word, not the status.
async fn enabled(host: &dyn Host, unit: &str) -> Result<State, Trouble> {
    let argv = ["systemctl", "is-enabled", unit];
    let said = host.run(&argv, LOOK_TIME).await?;
    match said.out.split_whitespace().next() {
        Some(word) => Ok(State::value(word)),
        None if said.errors.contains("No such file") || said.errors.contains("not found") => {
            Ok(State::value("not-found"))
        }
        None => Err(said.well(&argv).map_or_else(|trouble| trouble, |_| Trouble::new(argv.join(" "), "no answer"))),
    }
}

pub(super) async fn word(host: &dyn Host, argv: &[&str]) -> Result<State, Trouble> {
    let said = host.run(argv, LOOK_TIME).await?;
    match said.out.split_whitespace().next() {
        Some(word) => Ok(State::value(word)),
        None => Err(said.well(argv).map_or_else(|trouble| trouble, |_| Trouble::new(argv.join(" "), "no answer"))),
    }
}

async fn plain(host: &dyn Host, path: &str) -> Result<Seen, Trouble> {
    let seen = plain_or_link(host, path).await?;
    match &seen.state {
        State::Link { to } => Err(Trouble::new(path, format!("is a link to {to}; Carrick changes only plain files"))),
        State::Absent | State::File { .. } | State::Dir { .. } | State::Value { .. } | State::Moment => Ok(seen),
    }
}

async fn plain_or_link(host: &dyn Host, path: &str) -> Result<Seen, Trouble> {
    match host.look(path).await? {
        None => Ok(Seen { state: State::Absent, file: None }),
        Some(Entry::Dir { mode, uid, gid }) => Ok(Seen { state: State::Dir { mode, uid, gid }, file: None }),
        Some(Entry::File(file)) => Ok(Seen { state: of_file(&file), file: Some(file) }),
        Some(Entry::Link(to)) => Ok(Seen { state: State::Link { to }, file: None }),
        Some(Entry::Other(what)) => Err(Trouble::new(path, format!("is {what}; Carrick changes only plain files"))),
    }
}
