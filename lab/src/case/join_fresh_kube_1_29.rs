//! kubeadm 1.29 has other phases, an older configuration and no timeouts in it; carrick drives it all the same.

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{install, is_joined, join, line, nothing_left};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join refuses a kubelet five minor releases behind; told to ignore that, it joins it",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12Kube129)],
    run,
};

/// Nobody supports a kubelet that is more than three minor releases older than the API server.
const SKEW: &str = "kubeadm.skew";
/// And the lab's machines have no crictl, without which that kubeadm would not begin.
const IGNORED: &str = "kubeadm.skew,machine.tools";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, bench.worker(Kind::Debian12Kube129)?);
    install(bench, &worker)?;
    let refused = join(&worker, &[], &["-"], &line(cluster))?;
    bench.say(refused.text());
    demand!(refused.code() == 3 && refused.out.contains(SKEW), "it ended with {}: {}", refused.code(), refused.text());
    nothing_left(&worker)?;
    let joined = join(&worker, &[], &["-", "--ignore", IGNORED], &line(cluster))?;
    bench.say(joined.text());
    bench.time("join", joined.success()?.took);
    is_joined(cluster, &worker)?;
    cluster.pod_answers(&worker)?;
    let again = join(&worker, &[], &["-", "--ignore", IGNORED], &line(cluster))?;
    demand!(again.out.contains("had joined already"), "the second run: {}", again.text());
    Ok(())
}
