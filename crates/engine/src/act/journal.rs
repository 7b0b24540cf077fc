//! What is written down about a run, on the machine it changed: `/var/lib/carrick/runs/N`.
//!
//! * `run.json`: who, when, the plan, and what stood there; there before the first change is made
//! * `backup/STEP`: the files as they were, byte for byte
//! * `journal.jsonl`: one line before and one after each change, on disk before the next thing is done
//!
//! Killed anywhere, what is written says enough to go on or to go back. Only root can read it: a backup may hold a password.

use std::fmt;

use carrick_core::plan::{Effect, PlaceState, Step};
use carrick_host::{Entry, File, Host, How, Trouble, beside};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Actor, Grounded, to_the_second};

pub const HOME: &str = "/var/lib/carrick";
const RUNS: &str = "/var/lib/carrick/runs";
const SCHEMA: &str = "carrick.run/v1";

/// What one run set out to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    schema: String,
    pub run: u32,
    pub verb: String,
    pub by: String,
    pub begun: Timestamp,
    /// Of Carrick.
    pub version: String,
    /// The run that was cut off, which this one completes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub continues: Option<u32>,
    pub steps: Vec<Recorded>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    #[serde(flatten)]
    pub step: Step,
    pub was: PlaceState,
    pub becomes: PlaceState,
}

/// What a line of the journal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    Begun,
    Done,
    Failed,
    /// Of a run: all steps are done.
    Finished,
    /// Of a step, or of the whole run.
    Undone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<usize>,
    pub mark: Mark,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub error: String,
}

/// A run and how far it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    pub run: Run,
    pub lines: Vec<Line>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Finished,
    /// After this many steps, with the error where there was one.
    CutOff {
        done: usize,
        error: String,
    },
    Undone,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Finished => f.write_str("done"),
            End::CutOff { done, error } if error.is_empty() => write!(f, "cut off after {done} steps"),
            End::CutOff { done, error } => write!(f, "stopped after {done} steps: {error}"),
            End::Undone => f.write_str("taken back"),
        }
    }
}

/// A record that cannot be relied on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Trouble(#[from] Trouble),
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
    pub(super) async fn begin(host: &dyn Host, actor: &Actor, steps: &[Grounded]) -> Result<Self, Broken> {
        let past = numbers(host).await?;
        let run = past.last().map_or(1, |last| last + 1);
        let dir = place(run);
        for (path, mode) in [(HOME, 0o700), (RUNS, 0o700), (&*dir, 0o700), (&*format!("{dir}/backup"), 0o700)] {
            host.make_dir(path, mode).await?;
        }
        for (at, grounded) in steps.iter().enumerate() {
            if let Some(old) = &grounded.old {
                host.write(&backup(run, at), &File::new(old.bytes.clone(), 0o600), How::Replace).await?;
            }
        }
        let continues = match past.last() {
            Some(&last) => match load(host, last).await {
                // Of another verb it was another wish: who takes this one back does not mean that one.
                Ok(past) if matches!(past.end(), End::CutOff { .. }) && past.run.verb == actor.verb => Some(last),
                _ => None,
            },
            None => None,
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
        let text = serde_json::to_vec_pretty(&record).map_err(|error| Trouble::new("run.json", error))?;
        host.write(&format!("{dir}/run.json"), &File::new(text, 0o600), How::Replace).await?;
        Ok(Journal { run })
    }

    /// Goes on in the record of a past run.
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
        let line = Line { at: host.now(), step, mark, error: error.lines().next().unwrap_or_default().to_owned() };
        let mut text = serde_json::to_vec(&line).map_err(|error| Trouble::new("journal.jsonl", error))?;
        text.push(b'\n');
        host.write(&format!("{}/journal.jsonl", place(self.run)), &File::new(text, 0o600), How::Append).await
    }
}

fn recorded(grounded: &Grounded) -> Recorded {
    let Grounded { step, was, becomes, .. } = grounded.clone();
    Recorded { step, was, becomes }
}

fn place(run: u32) -> String {
    format!("{RUNS}/{run:04}")
}

fn backup(run: u32, step: usize) -> String {
    format!("{}/backup/{step}", place(run))
}

/// The file as it was before a step.
pub(super) async fn kept(host: &dyn Host, run: u32, step: usize) -> Result<File, Trouble> {
    let path = backup(run, step);
    match host.look(&path).await? {
        Some(Entry::File(file)) => Ok(file),
        _ => Err(Trouble::new(path, "the backup is gone")),
    }
}

