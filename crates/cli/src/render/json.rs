//! One object on one line: several machines make several lines.

use carrick_core::report::Report;

pub fn render(report: &Report) -> Result<String, serde_json::Error> {
    serde_json::to_string(report).map(|line| line + "\n")
}
