//! `carrick reset` and `carrick join`, again and again on one machine, by nobody but carrick: no cycle may fail.

use std::time::Duration;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::error::Result;
use crate::join::joins;
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;
use crate::times::Times;
use crate::{demand, say};

pub const CASE: Case = Case {
    about: "carrick reset and carrick join, again and again without a failure; after each tenth and the last a pod answers",
    tier: Tier::Quick,
    covers: &[Covers::Verb("reset"), Covers::Verb("join")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// A pod takes as long as a join: not after each.
const POD_EVERY: u32 = 10;
/// A kubelet ends a pod that was deleted within a second or two, and may be busy.
const POD_ENDS: Duration = Duration::from_mins(1);

fn run(bench: &mut Bench) -> Result<()> {
    let cycles = bench.tier.cycles()?;
    let program = bench.carrick()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    let cluster = bench.cluster()?;
    joins(bench, &worker)?;
    let (mut resets, mut rejoins) = (Times::default(), Times::default());
    for cycle in 1..=cycles {
        let reset = carrick.ends(bench, "reset --yes", 0, &["can join again"])?.took;
        let join = joins(bench, &worker)?.took;
        is_schedulable(cluster, &worker)?;
        resets.push(reset);
        rejoins.push(join);
        let (reset, join) = (say::seconds(reset), say::seconds(join));
        say::line(&format!("cycle {cycle} of {cycles}: reset {reset}, join {join}"));
        if cycle % POD_EVERY == 0 || cycle == cycles {
            let answered = cluster.pod_answers(&worker)?;
            say::line(&format!("a pod answered after {}", say::seconds(answered)));
            pod_has_ended(&worker)?;
        }
    }
    for (what, times) in [("reset", &resets), ("join", &rejoins)] {
        bench.time(format!("{what}: median"), times.median());
        bench.time("slowest", times.slowest());
    }
    Ok(())
}

/// What carrick's reset has cordoned, carrick's join opens again.
fn is_schedulable(cluster: &Cluster, worker: &Machine) -> Result<()> {
    let node = cluster.get(["node", &worker.identity.name])?;
    demand!(node["spec"]["unschedulable"] != true, "the Node is still cordoned after the join: {}", node["metadata"]);
    Ok(())
}

/// Reset refuses a machine on which a pod runs that nothing would start elsewhere, and so it should.
fn pod_has_ended(worker: &Machine) -> Result<()> {
    let filter = format!("labels.\"io.kubernetes.pod.name\"==web-{}", worker.identity.name);
    wait_for("the pod's containers to end", POD_ENDS, || {
        let own = worker.ok(["ctr", "-n", "k8s.io", "containers", "ls", "-q", &filter])?;
        let running = worker.ok(["ctr", "-n", "k8s.io", "tasks", "ls", "-q"])?;
        let left: Vec<&str> = own.lines().filter(|id| running.lines().any(|task| task == *id)).collect();
        Ok(if left.is_empty() { Polled::Seen(()) } else { Polled::NotYet(left.join(" ")) })
    })
}
