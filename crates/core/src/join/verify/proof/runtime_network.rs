//! The container runtime says NetworkReady: it has read a CNI configuration.
//!
//! Until then no pod outside the host's network starts. Before a pod network is deployed this is as it should be:
//! --until registered asks for no more.
//!
//! See it yourself: `crictl info`, `ls /etc/cni/net.d`
//! Fix: `carrick diagnose` says what the network waits for

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.runtime-network",
    title: "the runtime has a pod network",
    subsystem: Subsystem::Cni,
    until: Until::Network,
    after: &[],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let runtime = known("container runtime", &seen.runtime)?;
    if runtime.ready && runtime.network_ready {
        return Ok(pass("the runtime's pod network is ready"));
    }
    if runtime.ready && seen.certificate == Err(Why::Absent) {
        return Ok(skip("before a join there is no pod network"));
    }
    let what = if runtime.ready { "NetworkReady" } else { "RuntimeReady" };
    Ok(fail(format!("the container runtime does not say {what}"))
        .seen(Evidence::of("CRI Status", runtime.says.as_str()))
        .fix("carrick diagnose")
        .explains([id!("node.network-not-ready")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::join::verify::RuntimeConditions;
    use crate::join::verify::testing::{joined, table, with};

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("ready", joined(), Pass),
                (
                    "no CNI",
                    with(|s| s.runtime = Ok(RuntimeConditions { ready: true, network_ready: false, says: "x".into() })),
                    Fail,
                ),
                ("no answer", with(|s| s.runtime = Err(Why::TimedOut)), Unknown),
            ],
        );
    }
}
