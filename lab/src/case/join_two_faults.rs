//! Two things are wrong at once, one on the machine and one on the way: a single run tells both, and does not try again what will not
//! pass. Once both are set right the machine joins.

use std::sync::Arc;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::fault::{self, KubeadmTimeouts, Scene};
use crate::join::{Ends, fresh, is_joined, join, judge, line, nothing_left};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "swap is on and the API server refuses connections: both are told in one run, without a second attempt",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Promise(3)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, machine) = (bench.cluster()?, fresh(bench)?);
    let mut scene = Scene::new(bench.lab, bench.parts, cluster, Arc::clone(&machine), KubeadmTimeouts::Short)?;
    for fault in ["swap-on", "api-refused"] {
        (fault::find(fault)?.fault.put_in)(&mut scene)?;
    }
    // With its three attempts: none but the first is to be made.
    let done = join(&machine, &[], &["-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
    bench.time("both told", done.took);
    judge(&Ends::Cause("machine.swap", 3), &done)?;
    let text = done.text();
    demand!(text.contains("      api.tcp certain"), "it does not tell of the API server:\n{text}");
    demand!(!text.contains("again in"), "it tried again what will not pass:\n{text}");
    nothing_left(&machine)?;
    machine.ok(["umount", "/proc/swaps"])?;
    machine.ok(["iptables", "-F", "OUTPUT"])?;
    let joined = join(&machine, &[], &["-"], &line(cluster))?;
    bench.say(joined.text());
    demand!(joined.code() == 0, "with both set right it ended with {}:\n{}", joined.code(), joined.text());
    is_joined(cluster, &machine)
}
