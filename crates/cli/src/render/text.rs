//! For the person at the terminal: what is wrong first, by subsystem; under each finding what was seen and what fixes it.

use std::fmt::Write as _;

use carrick_core::check::{Outcome, Subsystem};
use carrick_core::join::verify::Until;
use carrick_core::report::{Judged, Overall, Reached, Report};

use super::wrap::{beside, wrap};
use super::{TextOptions, counts};
use crate::terminal::{BOLD, DIM, FAIL, OK, Style, UNKNOWN, WARN, styled};

/// Where the sentences begin: behind the mark and the longest usual id.
const ID_COLUMN: usize = 8;
pub(super) const LONGEST_ID: usize = 26;
/// Evidence beyond this is a list, not a proof; `-o json` has all of it.
const EVIDENCE: usize = 6;

pub fn render(report: &Report, look: &TextOptions) -> String {
    let mut out = heading(report, look);
    let shown = |finding: &&Judged| finding.verdict > Outcome::Pass && !finding.ignored;
    let wrong: Vec<&Judged> = report.findings.iter().filter(shown).collect();
    let id_width = wrong.iter().map(|finding| finding.id.len()).max().unwrap_or_default().min(LONGEST_ID);
    if report.reached.is_some() {
        out.push_str(&in_order(&wrong, id_width, look));
    } else {
        for (subsystem, findings) in by_subsystem(&wrong) {
            let _ = writeln!(out, "\n{}", styled(BOLD, subsystem.name()));
            for finding in findings {
                out.push_str(&block(finding, id_width, look));
            }
        }
    }
    let each = if look.verbose { listed } else { tally };
    let rest = each(report, Outcome::Pass, look) + &each(report, Outcome::Skip, look) + &ignored(report);
    if !rest.is_empty() {
        out.push('\n');
    }
    out.push_str(&rest);
    let _ = writeln!(out, "\n{}", summing_up(report));
    out
}

pub(super) fn heading(report: &Report, look: &TextOptions) -> String {
    let machine = &report.machine;
    let mut parts = vec![styled(BOLD, &report.host)];
    parts.extend(machine.os.clone());
    parts.extend(machine.containerd.as_ref().map(|version| format!("containerd {version}")));
    parts.extend(machine.kubelet.as_ref().map(|version| format!("kubelet {version}")));
    let took = look.took.map(|took| format!(" in {:.1} s", took.as_secs_f64())).unwrap_or_default();
    let checks = match (report.reached, report.findings.len()) {
        (Some(_), _) => "pieces of evidence",
        (None, 1) => "check",
        (None, _) => "checks",
    };
    parts.push(format!("{} {checks}{took}", report.findings.len()));
    parts.join(" · ") + "\n"
}

/// The cause first: failures as one follows from the other, then what could not be told.
fn in_order(wrong: &[&Judged], id_width: usize, look: &TextOptions) -> String {
    let mut wrong = wrong.to_vec();
    wrong.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    let blocks: String = wrong.iter().map(|finding| block(finding, id_width, look)).collect();
    if blocks.is_empty() { blocks } else { format!("\n{blocks}") }
}

/// The subsystems with the worst first; within one, the worst finding first.
fn by_subsystem<'a>(findings: &[&'a Judged]) -> Vec<(Subsystem, Vec<&'a Judged>)> {
    let mut groups: Vec<(Subsystem, Vec<&Judged>)> = Vec::new();
    for subsystem in Subsystem::ALL {
        let mut of: Vec<&Judged> = findings.iter().copied().filter(|finding| finding.subsystem == subsystem).collect();
        if !of.is_empty() {
            of.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
            groups.push((subsystem, of));
        }
    }
    groups.sort_by_key(|(_, findings)| std::cmp::Reverse(findings.first().map(|finding| finding.verdict)));
    groups
}

pub(super) fn block(finding: &Judged, id_width: usize, look: &TextOptions) -> String {
    let (mark, style) = mark(finding.verdict);
    let mut out = sentence(finding, mark, style, id_width, look);
    let more = finding.evidence.len().saturating_sub(EVIDENCE);
    for evidence in finding.evidence.iter().take(EVIDENCE) {
        out.push_str(&labelled("seen", &evidence.to_string(), look));
    }
    if more > 0 {
        out.push_str(&labelled("", &format!("… and {more} more"), look));
    }
    let label = if finding.verdict == Outcome::Unknown { "try" } else { "fix" };
    for (n, command) in finding.remedy.iter().enumerate() {
        // A command stays on one line, however long: it is there to be copied.
        let _ = writeln!(out, "        {}{command}", styled(DIM, &format!("{:7}", if n == 0 { label } else { "" })));
    }
    out
}

/// The mark, the id, and what was found, wrapped under itself.
fn sentence(finding: &Judged, mark: &str, style: Style, id_width: usize, look: &TextOptions) -> String {
    let indent = ID_COLUMN + id_width + 2;
    let mut out = String::new();
    for (n, line) in wrap(&finding.title, beside(indent, look.width)).iter().enumerate() {
        let mark = styled(style, &format!("{mark:6}"));
        let head = if n == 0 { format!("  {mark}{:id_width$}  ", finding.id) } else { " ".repeat(indent) };
        let _ = writeln!(out, "{head}{line}");
    }
    out
}

