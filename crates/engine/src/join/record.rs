//! What a join did, as it was told, in a file that only root can read: `/var/lib/carrick/joins/BEGUN.log`. Beside it, what
//! kubeadm printed in each attempt, and how far the join is (`BEGUN.json`): what a join that was cut off had changed, the
//! next one takes back where it fails. A join that changed nothing leaves nothing.

use std::fmt::Write as _;

use carrick_core::fact::{Facts, Source, kubeconfig};
use carrick_core::join::before::MachineBefore;
use carrick_core::join::state::JoinStatus;
use carrick_core::join::step::JoinOutcome;
use carrick_core::join::verify::Node;
use carrick_core::redact::redact;
use carrick_core::shown;
use carrick_host::{File, Host, PathEntry, Progress, Trouble, WriteMode, gather};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::driver::JoinProgress;
use crate::act::journal::{self, End, HOME};

pub(super) const DIR: &str = "/var/lib/carrick/joins";
/// Says where the output of the kubeadm goes that was started last, for a driver that comes after this one.
pub(super) const LAST: &str = "/var/lib/carrick/joins/last";
/// So many joins are kept: a hundred in a row shall not fill a disk.
const KEPT: usize = 20;

/// How far a join is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    schema: String,
    pub begun: Timestamp,
    pub state: JoinStatus,
    /// Of preparation, by their numbers in the journal.
    pub runs: Vec<u32>,
    /// The machine as it was before kubeadm ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<MachineBefore>,
    /// It came to its end, and what a join before it had begun is still there.
    #[serde(default)]
    pub unfinished: bool,
}

const SCHEMA: &str = "carrick.join/v1";

/// What a join has yet to put back, should it fail.
pub(super) struct Standing<'a> {
    pub runs: &'a [u32],
    pub before: Option<&'a MachineBefore>,
    pub unfinished: bool,
}

/// The join before this one, where it never came to its end: it was killed, or its machine was; or where it could not end
/// one of those.
pub(super) async fn cut_off(host: &dyn Host) -> Option<Saved> {
    let last = host.list(DIR).await.ok()?.iter().filter_map(|name| begun(name)).max()?;
    let mut saved = load(host, last).await.ok()?;
    if saved.state.stage.is_over() && !saved.unfinished {
        return None;
    }
    let past = journal::history(host).await.ok()?;
    // What came after it, a reset or a fix, knew of what it had changed: the machine is another by now.
    let is_later = |past: &journal::PastRun| past.run.begun > saved.begun && !saved.runs.contains(&past.run.run);
    if past.iter().flatten().any(is_later) {
        return None;
    }
    let standing = |run: &u32| {
        let it = past.iter().flatten().find(|past| past.run.run == *run);
        it.is_some_and(|past| past.end() != End::Undone)
    };
    saved.runs.retain(standing);
    Some(saved)
}

/// Whether the join that wrote this kubelet.conf has seen the Node of this name, as this machine's: a journal does not go back for
/// ever.
pub(super) async fn has_registered(host: &dyn Host, facts: &Facts, node: &str) -> bool {
    let (dir, name) = kubeconfig::KUBELET.rsplit_once('/').unwrap_or_default();
    let Ok(Some(written)) = facts.entry(dir, name).map(|entry| entry.map(|entry| entry.mtime)) else { return false };
    let seen = host.observe(&[Source::Dir(DIR)], &Progress::default()).await;
    let seen = gather(host.name(), host.now(), seen).0;
    let joins = seen.dir(DIR).unwrap_or_default();
    let second = |state: &str| state.strip_suffix(".json")?.parse::<i64>().ok();
    let of_it = joins.iter().filter_map(|entry| Some((second(&entry.name)?, entry.mtime)));
    let Some((last, _)) = of_it.filter(|(begun, ended)| (*begun..=*ended).contains(&written)).max() else {
        return false;
    };
    let is_own = |known: &Node| known.name == node && known.identity == Some(true);
    load(host, last).await.is_ok_and(|saved| saved.state.seen.node.as_ref().is_ok_and(is_own))
}

