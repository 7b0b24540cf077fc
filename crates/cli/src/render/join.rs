//! A join on the screen: a line a stage as it is reached, one that lives while it waits, and how it ended.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use carrick_core::check::Outcome;
use carrick_core::join::ending;
use carrick_core::join::event_line::{EventKind, EventLine};
use carrick_core::join::state::Stage;
use carrick_core::join::step::JoinOutcome;
use carrick_core::report::{Confidence, Judged, Report};
use carrick_engine::join::{JoinProgress, JoinReport};
use serde_json::json;

use super::text::is_proven_from_outside;
use super::wrap::{hang, wrap};
use crate::terminal::{self, BOLD, DIM, FAIL, LiveLine, OK, UNKNOWN, WARN, styled};

/// Without a terminal, a word this often: ten seconds without one are too many, and a word may come a second late.
const WORD: Duration = Duration::from_secs(8);
/// How much of the evidence stands under a cause here; the report has all.
const EVIDENCE: usize = 3;

pub struct JoinDisplay {
    line: LiveLine,
    last_word: Instant,
    events: Option<Events>,
}

impl JoinDisplay {
    pub fn new(events: bool) -> Self {
        JoinDisplay { line: LiveLine::new(), last_word: Instant::now(), events: events.then(Events::default) }
    }

    pub fn tell(&mut self, told: &JoinProgress) {
        if let Some(events) = &mut self.events {
            if let Some(event) = events.of(told) {
                // A reader that has gone away is not told any more.
                let _ = terminal::print(&format!("{}\n", json!(event)));
            }
            return;
        }
        match told {
            JoinProgress::Reached { stage, says, after, .. } => {
                self.say(&format!("  {}  {}", styled(OK, "ok"), row(*stage, says, &seconds(*after))));
            }
            JoinProgress::Waits { stage, elapsed, limit, says, .. } => {
                // What comes after the end has no limit of its own.
                let limit = if limit.is_zero() { String::new() } else { format!("/{} s", limit.as_secs()) };
                let times = format!("{} s{limit}", elapsed.as_secs());
                let text = format!("  ..  {}", row(*stage, says, &times));
                if terminal::is_live() {
                    self.line.show(&text);
                } else if self.last_word.elapsed() >= WORD {
                    self.say(&text);
                }
            }
            JoinProgress::Says(says) => {
                self.say(&format!("      {}", hang(says, 6, terminal::width())));
            }
            JoinProgress::Again { says, after, attempt } => {
                let text = format!("attempt {attempt}: {says}; again in {} s", after.as_secs());
                self.say(&format!("  {}  {text}", styled(WARN, "!!")));
            }
        }
    }

    fn say(&mut self, text: &str) {
        self.line.clear();
        terminal::say(text);
        self.last_word = Instant::now();
    }

    /// The last word: for people, or a report for programs.
    pub fn end(
        mut self,
        host: &str,
        ended: &JoinReport,
        took: Duration,
        as_json: bool,
    ) -> Result<String, serde_json::Error> {
        self.line.clear();
        let diagnosed = ended.diagnosis.as_ref().map(|it| it.causes.as_slice()).unwrap_or_default();
        let JoinReport { outcome, state, left, stopped, .. } = ended;
        let report = ending::report(host, state, outcome, diagnosed, left, *stopped);
        if as_json {
            return Ok(serde_json::to_string(&report)? + "\n");
        }
        Ok(match &ended.outcome {
            JoinOutcome::Joined { already: true, .. } => already(host, &report),
            JoinOutcome::Joined { until, .. } => {
                let how_far = until.name();
                let joined = styled(BOLD, &format!("{host} joined:"));
                let log = ended.record.as_ref().map(|path| format!("      log    {path}\n")).unwrap_or_default();
                let proven = is_proven_from_outside(&report.findings);
                let outside = if proven { "" } else { ", not proven from outside" };
                format!("{}{log}{joined} {how_far} after {}{outside}.\n", warned(&report), seconds(took))
            }
            JoinOutcome::Unproven { says } => unproven(&report, says, ended),
            JoinOutcome::Failed(_) => failed(&report, ended),
            JoinOutcome::Interrupted { signal, stage, .. } => {
                let line = format!("  {}  {:<13} stopped by {}\n", styled(WARN, "--"), label(*stage), signal.name());
                line + &logs(ended) + &format!("Not joined. {}\n", how_it_stands(&report)) + &unmade(ended, *stage)
            }
        })
    }
}

/// A node that a join finds as it should be.
fn already(host: &str, report: &Report) -> String {
    let outside = if is_proven_from_outside(&report.findings) { "" } else { " Not proven from outside." };
    let host = styled(BOLD, host);
    format!("{}{host} had joined already, and it holds. Nothing was changed.{outside}\n", warned(report))
}

