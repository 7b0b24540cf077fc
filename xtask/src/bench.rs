//! Measurements, side by side in one run; medians, because machines are noisy. Non-zero where a bar does not hold.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Subcommand;

#[derive(Subcommand)]
pub enum What {
    /// `carrick check` on this machine: under a second
    Check {
        /// How often
        #[arg(long, default_value_t = 9)]
        runs: usize,
    },
}

pub fn run(what: &What) -> anyhow::Result<()> {
    match what {
        What::Check { runs } => check(*runs),
    }
}

/// A person does not notice waiting for less.
const CHECK_BAR: Duration = Duration::from_secs(1);

fn check(runs: usize) -> anyhow::Result<()> {
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

fn release_binary() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--release", "--quiet", "--package", "carrick"]).status()?;
    ensure!(built.success(), "the release build failed");
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    target.join("release/carrick").canonicalize().context("target/release/carrick")
}