/// The numbers of all runs, in order.
async fn numbers(host: &dyn Host) -> Result<Vec<u32>, Trouble> {
    let mut numbers: Vec<u32> = host.list(RUNS).await?.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number of the last run, whatever became of it.
pub(crate) async fn latest(host: &dyn Host) -> Result<Option<u32>, Trouble> {
    Ok(numbers(host).await?.last().copied())
}

/// All runs, in order. One that was cut off before its record was whole changed nothing, and is none.
pub async fn history(host: &dyn Host) -> Result<Vec<Result<Past, Broken>>, Trouble> {
    let mut runs = Vec::new();
    for run in numbers(host).await? {
        match load(host, run).await {
            Err(Broken::Unknown(_)) => {}
            loaded => runs.push(loaded),
        }
    }
    Ok(runs)
}

/// One run.
pub async fn load(host: &dyn Host, run: u32) -> Result<Past, Broken> {
    #[derive(Deserialize)]
    struct Schema {
        schema: String,
    }
    let Some(text) = read(host, &format!("{}/run.json", place(run))).await? else {
        return Err(Broken::Unknown(run));
    };
    let unreadable = |error: serde_json::Error| Broken::Unreadable { run, why: format!("run.json: {error}") };
    let Schema { schema } = serde_json::from_slice(&text).map_err(unreadable)?;
    if schema != SCHEMA {
        return Err(Broken::Newer { run, schema });
    }
    let record: Run = serde_json::from_slice(&text).map_err(unreadable)?;
    let journal = read(host, &format!("{}/journal.jsonl", place(run))).await?.unwrap_or_default();
    let lines = parse(&journal).map_err(|why| Broken::Unreadable { run, why })?;
    let beyond = lines.iter().filter_map(|line| line.step).find(|&step| step >= record.steps.len());
    match beyond {
        Some(step) => Err(Broken::Unreadable { run, why: format!("journal.jsonl: there is no step {step}") }),
        None => Ok(Past { run: record, lines }),
    }
}

async fn read(host: &dyn Host, path: &str) -> Result<Option<Vec<u8>>, Trouble> {
    match host.look(path).await? {
        None => Ok(None),
        Some(Entry::File(file)) => Ok(Some(file.bytes)),
        Some(_) => Err(Trouble::new(path, "is not a file")),
    }
}

/// A last line without an end was being written when the run was killed: what it was to say did not happen yet.
pub fn parse(journal: &[u8]) -> Result<Vec<Line>, String> {
    let whole = journal.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let lines = journal.get(..whole).unwrap_or_default().split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let read =
        |(at, line)| serde_json::from_slice(line).map_err(|error| format!("journal.jsonl line {}: {error}", at + 1));
    lines.enumerate().map(read).collect()
}

impl Past {
    pub fn end(&self) -> End {
        let marks = |mark| self.lines.iter().filter(move |line| line.mark == mark);
        if marks(Mark::Undone).any(|line| line.step.is_none()) {
            return End::Undone;
        }
        if marks(Mark::Finished).next().is_some() {
            return End::Finished;
        }
        let error = marks(Mark::Failed).next_back().map(|line| line.error.clone()).unwrap_or_default();
        End::CutOff { done: marks(Mark::Done).count(), error }
    }

    pub(super) fn changed_something(&self) -> bool {
        self.lines.iter().any(|line| line.mark == Mark::Begun)
    }

    /// Steps that were begun, and so may have changed something; not those that were taken back again.
    pub(super) fn begun(&self) -> Vec<usize> {
        let marked = |step: usize, mark| self.lines.iter().any(|line| line.step == Some(step) && line.mark == mark);
        (0..self.run.steps.len()).filter(|&step| marked(step, Mark::Begun) && !marked(step, Mark::Undone)).collect()
    }

    /// The first that was begun of those behind which nothing is taken back.
    pub(super) fn no_way_back(&self) -> Option<&Effect> {
        let begun = self.begun().into_iter().filter_map(|step| self.run.steps.get(step));
        begun.map(|recorded| &recorded.step.effect).find(|effect| effect.is_final())
    }

    /// Files that were being filled when the run was cut off.
    pub(super) fn litter(&self) -> Vec<String> {
        let done = |step: usize| self.lines.iter().any(|line| line.step == Some(step) && line.mark == Mark::Done);
        let open = self.begun().into_iter().filter(|&step| !done(step));
        open.filter_map(|step| Some(beside(self.run.steps.get(step)?.step.effect.path()?))).collect()
    }

    /// Reloads and restarts that a run which was cut off had still to make: nothing else shows that they are needed.
    fn owed(&self) -> Vec<Step> {
        let done = |step: usize| self.lines.iter().any(|line| line.step == Some(step) && line.mark == Mark::Done);
        let steps = self.run.steps.iter().enumerate();
        let owed = steps.filter(|(at, recorded)| recorded.becomes == PlaceState::Moment && !done(*at));
        owed.map(|(_, recorded)| recorded.step.clone()).collect()
    }
}

/// What the last run owes, where it was cut off after its first change: the next run must do it.
pub async fn owed(host: &dyn Host) -> Result<Vec<Step>, Broken> {
    let Some(&last) = numbers(host).await?.last() else { return Ok(Vec::new()) };
    match load(host, last).await {
        Ok(past) if matches!(past.end(), End::CutOff { .. }) && past.changed_something() => Ok(past.owed()),
        // Killed before its record was whole: it changed nothing.
        Ok(_) | Err(Broken::Unknown(_)) => Ok(Vec::new()),
        Err(broken) => Err(broken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_did_not_happen_and_a_broken_one_is_told() {
        let line = br#"{"at":"2026-11-15T12:00:00Z","step":0,"mark":"begun"}"#;
        let torn = [line, &b"\n"[..], &line[..20]].concat();
        assert_eq!(parse(&torn).map(|lines| lines.len()), Ok(1));
        assert_eq!(parse(b"").map(|lines| lines.len()), Ok(0));
        let broken = [&line[..20], b"\n", line, b"\n"].concat();
        assert!(parse(&broken).unwrap_err().starts_with("journal.jsonl line 1: "));
    }
}
