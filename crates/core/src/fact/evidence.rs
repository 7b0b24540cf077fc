//! A piece of a capture, with its place in it.
//!
//! Shared: facts and lines of logs cite it, checks show it, reports print it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Capture;

/// The very place where something was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    pub text: String,
}

impl Evidence {
    pub fn of(source: impl Into<String>, text: impl Into<String>) -> Self {
        Evidence { source: source.into(), line: None, text: text.into() }
    }

    pub fn at(source: impl Into<String>, line: u32, text: impl Into<String>) -> Self {
        Evidence { source: source.into(), line: Some(line), text: text.into() }
    }

    /// The first line of a capture that contains a text, cited with its number.
    pub fn line_with(source: &str, capture: &Capture, needle: &str) -> Option<Self> {
        let (number, line) = capture.lines().find(|(_, line)| line.contains(needle))?;
        Some(Evidence::at(source, number, line.trim()))
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.source.is_empty()) {
            (Some(line), _) => write!(f, "{}:{line}  {}", self.source, self.text),
            (None, false) => write!(f, "{}: {}", self.source, self.text),
            (None, true) => f.write_str(&self.text),
        }
    }
}

impl IntoIterator for Evidence {
    type Item = Evidence;
    type IntoIter = std::iter::Once<Evidence>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}
