//! `up`, killed without warning at several points, leaves nothing that the next `up` or `down` would not deal with.

use std::time::{Duration, Instant};

use super::{Bench, Case};
use crate::demand;
use crate::error::Result;
use crate::need::Need;
use crate::tier::Tier;
use crate::trace::Traces;

pub const CASE: Case = Case {
    about: "up is killed while it boots, and while kubeadm init runs; down clears all of it, and up works again",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::OwnLab],
    run,
};

const LAB: &str = "case-killed";

fn run(bench: &mut Bench) -> Result<()> {
    let before = Traces::of(LAB)?;
    for after in [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(6)] {
        bench.kill_after("starting the control plane", after, LAB, &["up"])?;
        let left = Traces::of(LAB)?.differ_from(&before);
        demand!(!left.is_empty(), "killed after {after:?} and nothing was left: the case proves nothing");
        bench.own_lab(LAB, &["down"])?.success()?;
        Traces::of(LAB)?.same_as(&before, &format!("killed after {after:?}, then down"))?;
    }
    bench.kill_after("starting the control plane", Duration::from_secs(4), LAB, &["up"])?;
    let begun = Instant::now();
    let up = bench.own_lab(LAB, &["up"])?.success()?;
    bench.time("up after a kill", begun.elapsed());
    demand!(up.out.contains("taking away what an earlier run left behind"), "it does not say so: {}", up.out);
    bench.own_lab(LAB, &["down"])?.success()?;
    Traces::of(LAB)?.same_as(&before, "after down")
}
