//! A machine that lost its power comes back by itself.

use super::{Bench, Case};
use crate::demand;
use crate::error::Result;
use crate::machine::Kind;
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;
use std::time::Duration;

pub const CASE: Case = Case {
    about: "a worker whose power is cut boots again, is the same machine, and becomes Ready without help",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    let worker = bench.worker(Kind::Debian12)?;
    let name = worker.identity.name.clone();
    cluster.join(&worker)?;
    cluster.wait_ready(&name)?;
    let before = cluster.get(["node", &name])?["status"]["nodeInfo"].clone();
    let boot = worker.power_cycle()?;
    bench.time("boot", boot);
    let rebooted = wait_for("the Node to tell of the new boot", Duration::from_secs(90), || {
        let now = cluster.get(["node", &name])?["status"]["nodeInfo"].clone();
        Ok(if now["bootID"] == before["bootID"] { Polled::NotYet(now.to_string()) } else { Polled::Seen(now) })
    })?;
    demand!(rebooted["machineID"] == before["machineID"], "machineID changed: {rebooted}");
    demand!(rebooted["systemUUID"] == before["systemUUID"], "systemUUID changed: {rebooted}");
    let ready = cluster.wait_ready(&name)?;
    bench.time("Ready", ready);
    Ok(())
}
