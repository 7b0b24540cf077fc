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
        _ => Ok(None),
    }
}

/// What stands there once an effect is done.
fn becomes(effect: &Effect, was: &State, new: Option<&File>) -> State {
    if let Some(left) = leave::becomes(effect) {
        return left;
    }
    match effect {
        Effect::Write { .. } | Effect::Edit { .. } => new.map_or(State::Absent, of_file),
        // Which mode a directory that is there should have is for `SetMode` to say.
        Effect::MakeDir { .. } if matches!(was, State::Dir { .. }) => was.clone(),
        Effect::MakeDir { mode, .. } => State::Dir { mode: *mode, uid: 0, gid: 0 },
        Effect::SetMode { mode, .. } => with_mode(was, *mode),
        Effect::Remove { .. } => State::Absent,
        Effect::LoadModule { .. } => State::value("loaded"),
        Effect::Sysctl { value, .. } => State::value(value),
        Effect::SwapOff { .. } => State::value("off"),
        Effect::Enable { enabled, .. } => State::value(if *enabled { "enabled" } else { "disabled" }),
        Effect::Run { running, .. } => State::value(if *running { "active" } else { "inactive" }),
        _ => State::Moment,
    }
}

fn with_mode(was: &State, mode: u32) -> State {
    let mut state = was.clone();
    if let State::File { mode: old, .. } | State::Dir { mode: old, .. } = &mut state {
        *old = mode;
    }
    state
}

pub(super) fn of_file(file: &File) -> State {
    let sha256 = digest(&SHA256, &file.bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    State::File { sha256, mode: file.mode, uid: file.uid, gid: file.gid }
}

/// Looks at the place of one effect.
pub(super) async fn at(host: &dyn Host, effect: &Effect) -> Result<Seen, Trouble> {
    if let Some(state) = leave::at(host, effect).await? {
        return Ok(Seen { state, file: None });
    }
    let state = match effect {
        Effect::LoadModule { name } => {
            let there = host.look(&format!("/sys/module/{}", name.replace('-', "_"))).await?.is_some();
            State::value(if there { "loaded" } else { "not loaded" })
        }
        Effect::Sysctl { key, .. } => match host.look(&format!("/proc/sys/{}", key.replace('.', "/"))).await? {
            Some(Entry::File(file)) => State::value(String::from_utf8_lossy(&file.bytes).trim()),
            _ => State::Absent,
        },
        Effect::SwapOff { device } => {
            let swaps = host.run(&["cat", "/proc/swaps"], LOOK_TIME).await?.well(&["cat", "/proc/swaps"])?;
            let on = swaps.lines().skip(1).any(|line| line.split_whitespace().next() == Some(device));
            State::value(if on { "on" } else { "off" })
        }
        // Both end with an error where the answer is no; the answer is the word.
        Effect::Enable { unit, .. } => enabled(host, unit).await?,
        Effect::Run { unit, .. } => word(host, &["systemctl", "is-active", unit]).await?,
        Effect::ReloadUnits | Effect::RestartRuntime { .. } => State::Moment,
        _ => return path(host, effect).await,
    };
    Ok(Seen { state, file: None })
}

/// Of a unit whose file is still to be written systemd says nothing, or `not-found`.
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

async fn path(host: &dyn Host, effect: &Effect) -> Result<Seen, Trouble> {
    let path = effect.path().unwrap_or_default();
    match host.look(path).await? {
        None => Ok(Seen { state: State::Absent, file: None }),
        Some(Entry::Dir { mode, uid, gid }) => Ok(Seen { state: State::Dir { mode, uid, gid }, file: None }),
        Some(Entry::File(file)) => Ok(Seen { state: of_file(&file), file: Some(file) }),
        Some(Entry::Link(to)) if matches!(effect, Effect::Remove { .. }) => {
            Ok(Seen { state: State::Link { to }, file: None })
        }
        Some(Entry::Link(to)) => {
            Err(Trouble::new(path, format!("is a link to {to}; Carrick changes only plain files")))
        }
        Some(Entry::Other(what)) => Err(Trouble::new(path, format!("is {what}; Carrick changes only plain files"))),
    }
}