/// What fails nothing, and is worth knowing.
fn warned(report: &Report) -> String {
    let warnings = report.findings.iter().filter(|finding| finding.verdict == Outcome::Warn);
    let line = |finding: &Judged| {
        let says = hang(&format!("{}  {}", finding.id, finding.title), 6, terminal::width());
        format!("  {}  {says}\n", styled(WARN, "!!"))
    };
    warnings.map(line).collect()
}

fn failed(report: &Report, ended: &JoinReport) -> String {
    let width = terminal::width();
    let mut out = String::new();
    let JoinOutcome::Failed(failure) = &ended.outcome else { return out };
    let says = hang(&failure.says, 20, width);
    let _ = writeln!(out, "  {}  {:<13} {says}", styled(FAIL, "!!"), label(failure.stage));
    for cause in &report.causes {
        let _ = writeln!(
            out,
            "      {} {}",
            styled(BOLD, &cause.id),
            styled(DIM, &format!("{:?}", cause.confidence).to_lowercase())
        );
        // What stands above is not said twice.
        let why = if failure.says_all_of(cause) { Vec::new() } else { wrap(&cause.why, width.saturating_sub(8)) };
        for line in why {
            let _ = writeln!(out, "        {line}");
        }
        for seen in cause.evidence.iter().take(EVIDENCE) {
            let _ = writeln!(out, "        seen   {seen}");
        }
        // Of what is only possible, the command that tells.
        let label = if cause.confidence == Confidence::Possible { "look" } else { "fix " };
        for remedy in &cause.remedy {
            let _ = writeln!(out, "        {label}   {remedy}");
        }
        if cause.remedy.is_empty() {
            let _ = writeln!(out, "        more   carrick explain {}", cause.id);
        }
    }
    if failure.overdue {
        for line in &ended.last_words {
            let _ = writeln!(out, "      {}", styled(DIM, line));
        }
    }
    if let Some(signal) = ended.stopped {
        let _ = writeln!(out, "  {}  {:<13} stopped by {}", styled(WARN, "--"), label(Stage::Failed), signal.name());
    }
    let end = if failure.is_of_a_registered_node() { "Registered, not verified." } else { "Not joined." };
    out + &logs(ended) + &format!("{end} {}\n", how_it_stands(report)) + &unmade(ended, failure.stage)
}

/// What could not be told, and the command that tells it.
fn unproven(report: &Report, says: &str, ended: &JoinReport) -> String {
    let says = hang(says, 20, terminal::width());
    let mut out = format!("  {}   {:<13} {says}\n", styled(UNKNOWN, "?"), label(Stage::NetworkReady));
    for finding in report.findings.iter().filter(|finding| finding.verdict == Outcome::Unknown) {
        for command in &finding.remedy {
            let _ = writeln!(out, "        try    {command}");
        }
    }
    out + &logs(ended) + &format!("Registered, network ready, pods not proven. {}\n", how_it_stands(report))
}

fn logs(ended: &JoinReport) -> String {
    ended.record.iter().chain(&ended.log).map(|log| format!("      log    {log}\n")).collect()
}

/// How the machine stands, and what goes on from there.
fn how_it_stands(report: &Report) -> &str {
    report.remains.as_ref().map_or("", |remains| &remains.says)
}

fn unmade(ended: &JoinReport, stage: Stage) -> String {
    let told = |node| format!("The old Node {node} was removed from the cluster; the next join makes it again.\n");
    ended.left.unmade_node(stage).map(told).unwrap_or_default()
}

/// What is told, as events. One that does not itself say where the join is stands where the last one did.
#[derive(Default)]
struct Events {
    stage: Option<Stage>,
    elapsed: Duration,
    limit: Duration,
    attempt: u32,
    /// Of the last wait that was told: the same one is not told twice a second.
    waited: Option<(Stage, u32, u64)>,
}

impl Events {
    /// `None` for a wait of which was told within this second.
    fn of(&mut self, told: &JoinProgress) -> Option<EventLine> {
        let (event, says) = match told {
            JoinProgress::Reached { stage, says, after, limit, attempt } => {
                self.at(*stage, *after, *limit, *attempt);
                (EventKind::Reached, says)
            }
            JoinProgress::Waits { stage, elapsed, limit, says, attempt } => {
                self.at(*stage, *elapsed, *limit, *attempt);
                let this = Some((*stage, *attempt, elapsed.as_secs()));
                if std::mem::replace(&mut self.waited, this) == this {
                    return None;
                }
                (EventKind::Waits, says)
            }
            JoinProgress::Says(says) => (EventKind::Says, says),
            JoinProgress::Again { says, after, attempt } => {
                self.at(Stage::Waiting, Duration::ZERO, *after, *attempt);
                (EventKind::Again, says)
            }
        };
        let stage = self.stage.unwrap_or(Stage::Begun);
        let event = EventLine::new(event, stage, self.elapsed, self.limit, says, self.attempt);
        if let JoinProgress::Reached { .. } = told {
            // It said how long the state before took; this one has only begun.
            self.elapsed = Duration::ZERO;
        }
        Some(event)
    }

