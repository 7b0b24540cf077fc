//! `test`, killed while its machines run, does not stand in the way of the next `test`.

use std::time::Duration;

use super::{Bench, Case};
use crate::demand;
use crate::error::Result;
use crate::need::Need;
use crate::tier::Tier;
use crate::trace::Traces;

pub const CASE: Case = Case {
    about: "test is killed while a case runs; the next test passes, and nothing is left",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::OwnLab],
    run,
};

const LAB: &str = "case-tested";

fn run(bench: &mut Bench) -> Result<()> {
    let before = Traces::of(LAB)?;
    bench.kill_after("control plane Ready", Duration::from_secs(2), LAB, &["test", "join-debian12"])?;
    let again = bench.own_lab(LAB, &["test", "join-debian12"])?.success()?;
    demand!(again.out.contains("1 passed, 0 failed"), "it says: {}", again.out);
    Traces::of(LAB)?.same_as(&before, "after the second test")
}
