//! How long records stay. Backups with keys go once the join they guard is verified or reset; the rest by number and by age.
//!
//! What is to go is written down before the first of it goes: killed anywhere, the next run that changes something completes it.

use std::fmt;

use carrick_core::record::keep::{self, Shelved};
use carrick_core::record::secret;
use carrick_host::{File, Host, PathEntry, Trouble, WriteMode};
use serde::{Deserialize, Serialize};

use super::journal::{self, Journal, JournalError, Mark, backup, numbers, place};

/// What was begun and is to be completed.
const PENDING: &str = "/var/lib/carrick/pending.json";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Pending {
    /// Why backups with keys go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<Seal>,
    /// Runs whose records go.
    #[serde(default)]
    prune: Vec<u32>,
}

/// When a join needs its backups no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seal {
    Verified,
    Reset,
}

impl fmt::Display for Seal {
    /// As it stands in the journal, and as `undo` says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = match self {
            Seal::Verified => "the join was verified",
            Seal::Reset => "the machine was reset",
        };
        write!(f, "its backup held a key or a token, and was deleted once {when}")
    }
}

/// Deletes the backups with keys or tokens of all runs that guarded a join; each step is marked as final before. The caller
/// holds the lock. How many there were.
pub async fn seal(host: &dyn Host, why: Seal) -> Result<usize, JournalError> {
    let (secrets, empty) = secrets(host).await?;
    if secrets.is_empty() && empty.is_empty() {
        return Ok(0);
    }
    note(host, &Pending { seal: Some(why), prune: empty }).await?;
    complete(host).await?;
    Ok(secrets.len())
}

/// The runs that go so that this many stay, in order.
pub async fn superfluous(host: &dyn Host, kept: usize) -> Result<Vec<u32>, JournalError> {
    let mut all = Vec::new();
    for run in numbers(host).await? {
        all.push(match journal::load(host, run).await {
            Ok(past) => Shelved::Read(Box::new(past)),
            Err(JournalError::Unreadable { run, .. }) => Shelved::Unreadable(run),
            Err(JournalError::Newer { run, .. }) => Shelved::Newer(run),
            Err(JournalError::Unknown(run)) => Shelved::Empty(run),
            Err(broken @ (JournalError::Trouble(_) | JournalError::Unwritable(_))) => return Err(broken),
        });
    }
    Ok(keep::superfluous(&all, kept, host.now()))
}

/// Deletes these records. The caller holds the lock.
pub async fn prune(host: &dyn Host, runs: &[u32]) -> Result<(), JournalError> {
    if runs.is_empty() {
        return Ok(());
    }
    note(host, &Pending { seal: None, prune: runs.to_vec() }).await?;
    complete(host).await
}

/// Before a new run: what was begun is completed, and there are not too many, or too old ones, with the new one.
pub(super) async fn make_room(host: &dyn Host) -> Result<(), JournalError> {
    complete(host).await?;
    let numbers = numbers(host).await?;
    // To read them all takes a while over a slow link: the oldest one tells whether there is a reason to.
    let is_old = match numbers.first() {
        Some(&oldest) => match journal::load(host, oldest).await {
            Ok(past) => keep::is_old(past.run.begun, host.now()),
            Err(_) => false,
        },
        None => false,
    };
    if numbers.len() < keep::RUNS && !is_old {
        return Ok(());
    }
    prune(host, &superfluous(host, keep::RUNS - 1).await?).await
}

/// Completes what a run before this one had begun to delete.
pub async fn complete(host: &dyn Host) -> Result<(), JournalError> {
    let Some(text) = journal::read(host, PENDING).await? else { return Ok(()) };
    let pending: Pending = serde_json::from_slice(&text).unwrap_or_default();
    for run in pending.prune {
        remove(host, &place(run)).await?;
    }
    if let Some(why) = pending.seal {
        let (secrets, _) = secrets(host).await?;
        for &(run, step) in &secrets {
            delete(host, run, step, why).await?;
        }
    }
    Ok(host.remove(PENDING).await?)
}

async fn note(host: &dyn Host, pending: &Pending) -> Result<(), Trouble> {
    let text = serde_json::to_vec(pending).map_err(|error| Trouble::new(PENDING, error))?;
    host.write(PENDING, &File::new(text, 0o600), WriteMode::Replace).await
}

/// Runs and steps whose backups hold a key; runs without a record: nobody can say what is in those.
async fn secrets(host: &dyn Host) -> Result<(Vec<(u32, usize)>, Vec<u32>), JournalError> {
    let (mut secrets, mut empty) = (Vec::new(), Vec::new());
    for run in numbers(host).await? {
        let kept = host.list(&format!("{}/backup", place(run))).await?;
        let mut steps: Vec<usize> = kept.iter().filter_map(|name| name.parse().ok()).collect();
        steps.sort_unstable();
        if steps.is_empty() {
            continue;
        }
        let past = match journal::load(host, run).await {
            Ok(past) => past,
            Err(JournalError::Unknown(run)) => {
                empty.push(run);
                continue;
            }
            // What it guarded cannot be told; it goes by its number.
            Err(JournalError::Unreadable { .. } | JournalError::Newer { .. }) => continue,
            Err(broken @ (JournalError::Trouble(_) | JournalError::Unwritable(_))) => return Err(broken),
        };
        if !past.run.guards_a_join() {
            continue;
        }
        for step in steps {
            let Some(path) = past.run.steps.get(step).and_then(|it| it.step.effect.path()) else { continue };
            if past.is_final(step).is_some() || secret::holds(path, &journal::kept(host, run, step).await?.bytes) {
                secrets.push((run, step));
            }
        }
    }
    Ok((secrets, empty))
}

/// First it is final, then its backup goes.
async fn delete(host: &dyn Host, run: u32, step: usize, why: Seal) -> Result<(), JournalError> {
    journal::repair(host, run).await?;
    if journal::load(host, run).await?.is_final(step).is_none() {
        Journal::of(run).mark(host, Some(step), Mark::Final, &why.to_string()).await?;
    }
    Ok(host.remove(&backup(run, step)).await?)
}

/// A record and all of it: what makes it one goes first, so that half of it is none.
async fn remove(host: &dyn Host, dir: &str) -> Result<(), Trouble> {
    host.remove(&format!("{dir}/run.json")).await?;
    for name in host.list(dir).await? {
        let path = format!("{dir}/{name}");
        if let Some(PathEntry::Dir { .. }) = host.look(&path).await? {
            for inside in host.list(&path).await? {
                host.remove(&format!("{path}/{inside}")).await?;
            }
        }
        host.remove(&path).await?;
    }
    host.remove(dir).await
}
