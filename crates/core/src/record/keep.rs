//! Which records go: what is old, or one of too many, and what nobody can need any more.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{End, PastRun};

/// So many runs are kept: more than a person takes back, few enough to be read in a second over a slow link.
pub const RUNS: usize = 50;
/// For so long: half a year after a change nobody goes back behind it.
pub const DAYS: i64 = 180;

/// A record as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shelved {
    Read(Box<PastRun>),
    /// Nothing can be done with it but to look at its files.
    Unreadable(u32),
    /// By a version that knows what it needs it for.
    Newer(u32),
    /// There is no record: it was cut off before it changed anything, or while it was pruned.
    Empty(u32),
}

impl Shelved {
    fn number(&self) -> u32 {
        match self {
            Shelved::Read(past) => past.run.run,
            Shelved::Unreadable(run) | Shelved::Newer(run) | Shelved::Empty(run) => *run,
        }
    }

    fn past(&self) -> Option<&PastRun> {
        match self {
            Shelved::Read(past) => Some(past),
            Shelved::Unreadable(_) | Shelved::Newer(_) | Shelved::Empty(_) => None,
        }
    }
}

/// Whether a run that began then is old.
pub fn is_old(begun: Timestamp, now: Timestamp) -> bool {
    now.duration_since(begun) > SignedDuration::from_hours(24 * DAYS)
}

/// Those that go, of all there are, in order: all but the last `kept`, and what is old. Never what `undo` of the last run
/// needs, nor one that was cut off and not completed, nor what one that stays goes on from.
pub fn superfluous(all: &[Shelved], kept: usize, now: Timestamp) -> Vec<u32> {
    let beyond = all.iter().filter(|it| !matches!(it, Shelved::Empty(_))).rev().skip(kept).map(Shelved::number);
    let beyond: BTreeSet<u32> = beyond.collect();
    let goes = |it: &Shelved| match it {
        Shelved::Read(past) => beyond.contains(&past.run.run) || is_old(past.run.begun, now),
        Shelved::Unreadable(run) => beyond.contains(run),
        Shelved::Newer(_) => false,
        Shelved::Empty(_) => true,
    };
    let needed = with_earlier(all, needed(all).chain(all.iter().filter(|it| !goes(it)).map(Shelved::number)).collect());
    all.iter().filter(|it| goes(it)).map(Shelved::number).filter(|run| !needed.contains(run)).collect()
}

/// The run that `undo` would take back, and those that were cut off and that none has completed.
fn needed(all: &[Shelved]) -> impl Iterator<Item = u32> {
    let pasts = || all.iter().filter_map(Shelved::past);
    let stands = |past: &&PastRun| past.end() != End::Undone && past.changed_something();
    let last = pasts().rev().find(stands);
    let completed: BTreeSet<u32> = pasts().filter_map(|past| past.run.continues).collect();
    let open = pasts().filter(move |past| stands(past) && past.is_cut_off() && !completed.contains(&past.run.run));
    last.into_iter().chain(open).map(|past| past.run.run)
}

/// And the runs that they complete.
fn with_earlier(all: &[Shelved], mut runs: BTreeSet<u32>) -> BTreeSet<u32> {
    // The newest first: what one goes on from is older.
    for past in all.iter().rev().filter_map(Shelved::past) {
        if runs.contains(&past.run.run) {
            runs.extend(past.run.continues);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{JournalLine, Mark, Recorded, Run, SCHEMA};
    use crate::testing::NOW;

    /// A run of one step that began so many days ago, with these marks.
    fn past(run: u32, days: i64, continues: Option<u32>, marks: &[(Option<usize>, Mark)]) -> Shelved {
        let begun = NOW - SignedDuration::from_hours(24 * days);
        let step = crate::plan::Step { effect: crate::plan::Effect::ReloadUnits, why: Vec::new() };
        let moment = crate::plan::PlaceState::Moment;
        let steps = vec![Recorded { step, was: moment.clone(), becomes: moment }];
        let (schema, verb, by, version) = (SCHEMA.to_owned(), "reset".to_owned(), String::new(), String::new());
        let run = Run { schema, run, verb, by, begun, version, continues, steps };
        let line = |&(step, mark)| JournalLine { at: begun, step, mark, error: String::new() };
        Shelved::Read(Box::new(PastRun { run, lines: marks.iter().map(line).collect(), damage: None }))
    }

    const BEGUN: (Option<usize>, Mark) = (Some(0), Mark::Begun);
    const DONE: &[(Option<usize>, Mark)] = &[BEGUN, (Some(0), Mark::Done), (None, Mark::Finished)];
    const CUT_OFF: &[(Option<usize>, Mark)] = &[BEGUN];
    const UNDONE: &[(Option<usize>, Mark)] = &[BEGUN, (None, Mark::Finished), (None, Mark::Undone)];

    #[test]
    fn what_is_old_or_too_many_goes_and_what_is_needed_stays() {
        let done = |run, days| past(run, days, None, DONE);
        let rows: [(&str, Vec<Shelved>, usize, &[u32]); 12] = [
            ("none", vec![], 0, &[]),
            ("few and new", vec![done(1, 9), done(2, 1)], 2, &[]),
            ("too many", vec![done(1, 9), done(2, 2), done(3, 1)], 2, &[1]),
            ("old", vec![done(1, DAYS + 1), done(2, DAYS), done(3, 1)], 50, &[1]),
            ("the last one stays, however old, and though none is to", vec![done(1, 999), done(2, 999)], 0, &[1]),
            ("the last one that was not taken back", vec![done(1, 999), past(2, 999, None, UNDONE)], 0, &[2]),
            (
                "what the last one completes stays",
                vec![past(1, 999, None, CUT_OFF), past(2, 999, Some(1), CUT_OFF), past(3, 999, Some(2), DONE)],
                0,
                &[],
            ),
            (
                "what one that stays completes",
                vec![past(1, 9, None, CUT_OFF), past(2, 9, Some(1), DONE), done(3, 9)],
                2,
                &[],
            ),
            ("what was cut off, and not completed", vec![past(1, 999, None, CUT_OFF), done(2, 9), done(3, 9)], 1, &[2]),
            ("what was cut off before it began", vec![past(1, 999, None, &[]), done(2, 9)], 1, &[1]),
            (
                "what cannot be read goes by its number",
                vec![Shelved::Unreadable(1), Shelved::Unreadable(2), done(3, 9)],
                2,
                &[1],
            ),
            (
                "what a newer one wrote stays, and what has no record goes",
                vec![Shelved::Newer(1), Shelved::Empty(2), done(3, 9), Shelved::Empty(4)],
                1,
                &[2, 4],
            ),
        ];
        for (what, all, kept, expected) in rows {
            assert_eq!(superfluous(&all, kept, NOW), expected, "{what}");
        }
        assert!(!is_old(NOW + SignedDuration::from_hours(9999), NOW), "a clock that was set back makes nothing old");
    }
}
