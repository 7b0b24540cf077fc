//! A sandbox, made by the runtime as for a pod, got an address. It is taken away again.
//!
//! A node can be Ready and unable to start any pod: the runtime does not look whether the CNI plugins are there. It is
//! tried only where nothing before it fails. The plugins of some networks (calico, cilium) serve nobody but the
//! cluster's own Pods: there a running pod of this node that has an address is the proof.
//!
//! See it yourself: `kubectl run try --image=registry.k8s.io/pause:3.10 --overrides='{"spec":{"nodeName":"NAME"}}'`
//! Fix: the runtime's own words say what is missing; `carrick diagnose` says why

use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Sandbox, Until, missing, not_seen};

pub const PROOF: Proof = Proof {
    id: "verify.sandbox",
    title: "a sandbox gets an address",
    subsystem: Subsystem::Cni,
    until: Until::Verified,
    after: &[
        "verify.kubelet",
        "verify.cluster",
        "verify.certificate",
        "verify.identity",
        "verify.lease",
        "verify.runtime-network",
        "verify.network-available",
    ],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    Ok(match &seen.sandbox {
        Ok(Sandbox { address, pod: Some(pod), .. }) => pass(format!("pod {pod} has the address {address}")),
        Ok(Sandbox { address, left: None, .. }) => pass(format!("a sandbox got the address {address}")),
        Ok(Sandbox { address, left: Some(why), .. }) => {
            pass(format!("a sandbox got the address {address}; the next run takes it away: {why}"))
        }
        Err(Why::Broken(why)) => fail("no pod could start here: a sandbox got no address")
            .seen(Evidence::of("CRI RunPodSandbox", why))
            .fix("carrick diagnose")
            .explains([id!("pod.no-address")]),
        Err(Why::Absent) => not_seen(
            "sandbox",
            &Why::Broken("this pod network serves only Pods of the cluster, and none runs here yet".to_owned()),
        )
        .fix("kubectl get pods -A -o wide    # once one with an address of its own runs here: carrick verify"),
        Err(why) => return Err(missing("sandbox", why)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::join::verify::testing::{joined, table, with};

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("an address", joined(), Pass),
                ("no plugin", with(|s| s.sandbox = Err(Why::Broken("failed to find plugin \"flannel\"".into()))), Fail),
                ("not tried", with(|s| s.sandbox = Err(Why::NotCollected)), Unknown),
                ("only for Pods, and there is none", with(|s| s.sandbox = Err(Why::Absent)), Unknown),
            ],
        );
    }
}