/// The join that began in this second.
pub(super) async fn load(host: &dyn Host, begun: i64) -> Result<Saved, Trouble> {
    let path = state_of(begun);
    let Some(PathEntry::File(file)) = host.look(&path).await? else { return Err(Trouble::new(path, "is not there")) };
    let saved: Saved = serde_json::from_slice(&file.bytes).map_err(|error| Trouble::new(&path, error))?;
    if saved.schema != SCHEMA {
        return Err(Trouble::new(path, format!("is of a newer Carrick ({})", saved.schema)));
    }
    Ok(saved)
}

/// Where it is told what a join did.
pub(super) fn log_of(begun: i64) -> String {
    format!("{DIR}/{begun}.log")
}

fn state_of(begun: i64) -> String {
    format!("{DIR}/{begun}.json")
}

/// The second in which the join began that a file is about.
pub(super) fn begun(name: &str) -> Option<i64> {
    let (second, rest) = name.split_at(name.find(|letter: char| !letter.is_ascii_digit())?);
    let of_kubeadm = rest.strip_prefix("-kubeadm-").and_then(|rest| rest.strip_suffix(".log"));
    let ours = [".log", ".json"].contains(&rest) || of_kubeadm.is_some();
    second.parse().ok().filter(|_| ours)
}

/// Where kubeadm's words of an attempt go.
pub(super) fn of_kubeadm(begun: Timestamp, attempt: u32) -> String {
    format!("{DIR}/{}-kubeadm-{attempt}.log", begun.as_second())
}

/// The place is there, and the oldest joins have made room.
pub(super) async fn make_room(host: &dyn Host) -> Result<(), Trouble> {
    host.make_dir(HOME, 0o700).await?;
    host.make_dir(DIR, 0o700).await?;
    for name in superfluous(host.list(DIR).await?) {
        host.remove(&format!("{DIR}/{name}")).await?;
    }
    Ok(())
}

/// Files of all joins but the last ones; what is not named by the second a join began in is not ours.
fn superfluous(names: Vec<String>) -> Vec<String> {
    let mut joins: Vec<i64> = names.iter().filter_map(|name| begun(name)).collect();
    joins.sort_unstable();
    joins.dedup();
    let kept = joins.len().saturating_sub(KEPT);
    let gone = joins.get(..kept).unwrap_or_default();
    names.into_iter().filter(|name| begun(name).is_some_and(|second| gone.contains(&second))).collect()
}

pub(super) struct Record {
    begun: Timestamp,
    path: String,
    text: String,
    written: usize,
}

impl Record {
    pub(super) fn begin(begun: Timestamp) -> Self {
        Record { begun, path: log_of(begun.as_second()), text: String::new(), written: 0 }
    }

    /// Where it is, once it is.
    pub(super) fn place(&self) -> Option<String> {
        (self.written > 0).then(|| self.path.clone())
    }

    pub(super) fn note(&mut self, at: Timestamp, told: &JoinProgress) {
        let says = match told {
            JoinProgress::Reached { stage, says, after, .. } => {
                format!("{} after {:.1} s: {says}", stage.name(), after.as_secs_f64())
            }
            JoinProgress::Says(says) => says.clone(),
            JoinProgress::Again { says, after, attempt } => {
                format!("attempt {attempt} failed: {says}; again in {} s", after.as_secs())
            }
            // It says what has not happened yet, twice a second.
            JoinProgress::Waits { .. } => return,
        };
        self.line(at, &says);
    }

    pub(super) fn end(&mut self, at: Timestamp, outcome: &JoinOutcome) {
        match outcome {
            JoinOutcome::Joined { until, .. } => self.line(at, &format!("joined: {}", until.name())),
            JoinOutcome::Unproven { says } => {
                self.line(at, &format!("registered, network ready, pods not proven: {says}"));
            }
            JoinOutcome::Interrupted { signal, stage, .. } => {
                self.line(at, &format!("stopped by {}, at {}", signal.name(), stage.name()));
            }
            JoinOutcome::Failed(failure) => {
                self.line(at, &format!("not joined, at {}: {}", failure.stage.name(), failure.says));
                for cause in &failure.causes {
                    self.line(at, &format!("cause {}: {}", cause.id, cause.says));
                }
            }
        }
    }

