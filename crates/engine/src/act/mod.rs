//! Carries plans out: what stands there is kept first, then each change is made, and written down before and after.
//!
//! ```text
//! plan ─▶ ground ─▶ (shown, consented to) ─▶ apply ─▶ /var/lib/carrick/runs/N
//! ```
//!
//! * [`ground`]: reads what stands where a plan would act; what is so already drops out
//! * [`apply`]: makes the changes; [`journal`]: what is written down about them
//! * [`undo`]: takes a run back; [`keep`]: how long its record stays
//!
//! What is looked at, made and undone is decided in one table each (`look`, `perform`, `undo`), which names every effect.
#![deny(clippy::match_wildcard_for_single_variants, clippy::wildcard_enum_match_arm)]

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick_cluster::ClusterClient;
use carrick_core::StopSignal;
use carrick_core::plan::protect::{PlanRefusal, Protected};
use carrick_core::plan::{PlaceState, Plan, Step};
use carrick_host::{File, Host, Lock, Locked, Trouble};
use jiff::Timestamp;
use tokio::time::{Instant, timeout};

pub mod journal;
pub mod keep;
mod leave;
mod look;
mod perform;
pub mod undo;

pub use look::{Grounded, ground};

use crate::stop::Stop;
use crate::unit::{self, TransientUnit};
use journal::{Journal, JournalError, Mark};

/// Nobody who waits for a step hears nothing for longer.
const WORD: Duration = Duration::from_secs(5);

/// One lock a machine. Below /run: no lock outlives a boot.
pub const LOCK: &str = "/run/carrick.lock";

/// What the one who waits is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepProgress<'a> {
    /// The place of a step in the run, and what is about to be done.
    Begins(usize, String),
    /// A step takes long: for how long, and what it waits for.
    Waits(Duration, &'a str),
    Done(usize),
    /// A step could not be made, and why that keeps nothing else from being made.
    Passed(usize, String),
}

/// Who acts, for the journal and for whoever finds the lock taken.
#[derive(Clone, Debug)]
pub struct Actor {
    /// `check --fix`.
    pub verb: String,
    /// The person, as far as the machine knows: `root`, `ada through sudo`.
    pub by: String,
    pub version: String,
    /// Whether they were told to stop meanwhile.
    pub stop: Stop,
}

