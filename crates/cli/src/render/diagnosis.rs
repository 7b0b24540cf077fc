//! A diagnosis for the person at the terminal: the cause first, then what proves it, what follows from it, what fixes it;
//! then what is not the cause, each subsystem's state, and what to run where the evidence is not enough.

use std::fmt::Write as _;

use carrick_core::check::Evidence;
use carrick_core::report::{Cause, Confidence, Health, Noted, Overall, Reading, Report, TimelineEvent};
use carrick_core::signature::{Phase, Severity};

use super::TextOptions;
use super::wrap::wrap;
use crate::terminal::{BOLD, DIM, FAIL, OK, Style, UNKNOWN, WARN, styled};

/// Where sentences begin: behind the longest label.
const LABEL: usize = 16;
/// These are shown whole; of further ones the title.
const CAUSES: usize = 3;
const EVIDENCE: usize = 3;
const CONSEQUENCES: usize = 4;
const NORMAL: usize = 5;
const FIXES: usize = 3;

pub fn render(report: &Report, reading: &Reading, look: &TextOptions) -> String {
    let mut out = heading(report, reading);
    for (n, one) in report.causes.iter().enumerate().take(CAUSES) {
        out.push_str(&cause(one, n, reading, look));
    }
    for (n, one) in report.causes.iter().skip(CAUSES).enumerate() {
        let label = if n == 0 { styled(WARN, &format!("{:LABEL$}", "ALSO WRONG")) } else { " ".repeat(LABEL) };
        out.push_str(if n == 0 { "\n" } else { "" });
        out.push_str(&paragraph(&label, &format!("{}  (carrick explain {})", one.title, one.id), look));
    }
    out.push_str(&unrecognised(reading, look));
    out.push_str(&normal(reading, look));
    out.push_str(&subsystems(report, look));
    out.push_str(&pod_network(reading, look));
    out.push_str(&elsewhere(reading, look));
    if look.verbose {
        out.push_str(&timeline(&reading.timeline, look));
    }
    out.push_str(&next(reading));
    let _ = writeln!(out, "\n{}", summing_up(report, reading));
    out
}

fn heading(report: &Report, reading: &Reading) -> String {
    let machine = &report.machine;
    let name = if report.host.is_empty() { "this capture" } else { &report.host };
    let mut parts = vec![styled(BOLD, name)];
    parts.extend(machine.os.clone());
    parts.extend(machine.containerd.as_ref().map(|version| format!("containerd {version}")));
    parts.extend(machine.kubelet.as_ref().map(|version| format!("kubelet {version}")));
    parts.push(format!("{} lines read", reading.lines));
    parts.push(match reading.phase {
        None => "how far the join came is unknown".to_owned(),
        Some(Phase::Before) => "before a join".to_owned(),
        Some(Phase::Joining) => "a join was tried".to_owned(),
        Some(Phase::Joined) => "the node had registered".to_owned(),
    });
    parts.join(" · ") + "\n"
}

pub(super) fn cause(cause: &Cause, n: usize, reading: &Reading, look: &TextOptions) -> String {
    let (label, style) = match (n, cause.confidence) {
        (0, Confidence::Certain) => ("ROOT CAUSE", FAIL),
        (0, Confidence::Likely) => ("LIKELY CAUSE", FAIL),
        (0, Confidence::Possible) => ("SEEN SO FAR", WARN),
        _ => ("ALSO WRONG", WARN),
    };
    let confidence = match cause.confidence {
        Confidence::Certain => "certain",
        Confidence::Likely => "likely",
        Confidence::Possible => "possible",
    };
    let mut out = String::from("\n");
    out.push_str(&paragraph(
        &styled(style, &format!("{label:LABEL$}")),
        &format!("{} ({confidence})", cause.title),
        look,
    ));
    if !cause.why.is_empty() && cause.why != cause.title {
        out.push_str(&paragraph(&" ".repeat(LABEL), &cause.why, look));
    }
    for evidence in cause.evidence.iter().take(EVIDENCE) {
        out.push_str(&seen(evidence, look));
    }
    let follows: Vec<&Noted> = reading.symptoms.iter().filter(|symptom| symptom.because.contains(&cause.id)).collect();
    for (n, symptom) in follows.iter().enumerate().take(CONSEQUENCES) {
        let label = if n == 0 { "therefore" } else { "" };
        let at = symptom.evidence.first().map(|evidence| format!("  ({})", place(evidence))).unwrap_or_default();
        out.push_str(&paragraph(&dim_label(label), &format!("{}{at}", symptom.title), look));
    }
    commands(&mut out, "fix", cause.remedy.get(..FIXES).unwrap_or(&cause.remedy));
    commands(&mut out, "later", &cause.prevent);
    let _ = writeln!(out, "{}carrick explain {}", dim_label("more"), cause.id);
    out
}

