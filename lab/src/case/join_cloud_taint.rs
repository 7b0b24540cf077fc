//! A kubelet that waits for a cloud that is not there (`--cloud-provider=external`): Ready, and tainted for good. It is not called
//! joined, and what the report says to do is enough.

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, first_fixes, fresh, join, joins, judge, line, nothing_left};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join of a node that stays tainted as uninitialized: told, not joined, left in the cluster; the fix joins it",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(1), Covers::Family("node")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    worker.write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--cloud-provider=external\n")?;
    let done = join(&worker, &[], &["-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
    judge(&Ends::Cause("node.cloud-uninitialised", 6), &done)?;
    nothing_left(&worker)?;
    let fixes = first_fixes(&done.text());
    let of_kubelet = fixes.iter().find(|fix| fix.starts_with("sed "));
    let of_node = fixes.iter().find_map(|fix| fix.strip_prefix("kubectl taint "));
    demand!(of_kubelet.is_some() && of_node.is_some(), "it says to do: {fixes:?}");
    worker.run(["sh", "-ec", of_kubelet.map_or("false", String::as_str)]).ok()?;
    let taint = of_node.and_then(|fix| fix.split('#').next()).unwrap_or_default();
    cluster.kubectl(std::iter::once("taint").chain(taint.split_whitespace())).ok()?;
    joins(bench, &worker).map(drop)
}
