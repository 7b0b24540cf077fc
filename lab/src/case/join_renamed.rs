//! A node whose host got another name since it joined: it is the node it was, and no join touches it. What the name breaks at the
//! kubelet's next start is told before, and named after.

use super::{Bench, Case};
use crate::carrick::{Carrick, PLACE, holds};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{fresh, is_joined, join, joins, line, without_a_nodes_own};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;
use crate::tree::Tree;

pub const CASE: Case = Case {
    about: "hostname NEW, then carrick join on a healthy node: joined already, the same kubelet, nothing touched; the name given back is all it takes",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Promise(4)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const RENAMED: &str = "machine.renamed";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let name = worker.identity.name.clone();
    joins(bench, &worker)?;
    worker.ok(["hostname", &format!("{name}-dhcp")])?;
    let (before, pid) = (Tree::of(&worker)?, kubelet(&worker)?);
    let done = join(&worker, &[], &["-"], &line(cluster))?;
    bench.time("join", done.took);
    let says =
        [format!("as {name}: verifying it. Its host name is {name}-dhcp now"), "Nothing was changed.".to_owned()];
    holds(bench, "join -", &done, 0, &says.each_ref().map(String::as_str))?;
    demand!(kubelet(&worker)? == pid, "it is another kubelet: {pid}");
    let mut changes = without_a_nodes_own(Tree::of(&worker)?.changes_since(&before));
    // The address that the sandbox of the proof had.
    changes.retain(|line| !line.contains("/last_reserved_ip."));
    demand!(changes.is_empty(), "it changed something:\n{}", changes.join("\n"));
    is_joined(cluster, &worker)?;
    // Asked for by its new name it is not taken down either.
    let named = join(&worker, &[], &["--node-name", &format!("{name}-dhcp"), "-"], &line(cluster))?;
    holds(bench, "join --node-name NEW -", &named, 3, &[&format!("this machine has joined as {name}")])?;
    demand!(kubelet(&worker)? == pid, "it is another kubelet: {pid}");

    let carrick = Carrick { machine: worker.clone() };
    let told = format!("the host is called {name}-dhcp now");
    let check = carrick.run("check")?;
    bench.say(check.text());
    demand!(check.text().contains(RENAMED) && check.text().contains(&told), "check does not say it:\n{}", check.text());
    if bench.tier > Tier::Quick {
        carrick.ends(bench, "verify", 0, &["Joined"])?;
        restarted(bench, &carrick, &name)?;
    }
    worker.ok(["hostname", &name])?;
    let check = carrick.run("check")?;
    demand!(!check.text().contains(RENAMED), "it is called {name} again:\n{}", check.text());
    is_joined(cluster, &worker)
}

/// The kubelet is started under the new name, and refused; the remedy brings it back.
fn restarted(bench: &mut Bench, carrick: &Carrick, name: &str) -> Result<()> {
    let worker = &carrick.machine;
    worker.ok(["systemctl", "restart", "kubelet"])?;
    let refused = "for i in $(seq 100); do journalctl -b -u kubelet -o cat --no-pager | grep -q 'only its own Node object\\|is not allowed to modify node\\|lease with the same name' && exit; sleep 0.2; done; exit 1";
    worker.ok(["sh", "-c", refused])?;
    let done = worker.run([PLACE, "diagnose"]).done()?;
    bench.say(format_args!("carrick diagnose\n{}", done.text()));
    demand!(
        done.text().contains("kubelet.wrong-node-name") || done.text().contains(RENAMED),
        "no cause is named:\n{}",
        done.text()
    );
    worker.ok(["hostname", name])?;
    worker.ok(["systemctl", "restart", "kubelet"])?;
    carrick.ends(bench, "verify", 0, &["Joined"]).map(drop)
}

/// The process of the kubelet's unit.
pub fn kubelet(worker: &Machine) -> Result<String> {
    worker.ok(["systemctl", "show", "--property=MainPID,ExecMainStartTimestampMonotonic", "kubelet"])
}
