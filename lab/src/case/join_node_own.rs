//! The Node of a join that is over, which a plain `kubeadm reset` leaves: Ready for the cluster's grace period, and this
//! machine's own. With an admin's rights nobody waits for that.

use jiff::SignedDuration;

use super::{Bench, Case};
use crate::carrick::holds;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{JOINS, bring_admin, fresh, is_joined, join, joins};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "after a plain kubeadm reset, carrick join with an admin's kubeconfig does not wait for the Node that is still Ready, and joins",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(5)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Nobody has renewed its lease for this long, and the cluster still takes the Node for Ready: it does for 50 s.
const SILENT: SignedDuration = SignedDuration::from_secs(30);

const MARKING: &str = "is still Ready, and no kubelet renews it: marking it as not ready";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let name = &worker.identity.name;
    joins(bench, &worker)?;
    // A kubelet that is new makes its lease after its Node, up to 10 s later.
    let lease = format!("lease/{name}");
    cluster.kubectl(["wait", "--for=create", "-n", "kube-node-lease", &lease, "--timeout=30s"]).ok()?;
    worker.ok(["kubeadm", "reset", "--force"])?;
    cluster.age_lease(name, SILENT)?;
    let before = cluster.get(["node", name])?;
    let admin = bring_admin(cluster, &worker)?;
    let done = join(&worker, &[], &["--kubeconfig", admin], "")?;
    bench.time("join", done.took);
    holds(bench, "join --kubeconfig", &done, 0, &[MARKING, "joined: verified after"])?;
    is_joined(cluster, &worker)?;
    let after = cluster.get(["node", name])?;
    let same = before["metadata"]["uid"] == after["metadata"]["uid"];
    demand!(same, "it is another Node: its labels and its range are lost");
    demand!(after["spec"]["unschedulable"] != true, "it is still cordoned: {after}");
    let recorded = worker.ok(["sh", "-c", &format!("cat {JOINS}/*.log")])?;
    demand!(recorded.contains(MARKING), "no log tells that a Node was marked:\n{recorded}");
    cluster.pod_answers(&worker).map(drop)
}
