//! A runtime whose socket is elsewhere: `--cri-socket` names it, and the kubelet is told.

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::fault::{self, KubeadmTimeouts, Scene};
use crate::join::{fresh, is_joined, join, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join --cri-socket of a machine whose containerd listens elsewhere: joined, and the kubelet uses that socket",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join")],
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
    Ok(())
}
