//! `carrick join --until registered` and `--until network`: as far as was asked for, and kubeadm's own work done all the same.

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{JOINS, fresh, join, joins, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join --until registered, --until network say how far they got, kubeadm ends by itself; a plain join verifies it",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// kubeadm takes it away when it is done: the token is in it.
const BOOTSTRAP: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
/// The last line that kubeadm prints of a join, when all of it is done.
const LAST_WORDS: &str = "Run 'kubectl get nodes' on the control-plane to see this node join the cluster.";

fn run(bench: &mut Bench) -> Result<()> {
    for until in ["registered", "network"] {
        let worker = fresh(bench)?;
        as_far_as(bench, &worker, until)?;
    }
    Ok(())
}

/// It ends there, says so, and leaves nothing; a plain join finds nothing more to do.
pub fn as_far_as(bench: &mut Bench, worker: &Machine, until: &str) -> Result<()> {
    let cluster = bench.cluster()?;
    let done = join(worker, &[], &["--until", until, "-"], &line(cluster))?;
    bench.say(format_args!("--until {until} ended with {}\n{}", done.code(), done.text()));
    bench.time(until, done.took);
    let says = format!("{} joined: {until} after ", worker.identity.name);
    demand!(done.code() == 0 && done.out.contains(&says), "it ended with {}:\n{}", done.code(), done.text());
    // Not waited for: it was said to be there.
    let node = cluster.get(["node", &worker.identity.name])?;
    demand!(node["status"]["nodeInfo"]["systemUUID"] == worker.identity.system_uuid, "another machine's: {node}");
    nothing_left(worker)?;
    let there = worker.run(["test", "-e", BOOTSTRAP]).done()?.status.success();
    demand!(!there, "{BOOTSTRAP} is left: kubeadm was not let to its end");
    let printed = worker.ok(["sh", "-c", &format!("cat {JOINS}/*-kubeadm-*.log")])?;
    let last = printed.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    demand!(last == LAST_WORDS, "kubeadm was ended after {last:?}:\n{printed}");
    let whole = joins(bench, worker)?;
    bench.time("plain", whole.took);
    let text = whole.text();
    demand!(text.contains("had joined already, and it holds. Nothing was changed."), "the plain join says:\n{text}");
    demand!(text.contains("  ok  verified"), "the plain join does not say that it has verified:\n{text}");
    Ok(())
}
