//! A reset that is killed at five of its steps, or kept from the API server, and what a join left that failed half way:
//! the next reset finishes it, and the machine joins.

use std::time::Duration;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "a killed reset is finished by the next, one without the API server goes on in time; a half-way join is cleaned",
    tier: Tier::Standard,
    covers: &[Covers::Verb("reset"), Covers::Verb("history"), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Runs a reset until it has said a word, and kills it then.
const UNTIL: &str = r#"carrick reset --yes --stop-pods >/dev/null 2>/run/said & pid=$!
until grep -q "ok  $1" /run/said; do kill -0 $pid || { cat /run/said >&2; exit 1; }; done
kill -9 $pid
wait $pid
exit 0"#;

const STEPS: [&str; 5] = ["stop kubelet", "mark node", "unmount", "run kubeadm", "delete the link cni0"];

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    let cluster = bench.cluster()?;
    let name = worker.identity.name.clone();
    for step in STEPS {
        cluster.join(&worker)?;
        cluster.wait_ready(&name)?;
        cluster.kubectl(["uncordon", &name]).ok()?;
        cluster.pod_answers(&worker)?;
        worker.ok(["sh", "-c", UNTIL, "sh", step])?;
        bench.say(format_args!("killed after: {step}"));
        carrick.ends(bench, "history", 0, &["cut off after"])?;
        carrick.ends(bench, "reset --yes --stop-pods", 0, &["can join again"])?;
        demand!(
            carrick.run("reset --plan")?.out.contains("nothing of a join is left"),
            "killed after {step}: not finished"
        );
    }
    cluster.join(&worker)?;
    cluster.wait_ready(&name)?;
    without_the_api(bench, &carrick, &name)?;
    after_a_failed_join(bench, &carrick, &name)
}

/// Told, and not waited for; the rule that keeps the machine from the API server is not Kubernetes', and stays.
fn without_the_api(bench: &mut Bench, carrick: &Carrick, name: &str) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, &carrick.machine);
    let control = bench.lab.site().control().to_string();
    let drop = ["OUTPUT", "-d", &control, "-p", "tcp", "--dport", "6443", "-j", "DROP"];
    worker.ok(["iptables", "-I"].iter().chain(&drop))?;
    let done = carrick.ends(bench, "reset --yes --stop-pods", 4, &["stays Ready until", "can join again"])?;
    bench.time("reset without the API server", done.took);
    demand!(done.took < Duration::from_mins(1), "it took {} s", done.took.as_secs());
    worker.ok(["iptables", "-D"].iter().chain(&drop))?;
    cluster
        .kubectl(["wait", "--for=condition=Ready=Unknown", &format!("node/{name}"), "--timeout=90s"])
        .deadline(Duration::from_mins(2))
        .ok()?;
    Ok(())
}

/// kubeadm gives up for want of a runtime, and leaves files that would fail the next join for another reason.
fn after_a_failed_join(bench: &mut Bench, carrick: &Carrick, name: &str) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, &carrick.machine);
    worker.ok(["systemctl", "stop", "containerd"])?;
    // Stopped as somebody would who sees nothing happen.
    let joined = worker
        .run(["timeout", "-s", "KILL", "8"].iter().map(|&word| word.to_owned()).chain(cluster.join.clone()))
        .done()?;
    demand!(!joined.status.success(), "it joined without a runtime");
    worker.ok(["test", "-e", "/etc/kubernetes/pki/ca.crt"])?;
    let again = cluster.try_join(worker, &[])?;
    demand!(again.text().contains("[ERROR FileAvailable--etc-kubernetes-"), "the next join: {}", again.text());
    carrick.ends(bench, "reset --yes", 0, &["run kubeadm reset", "can join again"])?;
    worker.ok(["systemctl", "start", "containerd"])?;
    carrick.ends(bench, "reset --yes", 0, &[])?;
    let joined = cluster.join(worker)?;
    bench.time("join after a failed one", joined);
    cluster.wait_ready(name)?;
    cluster.pod_answers(worker).map(drop)
}
