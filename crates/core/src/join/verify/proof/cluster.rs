//! The cluster the kubelet belongs to is the one that was asked for with --api: both have the same CA.
//!
//! A machine that still belongs to an earlier cluster looks joined in every way but this. Without --api nothing is
//! compared.
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
        Ok(ClusterPins { own, asked }) if own == asked => pass("it is the cluster that was asked for"),
        Ok(ClusterPins { own, asked }) => fail("this machine belongs to another cluster")
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

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("nobody asked", joined(), Skip),
                ("the same", with(|s| s.cluster = Ok(ClusterPins { own: "a".into(), asked: "a".into() })), Pass),
                ("another", with(|s| s.cluster = Ok(ClusterPins { own: "a".into(), asked: "b".into() })), Fail),
                ("unreadable", with(|s| s.cluster = Err(Why::Denied)), Unknown),
            ],
        );
    }
}
