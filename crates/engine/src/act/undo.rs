//! Takes a run back: the same steps in the other order, each to what stood there before.
//!
//! What somebody changed since is not written over: then nothing is taken back, and the message says where the old file is. A
//! file that was being written in place when its run was killed is neither as it was nor as it was to be, and is put back.

use std::sync::Arc;

use carrick_core::StopSignal;
use carrick_core::plan::live::LiveNode;
use carrick_core::plan::protect::{PlanRefusal, Protected};
use carrick_core::plan::{Effect, PlaceState, Plan, Undo};
use carrick_core::record::half;
use carrick_host::{File, Host, Locked, Trouble, WriteMode};

use super::journal::{self, End, Journal, JournalError, Mark, PastRun, Recorded};
use super::{StepProgress, leave, look, perform};
use crate::stop::Stop;

/// Why a run was not taken back, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    #[error(transparent)]
    Broken(#[from] JournalError),
    #[error(transparent)]
    Locked(#[from] Locked),
    #[error(transparent)]
    Refused(#[from] PlanRefusal),
    #[error("there is no run to take back; carrick history lists them")]
    Nothing,
    #[error("run {0} was taken back already")]
    Already(u32),
    #[error("run {run}: {what} was changed since; nothing was taken back. What it was is in {kept}")]
    Changed { run: u32, what: String, kept: String },
    #[error(
        "run {run} cannot be taken back: it began to {what}, and this machine's place in its cluster is gone; join again. \
         {kept}"
    )]
    Final { run: u32, what: String, kept: String },
    #[error("stopped by {}: {done} of {steps} taken back; go on: carrick undo {run}", .signal.name())]
    Told { run: u32, signal: StopSignal, done: usize, steps: usize },
    #[error("run {run} is taken back only in part: {trouble}; try again: carrick undo {run}")]
    Stopped { run: u32, trouble: Trouble },
}

impl From<Trouble> for UndoError {
    fn from(trouble: Trouble) -> Self {
        UndoError::Broken(trouble.into())
    }
}

/// One thing that is put back.
#[derive(Clone, Debug)]
pub struct UndoStep {
    run: u32,
    step: usize,
    recorded: Recorded,
    /// Somebody may have written to it while nobody knows: what is there is kept.
    keeps_found: bool,
}

impl UndoStep {
    /// The sentence that says so.
    pub fn sentence(&self) -> String {
        let sentence = self.recorded.step.effect.taken_back(&self.recorded.was);
        if self.keeps_found {
            return format!("{sentence}; what is there now is kept in {}", journal::found(self.run));
        }
        sentence
    }
}

/// Something that is not put back without more ado: this machine has joined a cluster since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNeeds {
    /// What would be put back.
    pub sentence: String,
    /// What breaks then.
    pub breaks: &'static str,
}

/// What would be put back, in order.
#[derive(Clone, Debug, Default)]
pub struct UndoPlan {
    pub backs: Vec<UndoStep>,
    /// What cannot be put back, in sentences.
    pub stays: Vec<String>,
    /// What is not put back, because a live node needs it.
    pub needed: Vec<NodeNeeds>,
    /// What else there is to know, in sentences.
    pub notes: Vec<String>,
    /// All runs this is about.
    pub runs: Vec<u32>,
    /// What a run that was killed left beside files.
    litter: Vec<String>,
}

/// Of one run, and of those it completed. `None`: of the last that changed something.
pub async fn plan(host: &dyn Host, run: Option<u32>) -> Result<UndoPlan, UndoError> {
    plan_beside(host, run, None).await
}

/// The same, but for what a node needs that lives on the machine.
pub async fn plan_beside(host: &dyn Host, run: Option<u32>, node: Option<&LiveNode>) -> Result<UndoPlan, UndoError> {
    let mut back = UndoPlan::default();
    let mut past = match run {
        Some(run) => journal::load(host, run).await?,
        None => last(host, &mut back.notes).await?,
    };
    if past.end() == End::Undone {
        return Err(UndoError::Already(past.run.run));
    }
    loop {
        no_way_back(&past)?;
        let node = node.filter(|node| node.has_joined_since(past.run.begun));
        collect(host, &past, node, &mut back).await?;
        back.runs.push(past.run.run);
        back.litter.extend(journal::litter(&past));
        if let Some(damage) = &past.damage {
            let run = past.run.run;
            back.notes.push(format!("what run {run} did is known only in part: its journal is damaged ({damage})"));
        }
        match past.run.continues {
            Some(earlier) if earlier < past.run.run => match journal::load(host, earlier).await {
                Ok(before) => past = before,
                Err(JournalError::Trouble(trouble)) => return Err(trouble.into()),
                Err(broken) => {
                    back.notes.push(format!("run {}, which run {} completed, stays: {broken}", earlier, past.run.run));
                    break;
                }
            },
            _ => break,
        }
    }
    back.backs = readers_last(once(back.backs));
    Ok(back)
}

