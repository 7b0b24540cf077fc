//! A node that is Ready and short of memory, by its kubelet's own measure: neither `verify` nor `join` calls it joined.

use std::time::Duration;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::cluster::condition;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, join, joins, judge, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "verify and join of a node under MemoryPressure: told within seconds, not joined; joined once it is over",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("verify"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// No machine has so much to spare; with all of it, or more, a kubelet does not start.
const PRESSES: &str = "echo 'KUBELET_EXTRA_ARGS=--eviction-hard=memory.available<99.99%' >/etc/default/kubelet; systemctl restart kubelet";
const RELIEVES: &str = "rm /etc/default/kubelet; systemctl restart kubelet";
/// The kubelet measures every ten seconds, and tells as often.
const MEASURED: Duration = Duration::from_mins(1);
const SAYS: &str = "is short of memory and takes no pods";

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let (cluster, worker) = (bench.cluster()?, bench.worker(Kind::Debian12)?);
    let (carrick, name) = (Carrick::on(&worker, &program)?, worker.identity.name.clone());
    joins(bench, &worker)?;
    worker.run(["sh", "-ec", PRESSES]).ok()?;
    wait_for("the node to be under pressure", MEASURED, || {
        let node = cluster.get(["node", &name])?;
        let pressure = condition(&node, "MemoryPressure")["status"].clone();
        Ok(if pressure == "True" { Polled::Seen(()) } else { Polled::NotYet(pressure.to_string()) })
    })?;
    carrick.ends(bench, "verify", 3, &["verify.pressure", SAYS])?;
    let done = join(&worker, &[], &["-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
    judge(&Ends::Cause("node.memory-pressure", 6), &done)?;
    demand!(done.text().contains(SAYS), "{}", done.text());
    worker.run(["sh", "-ec", RELIEVES]).ok()?;
    joins(bench, &worker).map(drop)
}
