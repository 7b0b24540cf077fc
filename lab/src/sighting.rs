//! How soon a cause is told: counted from when it could first be seen, which the lab learns without asking carrick.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::demand;
use crate::error::{Error, Result};
use crate::fault::{Scene, csrs_by};

/// Who stands before a terminal has not looked away by then, and no second attempt has begun.
const LATEST: SignedDuration = SignedDuration::from_secs(5);

/// Three cases at a time share two cores, and what takes 5 s alone was seen to take up to 8.1: twice that is late in any
/// company, and still far from a cause that is told only when kubeadm gives up.
const LATEST_IN_COMPANY: SignedDuration = SignedDuration::from_secs(15);

/// A signer that works takes a second or two: that nobody signs is worth a word after this.
const SIGNED_BY: SignedDuration = SignedDuration::from_secs(20);

/// By what the lab knows since when a cause could be seen.
#[derive(Clone, Copy)]
pub enum Shows {
    /// It stood before the join began: from carrick's start on.
    Beforehand,
    /// Since this file of the machine was written.
    File(&'static str),
    /// Since the kubelet's request was denied, as the API server has it, in whole seconds.
    Denied,
    /// Twenty seconds after the kubelet made its request, as the API server has it, in whole seconds.
    Unsigned,
    /// Since the kubelet first wrote a line with this pattern.
    Kubelet(&'static str),
}

/// When carrick was started, and when it told the cause.
pub struct ToldAt {
    pub started: Timestamp,
    pub told: Duration,
}

/// The times of a cause that a case has watched.
pub struct MeasuredAt {
    pub started: Timestamp,
    pub seen: Timestamp,
    pub told: Timestamp,
}

/// A cause that was told, and how soon.
pub struct ToldCause {
    pub fault: &'static str,
    told: String,
    after_start: SignedDuration,
    after_seen: SignedDuration,
    how: String,
    /// How long it may take.
    latest: SignedDuration,
}

impl Shows {
    /// Asked once the join has ended: asking meanwhile would take its time.
    fn since(self, scene: &Scene, started: Timestamp) -> Result<Timestamp> {
        let seen = match self {
            Self::Beforehand => started,
            Self::File(path) => written(&scene.on(&["stat", "--format=%.6Y", path])?)?,
            Self::Denied => first_of(scene, |request| {
                let denied = request["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == "Denied")?;
                denied["lastUpdateTime"].as_str()
            })?,
            Self::Unsigned => {
                let made = first_of(scene, |request| request["metadata"]["creationTimestamp"].as_str())?;
                made.checked_add(SIGNED_BY).unwrap_or(made)
            }
            Self::Kubelet(pattern) => {
                let argv = ["journalctl", "-b", "-u", "kubelet", "-o", "short-unix", "--no-pager", "-q", "-g", pattern];
                let lines = scene.on(&argv)?;
                written(lines.split_whitespace().next().unwrap_or_default())?
            }
        };
        Ok(seen.max(started))
    }

    fn how(self) -> String {
        match self {
            Self::Beforehand => "it stood before".to_owned(),
            Self::File(path) => format!("{path} written"),
            Self::Denied => "the request denied".to_owned(),
            Self::Unsigned => format!("the request {} s old", SIGNED_BY.as_secs()),
            Self::Kubelet(pattern) => format!("the kubelet says {pattern:?}"),
        }
    }
}

impl ToldCause {
    pub fn of(fault: &'static str, told: String, shows: Shows, run: &ToldAt, scene: &Scene) -> Result<Self> {
        let after_start = SignedDuration::try_from(run.told).unwrap_or(SignedDuration::MAX);
        let before = shows.since(scene, run.started)?.duration_since(run.started);
        let after_seen = after_start.saturating_sub(before);
        Ok(Self { fault, told, after_start, after_seen, how: shows.how(), latest: LATEST })
    }

    /// What a case has measured itself: when it could be seen, and when it was told.
    pub fn measured(fault: &'static str, told: &str, at: &MeasuredAt, how: &str) -> Self {
        let MeasuredAt { started, seen, told: told_at } = at;
        let (after_start, after_seen) = (told_at.duration_since(*started), told_at.duration_since(*seen.max(started)));
        Self { fault, told: told.to_owned(), after_start, after_seen, how: how.to_owned(), latest: LATEST }
    }

    /// The stricter of two bars where no other case took its time.
    pub fn held_to(self, alone: bool) -> Self {
        Self { latest: if alone { LATEST } else { LATEST_IN_COMPANY }, ..self }
    }

    pub fn in_time(&self) -> Result<()> {
        let (took, bar) = (seconds(self.after_seen), self.latest.as_secs());
        demand!(self.after_seen <= self.latest, "told {took} s after it could be seen ({}), not {bar}", self.how);
        Ok(())
    }
}

/// What came of a run, as Markdown.
pub fn table(sightings: &[&ToldCause]) -> String {
    let mut text =
        "| fault | told | after carrick's start, s | after it could be seen, s | held to, s | since when it \
                    could |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for ToldCause { fault, told, after_start, after_seen, how, latest } in sightings.iter().copied() {
        let (start, seen, bar) = (seconds(*after_start), seconds(*after_seen), latest.as_secs());
        let _ = writeln!(text, "| {fault} | {told} | {start} | {seen} | {bar} | {how} |");
    }
    text
}

fn seconds(time: SignedDuration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

/// `stat` writes seconds since 1970, with six digits behind the point.
pub fn written(shown: &str) -> Result<Timestamp> {
    let micros = shown.trim().replacen('.', "", 1).parse().ok();
    let time = micros.and_then(|micros| Timestamp::from_microsecond(micros).ok());
    time.ok_or_else(|| Error::Said(format!("stat printed no time: {shown:?}")))
}

/// The earliest of a time that the requests made with the scene's token have.
fn first_of(scene: &Scene, time: impl Fn(&Value) -> Option<&str>) -> Result<Timestamp> {
    let requests = csrs_by(scene.cluster, &scene.plan.token)?;
    let times = requests.iter().filter_map(|request| time(request)?.parse::<Timestamp>().ok());
    times.min().ok_or_else(|| Error::Said("no signing request has such a time".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_time_that_stat_prints() {
        assert_eq!(written("1763260000.123456\n").unwrap(), "2025-11-16T02:26:40.123456Z".parse().unwrap());
        for text in ["", "?", "stat: cannot statx"] {
            assert!(written(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn who_tells_in_time_is_told_from_who_does_not() {
        let told = |millis| ToldCause {
            fault: "swap-on",
            told: "machine.swap, exit 3".to_owned(),
            after_start: SignedDuration::from_millis(7000),
            after_seen: SignedDuration::from_millis(millis),
            how: "it stood before".to_owned(),
            latest: LATEST,
        };
        for (millis, alone, late) in [
            (5000, true, None),
            (5100, true, Some("told 5.1 s after it could be seen (it stood before), not 5")),
            (15_000, false, None),
            (15_100, false, Some("told 15.1 s after it could be seen (it stood before), not 15")),
        ] {
            let judged = told(millis).held_to(alone).in_time().err().map(|error| error.to_string());
            assert_eq!(judged.as_deref(), late, "{millis} ms, alone: {alone}");
        }
        let row = "| swap-on | machine.swap, exit 3 | 7.0 | 5.0 | 5 | it stood before |\n";
        assert!(table(&[&told(5000)]).ends_with(row), "{}", table(&[&told(5000)]));
    }
}
