//! The fuzz targets still build: nobody runs them in CI, and what is not built rots.

use std::time::{Duration, Instant};

use super::{Bench, Case, workspace};
use crate::error::Result;
use crate::machine::net;
use crate::need::{CXX, Need};
use crate::run::Run;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "every target in fuzz/ builds (plainly: fuzzing itself needs a nightly compiler and cargo-fuzz)",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::Tool(CXX)],
    run,
};

/// A workspace of its own: all dependencies are built anew where nobody has built it before.
const DEADLINE: Duration = Duration::from_mins(20);

fn run(bench: &mut Bench) -> Result<()> {
    let begun = Instant::now();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = workspace().join("fuzz/Cargo.toml");
    // Crates that are not there yet come from outside the lab.
    net::enter_outer()?;
    let run = Run::new(cargo).args(["build", "--locked", "--quiet", "--bins", "--manifest-path"]).arg(manifest);
    let built = run.deadline(DEADLINE).narrated("building the fuzz targets").ok();
    bench.lab.enter()?;
    bench.time("built", begun.elapsed());
    built.map(drop)
}
