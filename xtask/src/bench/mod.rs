//! Measurements, side by side in one run; medians, because machines are noisy. Non-zero where a bar does not hold.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Subcommand;

mod check;
mod controller;
mod diagnose;
mod extended;
mod join;

#[derive(Subcommand)]
pub enum What {
    /// `carrick check` on this machine: under a second
    Check {
        /// How often
        #[arg(long, default_value_t = 9)]
        runs: usize,
    },
    /// `carrick diagnose` on a gigabyte of kubelet journal, beside ripgrep and grep
    Diagnose {
        /// How large the journal is, in megabytes
        #[arg(long, default_value_t = 1000)]
        megabytes: u64,
        /// How often
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// `carrick controller` on a real API server, beside a bare client that writes the same: throughput, memory, CPU, writes
    Controller {
        /// How many nodes, one cluster after the other
        #[arg(long, value_delimiter = ',', default_values_t = [1_000, 5_000, 15_000])]
        nodes: Vec<u32>,
        /// How often both flip all nodes there and back
        #[arg(long, default_value_t = 2)]
        rounds: u32,
        /// For how many seconds nothing but heartbeats comes
        #[arg(long, default_value_t = 30)]
        steady: u64,
    },
    /// `carrick join` to its end, beside plain `kubeadm join` until the node works: real machines in the lab
    Join {
        /// How often each
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// The lab it is done in
        #[arg(long)]
        lab: Option<String>,
    },
}

pub fn run(what: &What) -> anyhow::Result<()> {
    match what {
        What::Check { runs } => check::check(*runs),
        What::Diagnose { megabytes, runs } => diagnose::diagnose(*megabytes, *runs),
        What::Controller { nodes, rounds, steady } => controller::controller(nodes, *rounds, *steady),
        What::Join { runs, lab } => join::join(*runs, lab.as_deref()),
    }
}

pub fn release_binary() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--release", "--quiet", "--package", "carrick"]).status()?;
    ensure!(built.success(), "the release build failed");
    crate::target().join("release/carrick").canonicalize().context("target/release/carrick")
}