fn labelled(label: &str, text: &str, look: &TextOptions) -> String {
    let lines = wrap(text, beside(ID_COLUMN + 7, look.width));
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        let _ = writeln!(out, "        {}{line}", styled(DIM, &format!("{:7}", if n == 0 { label } else { "" })));
    }
    out
}

fn mark(outcome: Outcome) -> (&'static str, Style) {
    match outcome {
        Outcome::Fail => ("FAIL", FAIL),
        Outcome::Warn => ("WARN", WARN),
        Outcome::Unknown => ("?", UNKNOWN),
        Outcome::Pass => ("ok", OK),
        Outcome::Skip => ("skip", DIM),
    }
}

fn listed(report: &Report, outcome: Outcome, look: &TextOptions) -> String {
    let (mark, style) = mark(outcome);
    let findings = report.findings.iter().filter(|finding| finding.verdict == outcome);
    findings.map(|finding| sentence(finding, mark, style, LONGEST_ID, look)).collect()
}

/// `ok    machine 6 · runtime 7 · network 8     (-v lists them)`.
fn tally(report: &Report, outcome: Outcome, look: &TextOptions) -> String {
    let count = |subsystem| {
        report.findings.iter().filter(|finding| finding.verdict == outcome && finding.subsystem == subsystem).count()
    };
    let counts: Vec<String> = Subsystem::ALL
        .into_iter()
        .map(|subsystem| (subsystem, count(subsystem)))
        .filter(|(_, count)| *count > 0)
        .map(|(subsystem, count)| format!("{} {count}", subsystem.name()))
        .collect();
    if counts.is_empty() {
        return String::new();
    }
    let (mark, style) = mark(outcome);
    let lines = wrap(&format!("{}   (-v lists them)", counts.join(" · ")), look.width.saturating_sub(ID_COLUMN));
    let head = |n| if n == 0 { format!("  {}", styled(style, &format!("{mark:6}"))) } else { " ".repeat(ID_COLUMN) };
    lines.iter().enumerate().map(|(n, line)| format!("{}{line}\n", head(n))).collect()
}

fn ignored(report: &Report) -> String {
    let findings: Vec<&str> =
        report.findings.iter().filter(|finding| finding.ignored).map(|finding| finding.id).collect();
    if findings.is_empty() { String::new() } else { format!("  {} {}\n", styled(DIM, "ignored"), findings.join(", ")) }
}

/// Whether it has joined, and how far it got.
fn joined(report: &Report, reached: Reached) -> String {
    let counts = counts(report);
    let far = match reached.reached {
        Some(reached) => format!("; it got as far as {}", reached.name()),
        None => String::new(),
    };
    match report.verdict {
        Overall::Pass => {
            let (far, proof) = match reached.until {
                Until::Registered => (", as far as registered", "the node is this machine, and its lease renews"),
                Until::Network => (", as far as the network", "the node is registered, and has a pod network"),
                Until::Verified => ("", "the node is Ready, and a pod gets an address"),
            };
            format!("{}{far}: {proof}.{}", styled(OK, "Joined"), from_outside(report))
        }
        Overall::Warn if reached.reached >= Some(reached.until) => {
            format!("{}: {counts}.{}", styled(WARN, "Joined, with warnings"), from_outside(report))
        }
        Overall::Fail => format!("{}: {counts}{far}.", styled(FAIL, "Not joined")),
        Overall::Warn | Overall::Unknown => {
            format!("{}: {counts}{far}.", styled(UNKNOWN, "Cannot tell whether it has joined"))
        }
    }
}

/// Where only this machine's own rules say that others reach it, it is said so.
fn from_outside(report: &Report) -> &'static str {
    let not_proven = "\nNot proven from outside: --kubeconfig FILE has the API server reach it.";
    if is_proven_from_outside(&report.findings) { "" } else { not_proven }
}

/// Whether the API server was seen to reach the kubelet; so it is where that was not asked for.
pub(super) fn is_proven_from_outside(findings: &[Judged]) -> bool {
    let asked = findings.iter().any(|it| it.id == "verify.ready" && it.verdict != Outcome::Skip);
    let reached = findings.iter().find(|it| it.id == "verify.kubelet-reached");
    !asked || reached.is_none_or(|it| matches!(it.verdict, Outcome::Pass | Outcome::Warn))
}

fn summing_up(report: &Report) -> String {
    if let Some(reached) = report.reached {
        return joined(report, reached);
    }
    let counts = counts(report);
    let (good, bad, so_so) = match report.verb {
        "cni lint" => ("Nothing wrong.", "Pods would not get a network", "Works, with care"),
        _ => ("Ready to join.", "Not ready to join", "Can join, with care"),
    };
    match (report.verdict, counts.is_empty()) {
        (Overall::Pass, _) => styled(OK, good),
        (Overall::Fail, _) => format!("{}: {}.", styled(FAIL, bad), counts),
        (Overall::Warn, _) => format!("{}: {}.", styled(WARN, so_so), counts),
        (Overall::Unknown, false) => format!("{}: {}.", styled(UNKNOWN, "Cannot tell"), counts),
        (Overall::Unknown, true) => styled(UNKNOWN, "Cannot tell: nothing was seen."),
    }
}
