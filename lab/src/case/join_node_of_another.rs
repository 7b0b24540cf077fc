//! The Node of the machine's name is another machine's: alive, it is nobody's to take; down, it is only for who says so.

use jiff::SignedDuration;

use super::{Bench, Case};
use crate::carrick::holds;
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, bring_admin, fresh, join, judge, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "a living machine's Node is refused with --replace-node too, and to an admin; one that is down is taken over with it alone, and removed by an admin",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(5)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// A lease is good for 40 s: who has not renewed it for longer is not alive.
const DEAD: SignedDuration = SignedDuration::from_secs(60);

const REFUSED: Ends = Ends::Cause("api.node-name", 3);

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, first, second) = (bench.cluster()?, fresh(bench)?, fresh(bench)?);
    cluster.join(&first)?;
    cluster.wait_ready(&first.identity.name)?;
    second.ok(["hostname", &first.identity.name])?;
    alive(bench, &first, &second)?;
    first.cut_power()?;
    cluster.declare_lost(&first.identity.name)?;
    down(bench, &first, &second)?;
    second.cut_power()?;
    removed(bench, &first)
}

/// With an admin's rights the Node of a machine that is gone is not taken over, but made anew.
fn removed(bench: &mut Bench, named: &Machine) -> Result<()> {
    let (cluster, third, name) = (bench.cluster()?, fresh(bench)?, &named.identity.name);
    third.ok(["hostname", name])?;
    cluster.age_lease(name, DEAD)?;
    let before = cluster.get(["node", name])?;
    let admin = bring_admin(cluster, &third)?;
    let done = join(&third, &[], &["--replace-node", "--kubeconfig", admin], "")?;
    bench.time("--replace-node by an admin", done.took);
    let says = ["removing it, as --replace-node says", "joined: verified after"];
    holds(bench, "join --replace-node --kubeconfig", &done, 0, &says)?;
    nothing_left(&third)?;
    is_of(cluster, named, &third)?;
    let after = cluster.get(["node", name])?;
    demand!(before["metadata"]["uid"] != after["metadata"]["uid"], "it is the same Node: {after}");
    Ok(())
}

fn alive(bench: &mut Bench, first: &Machine, second: &Machine) -> Result<()> {
    let cluster = bench.cluster()?;
    let admin = bring_admin(cluster, second)?;
    for (words, input) in
        [(&["--replace-node", "-"][..], line(cluster)), (&["--replace-node", "--kubeconfig", admin], String::new())]
    {
        refused(bench, second, words, &input, "is another machine's, and it is alive")?;
        is_of(cluster, first, first)?;
    }
    cluster.wait_ready(&first.identity.name).map(drop)
}

fn down(bench: &mut Bench, first: &Machine, second: &Machine) -> Result<()> {
    let cluster = bench.cluster()?;
    refused(bench, second, &["-"], &line(cluster), "if that machine is gone for good: --replace-node")?;
    is_of(cluster, first, first)?;
    let done = join(second, &[], &["--replace-node", "-"], &line(cluster))?;
    bench.time("--replace-node", done.took);
    let says = ["this machine takes it over, as --replace-node says", "joined: verified after"];
    holds(bench, "join --replace-node -", &done, 0, &says)?;
    nothing_left(second)?;
    cluster.wait_ready(&first.identity.name)?;
    is_of(cluster, first, second)
}

fn refused(bench: &mut Bench, machine: &Machine, words: &[&str], input: &str, says: &str) -> Result<()> {
    let done = join(machine, &[], words, input)?;
    holds(bench, &format!("join {}", words.join(" ")), &done, 3, &[says])?;
    judge(&REFUSED, &done)?;
    nothing_left(machine)
}

/// The Node by the name of the one machine is the other.
fn is_of(cluster: &Cluster, named: &Machine, machine: &Machine) -> Result<()> {
    let node = cluster.get(["node", &named.identity.name])?;
    let (is, expected) = (&node["status"]["nodeInfo"]["systemUUID"], &machine.identity.system_uuid);
    demand!(is == expected.as_str(), "the Node is the machine {is}, not {expected}");
    Ok(())
}
