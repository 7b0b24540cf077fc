//! Two machines with one UUID, as guests of one container host have it, and one that was set up anew: by their machine-ids they are
//! not told apart. What is heard of the old one's kubelet tells.

use std::sync::Arc;
use std::time::Duration;

use super::join_renamed::kubelet;
use super::{Bench, Case};
use crate::carrick::holds;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, bring_admin, fresh, is_joined, join, judge, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "same UUID, another machine-id: refused while the other's kubelet is alive, by its lease or by Ready; joined, and said so, once nobody keeps the Node",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(5)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const REFUSED: Ends = Ends::Cause("api.node-name", 3);
const TWO: &str = "is another machine's with the same UUID, and its kubelet is alive";
/// A kubelet renews its lease every 10 s, and carrick looks every 5 s.
const SEEN_RENEWED: Duration = Duration::from_secs(40);

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, first) = (bench.cluster()?, fresh(bench)?);
    let name = first.identity.name.clone();
    cluster.join(&first)?;
    cluster.wait_ready(&name)?;
    let lease = format!("lease/{name}");
    cluster.kubectl(["wait", "--for=create", "-n", "kube-node-lease", &lease, "--timeout=30s"]).ok()?;
    let (second, pid) = (guest(bench, &first)?, kubelet(&first)?);
    let admin = bring_admin(cluster, &second)?;
    for (words, input) in [(&["--kubeconfig", admin][..], String::new()), (&["-"], line(cluster))] {
        let done = join(&second, &[], words, &input)?;
        bench.time(format!("refused, {}", words[0]), done.took);
        holds(bench, &format!("join {}", words.join(" ")), &done, 3, &[TWO, "--node-name"])?;
        judge(&REFUSED, &done)?;
        demand!(words.len() == 1 || done.took < SEEN_RENEWED, "its lease was seen renewed after {:?} only", done.took);
        nothing_left(&second)?;
        is_of(bench, &name, &first)?;
        demand!(kubelet(&first)? == pid, "the living node has another kubelet");
    }
    cluster.wait_ready(&name)?;
    // The remedy.
    let own = second.identity.name.clone();
    let done = join(&second, &[], &["--node-name", &own, "-"], &line(cluster))?;
    holds(bench, "join --node-name OTHER -", &done, 0, &["joined: verified after"])?;
    is_joined(cluster, &second)?;

    let third = guest(bench, &first)?;
    first.cut_power()?;
    cluster.declare_lost(&name)?;
    let done = join(&third, &[], &["-"], &line(cluster))?;
    bench.time("set up anew", done.took);
    let says = ["and no kubelet keeps it alive: this machine was set up anew", "joined: verified after"];
    holds(bench, "join -", &done, 0, &says)?;
    nothing_left(&third)?;
    cluster.wait_ready(&name)?;
    is_of(bench, &name, &third)
}

/// A fresh machine with the name and the UUID of another, and a machine-id of its own.
fn guest(bench: &mut Bench, of: &Machine) -> Result<Arc<Machine>> {
    let machine = fresh(bench)?;
    let told = machine.read("/etc/lab-machine")?.replace(&machine.identity.system_uuid, &of.identity.system_uuid);
    machine.write("/etc/lab-machine", &told)?;
    machine.power_cycle()?;
    let uuid = machine.ok(["cat", "/sys/class/dmi/id/product_uuid"])?;
    demand!(uuid.trim() == of.identity.system_uuid, "its UUID is {uuid}");
    machine.ok(["hostname", &of.identity.name])?;
    Ok(machine)
}

/// The Node is this machine, by its machine-id.
fn is_of(bench: &Bench, name: &str, machine: &Machine) -> Result<()> {
    let node = bench.cluster()?.get(["node", name])?;
    let (is, expected) = (&node["status"]["nodeInfo"]["machineID"], &machine.identity.machine_id);
    demand!(is == expected.as_str(), "the Node is the machine {is}, not {expected}");
    Ok(())
}
