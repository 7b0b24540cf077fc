//! `down` leaves the machine as `up` found it.

use super::{Bench, Case};
use crate::demand;
use crate::error::Result;
use crate::need::Need;
use crate::tier::Tier;
use crate::trace::Traces;

pub const CASE: Case = Case {
    about: "after up and down there is no mount, link, control group, process or changed setting that was not there before",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::OwnLab],
    run,
};

const LAB: &str = "case-left";

fn run(bench: &mut Bench) -> Result<()> {
    let before = Traces::of(LAB)?;
    bench.own_lab(LAB, &["up", "--workers", "1", "--join"])?.success()?;
    let during = Traces::of(LAB)?.differ_from(&before);
    for kind in ["new: mount", "new: group", "new: process"] {
        demand!(during.iter().any(|trace| trace.starts_with(kind)), "this case would not see a \"{kind}\"");
    }
    let links: Vec<&String> = during.iter().filter(|trace| trace.contains(": link ")).collect();
    demand!(links.is_empty(), "the machine's own links changed: {links:?}");
    let seen = bench.own_lab(LAB, &["shell", "w1", "systemctl", "is-system-running"])?.out;
    demand!(seen.trim() == "running" || seen.trim() == "degraded", "systemd on w1 says {seen:?}");
    let nodes = bench.own_lab(LAB, &["kubectl", "get", "nodes", "--no-headers"])?.success()?.out;
    demand!(nodes.matches(" Ready ").count() == 2, "kubectl says: {nodes}");
    bench.own_lab(LAB, &["down"])?.success()?;
    Traces::of(LAB)?.same_as(&before, "after down")
}
