//! A pod network that is in no list of Carrick's, whose plugin serves nobody but the cluster's Pods, as OVN-Kubernetes' and Terway's
//! do: that it refuses a sandbox is no failure of a healthy node. A throw-away Pod proves it; without one it is not proven.

use std::sync::Arc;

use super::{Bench, Case};
use crate::build::image::BUSYBOX;
use crate::carrick::Carrick;
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{bring_admin, fresh, is_joined, join, line};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "a network of no list that serves only Pods: join says not proven and never that no pod can start; a throw-away Pod proves it",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("verify"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// What the stand-in is called in place of multus.
const NAME: &str = "labnet";
const LABEL: [&str; 2] = ["--label", "network=labnet"];

fn named(text: &str) -> String {
    text.replace("multus", NAME).replace("@BUSYBOX@", BUSYBOX)
}

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    cluster.apply(&named(include_str!("../../files/multus.yaml")))?;
    let played = without_an_admin(bench, cluster).and_then(|()| with_an_admin(bench, cluster));
    played.and(cluster.kubectl(["delete", "daemonset", "-n", "kube-system", "kube-labnet-ds"]).ok().map(drop))
}

fn prepared(bench: &mut Bench) -> Result<Arc<Machine>> {
    let worker = fresh(bench)?;
    let address = bench.lab.site().control().to_string();
    let plugin = format!("/opt/cni/bin/{NAME}");
    worker.write(&plugin, &named(include_str!("../../files/multus.sh")).replace("@ADDRESS@", &address))?;
    worker.ok(["sh", "-ec", &format!("chmod 755 {plugin}; mkdir -p /run/lab-{NAME}")])?;
    Ok(worker)
}

fn without_an_admin(bench: &mut Bench, cluster: &Cluster) -> Result<()> {
    let worker = prepared(bench)?;
    let done = join(&worker, &[], &[LABEL[0], LABEL[1], "-"], &line(cluster))?;
    bench.say(format_args!("without an admin it ended with {}\n{}", done.code(), done.text()));
    bench.time("not proven", done.took);
    let text = done.text().split_whitespace().collect::<Vec<_>>().join(" ");
    demand!(done.code() == 4 && text.contains("pods not proven"), "it ended with {}:\n{text}", done.code());
    demand!(text.contains("the runtime refused a sandbox"), "it does not say what was refused:\n{text}");
    demand!(!text.contains("no pod can start here"), "a healthy node is accused:\n{text}");
    is_joined(cluster, &worker)?;
    let carrick = Carrick { machine: worker };
    carrick.ends(bench, "verify", 4, &["verify.sandbox", "carrick verify --kubeconfig FILE"]).map(drop)
}

fn with_an_admin(bench: &mut Bench, cluster: &Cluster) -> Result<()> {
    let worker = prepared(bench)?;
    let admin = bring_admin(cluster, &worker)?;
    let done = join(&worker, &[], &["--kubeconfig", admin, LABEL[0], LABEL[1]], "")?;
    bench.say(format_args!("with --kubeconfig it ended with {}\n{}", done.code(), done.text()));
    bench.time("proven by a Pod", done.took);
    demand!(done.code() == 0 && done.text().contains("pod default/carrick-verify-"), "{}", done.text());
    is_joined(cluster, &worker)?;
    let carrick = Carrick { machine: Arc::clone(&worker) };
    carrick.ends(bench, &format!("verify --kubeconfig {admin}"), 0, &["Joined: "])?;

    // What it refuses to a Pod is a failure.
    worker.ok(["touch", &format!("/run/lab-{NAME}/refuse")])?;
    let refused = ["verify.sandbox", "the network is out of order"];
    carrick.ends(bench, &format!("verify --kubeconfig {admin}"), 3, &refused).map(drop)
}
