//! `carrick controller` with 500 nodes of real size: what `cargo xtask bench controller` asks, as far as no clock is needed for it.

use super::{Bench, Case};
use crate::bench_controller::without_a_clock;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::need::Need;
use crate::say;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "500 nodes of real size: one write a node and change, one status a second at most, none for a restart and heartbeats, and little memory",
    tier: Tier::Quick,
    covers: &[Covers::Verb("controller"), Covers::Promise(9)],
    needs: &[Need::ApiServer],
    run,
};

const NODES: u32 = 500;

fn run(bench: &mut Bench) -> Result<()> {
    let (carrick, log) = (bench.carrick()?, bench.logs.join("controller.log"));
    for (says, holds) in without_a_clock(&carrick, NODES, log)? {
        demand!(holds, "does not hold: {says}");
        say::line(&says);
    }
    Ok(())
}
