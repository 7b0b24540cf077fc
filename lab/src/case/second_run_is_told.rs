//! Two runs at once: the second is told who holds the lab.

use super::{Bench, Case};
use crate::demand;
use crate::error::Result;
use crate::lab::Lab;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "while one run holds a lab, another ends at once and says which process holds it, and since when",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::OwnLab],
    run,
};

const LAB: &str = "case-held";

fn run(bench: &mut Bench) -> Result<()> {
    let held = Lab::take(bench.cache, LAB)?;
    for verb in ["up", "down", "test"] {
        let told = bench.own_lab(LAB, &[verb])?;
        demand!(told.code() == 1, "{verb} ended with {}", told.status);
        for word in
            [&format!("the lab \"{LAB}\" is in use"), &format!("(process {}) holds it since ", std::process::id())]
        {
            demand!(told.err.contains(word.as_str()), "{verb} does not say {word:?}: {}", told.err);
        }
    }
    drop(held);
    bench.own_lab(LAB, &["down"])?.success()?;
    Ok(())
}