    fn line(&mut self, at: Timestamp, says: &str) {
        let _ = writeln!(self.text, "{} {}", at.strftime("%Y-%m-%dT%H:%M:%SZ"), shown::in_line(&redact(says)));
    }

    /// On disk, where there is something new.
    pub(super) async fn keep(
        &mut self,
        host: &dyn Host,
        state: &JoinStatus,
        standing: &Standing<'_>,
    ) -> Result<(), Trouble> {
        if self.text.len() == self.written {
            return Ok(());
        }
        if self.written == 0 {
            make_room(host).await?;
        }
        host.write(&self.path, &File::new(self.text.clone(), 0o600), WriteMode::Replace).await?;
        let (begun, state, unfinished) = (self.begun, state.clone(), standing.unfinished);
        let (runs, before) = (standing.runs.to_vec(), standing.before.cloned());
        let saved = Saved { schema: SCHEMA.to_owned(), begun, state, runs, before, unfinished };
        let saved = serde_json::to_vec(&saved).map_err(|error| Trouble::new("the state of the join", error))?;
        host.write(&state_of(self.begun.as_second()), &File::new(saved, 0o600), WriteMode::Replace).await?;
        self.written = self.text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use carrick_core::join::state::{JoinPolicy, Stage};
    use carrick_testkit::Machine;

    use super::*;

    /// A join at a stage, with one thing told, and what it leaves on a machine.
    async fn kept(machine: &Machine, second: i64, stage: Stage, unfinished: bool) {
        let begun = Timestamp::from_second(second).unwrap();
        let (mut join, _) = JoinStatus::begin(JoinPolicy::default(), begun);
        join.stage = stage;
        let mut record = Record::begin(begun);
        assert_eq!(record.place(), None);
        let says = "--token abcdef.0123456789abcdef\u{1b}[2J\n1970-01-01T00:00:00Z joined: verified";
        record.note(begun, &JoinProgress::Says(says.into()));
        record.keep(machine, &join, &Standing { runs: &[], before: None, unfinished }).await.unwrap();
        assert_eq!(record.place(), Some(format!("{DIR}/{second}.log")));
    }

    #[tokio::test]
    async fn the_next_join_knows_of_one_that_was_cut_off() {
        let machine = Machine::with(&[("/var/lib/x", "")]);
        assert!(cut_off(&machine).await.is_none());
        for (second, stage, unfinished, expected) in [
            (100, Stage::Joining, false, Some(100)),
            (200, Stage::Joined, false, None),
            (300, Stage::Waiting, false, Some(300)),
            (400, Stage::Failed, false, None),
            (500, Stage::Failed, true, Some(500)),
        ] {
            kept(&machine, second, stage, unfinished).await;
            assert_eq!(cut_off(&machine).await.map(|saved| saved.begun.as_second()), expected, "{stage:?}");
        }
        let reset = r#"{"schema":"carrick.run/v1","run":1,"verb":"reset","by":"root","begun":"1970-01-01T00:10:00Z","version":"0","steps":[]}"#;
        machine.meddle("/var/lib/carrick/runs/0001/run.json", reset);
        assert!(cut_off(&machine).await.is_none(), "a reset after it knew of what it had left");
        let log = machine.look(&format!("{DIR}/100.log")).await.unwrap();
        let Some(PathEntry::File(log)) = log else { panic!("{log:?}") };
        let text = String::from_utf8(log.bytes).unwrap();
        assert!(log.mode == 0o600 && text.starts_with("1970-01-01T00:01:40Z --token "), "{text}");
        assert!(!text.contains("0123456789abcdef"), "{text}");
        assert!(text.lines().count() == 1 && !text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn the_oldest_make_room() {
        let names = |seconds: std::ops::Range<i64>| -> Vec<String> {
            let of_one = |n| [format!("{n}.log"), format!("{n}-kubeadm-1.log")];
            seconds.flat_map(of_one).chain(["last", "2024-notes.txt"].map(str::to_owned)).collect()
        };
        assert_eq!(superfluous(names(100..120)), Vec::<String>::new());
        assert_eq!(
            superfluous(names(98..120)),
            ["98.log", "98-kubeadm-1.log", "99.log", "99-kubeadm-1.log"].map(str::to_owned)
        );
    }
}
