//! The project's own chores: `cargo xtask lab …`, `bench …`, `docs`, `fmt`, `fuzz`, `promises`, `score`, `dependencies`, `example`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // Its output is its purpose.
#![allow(unreachable_pub)] // A program has no outside: `pub` says what a module offers to the others.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod dependencies;
mod docs;
mod example;
mod fmt;
mod fuzz;
mod lab;
mod promises;
mod score;

#[derive(Parser)]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Real Kubernetes on this machine: build, up, down, test, fault, capture, shell, kubectl
    #[command(disable_help_flag = true)]
    Lab {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Measure, and hold the figures against their bars
    Bench {
        #[command(subcommand)]
        what: bench::What,
    },
    /// Write docs/reference from the code
    Docs {
        /// Only say whether it is up to date
        #[arg(long)]
        check: bool,
    },
    /// Format every Rust file of the tree
    Fmt {
        /// Only say whether there is something to do
        #[arg(long)]
        check: bool,
    },
    /// Feed any bytes to everything that reads bytes; needs a nightly compiler and cargo-fuzz
    Fuzz {
        /// For each target, one after the other
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// Names of fuzz/fuzz_targets; all without one
        names: Vec<String>,
    },
    /// Break what Carrick promises, one line at a time, and see that a test notices
    Promises {
        /// Names of promises.toml; all without one
        names: Vec<String>,
    },
    /// How often `carrick diagnose` names the true root first, over a folder of cases
    Score {
        folder: std::path::PathBuf,
        /// Only this part of the cases; both without
        #[arg(long, value_enum)]
        part: Vec<score::Part>,
    },
    /// Hold licences, bans and sources of all dependencies against deny.toml
    Dependencies,
    /// Turn a bundle into the example machine that `carrick demo` and the tests judge
    Example { bundle: std::path::PathBuf },
}

/// Where cargo builds.
fn target() -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), std::path::PathBuf::from)
}

fn main() -> ExitCode {
    let done = match Xtask::parse().chore {
        Chore::Lab { arguments } => Err(lab::run(&arguments).into()),
        Chore::Bench { what } => bench::run(&what),
        Chore::Docs { check } => docs::run(check),
        Chore::Fmt { check } => fmt::run(check),
        Chore::Fuzz { minutes, names } => fuzz::run(minutes, &names),
        Chore::Promises { names } => promises::run(&names),
        Chore::Score { folder, part } => score::run(&folder, &part),
        Chore::Dependencies => dependencies::run(),
        Chore::Example { bundle } => example::run(&bundle),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
