//! The pod network for the person at the terminal: what keeps it from working, then how it stands piece by piece, then
//! what else the checks say of it.

use std::fmt::Write as _;

use carrick_core::check::Outcome;
use carrick_core::report::{Judged, Overall, Reading, Report};

use super::{TextOptions, counts, diagnosis, text};
use crate::terminal::{FAIL, OK, UNKNOWN, WARN, styled};

pub fn render(report: &Report, reading: &Reading, look: &TextOptions) -> String {
    let mut out = text::heading(report, look);
    for (n, cause) in report.causes.iter().enumerate() {
        out.push_str(&diagnosis::cause(cause, n, reading, look));
    }
    out.push_str(&diagnosis::pod_network(reading, look));
    let is_cause = |finding: &Judged| report.causes.iter().any(|cause| cause.id == finding.id);
    let rest = report.findings.iter().filter(|finding| finding.verdict > Outcome::Pass && !is_cause(finding));
    let rest: Vec<&Judged> = rest.collect();
    let width = rest.iter().map(|finding| finding.id.len()).max().unwrap_or_default().min(text::LONGEST_ID);
    if !rest.is_empty() {
        out.push('\n');
    }
    for finding in rest {
        out.push_str(&text::block(finding, width, look));
    }
    let _ = writeln!(out, "\n{}", summing_up(report, reading));
    out
}

fn summing_up(report: &Report, reading: &Reading) -> String {
    let none = reading.pod_network.iter().any(|piece| piece.expected);
    match (report.verdict, report.causes.first()) {
        (Overall::Pass, _) if none => styled(OK, "No pod network yet: normal before a join."),
        (Overall::Pass, _) => {
            format!("{} A sandbox proves it: carrick cni wait --probe", styled(OK, "Nothing wrong that can be seen."))
        }
        (Overall::Fail, Some(cause)) => format!("{}: {}.", styled(FAIL, "Pods get no network"), cause.id),
        (Overall::Fail, None) => format!("{}: {}.", styled(FAIL, "Pods get no network"), counts(report)),
        (Overall::Warn, _) => format!("{}: {}.", styled(WARN, "Not as it should be"), counts(report)),
        (Overall::Unknown, _) => format!("{}: {}.", styled(UNKNOWN, "Cannot tell"), counts(report)),
    }
}