    fn at(&mut self, stage: Stage, elapsed: Duration, limit: Duration, attempt: u32) {
        (self.stage, self.elapsed, self.limit, self.attempt) = (Some(stage), elapsed, limit, attempt);
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// `joining       kubeadm is at work                    1.0 s`
fn row(stage: Stage, says: &str, times: &str) -> String {
    let room = terminal::width().saturating_sub(6 + 14 + times.len() + 1);
    let says: String = if says.chars().count() > room {
        says.chars().take(room.saturating_sub(1)).chain(['…']).collect()
    } else {
        says.to_owned()
    };
    format!("{:<13} {says:<room$} {times}", label(stage))
}

fn label(stage: Stage) -> &'static str {
    match stage {
        Stage::Begun => "looking",
        Stage::Blocked => "blocked",
        Stage::Unjoined => "looked",
        Stage::Probed => "checked",
        Stage::Prepared => "prepared",
        Stage::Joining => "joining",
        Stage::KubeletUp => "kubelet",
        Stage::CertificateRequested => "requested",
        Stage::CertificateIssued => "certificate",
        Stage::Registered => "registered",
        Stage::NetworkReady => "network",
        Stage::Verified => "verified",
        Stage::Waiting => "waiting",
        Stage::Joined => "joined",
        Stage::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use carrick_core::check::{Subsystem, pass, skip, warn};
    use carrick_core::report;

    use super::*;

    #[test]
    fn a_node_that_had_joined_is_told_what_it_is_warned_of() {
        let judged = |id, verdict| Judged::of(id, Subsystem::Network, verdict);
        let said = |findings| {
            let text = already("w1", &report::of("join", "w1", findings));
            anstream::adapter::strip_str(&text).to_string()
        };
        let held = "w1 had joined already, and it holds. Nothing was changed.";
        let reached = || vec![judged("verify.ready", pass("Ready")), judged("verify.kubelet-reached", pass("it is"))];
        let mut warned = reached();
        warned.push(judged("verify.peer", warn("no pod of another node answers from here")));
        let alone =
            vec![judged("verify.ready", pass("Ready")), judged("verify.kubelet-reached", skip("nobody to ask"))];
        for (findings, expected) in [
            (reached(), format!("{held}\n")),
            (warned, format!("  !!  verify.peer  no pod of another node answers from here\n{held}\n")),
            (alone, format!("{held} Not proven from outside.\n")),
        ] {
            assert_eq!(said(findings), expected);
        }
    }

    #[test]
    fn every_event_is_of_one_shape() {
        let (second, minute) = (Duration::from_secs, Duration::from_mins(1));
        let waits = |millis| JoinProgress::Waits {
            stage: Stage::Joining,
            elapsed: Duration::from_millis(millis),
            limit: minute,
            says: "kubeadm to end".into(),
            attempt: 1,
        };
        let reached = JoinProgress::Reached {
            stage: Stage::Joining,
            says: "at work".into(),
            after: second(2),
            limit: minute,
            attempt: 1,
        };
        let mut events = Events::default();
        let mut rows = Vec::new();
        for told in [
            JoinProgress::Says("a word before the first".into()),
            reached,
            JoinProgress::Says("a word".into()),
            waits(400),
            waits(800),
            waits(1200),
            JoinProgress::Again { says: "refused".into(), after: second(7), attempt: 1 },
        ] {
            let Some(event) = events.of(&told).map(|event| json!(event)) else { continue };
            let keys: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, ["schema", "event", "state", "elapsed", "deadline", "evidence", "attempt"]);
            assert_eq!(event["schema"], "carrick.event/v1");
            let row =
                ["event", "state", "elapsed", "deadline", "evidence", "attempt"].map(|key| event[key].to_string());
            rows.push(row.join(" ").replace('"', ""));
        }
        assert_eq!(
            rows,
            [
                "says begun 0.0 null a word before the first 1",
                "reached joining 2.0 60.0 at work 1",
                "says joining 0.0 60.0 a word 1",
                "waits joining 0.4 60.0 kubeadm to end 1",
                "waits joining 1.2 60.0 kubeadm to end 1",
                "again waiting 0.0 7.0 refused 1",
            ]
        );
    }
}
