//! What the lab tells the person who waits: lines with the time since it began. Several threads may speak.
#![allow(clippy::print_stdout)] // Telling is what this module is for.

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

static BEGUN: OnceLock<Instant> = OnceLock::new();

pub fn begin() {
    BEGUN.get_or_init(Instant::now);
}

/// One line with the time since the beginning before it.
pub fn line(words: &str) {
    let elapsed = BEGUN.get_or_init(Instant::now).elapsed();
    plain(&format!("{:>7} {words}", seconds(elapsed)));
}

/// A line as it is. A reader that went away (`| head`) is no reason to stop.
pub fn plain(words: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{words}");
}

pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
