//! The power is cut in mid-join: the next run joins.

use super::{Bench, Case, Needs, join_killed};
use crate::error::Result;
use crate::join::{install, joins};
use crate::machine::Kind;

pub const CASE: Case = Case {
    about: "the power of a machine is cut while kubeadm works, and while the kubelet waits: a second run joins",
    needs: Needs::Cluster,
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    for point in ["joining", "kubelet-up"] {
        let worker = bench.worker(Kind::Debian12)?;
        install(bench, &worker)?;
        join_killed::begin(bench, &worker, point, ":")?;
        worker.power_cycle()?;
        let done = joins(bench, &worker)?;
        bench.time(format!("after {point}"), done.took);
    }
    Ok(())
}
