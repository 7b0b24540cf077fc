//! A report as text for people, as JSON for programs, as JUnit for CI.

use carrick_core::report::Report;
use clap::ValueEnum;

mod json;
mod junit;
mod text;
pub mod wrap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Junit,
}

/// What the text form needs to know beside the report.
pub struct Look {
    pub width: usize,
    /// Also what passes and what is skipped, a line each.
    pub verbose: bool,
    /// How long the looking took; a report without it is the same every time.
    pub took: Option<std::time::Duration>,
}

pub fn render(report: &Report, format: Format, look: &Look) -> Result<String, serde_json::Error> {
    match format {
        Format::Text => Ok(text::render(report, look)),
        Format::Json => json::render(report),
        Format::Junit => Ok(junit::render(report)),
    }
}
