//! `carrick cni sync` and `lint` on a joined node whose CNI configuration was tampered with in every way of the lab's faults.

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "cni sync brings flannel's file back with the node's own credential, and the runtime loads it; files of others stay",
    tier: Tier::Quick,
    covers: &[Covers::Verb("cni status"), Covers::Verb("cni sync"), Covers::Verb("history"), Covers::Verb("undo")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const FILE: &str = "/etc/cni/net.d/10-flannel.conflist";
const IN_PLACE: &str = "write /etc/cni/net.d/10-flannel.conflist in place";
const LOADED: &str = "is as ConfigMap kube-flannel/kube-flannel-cfg says, and the runtime has loaded it";

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    carrick.ends(bench, "cni sync --yes", 3, &["this machine has not joined"])?;
    bench.cluster()?.join(&worker)?;
    bench.cluster()?.wait_ready(&worker.identity.name)?;
    carrick.ends(bench, "cni wait", 0, &["flannel: the runtime says NetworkReady, the Node is Ready"])?;
    carrick.ends(bench, "cni status", 0, &["flannel (by its configuration)", "NetworkReady=true; last load: OK"])?;
    carrick.ends(bench, "cni lint", 0, &["Nothing wrong."])?;
    worker.ok(["cp", "-a", FILE, "/root/kept"])?;
    carrick.ends(bench, "cni sync --yes", 0, &[LOADED])?;
    demand!(carrick.run("history -o json")?.out.trim().is_empty(), "something was changed where nothing was wrong");
    bench.tier.some(&TAMPERED).iter().try_for_each(|tamper| tamper(bench, &carrick))
}

/// The ways in which the file is tampered with; the first will do as a representative.
const TAMPERED: [fn(&mut Bench, &Carrick) -> Result<()>; 4] = [missing, different, without_a_watch, others_first];

/// The file is as it was, and pods get addresses.
fn is_back(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    carrick.machine.ok(["cmp", FILE, "/root/kept"])?;
    carrick.ends(bench, "cni wait --probe", 0, &["the Node is Ready; a sandbox got 10."])?;
    Ok(())
}

fn missing(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    carrick.machine.ok(["rm", FILE])?;
    let waited =
        carrick.ends(bench, "cni wait --tries 2 --every 2", 6, &["no pod network is configured", "cni.config"])?;
    demand!(waited.took.as_secs() < 30, "it waited {} s for 4 s", waited.took.as_secs());
    carrick.ends(bench, "cni sync", 8, &[IN_PLACE, "nothing was changed"])?;
    carrick.ends(bench, "cni sync --plan", 0, &[IN_PLACE, "Nothing was changed"])?;
    demand!(!carrick.machine.run(["test", "-e", FILE]).done()?.status.success(), "it was written without consent");
    carrick.ends(bench, "cni sync --yes --protect /etc/cni", 3, &["--protect /etc/cni"])?;
    carrick.ends(bench, "cni sync --yes", 0, &[LOADED, "Take it back: carrick undo"])?;
    is_back(bench, carrick)?;
    carrick.ends(bench, "undo --yes", 0, &[])?;
    demand!(!carrick.machine.run(["test", "-e", FILE]).done()?.status.success(), "undo left the file there");
    carrick.ends(bench, "cni sync --yes", 0, &[LOADED])?;
    is_back(bench, carrick)
}

fn different(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    let other = r#"{"name": "cbr0", "cniVersion": "0.9.9", "plugins": [{"type": "flannel"}]}"#;
    carrick.machine.run(["sh", "-ec", "printf %s \"$1\" > \"$2\"", "sh", other, FILE]).ok()?;
    carrick.ends(bench, "cni lint", 3, &["cni.version", "0.9.9, which there is not"])?;
    carrick.ends(bench, "cni sync --yes", 0, &[LOADED])?;
    is_back(bench, carrick)
}

/// The directory was removed, or the file moved away and back: containerd sees neither.
fn without_a_watch(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    carrick.machine.ok(["rm", "-r", "/etc/cni/net.d"])?;
    let plan = ["make the directory /etc/cni/net.d", IN_PLACE, "restart containerd and wait for it to answer"];
    carrick.ends(bench, "cni sync --plan", 0, &plan)?;
    carrick.ends(bench, "cni sync --yes", 0, &[LOADED])?;
    is_back(bench, carrick)?;
    carrick.machine.ok(["mv", FILE, "/root/away"])?;
    carrick.ends(bench, "cni wait --tries 1 --every 3", 6, &["cni.config"])?;
    carrick.machine.ok(["mv", "/root/away", FILE])?;
    carrick.ends(bench, "cni wait --tries 1 --every 3", 6, &["cni.watch-lost"])?;
    // kube-proxy and flannel; their processes are the same afterwards.
    let told = "restart containerd and wait for it to answer; 2 containers run on it and go on running";
    let tasks = || carrick.machine.ok(["sh", "-ec", "ctr -n k8s.io tasks ls | sort"]);
    let before = tasks()?;
    carrick.ends(bench, "cni sync --yes", 0, &[told, LOADED])?;
    let after = tasks()?;
    demand!(before == after && after.contains("RUNNING"), "the restart touched what ran:\n{before}\n{after}");
    is_back(bench, carrick)
}

/// A file of somebody else's that comes first stays, and is told.
fn others_first(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    let old = r#"{"cniVersion": "0.3.1", "name": "old", "plugins": [{"type": "calico"}]}"#;
    for (file, text, id, says) in [
        ("00-bad.conflist", "not json", "cni.config", "00-bad.conflist:1"),
        (
            "05-old.conflist",
            old,
            "cni.first-file-wins",
            "calico's 05-old.conflist wins over flannel's 10-flannel.conflist",
        ),
    ] {
        let path = format!("/etc/cni/net.d/{file}");
        carrick.machine.run(["sh", "-ec", "printf %s \"$1\" > \"$2\"", "sh", text, &path]).ok()?;
        carrick.ends(bench, "cni lint", 3, &[id, says])?;
        carrick.ends(bench, "cni wait --tries 1 --every 2", 6, &[id])?;
        carrick.ends(bench, "cni sync --yes", 3, &[id, "the runtime has not loaded it"])?;
        carrick.machine.ok(["rm", &path])?;
        is_back(bench, carrick)?;
    }
    Ok(())
}
