//! `carrick reset --kubeconfig`, from elsewhere over SSH: pods move first, their disruption budget is kept.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{Bench, Case};
use crate::build::image::BUSYBOX;
use crate::carrick::holds;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{During, Result};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Done, Run};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "with an admin's kubeconfig reset drains first, stops at a disruption budget, and can be taken back till then",
    tier: Tier::Standard,
    covers: &[Covers::Verb("reset"), Covers::Verb("undo")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian13)],
    run,
};

const DEADLINE: Duration = Duration::from_mins(4);

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: moves-@NODE@}
spec:
  replicas: 1
  selector: {matchLabels: {app: "moves-@NODE@"}}
  template:
    metadata: {labels: {app: "moves-@NODE@"}}
    spec:
      nodeSelector: {kubernetes.io/hostname: "@NODE@"}
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: "@BUSYBOX@", imagePullPolicy: IfNotPresent, command: [sleep, "3600"], volumeMounts: [{name: v, mountPath: /v}]}
      volumes: [{name: v, emptyDir: {}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: moves-@NODE@}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: "moves-@NODE@"}}
"#;

struct Elsewhere<'a> {
    program: &'a Path,
    ssh: &'a Path,
    node: &'a str,
}

impl Elsewhere<'_> {
    fn ends(&self, bench: &mut Bench, line: &str, exit: i32, says: &[&str]) -> Result<Done> {
        let run = Run::new(self.program).args(line.split_whitespace()).args(["-H", self.node, "--ssh-config"]);
        let done = run.arg(self.ssh).deadline(DEADLINE).done()?;
        holds(bench, line, &done, exit, says)?;
        Ok(done)
    }
}

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let worker = bench.worker(Kind::Debian13)?;
    let cluster = bench.cluster()?;
    let node = worker.identity.name.clone();
    let ssh = bench.logs.join("ssh_config");
    fs::write(&ssh, worker.ssh_config()).at("write", &ssh)?;
    let elsewhere = Elsewhere { program: &program, ssh: &ssh, node: &node };
    cluster.join(&worker)?;
    cluster.wait_ready(&node)?;
    cluster.apply(&WEB.replace("@NODE@", &node).replace("@BUSYBOX@", BUSYBOX))?;
    cluster
        .kubectl(["rollout", "status", &format!("deployment/moves-{node}"), "--timeout=90s"])
        .deadline(DEADLINE)
        .ok()?;

    let admin = format!("--kubeconfig {}", cluster.kubeconfig.display());
    let says = ["1 pod to evict", "data in emptyDir is lost: default/moves-"];
    elsewhere.ends(bench, &format!("reset --plan {admin}"), 0, &says)?;
    let says = ["still there after 7 s", "disruption budget", "carrick undo 1"];
    elsewhere.ends(bench, &format!("reset --yes --drain-timeout 7 {admin}"), 3, &says)?;
    demand!(is_cordoned(bench, &node)?, "the node was not cordoned before it was drained");
    demand!(runs(&worker)?, "the kubelet was stopped although the node was not drained");
    elsewhere.ends(bench, "undo --yes", 0, &["uncordon node"])?;
    demand!(!is_cordoned(bench, &node)?, "undo did not uncordon the node");

    cluster.kubectl(["delete", "poddisruptionbudget", &format!("moves-{node}")]).ok()?;
    let done = elsewhere.ends(bench, &format!("reset --yes {admin}"), 0, &["drain node", "can join again"])?;
    bench.time("drained and reset over SSH", done.took);
    cluster.kubectl(["delete", "deployment", &format!("moves-{node}")]).ok()?;
    demand!(!runs(&worker)?, "the kubelet runs on");
    cluster.join(&worker)?;
    cluster.wait_ready(&node)?;
    cluster.pod_answers(&worker).map(drop)
}

fn is_cordoned(bench: &Bench, node: &str) -> Result<bool> {
    Ok(bench.cluster()?.get(["node", node])?["spec"]["unschedulable"] == true)
}

fn runs(worker: &Machine) -> Result<bool> {
    Ok(worker.run(["systemctl", "is-active", "kubelet"]).done()?.out.trim() == "active")
}
