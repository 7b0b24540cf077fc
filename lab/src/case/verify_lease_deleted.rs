//! Somebody deletes the lease of a node that works: its kubelet makes it anew within seconds, and `carrick verify` waits for that.

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::error::Result;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick verify right after the node's lease was deleted: it looks again until the kubelet has made it anew, and ends with 0",
    tier: Tier::Standard,
    covers: &[Covers::Verb("verify"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let cluster = bench.cluster()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    cluster.join(&worker)?;
    cluster.wait_ready(&worker.identity.name)?;
    carrick.ends(bench, "verify", 0, &[])?;
    for _ in 0..3 {
        cluster.kubectl(["-n", "kube-node-lease", "delete", "lease", &worker.identity.name]).ok()?;
        let done = carrick.ends(bench, "verify", 0, &["its lease is renewing"])?;
        bench.time("a lease that was deleted", done.took);
    }
    Ok(())
}
