//! A kubelet registers its Node with a taint that flannel's DaemonSet does not tolerate: no pod of the network ever comes. Who may
//! look at DaemonSets is told so by name within seconds; without the taint the next join ends well.

use std::time::Duration;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, SHORT, bring_admin, fresh, join, judge, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join of a kubelet that taints its Node with NoExecute: the taint that keeps flannel off is told by name, not cni.config; without it the next join ends well",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(3), Covers::Family("cni")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// The pod network is given five minutes for its images.
const WITHIN: Duration = Duration::from_mins(7);

fn run(bench: &mut Bench) -> Result<()> {
    let (worker, cluster) = (fresh(bench)?, bench.cluster()?);
    let (node, admin) = (worker.identity.name.clone(), bring_admin(cluster, &worker)?);
    worker
        .write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--register-with-taints=lab.example/kept=yes:NoExecute\n")?;
    let done = join(&worker, &SHORT, &["--kubeconfig", admin, "-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
    bench.time("the taint that keeps the network off", done.took);
    judge(&Ends::CauseAtSomeTime("cni.agent-taint"), &done)?;
    demand!(done.took < WITHIN, "it took {:?}", done.took);
    demand!(done.text().contains("lab.example/kept=yes:NoExecute"), "the taint is not named:\n{}", done.text());
    cluster.kubectl(["taint", "node", &node, "lab.example/kept-"]).ok()?;
    worker.write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=\n")?;
    let joined = join(&worker, &[], &["--kubeconfig", admin, "-"], &line(cluster))?;
    bench.say(joined.text());
    demand!(joined.code() == 0, "without the taint it ended with {}:\n{}", joined.code(), joined.text());
    cluster.wait_ready(&node).map(drop)
}
