//! A machine whose Node somebody deleted, and whose kubelet goes on: `carrick join` says so, and the way back it names is one.

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::error::Result;
use crate::join::{Ends, fresh, join, joins, judge, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join on a machine whose Node was deleted under its kubelet names that; carrick reset and join bring it back",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("reset")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    joins(bench, &worker)?;
    let cluster = bench.cluster()?;
    cluster.delete_node(&worker.identity.name)?;
    let told = join(&worker, &[], &["-"], &line(cluster))?;
    bench.say(told.text());
    judge(&Ends::Cause("node.deleted", 3), &told)?;
    let carrick = Carrick { machine: worker };
    carrick.ends(bench, "reset --yes", 0, &["can join again"])?;
    joins(bench, &carrick.machine).map(drop)
}