/// The very line, under where it stands.
fn seen(evidence: &Evidence, look: &TextOptions) -> String {
    let place = place(evidence);
    if place.chars().count() < LABEL - 2 {
        return paragraph(&dim_label(&place), &evidence.text, look);
    }
    paragraph(&dim_label("seen"), &format!("{place}: {}", evidence.text), look)
}

fn place(evidence: &Evidence) -> String {
    match (evidence.line, evidence.source.is_empty()) {
        (Some(line), true) => format!("line {line}"),
        (Some(line), false) => format!("{}:{line}", evidence.source),
        (None, _) => evidence.source.clone(),
    }
}

fn dim_label(label: &str) -> String {
    styled(DIM, &format!("  {label:width$}", width = LABEL - 2))
}

fn paragraph(label: &str, text: &str, look: &TextOptions) -> String {
    let mut out = String::new();
    for (n, line) in wrap(text, look.width.saturating_sub(LABEL).max(30)).iter().enumerate() {
        let head = if n == 0 { label.to_owned() } else { " ".repeat(LABEL) };
        let _ = writeln!(out, "{head}{line}");
    }
    out
}

/// A command stays on one line, however long: it is there to be copied.
fn commands(out: &mut String, label: &str, commands: &[String]) {
    for (n, command) in commands.iter().enumerate() {
        let _ = writeln!(out, "{}{command}", dim_label(if n == 0 { label } else { "" }));
    }
}

/// Where nothing else is known these are the best there is: above all that is known to be normal.
fn unrecognised(reading: &Reading, look: &TextOptions) -> String {
    if reading.unrecognised.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", styled(BOLD, "UNRECOGNISED ERRORS"));
    for error in &reading.unrecognised {
        let often = if error.count > 1 { format!("  ({}×)", error.count) } else { String::new() };
        let text = format!("{}{often}", error.evidence.text);
        out.push_str(&seen(&Evidence { text, ..error.evidence.clone() }, look));
    }
    out
}

fn normal(reading: &Reading, look: &TextOptions) -> String {
    let shown = if look.verbose { usize::MAX } else { NORMAL };
    if reading.normal.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", styled(BOLD, "NOT THE CAUSE"));
    for noted in reading.normal.iter().take(shown) {
        let at = noted.evidence.first().map(|evidence| format!("  ({})", place(evidence))).unwrap_or_default();
        let label = format!("  {:width$}", noted.subsystem.name(), width = LABEL - 2);
        let why = if look.verbose { noted.why.as_str() } else { noted.why.split(": ").next().unwrap_or_default() };
        out.push_str(&paragraph(&label, &format!("{}: {why}{at}", noted.title), look));
    }
    if let Some(more) = reading.normal.len().checked_sub(shown).filter(|more| *more > 0) {
        let _ = writeln!(out, "{}{}", " ".repeat(LABEL), styled(DIM, &format!("and {more} more (-v lists them)")));
    }
    out
}

