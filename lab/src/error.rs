//! What can go wrong in the lab, each with the words a person needs: what was being done, and to what.

use std::io;
use std::path::Path;
use std::time::Duration;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Said(String),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("`{command}` {ending}{}", indented(.said))]
    Command { command: String, ending: String, said: String },
    #[error("stopped, as it was asked to")]
    Stopped,
    #[error("waited {:.0} s for {what}{}", .after.as_secs_f64(), indented(.last))]
    Deadline { what: String, after: Duration, last: String },
}

/// Output of a command under the sentence that quotes it, its last lines only: that is where programs say why.
fn indented(said: &str) -> String {
    const LINES: usize = 15;
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LINES);
    lines.iter().skip(from).flat_map(|line| ["\n    ", line]).collect()
}

pub fn said<T>(words: impl Into<String>) -> Result<T> {
    Err(Error::Said(words.into()))
}

/// Says what was being done when the system refused.
pub trait During<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;

    fn at(self, verb: &str, path: &Path) -> Result<T>
    where
        Self: Sized,
    {
        self.during(|| format!("cannot {verb} {}", path.display()))
    }
}

impl<T, E: Into<io::Error>> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source: source.into() })
    }
}

/// A case's assertion: ends it with these words where the condition does not hold.
#[macro_export]
macro_rules! demand {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return $crate::error::said(format!($($words)+));
        }
    };
}
