//! JUnit XML, as CI systems read it: a check is a test case; what could not be told is an error, not a pass. A cause that is no
//! check is a test case that failed.

use std::fmt::Write as _;

use carrick_core::check::{Evidence, Outcome};
use carrick_core::report::{Cause, Judged, Report};
use carrick_core::shown::{INSTEAD, is_unseen};

pub fn render(report: &Report) -> String {
    let count =
        |outcome| report.findings.iter().filter(|finding| finding.verdict == outcome && !finding.ignored).count();
    let is_failing = |cause: &&Cause| {
        report.findings.iter().any(|it| it.id == cause.id && it.verdict == Outcome::Fail && !it.ignored)
    };
    let causes: Vec<&Cause> = report.causes.iter().filter(|cause| !is_failing(cause)).collect();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuite name=\"carrick {}\" hostname=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
        report.verb,
        escape(&report.host),
        report.findings.len() + causes.len(),
        count(Outcome::Fail) + causes.len(),
        count(Outcome::Unknown),
        report.findings.iter().filter(|finding| finding.ignored || finding.verdict == Outcome::Skip).count(),
    );
    for cause in causes {
        let (title, details) = (escape(&cause.title), details(&cause.evidence, &cause.remedy));
        let _ = writeln!(xml, "  <testcase classname=\"cause\" name=\"{}\">", escape(&cause.id));
        let _ = writeln!(xml, "    <failure message=\"{title}\">{details}</failure>\n  </testcase>");
    }
    for finding in &report.findings {
        let _ = write!(xml, "  <testcase classname=\"{}\" name=\"{}\"", finding.subsystem.name(), finding.id);
        match element(finding) {
            Some(element) => {
                let _ = writeln!(xml, ">\n    {element}\n  </testcase>");
            }
            None => xml.push_str("/>\n"),
        }
    }
    xml + "</testsuite>\n"
}

fn element(finding: &Judged) -> Option<String> {
    let message = escape(&finding.title);
    let details = || details(&finding.evidence, &finding.remedy);
    match finding.verdict {
        Outcome::Pass => None,
        _ if finding.ignored => Some(format!("<skipped message=\"ignored: {message}\"/>")),
        Outcome::Skip => Some(format!("<skipped message=\"{message}\"/>")),
        Outcome::Fail => Some(format!("<failure message=\"{message}\">{}</failure>", details())),
        Outcome::Unknown => Some(format!("<error message=\"{message}\">{}</error>", details())),
        Outcome::Warn => Some(format!("<system-out>warning: {message}\n{}</system-out>", details())),
    }
}

fn details(evidence: &[Evidence], remedy: &[String]) -> String {
    let seen = evidence.iter().map(|evidence| format!("seen {evidence}"));
    let lines: Vec<String> = seen.chain(remedy.iter().map(|command| format!("fix {command}"))).collect();
    escape(&lines.join("\n"))
}

/// Text as XML 1.0 can hold it: marks escaped; control characters, which no escape makes legal, and what nobody would see are
/// shown as U+FFFD.
fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if is_unseen(c) => out.push(INSTEAD),
            c => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_shown_as_such() {
        assert_eq!(escape("a<b & \"c\"\x1b[0m\n"), "a&lt;b &amp; &quot;c&quot;\u{fffd}[0m\n");
        assert_eq!(escape("a\0b\u{9b}c\u{202e}d\u{ffff}"), "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}");
    }
}
