//! The power is cut in mid-join: the next run joins.

use super::{Bench, Case, join_killed};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{JOINS, install, joins};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "the power of a machine is cut while kubeadm works, and while the kubelet waits: a second run joins",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    for point in ["joining", "kubelet-up"] {
        let worker = bench.worker(Kind::Debian12)?;
        install(bench, &worker)?;
        join_killed::begin(bench, &worker, point, "kill -0 $join || { cat /root/events; exit 8; }")?;
        worker.power_cycle()?;
        let recorded = worker.ok(["sh", "-c", &format!("cat {JOINS}/*.log")])?;
        demand!(!recorded.contains(" joined: "), "it had joined before the power was cut:\n{recorded}");
        let done = joins(bench, &worker)?;
        bench.time(format!("after {point}"), done.took);
    }
    Ok(())
}