/// Of several changes of one thing the first knows what was there; the newest stands first here.
fn once(backs: Vec<UndoStep>) -> Vec<UndoStep> {
    let mut places: Vec<UndoStep> = Vec::new();
    for back in backs {
        let place = back.recorded.step.effect.place();
        places.retain(|known| known.recorded.step.effect.place() != place);
        places.push(back);
    }
    places
}

/// Who reads the files is told once they are as they were.
fn readers_last(backs: Vec<UndoStep>) -> Vec<UndoStep> {
    let (moments, mut ordered): (Vec<UndoStep>, Vec<UndoStep>) =
        backs.into_iter().partition(|back| back.recorded.becomes == PlaceState::Moment);
    ordered.extend(moments.into_iter().rev());
    ordered
}

/// A record that cannot be read keeps nobody from taking another run back, and is told.
async fn last(host: &dyn Host, notes: &mut Vec<String>) -> Result<PastRun, UndoError> {
    for past in journal::history(host).await?.into_iter().rev() {
        match past {
            Ok(past) if past.end() != End::Undone && past.changed_something() => return Ok(past),
            Ok(_) => {}
            Err(JournalError::Trouble(trouble)) => return Err(trouble.into()),
            Err(broken) => notes.push(broken.to_string()),
        }
    }
    Err(UndoError::Nothing)
}

/// A run that went too far is not taken back in part either: a kubelet without its credentials is no help to anybody.
fn no_way_back(past: &PastRun) -> Result<(), UndoError> {
    let run = past.run.run;
    let but = if past.final_steps().is_empty() { "" } else { ", but for what held a key" };
    let kept = || format!("What it removed of files is in {}/runs/{run:04}/backup{but}", journal::HOME);
    let refused = |effect: &Effect| UndoError::Final { run, what: effect.to_string(), kept: kept() };
    past.no_way_back().map_or(Ok(()), |effect| Err(refused(effect)))
}

async fn collect(
    host: &dyn Host,
    past: &PastRun,
    node: Option<&LiveNode>,
    back: &mut UndoPlan,
) -> Result<(), UndoError> {
    let (run, mut ways) = (past.run.run, look::Ways::default());
    for step in past.begun().into_iter().rev() {
        let Some(recorded) = past.run.steps.get(step).cloned() else { continue };
        let (effect, mut keeps_found) = (&recorded.step.effect, false);
        if !effect.can_be_undone() {
            back.stays.push(effect.taken_back(&recorded.was));
            continue;
        }
        if recorded.becomes == PlaceState::Moment {
            if has_readers(past, node, &recorded) {
                back.backs.push(UndoStep { run, step, recorded, keeps_found });
            }
            continue;
        }
        if !effect.is_in_cluster() {
            ways.are_plain(host, effect).await?;
            let look::FoundState { state: now, file } = look::at(host, effect).await?;
            if now == recorded.was {
                continue;
            }
            if let Some(stays) = stays(past, node, step, &recorded) {
                match stays {
                    Stays::Final(sentence) => back.stays.push(sentence),
                    Stays::Needed(needed) => back.needed.push(needed),
                }
                continue;
            }
            // Where a later run of the same chain changed it too, it was compared with what that one left.
            let later = back.backs.iter().any(|back| back.recorded.step.effect.place() == effect.place());
            if now != recorded.becomes && !later {
                match (effect.path(), effect.written_in_place()) {
                    (Some(_), Some(new)) if past.is_open(step) => {
                        keeps_found = !is_half_written(host, run, (step, &recorded), new, file.as_ref()).await?;
                    }
                    (Some(path), _) => {
                        let kept = format!("{}/runs/{run:04}/backup/{step}", journal::HOME);
                        return Err(UndoError::Changed { run, what: path.to_owned(), kept });
                    }
                    (None, _) if past.damage.is_some() => {
                        let says = "it is neither as it was nor as it was made, and the journal is damaged";
                        back.stays.push(format!("leave out: {}: {says}", effect.taken_back(&recorded.was)));
                        continue;
                    }
                    (None, _) => {}
                }
            }
        }
        back.backs.push(UndoStep { run, step, recorded, keeps_found });
    }
    Ok(())
}