/// Why a plan was not carried out, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    #[error(transparent)]
    Refused(#[from] PlanRefusal),
    #[error(transparent)]
    Locked(#[from] Locked),
    #[error("nothing was changed: {0}")]
    Before(Trouble),
    #[error("nothing was changed: {0}")]
    Journal(#[from] JournalError),
    /// Somebody said stop, before anything was changed.
    #[error("stopped by {}; nothing was changed", .0.name())]
    Untouched(StopSignal),
    /// Somebody said stop; the change at hand was finished.
    #[error("stopped by {} after {done} of {steps} steps; {next}", .signal.name())]
    Told { run: u32, signal: StopSignal, done: usize, steps: usize, next: String },
    /// The run's number, what was being done, and what went wrong.
    #[error("stopped at \"{doing}\": {trouble}; take back what was done: carrick undo {run}")]
    At { run: u32, doing: String, trouble: Trouble },
    /// The same, and nothing went wrong: what the plan was made of is no longer so, and another plan may well be carried out.
    #[error("stopped at \"{doing}\": {trouble}; take back what was done: carrick undo {run}")]
    Outdated { run: u32, doing: String, trouble: Trouble },
    /// The same, behind the point from which there is no way back.
    #[error("stopped at \"{doing}\" of run {run}: {trouble}; finish it: carrick {verb}")]
    Midway { run: u32, verb: String, doing: String, trouble: Trouble },
}

impl Stopped {
    /// The machine was not reached any more.
    pub fn is_of_the_link(&self) -> bool {
        match self {
            Stopped::Locked(Locked::Trouble(trouble))
            | Stopped::Journal(JournalError::Trouble(trouble) | JournalError::Unwritable(trouble))
            | Stopped::Before(trouble)
            | Stopped::At { trouble, .. }
            | Stopped::Outdated { trouble, .. }
            | Stopped::Midway { trouble, .. } => trouble.of_the_link,
            Stopped::Refused(_)
            | Stopped::Locked(Locked::By(_))
            | Stopped::Journal(_)
            | Stopped::Untouched(_)
            | Stopped::Told { .. } => false,
        }
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<StopSignal> {
        match self {
            Stopped::Untouched(signal) | Stopped::Told { signal, .. } => Some(*signal),
            Stopped::Refused(_)
            | Stopped::Locked(_)
            | Stopped::Before(_)
            | Stopped::Journal(_)
            | Stopped::At { .. }
            | Stopped::Outdated { .. }
            | Stopped::Midway { .. } => None,
        }
    }
}

/// Takes the machine's lock for one actor. A unit of ours that still runs is as good as a lock, but for who `may_find` it:
/// a join that attaches to it, a reset that ends it.
pub async fn lock(host: &dyn Host, actor: &Actor, may_find: &[TransientUnit]) -> Result<Lock, Locked> {
    let Actor { verb, by, .. } = actor;
    let holder =
        format!("carrick {verb} by {by}, process {}, since {}\n", std::process::id(), to_the_second(host.now()));
    let lock = host.lock(LOCK, &holder).await?;
    match unit::at_work(host, may_find).await? {
        Some(unit) => Err(Locked::By(format!("{}, started by carrick, in {}", unit.does, unit.name))),
        None => Ok(lock),
    }
}

/// Times for people have no fractions.
pub fn to_the_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Makes all changes, in order. The caller holds the lock. Gives the run's number.
pub async fn apply(
    machine: &Arc<dyn Host>,
    actor: &Actor,
    steps: &[Grounded],
    protected: &Protected,
    tell: &mut (dyn FnMut(StepProgress<'_>) + Send),
) -> Result<u32, Stopped> {
    apply_in(machine, None, actor, steps, protected, tell).await
}

/// As [`apply`], with an admin's credentials for what changes the cluster.
pub async fn apply_in(
    machine: &Arc<dyn Host>,
    admin: Option<&ClusterClient>,
    actor: &Actor,
    steps: &[Grounded],
    protected: &Protected,
    tell: &mut (dyn FnMut(StepProgress<'_>) + Send),
) -> Result<u32, Stopped> {
    let host = machine.as_ref();
    let plan = Plan { steps: steps.iter().map(|grounded| grounded.step.clone()).collect() };
    if let Some(refusal) = protected.refusal(&plan) {
        return Err(refusal.into());
    }
    if let Some(signal) = actor.stop.told() {
        return Err(Stopped::Untouched(signal));
    }
    let mut ways = look::Ways::default();
    // Once more before anything goes: between the plan and a yes there may have been an hour.
    for grounded in steps.iter().filter(|grounded| grounded.becomes == PlaceState::Absent) {
        ways.are_plain(host, &grounded.step.effect).await.map_err(Stopped::Before)?;
    }
    let mut journal = Journal::begin(host, actor, steps).await?;
    for (at, grounded) in steps.iter().enumerate() {
        if let Some(signal) = actor.stop.told() {
            return Err(told_to_stop(host, actor, journal.run(), signal, (at, steps.len())).await);
        }
        tell(StepProgress::Begins(at, grounded.step.effect.to_string()));
        let taken = {
            let mut relay = |told: StepProgress<'_>| tell(told);
            let hears: Hears<'_> = Mutex::new((Instant::now(), &mut relay));
            let mut telling = |told: StepProgress<'_>| say(&hears, told);
            let taking = take(machine, (admin, &actor.stop), &mut journal, at, grounded, &mut telling);
            with_word(taking, &hears).await
        };
        match taken {
            Ok(None) => tell(StepProgress::Done(at)),
            Ok(Some(why)) => tell(StepProgress::Passed(at, why)),
            Err(untaken) => {
                // Where even this cannot be written, the missing mark says that the step was not finished.
                let _ = journal.mark(host, Some(at), Mark::Failed, &untaken.trouble.to_string()).await;
                if let Some(signal) = actor.stop.told() {
                    return Err(told_to_stop(host, actor, journal.run(), signal, (at, steps.len())).await);
                }
                return Err(stopped(host, actor, journal.run(), grounded, untaken).await);
            }
        }
    }
    let finished = journal.mark(host, None, Mark::Finished, "").await;
    finished.map_err(|trouble| Stopped::At { run: journal.run(), doing: "close the journal".to_owned(), trouble })?;
    Ok(journal.run())
}

/// Who is told, and when they last were.
type Hears<'a> = Mutex<(Instant, &'a mut (dyn FnMut(StepProgress<'_>) + Send))>;

fn say(hears: &Hears<'_>, told: StepProgress<'_>) {
    let mut hears = hears.lock().unwrap_or_else(PoisonError::into_inner);
    hears.0 = Instant::now();
    (hears.1)(told);
}

/// Makes a step, and says that it is still being made where the step itself says nothing for long.
async fn with_word<T>(step: impl Future<Output = T>, hears: &Hears<'_>) -> T {
    let (begun, mut step) = (Instant::now(), pin!(step));
    loop {
        let last = hears.lock().unwrap_or_else(PoisonError::into_inner).0;
        if let Ok(done) = timeout(WORD.saturating_sub(last.elapsed()), &mut step).await {
            return done;
        }
        if hears.lock().unwrap_or_else(PoisonError::into_inner).0.elapsed() >= WORD {
            say(hears, StepProgress::Waits(begun.elapsed(), "no end yet"));
        }
    }
}

/// Between two steps: the record is that of a run that was cut off there.
async fn told_to_stop(
    host: &dyn Host,
    actor: &Actor,
    run: u32,
    signal: StopSignal,
    (done, steps): (usize, usize),
) -> Stopped {
    let next = match journal::load(host, run).await {
        Ok(past) if past.no_way_back().is_some() => format!("finish it: carrick {}", actor.verb),
        _ => format!("go on: carrick {}; take back what was done: carrick undo {run}", actor.verb),
    };
    Stopped::Told { run, signal, done, steps, next }
}

/// What was begun is in the journal: a step that was not ready to be begun is not.
async fn stopped(host: &dyn Host, actor: &Actor, run: u32, at: &Grounded, untaken: Untaken) -> Stopped {
    let (doing, Untaken { trouble, outdated }) = (at.step.effect.to_string(), untaken);
    match journal::load(host, run).await {
        Ok(past) if past.no_way_back().is_some() => Stopped::Midway { run, verb: actor.verb.clone(), doing, trouble },
        _ if outdated => Stopped::Outdated { run, doing, trouble },
        _ => Stopped::At { run, doing, trouble },
    }
}

/// Why a step was not made.
struct Untaken {
    trouble: Trouble,
    /// It was not begun: the plan does not fit any more.
    outdated: bool,
}

impl From<Trouble> for Untaken {
    fn from(trouble: Trouble) -> Self {
        Untaken { trouble, outdated: false }
    }
}

async fn take(
    machine: &Arc<dyn Host>,
    (admin, stop): (Option<&ClusterClient>, &Stop),
    journal: &mut Journal,
    at: usize,
    grounded: &Grounded,
    tell: &mut (dyn FnMut(StepProgress<'_>) + Send),
) -> Result<Option<String>, Untaken> {
    let (host, Step { effect, .. }) = (machine.as_ref(), &grounded.step);
    if let Some(mounted) = leave::ready(host, effect).await? {
        return Err(Untaken { trouble: mounted, outdated: true });
    }
    if let Some(path) = effect.path() {
        let now = look::at(host, effect).await?.state;
        if now != grounded.was {
            return Err(Trouble::new(path, "was changed by somebody else since the plan was made").into());
        }
    }
    journal.mark(host, Some(at), Mark::Begun, "").await?;
    let note = perform::perform(machine, (admin, stop), effect, grounded.new.as_ref(), tell).await?;
    journal.mark(host, Some(at), Mark::Done, note.as_deref().unwrap_or_default()).await?;
    Ok(note)
}

/// What a person would see change in a file, secrets taken out: both sides, as far as they are text.
pub fn shown_change(old: Option<&File>, new: Option<&File>) -> Vec<String> {
    let text = |file: Option<&File>| {
        carrick_core::redact::redact(&String::from_utf8_lossy(
            file.map(|file| file.bytes.as_slice()).unwrap_or_default(),
        ))
    };
    carrick_core::plan::edit::diff(&text(old), &text(new))
}
