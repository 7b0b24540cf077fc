//! What is written down about a run, on the machine it changed: `/var/lib/carrick/runs/N`.
//!
//! * `run.json`: who, when, the plan, and what stood there; there before the first change is made
//! * `backup/STEP`: the files as they were, byte for byte
//! * `journal.jsonl`: one line before and one after each change, on disk before the next thing is done
//! * `journal.damaged`: the journal as it was found, where it was damaged and has been written on since
//! * `found/STEP`: what somebody had put in the place of a file that was being written when the run was killed
//!
//! Killed anywhere, what is written says enough to go on or to go back. Only root can read it: a backup may hold a password.
//! What it means is in `carrick_core::record`; how long it stays, in `keep`.

use carrick_core::plan::Step;
pub use carrick_core::record::{Damage, End, JournalLine, Mark, PastRun, Recorded, Run};
use carrick_core::record::{SCHEMA, journal};
use carrick_host::{File, Host, PathEntry, Trouble, WriteMode, beside};
use serde::Deserialize;

use super::{Actor, Grounded, keep, to_the_second};

pub const HOME: &str = "/var/lib/carrick";
pub(super) const RUNS: &str = "/var/lib/carrick/runs";

/// Room that is there when the disk is full: it is given up for the lines that say how far a run came.
const RESERVE: &str = "/var/lib/carrick/reserve";
/// A run of twenty steps, and taking it back, are eighty lines: as many blocks of a small disk at the most.
const RESERVED: usize = 32 << 10;

/// A record that cannot be relied on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    #[error("{0}")]
    Trouble(#[from] Trouble),
    #[error("{0}; every change is recorded in {HOME} before it is made")]
    Unwritable(Trouble),
    #[error("run {run} was recorded by a newer Carrick ({schema}); take that version")]
    Newer { run: u32, schema: String },
    #[error("the record of run {run} cannot be read ({why}); its files are in {RUNS}/{run:04}/backup")]
    Unreadable { run: u32, why: String },
    #[error("there is no run {0}; carrick history lists them")]
    Unknown(u32),
}

/// The record of the run that is going on.
pub struct Journal {
    run: u32,
}

impl Journal {
    /// Everything that is needed to go back is on disk when this returns.
    pub(super) async fn begin(host: &dyn Host, actor: &Actor, steps: &[Grounded]) -> Result<Self, JournalError> {
        prepare(host).await?;
        // What is left of an older record keeps nobody from making a new one.
        let _ = keep::make_room(host).await;
        let past = numbers(host).await?;
        let run = past.last().map_or(1, |last| last + 1);
        let continues = match last_recorded(host, &past).await {
            // Of another verb it was another wish: who takes this one back does not mean that one.
            Some(Ok(past)) if past.is_cut_off() && past.run.verb == actor.verb => Some(past.run.run),
            _ => None,
        };
        let record = Run {
            schema: SCHEMA.to_owned(),
            run,
            verb: actor.verb.clone(),
            by: actor.by.clone(),
            begun: to_the_second(host.now()),
            version: actor.version.clone(),
            continues,
            steps: steps.iter().map(recorded).collect(),
        };
        write(host, &record, steps).await.map_err(JournalError::Unwritable)?;
        Ok(Journal { run })
    }

    /// Goes on in the record of a past run, which was [repaired](repair).
    pub(super) fn of(run: u32) -> Self {
        Journal { run }
    }

    pub fn run(&self) -> u32 {
        self.run
    }

    pub(super) async fn mark(
        &self,
        host: &dyn Host,
        step: Option<usize>,
        mark: Mark,
        error: &str,
    ) -> Result<(), Trouble> {
        let line =
            JournalLine { at: host.now(), step, mark, error: error.lines().next().unwrap_or_default().to_owned() };
        let (path, text) = (journal_of(self.run), File::new(written(&[line])?, 0o600));
        match host.write(&path, &text, WriteMode::Append).await {
            // A change that was made is written down, whatever else there is no room for.
            Err(trouble) if !trouble.of_the_link && host.look(RESERVE).await?.is_some() => {
                host.remove(RESERVE).await.map_err(|_| trouble)?;
                host.write(&path, &text, WriteMode::Append).await
            }
            done => done,
        }
    }
}