/// Whether a file is what our own write leaves that was cut short, forth or back, and nothing else.
async fn is_half_written(
    host: &dyn Host,
    run: u32,
    (step, recorded): (usize, &Recorded),
    new: &str,
    found: Option<&File>,
) -> Result<bool, Trouble> {
    let Some(found) = found else { return Ok(true) };
    let old = match &recorded.was {
        PlaceState::File { .. } => journal::kept(host, run, step).await?.bytes,
        PlaceState::Absent
        | PlaceState::Dir { .. }
        | PlaceState::Link { .. }
        | PlaceState::Value { .. }
        | PlaceState::Moment => Vec::new(),
    };
    let (new, found) = (new.as_bytes(), found.bytes.as_slice());
    Ok(half::is_cut_short(&old, new, found) || half::is_cut_short(new, &old, found))
}

/// Why a step is not taken back.
enum Stays {
    Final(String),
    Needed(NodeNeeds),
}

fn stays(past: &PastRun, node: Option<&LiveNode>, step: usize, recorded: &Recorded) -> Option<Stays> {
    let (effect, was) = (&recorded.step.effect, &recorded.was);
    if let Some(why) = past.is_final(step) {
        let path = effect.path().unwrap_or("it");
        return Some(Stays::Final(format!("{path} cannot be put back any more: {why}")));
    }
    let breaks = node.and_then(|_| effect.breaks(was))?;
    Some(Stays::Needed(NodeNeeds { sentence: effect.taken_back(was), breaks }))
}

/// A reload or a restart is made again where a file was changed for the same reason, and is put back: otherwise there is
/// nothing to read anew, and containerd would make the very directory again that was just removed.
fn has_readers(past: &PastRun, node: Option<&LiveNode>, moment: &Recorded) -> bool {
    let same_reason = |step: &Recorded| step.step.why.iter().any(|why| moment.step.why.contains(why));
    let steps = past.run.steps.iter().enumerate();
    let mut read = steps.filter(|(_, step)| step.step.effect.undo() == Undo::Content && same_reason(step));
    read.any(|(at, step)| stays(past, node, at, step).is_none())
}

