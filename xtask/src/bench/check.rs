//! `carrick check` on this machine.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::release_binary;

/// A person does not notice waiting for less.
const CHECK_BAR: Duration = Duration::from_secs(1);

pub fn check(runs: usize) -> anyhow::Result<()> {
    ensure!(runs > 0, "--runs 0 measures nothing");
    let carrick = release_binary()?;
    let mut walls = Vec::new();
    for _ in 0..runs {
        let begun = Instant::now();
        let status = Command::new(&carrick).args(["check", "-o", "json"]).stdout(Stdio::null()).status()?;
        walls.push(begun.elapsed());
        ensure!(matches!(status.code(), Some(0 | 3 | 4)), "carrick check ended with {status}");
    }
    walls.sort();
    let (median, fastest, slowest) = (walls[runs / 2], walls[0], walls[runs - 1]);
    println!("| what | median | fastest | slowest | bar |\n|---|---|---|---|---|");
    println!("| carrick check, {runs} runs, wall | {median:.0?} | {fastest:.0?} | {slowest:.0?} | < {CHECK_BAR:?} |");
    if median >= CHECK_BAR {
        bail!("bench check: the median is over the bar");
    }
    println!("bench check: the bar holds");
    Ok(())
}
