//! A runtime whose socket is elsewhere: `--cri-socket` names it, and the kubelet is told. From then on the kubelet is who says it.

use std::sync::Arc;

use super::{Bench, Case};
use crate::carrick::{Carrick, holds};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::fault::{self, KubeadmTimeouts, Scene};
use crate::join::{fresh, is_joined, join, line};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join --cri-socket of a machine whose containerd listens elsewhere: joined; every verb after it finds the runtime by the kubelet alone",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("verify"), Covers::Verb("reset")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const SOCKET: &str = "unix:///run/elsewhere/containerd.sock";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let mut scene = Scene::new(bench.lab, bench.parts, cluster, worker.clone(), KubeadmTimeouts::Short)?;
    (fault::find("containerd-elsewhere")?.fault.put_in)(&mut scene)?;
    let done = join(&worker, &[], &["--cri-socket", SOCKET, "-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == 0, "it ended with {}:\n{}", done.code(), done.text());
    bench.time("join", done.took);
    is_joined(cluster, &worker)?;
    let told =
        worker.ok(["sh", "-c", "cat /var/lib/kubelet/kubeadm-flags.env /var/lib/kubelet/instance-config.yaml"])?;
    demand!(told.contains(SOCKET), "the kubelet was told of another runtime:\n{told}");
    by_the_kubelets_word(bench, &worker)
}

/// On a node that has joined nobody needs to name the socket any more.
fn by_the_kubelets_word(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    let (cluster, carrick) = (bench.cluster()?, Carrick { machine: Arc::clone(worker) });
    carrick.ends(bench, "verify", 0, &["Joined: the node is Ready, and a pod gets an address."])?;
    carrick.ends(bench, "check -v", 4, &["runtime.socket containerd answers"])?;
    carrick.ends(bench, "cni status", 0, &["flannel"])?;
    let diagnosed = carrick.run("diagnose")?;
    bench.say(diagnosed.text());
    demand!(!diagnosed.text().contains("runtime.socket"), "its runtime answers:\n{}", diagnosed.text());
    let again = join(worker, &[], &["-"], &line(cluster))?;
    holds(bench, "join -", &again, 0, &["had joined already, and it holds. Nothing was changed."])?;
    carrick.ends(bench, "reset --yes", 0, &[])?;
    let left =
        worker.ok(["ctr", "--address", "/run/elsewhere/containerd.sock", "-n", "k8s.io", "containers", "ls", "-q"])?;
    demand!(left.trim().is_empty(), "containers are left: {left}");
    Ok(())
}
