//! A kubelet that is told to use an address of another machine (`--node-ip`): its Node is not called joined, and what the report
//! says to do is enough.

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{first_fixes, fresh, join, joins, judge, line, nothing_left};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join of a kubelet with another machine's --node-ip: told, not joined, left in the cluster; the fix joins it",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(1), Covers::Family("kubelet")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Of the lab's network, and nobody's.
const ELSEWHERE: &str = "echo 'KUBELET_EXTRA_ARGS=--node-ip=10.123.0.250' >/etc/default/kubelet";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    worker.run(["sh", "-ec", ELSEWHERE]).ok()?;
    let done = join(&worker, &[], &["-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
    judge(&crate::join::Ends::Cause("kubelet.node-ip-not-here", 6), &done)?;
    nothing_left(&worker)?;
    let fixes = first_fixes(&done.text());
    let fix = fixes.iter().find(|fix| fix.contains("systemctl restart kubelet"));
    demand!(fix.is_some_and(|fix| fix.contains("/etc/default/kubelet")), "it says to do: {fixes:?}");
    worker.run(["sh", "-ec", fix.map_or("false", String::as_str)]).ok()?;
    joins(bench, &worker).map(drop)
}
