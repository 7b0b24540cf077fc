//! The sandbox's address is of the range the cluster gave to this node.
//!
//! Another comes from a bridge or a configuration that an earlier cluster or a package left, and no other node can reach
//! it. Networks that allot addresses by themselves (calico, cilium) are not held to the Node's podCIDR.
//!
//! See it yourself: `kubectl get node NAME -o jsonpath={.spec.podCIDRs}`, `ip address show cni0`, `ls /etc/cni/net.d`
//! Fix: move the file that comes first by its name out of /etc/cni/net.d; `carrick explain cni.first-file-wins`

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip};
use crate::fact::{Known, Why};
use crate::id;
use crate::join::verify::{NodeEvidence, Proof, Until, missing};

pub const PROOF: Proof = Proof {
    id: "verify.address",
    title: "the address is of the node's own range",
    subsystem: Subsystem::Network,
    until: Until::Verified,
    after: &["verify.sandbox"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let sandbox = match &seen.sandbox {
        Ok(sandbox) => sandbox,
        Err(Why::Broken(_) | Why::Absent) => return Ok(skip("there is none: see verify.sandbox")),
        Err(why) => return Err(missing("sandbox", why)),
    };
    match sandbox.is_in_range() {
        None => return Ok(skip("this pod network allots addresses by itself")),
        Some(true) => return Ok(pass(format!("{} is of this node's range", sandbox.address))),
        Some(false) => {}
    }
    let expected = sandbox.expected.join(", ");
    Ok(fail(format!("{} is not of this node's range", sandbox.address))
        .seen(Evidence::of("sandbox", format!("{}, expected {expected}", sandbox.address)))
        .fix("ls -l /etc/cni/net.d    # the first by name wins: move away what is not this cluster's")
        .fix("carrick explain cni.stale-bridge")
        .explains([id!("cni.stale-bridge")]))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::join::verify::Sandbox;
    use crate::join::verify::testing::{joined, table, with};

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("of its range", joined(), Pass),
                (
                    "of the cluster before",
                    with(|s| {
                        s.sandbox = Ok(Sandbox::new(IpAddr::from([10, 244, 9, 7]), vec!["10.244.1.0/24".into()]));
                    }),
                    Fail,
                ),
                (
                    "allotted by the network",
                    with(|s| s.sandbox = Ok(Sandbox::new(IpAddr::from([10, 0, 0, 1]), vec![]))),
                    Skip,
                ),
                ("only Pods get one", with(|s| s.sandbox = Err(Why::Absent)), Skip),
                ("no sandbox", with(|s| s.sandbox = Err(Why::TimedOut)), Unknown),
            ],
        );
    }
}