/// Puts everything back. The caller holds the lock.
pub async fn apply(
    machine: &Arc<dyn Host>,
    back: &UndoPlan,
    protected: &Protected,
    stop: &Stop,
    tell: &mut (dyn FnMut(StepProgress<'_>) + Send),
) -> Result<(), UndoError> {
    let host = machine.as_ref();
    let steps = back.backs.iter().map(|back| back.recorded.step.clone()).collect();
    if let Some(refusal) = protected.refusal(&Plan { steps }) {
        return Err(refusal.into());
    }
    for &run in &back.runs {
        journal::repair(host, run).await?;
    }
    for litter in &back.litter {
        host.remove(litter).await?;
    }
    let steps = back.backs.len();
    for (at, back) in back.backs.iter().enumerate() {
        if let Some(signal) = stop.told() {
            return Err(UndoError::Told { run: back.run, signal, done: at, steps });
        }
        tell(StepProgress::Begins(at, back.sentence()));
        let stopped = |trouble| UndoError::Stopped { run: back.run, trouble };
        let journal = Journal::of(back.run);
        if let Some(path) = back.recorded.step.effect.path().filter(|_| back.keeps_found) {
            journal::keep_found(host, back.run, back.step, path).await.map_err(stopped)?;
        }
        journal.mark(host, Some(back.step), Mark::UndoBegun, "").await.map_err(stopped)?;
        let note = put_back(machine, back).await.map_err(stopped)?;
        let said = note.as_deref().unwrap_or_default();
        journal.mark(host, Some(back.step), Mark::Undone, said).await.map_err(stopped)?;
        tell(note.map_or(StepProgress::Done(at), |why| StepProgress::Passed(at, why)));
    }
    // What a node needs can still be taken back, once it is none.
    for &run in back.runs.iter().filter(|_| back.needed.is_empty()) {
        let marked = Journal::of(run).mark(host, None, Mark::Undone, "").await;
        marked.map_err(|trouble| UndoError::Stopped { run, trouble })?;
    }
    Ok(())
}

/// A note: it could not be put back, and the rest goes on.
async fn put_back(machine: &Arc<dyn Host>, back: &UndoStep) -> Result<Option<String>, Trouble> {
    let host = machine.as_ref();
    let Recorded { step, was, .. } = &back.recorded;
    match &step.effect {
        Effect::MakeDir { path, .. } if *was == PlaceState::Absent => remove_empty(host, path).await?,
        Effect::MakeDir { path, .. }
        | Effect::Edit { path, .. }
        | Effect::SetMode { path, .. }
        | Effect::Remove { path } => return restore(host, back, path, WriteMode::Replace).await,
        Effect::Write { path, in_place, .. } => return restore(host, back, path, perform::how(*in_place)).await,
        Effect::ReloadUnits => perform::reload_units(host).await?,
        Effect::Sysctl { key, .. } => match was.as_value() {
            Some(value) => perform::sysctl(host, key, value).await?,
            None => return Ok(Some(format!("{key} had no value before"))),
        },
        Effect::SwapOff { device } => perform::run(host, &["swapon", "--", device], perform::SHORT).await?,
        Effect::Enable { unit, .. } => match was_enabled(was) {
            Some(enabled) => perform::enable(host, unit, enabled).await?,
            None => return Ok(Some(left_as_it_is(unit, was))),
        },
        Effect::Run { unit, .. } => match was_running(was) {
            Some(running) => perform::start_or_stop(host, unit, running).await?,
            None => return Ok(Some(left_as_it_is(unit, was))),
        },
        // It may have been fixed only because it did not answer, or did not even start: that comes back, too.
        Effect::RestartRuntime { unit, .. } => {
            let restarted = perform::restart(host, unit).await;
            return Ok(restarted.err().map(|trouble| format!("as before, {unit} does not start: {trouble}")));
        }
        Effect::Drain { node, .. } | Effect::MarkNotReady { node, .. } => return Ok(leave::back(machine, node).await),
        // `plan` leaves these out: there is no way back.
        Effect::LoadModule { .. }
        | Effect::EndJoin { .. }
        | Effect::Unmount { .. }
        | Effect::KubeadmReset { .. }
        | Effect::DeleteLink { .. }
        | Effect::RemoveChains { .. }
        | Effect::ClearDir { .. } => return Ok(Some(back.sentence())),
    }
    Ok(None)
}

/// In the words of `systemctl is-enabled`; `None` for what neither enable nor disable brings back: `enabled-runtime`, `linked` …
fn was_enabled(was: &PlaceState) -> Option<bool> {
    match was.as_value()? {
        "enabled" => Some(true),
        "disabled" | "not-found" => Some(false),
        _ => None,
    }
}

/// In the words of `systemctl is-active`; `None` for what was on its way: `activating`, `reloading` …
fn was_running(was: &PlaceState) -> Option<bool> {
    match was.as_value()? {
        "active" => Some(true),
        "inactive" | "failed" => Some(false),
        _ => None,
    }
}

fn left_as_it_is(unit: &str, was: &PlaceState) -> String {
    let was = was.as_value().unwrap_or("not recorded");
    format!("{unit} was {was} before, which cannot be restored: it is left as it is now")
}

/// Somebody may have put something into it since: then it is theirs.
pub(crate) async fn remove_empty(host: &dyn Host, path: &str) -> Result<(), Trouble> {
    match host.remove(path).await {
        Err(_) if !host.list(path).await?.is_empty() => Ok(()),
        removed => removed,
    }
}

/// A file, directory or link as it was recorded.
async fn restore(host: &dyn Host, back: &UndoStep, path: &str, how: WriteMode) -> Result<Option<String>, Trouble> {
    match &back.recorded.was {
        PlaceState::Absent => host.remove(path).await?,
        PlaceState::File { mode, uid, gid, .. } => {
            let kept = journal::kept(host, back.run, back.step).await?;
            let file = File { bytes: kept.bytes, mode: *mode, uid: *uid, gid: *gid };
            host.write(path, &file, how).await?;
        }
        PlaceState::Dir { mode, .. } => {
            host.make_dir(path, *mode).await?;
            host.set_mode(path, *mode).await?;
        }
        PlaceState::Link { to } => host.link(path, to).await?,
        PlaceState::Value { .. } | PlaceState::Moment => {
            return Ok(Some(format!("the record does not say what {path} was")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_put_back() {
        for (word, enabled) in [
            ("enabled", Some(true)),
            ("disabled", Some(false)),
            ("not-found", Some(false)),
            ("enabled-runtime", None),
            ("linked", None),
            ("masked", None),
        ] {
            assert_eq!(was_enabled(&PlaceState::value(word)), enabled, "{word}");
        }
        for (word, running) in [
            ("active", Some(true)),
            ("inactive", Some(false)),
            ("failed", Some(false)),
            ("activating", None),
            ("deactivating", None),
        ] {
            assert_eq!(was_running(&PlaceState::value(word)), running, "{word}");
        }
        assert_eq!((was_enabled(&PlaceState::Moment), was_running(&PlaceState::Absent)), (None, None));
        let said = left_as_it_is("kubelet", &PlaceState::value("activating"));
        assert_eq!(said, "kubelet was activating before, which cannot be restored: it is left as it is now");
    }
}