/// The place of the records is there, can be written to, and has room for what has to be said when there is none left.
pub(crate) async fn prepare(host: &dyn Host) -> Result<(), JournalError> {
    let prepared = async {
        for path in [HOME, RUNS] {
            host.make_dir(path, 0o700).await?;
        }
        match host.look(RESERVE).await? {
            Some(PathEntry::File(file)) if file.bytes.len() == RESERVED => Ok(()),
            _ => host.write(RESERVE, &File::new(incompressible(), 0o600), WriteMode::Replace).await,
        }
    };
    prepared.await.map_err(JournalError::Unwritable)
}

/// A filesystem that compresses, or keeps no zeros, shall have the room, too.
fn incompressible() -> Vec<u8> {
    let mut state: u32 = 0x2545_F491;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        // Letters: whoever looks into it sees that it is nothing.
        b'0' + (state.to_le_bytes()[0] & 0x3f)
    };
    (0..RESERVED).map(|_| next()).collect()
}

async fn write(host: &dyn Host, record: &Run, steps: &[Grounded]) -> Result<(), Trouble> {
    let (run, dir) = (record.run, place(record.run));
    for path in [&*dir, &*format!("{dir}/backup")] {
        host.make_dir(path, 0o700).await?;
    }
    for (at, grounded) in steps.iter().enumerate() {
        if let Some(old) = &grounded.old {
            host.write(&backup(run, at), &File::new(old.bytes.clone(), 0o600), WriteMode::Replace).await?;
        }
    }
    let text = serde_json::to_vec_pretty(record).map_err(|error| Trouble::new("run.json", error))?;
    host.write(&format!("{dir}/run.json"), &File::new(text, 0o600), WriteMode::Replace).await
}

fn recorded(grounded: &Grounded) -> Recorded {
    let Grounded { step, was, becomes, .. } = grounded.clone();
    Recorded { step, was, becomes }
}

fn written(lines: &[JournalLine]) -> Result<Vec<u8>, Trouble> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line).map_err(|error| Trouble::new("journal.jsonl", error))?;
        text.push(b'\n');
    }
    Ok(text)
}

pub(super) fn place(run: u32) -> String {
    format!("{RUNS}/{run:04}")
}

fn journal_of(run: u32) -> String {
    format!("{}/journal.jsonl", place(run))
}

pub(super) fn backup(run: u32, step: usize) -> String {
    format!("{}/backup/{step}", place(run))
}

/// Where what somebody had put there is kept.
pub(super) fn found(run: u32) -> String {
    format!("{}/found", place(run))
}

/// The file as it was before a step.
pub(super) async fn kept(host: &dyn Host, run: u32, step: usize) -> Result<File, Trouble> {
    let path = backup(run, step);
    match host.look(&path).await? {
        Some(PathEntry::File(file)) => Ok(file),
        _ => Err(Trouble::new(path, "the backup is gone")),
    }
}

/// Keeps what is in a place, under a name that is free.
pub(super) async fn keep_found(host: &dyn Host, run: u32, step: usize, path: &str) -> Result<(), Trouble> {
    let Some(PathEntry::File(file)) = host.look(path).await? else { return Ok(()) };
    let dir = found(run);
    host.make_dir(&dir, 0o700).await?;
    for number in 0.. {
        let kept = format!("{dir}/{step}{}", if number == 0 { String::new() } else { format!(".{number}") });
        match host.look(&kept).await? {
            Some(PathEntry::File(same)) if same.bytes == file.bytes => return Ok(()),
            Some(_) => {}
            None => return host.write(&kept, &File { mode: 0o600, ..file }, WriteMode::Replace).await,
        }
    }
    Ok(())
}