fn subsystems(report: &Report, look: &TextOptions) -> String {
    let mut out = format!("\n{}\n", styled(BOLD, "SUBSYSTEMS"));
    let not_seen: Vec<&str> = report
        .subsystems
        .iter()
        .filter(|subsystem| subsystem.verdict == Health::NotSeen)
        .map(|subsystem| subsystem.name.name())
        .collect();
    for subsystem in report.subsystems.iter().filter(|subsystem| subsystem.verdict != Health::NotSeen) {
        let (word, style) = health(subsystem.verdict);
        let label = format!("  {:width$}", subsystem.name.name(), width = LABEL);
        let label = format!("{label}{}", styled(style, &format!("{word:10}")));
        for (n, line) in wrap(&subsystem.why, look.width.saturating_sub(LABEL + 12).max(30)).iter().enumerate() {
            let head = if n == 0 { label.clone() } else { " ".repeat(LABEL + 12) };
            let _ = writeln!(out, "{head}{line}");
        }
    }
    if !not_seen.is_empty() {
        out.push_str(&paragraph(&format!("  {:width$}", "not seen", width = LABEL - 2), &not_seen.join(", "), look));
    }
    out
}

pub(super) fn pod_network(reading: &Reading, look: &TextOptions) -> String {
    if reading.pod_network.is_empty() {
        return String::new();
    }
    let pieces = reading.pod_network.iter().map(|piece| paragraph(&dim_label(piece.what), &piece.says, look));
    format!("\n{}\n", styled(BOLD, "POD NETWORK")) + &pieces.collect::<String>()
}

fn health(health: Health) -> (&'static str, Style) {
    match health {
        Health::Healthy => ("healthy", OK),
        Health::Broken => ("broken", FAIL),
        Health::Degraded => ("degraded", WARN),
        Health::Expected => ("expected", DIM),
        Health::NotSeen => ("not seen", UNKNOWN),
    }
}

fn elsewhere(reading: &Reading, look: &TextOptions) -> String {
    let mut out = String::new();
    for other in &reading.elsewhere {
        let titles: Vec<&str> = other.seen.iter().map(|noted| noted.title.as_str()).collect();
        let head = if out.is_empty() { format!("\n{}\n", styled(BOLD, "OTHER NODES")) } else { String::new() };
        out.push_str(&head);
        out.push_str(&paragraph(&dim_label(&other.node), &format!(" {}", titles.join("; ")), look));
    }
    out
}

fn timeline(events: &[TimelineEvent], look: &TextOptions) -> String {
    if events.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", styled(BOLD, "TIMELINE"));
    for event in events {
        if let Some(silence) = event.silence {
            let _ = writeln!(out, "{}{}", " ".repeat(LABEL), styled(DIM, &format!("… {silence} s without a word …")));
        }
        let time = event.at.split_once('T').map_or(event.at.as_str(), |(_, time)| time);
        let time: String = time.chars().take(8).collect();
        let style = match event.severity {
            Severity::Sign | Severity::Good => OK,
            Severity::Benign => DIM,
            Severity::Warning => WARN,
            Severity::Error | Severity::Fatal => FAIL,
        };
        let often = if event.count > 1 { format!(" ({}×)", event.count) } else { String::new() };
        let text = format!("{:11} {}{often}", event.program, event.title);
        out.push_str(&paragraph(&format!("  {}  ", styled(style, &format!("{time:10}"))), &text, look));
    }
    out
}

fn next(reading: &Reading) -> String {
    let mut out = String::new();
    if !reading.next.is_empty() {
        let _ = writeln!(out, "\n{}", styled(BOLD, "TO KNOW MORE"));
        commands(&mut out, "", &reading.next);
    }
    out
}

fn summing_up(report: &Report, reading: &Reading) -> String {
    let more = if reading.timeline.is_empty() { "" } else { "  (-v shows the timeline)" };
    let sum = match (report.verdict, report.causes.first()) {
        (_, Some(cause)) if cause.confidence == Confidence::Possible => {
            "What happened is seen, not why: the commands above tell more.".to_owned()
        }
        (_, Some(cause)) => format!("Cause: {}.", cause.id),
        (Overall::Pass, None) => "Nothing wrong was found.".to_owned(),
        (Overall::Warn, None) => "No cause was found; there are warnings.".to_owned(),
        (_, None) => "No cause was found in this capture.".to_owned(),
    };
    format!("{sum}{more}")
}
