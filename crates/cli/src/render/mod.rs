//! A report as text for people, as JSON for programs, as JUnit for CI, as a page to pass on.

use carrick_core::check::Outcome;
use carrick_core::report::Report;
use clap::ValueEnum;

mod diagnosis;
mod html;
pub mod join;
mod json;
mod junit;
mod network;
mod text;
pub mod wrap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Junit,
    Html,
}

/// What the text form needs to know beside the report.
pub struct TextOptions {
    pub width: usize,
    /// Also what passes and what is skipped, a line each.
    pub verbose: bool,
    /// How long the looking took; a report without it is the same every time.
    pub took: Option<std::time::Duration>,
}

/// `2 failures, 1 warning`: what counts of the findings; empty where nothing does.
fn counts(report: &Report) -> String {
    let counts = [
        (Outcome::Fail, "failure", "failures"),
        (Outcome::Warn, "warning", "warnings"),
        (Outcome::Unknown, "unknown", "unknown"),
    ];
    let count = |(outcome, one, many)| {
        let count = report.findings.iter().filter(|finding| finding.verdict == outcome && !finding.ignored).count();
        (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
    };
    counts.into_iter().filter_map(count).collect::<Vec<String>>().join(", ")
}

pub fn render(report: &Report, format: Format, look: &TextOptions) -> Result<String, serde_json::Error> {
    match format {
        Format::Text => Ok(match &report.reading {
            Some(reading) if report.verb != "diagnose" => network::render(report, reading, look),
            Some(reading) => diagnosis::render(report, reading, look),
            None => text::render(report, look),
        }),
        Format::Json => json::render(report),
        Format::Junit => Ok(junit::render(report)),
        Format::Html => Ok(html::render(report)),
    }
}

#[cfg(test)]
mod tests {
    use carrick_core::check::CheckPolicy;
    use carrick_core::fact::example;
    use carrick_core::judge::{self, Ignore};

    use super::*;

    fn report() -> Report {
        let ignore = Ignore::of(["time.synchronised"]).unwrap();
        judge::check(&example::troubled_worker(), &CheckPolicy::default(), &ignore)
    }

    fn rendered(format: Format, verbose: bool) -> String {
        render(&report(), format, &TextOptions { width: 80, verbose, took: None }).unwrap()
    }

    #[test]
    fn as_text() {
        insta::assert_snapshot!(anstream::adapter::strip_str(&rendered(Format::Text, true)).to_string());
    }

    #[test]
    fn as_json_on_one_line() {
        let json = rendered(Format::Json, false);
        assert_eq!(json.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn a_join_that_was_proven_or_not() {
        use carrick_core::fact::Why;
        use carrick_core::join::verify::{self, NodeEvidence, Until, testing};
        let joined = testing::joined;
        let runtime = verify::RuntimeConditions { ready: true, network_ready: false, says: "no network config".into() };
        let never = NodeEvidence {
            kubelet: Ok(verify::Kubelet::default()),
            certificate: Err(Why::Absent),
            ..NodeEvidence::default()
        };
        let never = NodeEvidence { runtime: Ok(runtime.clone()), ..never };
        let rows = [
            ("joined", joined(), Until::Verified),
            ("as far as asked", NodeEvidence { runtime: Err(Why::TimedOut), ..joined() }, Until::Registered),
            ("never joined", never, Until::Verified),
            (
                "Ready, and no pod can start",
                NodeEvidence {
                    sandbox: Err(Why::Broken("failed to find plugin \"flannel\" in path [/opt/cni/bin]".into())),
                    ..joined()
                },
                Until::Verified,
            ),
            (
                "Node deleted",
                NodeEvidence { node: Err(Why::Absent), lease: Err(Why::Absent), ..joined() },
                Until::Verified,
            ),
            (
                "no network",
                NodeEvidence { runtime: Ok(runtime), sandbox: Err(Why::NotCollected), ..joined() },
                Until::Network,
            ),
            (
                "no API server",
                NodeEvidence { node: Err(Why::TimedOut), lease: Err(Why::TimedOut), ..joined() },
                Until::Verified,
            ),
        ];
        let text: String = rows
            .iter()
            .map(|(name, seen, until)| {
                let report = verify::report("w1", seen, *until);
                let text =
                    render(&report, Format::Text, &TextOptions { width: 80, verbose: false, took: None }).unwrap();
                format!("--- {name}: {:?}\n{text}", report.verdict)
            })
            .collect();
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
    }

    #[test]
    fn as_junit() {
        insta::assert_snapshot!(rendered(Format::Junit, false));
    }

    #[test]
    fn every_line_of_the_text_fits_but_commands() {
        let text = rendered(Format::Text, false);
        let text = anstream::adapter::strip_str(&text).to_string();
        let command = |line: &str| line.starts_with("        fix") || line.starts_with("               ");
        for line in text.lines().skip(1).filter(|line| !command(line)) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
