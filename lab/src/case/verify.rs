//! `carrick verify` on a machine that has not joined, and on one that has: here, over SSH, with an admin's rights, and as
//! far as it is asked.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{During, Error, Result};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::Run;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "verify says joined of a node whose pods get addresses, and not joined of a machine that has not been joined",
    tier: Tier::Quick,
    covers: &[Covers::Verb("verify"), Covers::Promise(1), Covers::Family("kube-proxy")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let cluster = bench.cluster()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    carrick.ends(
        bench,
        "verify",
        3,
        &["verify.certificate", "this machine has not joined", "Not joined: 1 failure."],
    )?;
    carrick.ends(bench, "verify --until registered", 3, &["verify.certificate"])?;
    let nobody = worker.run(["runuser", "-u", "nobody", "--", "carrick", "verify"]).done()?;
    demand!(nobody.code() == 2 && nobody.err.contains("run it as root"), "{}", nobody.text());

    cluster.join(&worker)?;
    cluster.wait_ready(&worker.identity.name)?;
    cluster.pod_answers(&worker)?;
    let begun = Instant::now();
    carrick.ends(bench, "verify", 0, &["Joined: the node is Ready, and a pod gets an address."])?;
    bench.time("verify", begun.elapsed());
    as_json(bench, &carrick)?;
    carrick.ends(bench, "verify --until network", 0, &["Joined, as far as the network"])?;
    carrick.ends(bench, "verify --soak 12s -v", 0, &["network agents stayed up", "is of this node's range"])?;
    let api = format!("verify -v --api {}:6443", bench.lab.site().control());
    carrick.ends(bench, &api, 0, &["it is the cluster that was asked for"])?;
    with_an_admins_rights_over_ssh(bench, &carrick, &program)?;
    none_left(&carrick)?;
    worker.run(["sh", "-ec", BREAK_KUBE_PROXY]).ok()?;
    carrick.ends(bench, "verify", 3, &["verify.kube-proxy", KUBE_PROXY]).map(drop)
}

/// The image of kube-proxy has another program in it from now on, and what runs of it ends: the kubelet sees that within seconds.
pub const BREAK_KUBE_PROXY: &str =
    "image=$(ctr -n k8s.io images ls -q | grep -m1 ^registry.k8s.io/kube-proxy:); echo $image > /root/kube-proxy
    ctr -n k8s.io images tag $image registry.k8s.io/kept:kube-proxy
    ctr -n k8s.io images tag --force $(ctr -n k8s.io images ls -q | grep -m1 /busybox:) $image; pkill -x kube-proxy; sleep 4";
pub const FIX_KUBE_PROXY: &str =
    "ctr -n k8s.io images tag --force registry.k8s.io/kept:kube-proxy $(cat /root/kube-proxy)";
/// How its pod is called.
pub const KUBE_PROXY: &str = "kube-system/kube-proxy-";

fn as_json(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    let done = carrick.ends(bench, "verify -o json", 0, &[])?;
    let report: Value = serde_json::from_str(&done.out).map_err(|_| Error::Said(done.text()))?;
    demand!(report["verb"] == "verify" && report["verdict"] == "pass" && report["reached"] == "verified", "{report}");
    demand!(report["causes"].as_array().is_some_and(Vec::is_empty), "{report}");
    Ok(())
}

fn with_an_admins_rights_over_ssh(bench: &mut Bench, carrick: &Carrick, program: &std::path::Path) -> Result<()> {
    const DEADLINE: Duration = Duration::from_mins(2);
    let config = bench.logs.join("ssh_config");
    std::fs::write(&config, carrick.machine.ssh_config()).at("write", &config)?;
    let words = ["verify", "-H", &carrick.machine.identity.name, "--ssh-config"];
    let run = Run::new(program).args(words).arg(&config).arg("--kubeconfig").arg(&bench.cluster()?.kubeconfig);
    let done = run.deadline(DEADLINE).done()?;
    bench.time("over ssh", done.took);
    demand!(done.code() == 0 && done.out.contains("Joined: "), "{}", done.text());
    Ok(())
}

/// No sandbox of Carrick's is left in containerd.
fn none_left(carrick: &Carrick) -> Result<()> {
    let filter = "labels.\"io.carrick\"==sandbox-test";
    let left = carrick.machine.ok(["ctr", "-n", "k8s.io", "containers", "ls", "-q", filter])?;
    demand!(left.trim().is_empty(), "sandboxes are left: {left}");
    Ok(())
}