/// The numbers of all runs, in order.
pub(super) async fn numbers(host: &dyn Host) -> Result<Vec<u32>, Trouble> {
    let mut numbers: Vec<u32> = host.list(RUNS).await?.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number of the last run, whatever became of it.
pub(crate) async fn latest(host: &dyn Host) -> Result<Option<u32>, Trouble> {
    Ok(numbers(host).await?.last().copied())
}

/// All runs, in order. One that was cut off before its record was whole changed nothing, and is none.
pub async fn history(host: &dyn Host) -> Result<Vec<Result<PastRun, JournalError>>, Trouble> {
    let mut runs = Vec::new();
    for run in numbers(host).await? {
        match load(host, run).await {
            Err(JournalError::Unknown(_)) => {}
            loaded => runs.push(loaded),
        }
    }
    Ok(runs)
}

/// The last of these that has a record.
async fn last_recorded(host: &dyn Host, numbers: &[u32]) -> Option<Result<PastRun, JournalError>> {
    for &run in numbers.iter().rev() {
        match load(host, run).await {
            Err(JournalError::Unknown(_)) => {}
            loaded => return Some(loaded),
        }
    }
    None
}

/// One run.
pub async fn load(host: &dyn Host, run: u32) -> Result<PastRun, JournalError> {
    let record = record(host, run).await?;
    let text = journal::parse(&read(host, &journal_of(run)).await?.unwrap_or_default(), record.steps.len());
    Ok(PastRun { run: record, lines: text.lines, damage: text.damage })
}

async fn record(host: &dyn Host, run: u32) -> Result<Run, JournalError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: String,
    }
    let Some(text) = read(host, &format!("{}/run.json", place(run))).await? else {
        return Err(JournalError::Unknown(run));
    };
    let unreadable = |error: serde_json::Error| JournalError::Unreadable { run, why: format!("run.json: {error}") };
    let Schema { schema } = serde_json::from_slice(&text).map_err(unreadable)?;
    if schema != SCHEMA {
        return Err(JournalError::Newer { run, schema });
    }
    serde_json::from_slice(&text).map_err(unreadable)
}

/// Makes a journal one that can be written on: what is added behind half a line would never be read. What was done behind the
/// damage is not known, and is noted as begun.
pub(super) async fn repair(host: &dyn Host, run: u32) -> Result<(), JournalError> {
    let past = load(host, run).await?;
    let bytes = read(host, &journal_of(run)).await?.unwrap_or_default();
    let text = journal::parse(&bytes, past.run.steps.len());
    if text.whole == bytes.len() {
        return Ok(());
    }
    let mut whole = bytes.get(..text.whole).unwrap_or_default().to_vec();
    if let Some(damage) = &text.damage {
        let unknown = |step: &usize| !text.lines.iter().any(|it| it.step == Some(*step) && it.mark == Mark::Begun);
        let begun = |step| JournalLine {
            at: host.now(),
            step: Some(step),
            mark: Mark::Begun,
            error: format!("not known: {damage}"),
        };
        let lines: Vec<JournalLine> = (0..past.run.steps.len()).filter(unknown).map(begun).collect();
        whole.extend(written(&lines)?);
        let damaged = format!("{}/journal.damaged", place(run));
        if host.look(&damaged).await?.is_none() {
            host.write(&damaged, &File::new(bytes, 0o600), WriteMode::Replace).await?;
        }
    }
    Ok(host.write(&journal_of(run), &File::new(whole, 0o600), WriteMode::Replace).await?)
}

pub(super) async fn read(host: &dyn Host, path: &str) -> Result<Option<Vec<u8>>, Trouble> {
    match host.look(path).await? {
        None => Ok(None),
        Some(PathEntry::File(file)) => Ok(Some(file.bytes)),
        Some(_) => Err(Trouble::new(path, "is not a file")),
    }
}

/// Files that were being filled when a run was cut off.
pub(super) fn litter(past: &PastRun) -> Vec<String> {
    let open = past.begun().into_iter().filter(|&step| past.is_open(step));
    open.filter_map(|step| Some(beside(past.run.steps.get(step)?.step.effect.path()?))).collect()
}

/// What the last run owes, where it was cut off after its first change: the next run must do it.
pub async fn owed(host: &dyn Host) -> Result<Vec<Step>, JournalError> {
    match last_recorded(host, &numbers(host).await?).await {
        Some(Ok(past)) if past.is_cut_off() && past.changed_something() => Ok(past.owed()),
        // What cannot be read says nothing of what it owes, and must not keep a machine from being fixed for ever.
        None | Some(Ok(_) | Err(JournalError::Unreadable { .. })) => Ok(Vec::new()),
        Some(Err(broken)) => Err(broken),
    }
}
