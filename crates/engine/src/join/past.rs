//! Joins as they were written down: what `history` tells of them, and what of a join that was cut off is ours.

use carrick_core::fact::{Facts, Source};
use carrick_core::join::before::{self, MachineBefore};
use carrick_core::join::state::Stage;
use carrick_core::record::printed::{JOIN, JoinEnd, JoinLine};
use carrick_host::{Host, Locked, Progress, Trouble, gather};
use jiff::Timestamp;

use super::record::{self, Saved};
use crate::act::LOCK;
use crate::unit;

/// All joins that changed something, in order; why one cannot be told of.
pub async fn joins(host: &dyn Host) -> Result<Vec<Result<JoinLine, Trouble>>, Trouble> {
    let names = host.list(record::DIR).await?;
    let state = |name: &String| name.strip_suffix(".json")?.parse().ok();
    let mut begun: Vec<i64> = names.iter().filter_map(state).collect();
    begun.sort_unstable();
    let standing = record::cut_off(host).await.map(|saved| saved.begun.as_second());
    let mut joins = Vec::new();
    for second in begun {
        joins.push(match record::load(host, second).await {
            Ok(saved) => Ok(line(host, second, saved, standing == Some(second)).await?),
            Err(trouble) => Err(trouble),
        });
    }
    Ok(joins)
}

/// `stands`: what it had begun is to be ended by the next one.
async fn line(host: &dyn Host, second: i64, saved: Saved, stands: bool) -> Result<JoinLine, Trouble> {
    let Saved { begun, state, runs, .. } = saved;
    let how = match state.stage {
        Stage::Joined => JoinEnd::Joined,
        Stage::Failed => JoinEnd::Failed,
        _ if !stands => JoinEnd::Superseded,
        _ if is_at_work(host).await? => JoinEnd::AtWork,
        _ => JoinEnd::CutOff,
    };
    let next: &[&str] = match how {
        JoinEnd::CutOff => &["carrick join", "carrick reset"],
        JoinEnd::Failed if stands => &["carrick join", "carrick reset"],
        JoinEnd::AtWork => &["carrick join"],
        JoinEnd::Joined | JoinEnd::Failed | JoinEnd::Superseded => &[],
    };
    let (next, log) = (next.iter().map(|&command| command.to_owned()).collect(), record::log_of(second));
    Ok(JoinLine { schema: JOIN, begun, state: how, stage: state.stage, attempt: state.attempt, runs, log, next })
}

/// Whether kubeadm still runs, or another Carrick does. Who may not take the lock sees only the unit.
async fn is_at_work(host: &dyn Host) -> Result<bool, Trouble> {
    if unit::state(host, unit::JOIN).await?.is_running() {
        return Ok(true);
    }
    // Where there is no file, there is no lock: looking makes none.
    if host.look(LOCK).await?.is_none() {
        return Ok(false);
    }
    Ok(matches!(host.lock(LOCK, "carrick history\n").await, Err(Locked::By(_))))
}

/// What of a join that was cut off is ours to take away.
pub(super) struct Whose {
    /// Its kubeadm ran, and what a join made here is of it.
    pub ours: bool,
    /// The machine before it, and what somebody else has put there since.
    pub before: Option<MachineBefore>,
    /// What is left alone.
    pub says: Vec<String>,
}

/// Between a join that was cut off and this one a person may have done anything: by when files were written it is told whose
/// they are. What is not proven to be ours stays.
pub(super) async fn whose(host: &dyn Host, saved: &Saved) -> Whose {
    let untouched = |before| Whose { ours: false, before, says: Vec::new() };
    if !saved.state.may_have_left_something() {
        return untouched(saved.before.clone());
    }
    let sources: Vec<Source> = before::sources().chain([Source::Dir(record::DIR)]).collect();
    let now = gather(host.name(), host.now(), host.observe(&sources, &Progress::default()).await).0;
    let last_word = last_word(&now, saved.begun);
    let left = |says| Whose { ours: false, before: None, says: vec![says] };
    match before::by_hand(&now, last_word) {
        Err(missing) => left(format!("what it left stays: whose that is cannot be told ({missing})")),
        Ok(theirs) if !theirs.is_empty() => {
            left(format!("somebody else has been at work since, and what they made stays: {}", theirs.join(", ")))
        }
        Ok(_) => {
            let spared = saved.before.clone().zip(last_word).map(|(before, at)| before.sparing(&now, at));
            let (before, theirs) = spared.map_or((saved.before.clone(), Vec::new()), |(it, theirs)| (Some(it), theirs));
            let says = theirs.iter().map(|path| format!("{path} is newer than that join, and stays")).collect();
            Whose { ours: true, before, says }
        }
    }
}

/// When the last word of a join's kubeadm was written, or of the join itself; `None`: no kubeadm of it ever ran.
fn last_word(now: &Facts, begun: Timestamp) -> Option<Timestamp> {
    let entries = now.dir(record::DIR).ok()?;
    let of_it = || entries.iter().filter(|entry| record::begun(&entry.name) == Some(begun.as_second()));
    of_it().find(|entry| entry.name.contains("-kubeadm-"))?;
    of_it().map(|entry| entry.mtime).max().and_then(|second| Timestamp::from_second(second).ok())
}
