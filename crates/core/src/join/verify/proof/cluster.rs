//! The cluster the kubelet belongs to is the one that was asked for with --api: they have a CA in common.
//!
//! A machine that still belongs to an earlier cluster looks joined in every way but this. While a cluster's CA is
//! rotated it has two, and so may kubelet.conf: one that both have is enough. Without --api nothing is compared.
//!
//! See it yourself: `grep server: /etc/kubernetes/kubelet.conf`
//! Fix: `carrick reset` takes it out of the other cluster; then join it

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{ClusterPins, NodeEvidence, Proof, Until, missing};

pub const PROOF: Proof = Proof {
    id: "verify.cluster",
    title: "it is the cluster that was asked for",
    subsystem: Subsystem::ControlPlane,
    until: Until::Registered,
    after: &[],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    Ok(match &seen.cluster {
        Err(Why::NotCollected | Why::NotAsked) => skip("no other cluster was asked for"),
        Ok(ClusterPins { is_same: true, .. }) => pass("it is the cluster that was asked for"),
        Ok(ClusterPins { own, asked, .. }) => fail("this machine belongs to another cluster")
            .seen([Evidence::of("kubelet.conf", format!("CA {own}")), Evidence::of("asked for", format!("CA {asked}"))])
            .fix("carrick reset      # takes it out of the other one")
            .explains([id!("stale.kubelet-conf")]),
        Err(why) => return Err(missing("the cluster that was asked for", why)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::join::verify::testing::{joined, table, with};

    fn pins(is_same: bool) -> ClusterPins {
        ClusterPins { own: "a".into(), asked: "b".into(), is_same }
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("nobody asked", joined(), Skip),
                ("the same", with(|s| s.cluster = Ok(pins(true))), Pass),
                ("another", with(|s| s.cluster = Ok(pins(false))), Fail),
                ("unreadable", with(|s| s.cluster = Err(Why::Denied)), Unknown),
            ],
        );
    }
}
