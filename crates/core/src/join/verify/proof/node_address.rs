//! The Node's InternalIPs are addresses of this machine, and it has one.
//!
//! The API server reaches the kubelet there, and most pod networks send other nodes' packets there. A kubelet that is told to
//! use an address its machine does not have (--node-ip) registers without one: kubectl logs and exec fail, and so do pods
//! in the host's network. With an external cloud provider the cloud controller manager sets the addresses.
//!
//! See it yourself: `kubectl get node NAME -o wide`, `ip -brief address`
//! Fix: take --node-ip out of the kubelet's flags, or name an address of this machine; then `systemctl restart kubelet`

use std::net::IpAddr;

use crate::check::{Evidence, Subsystem, Verdict, fail, pass};
use crate::fact::Known;
use crate::id;
use crate::join::verify::{KubeletFlag, NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.node-address",
    title: "the Node's address is this machine's",
    subsystem: Subsystem::Network,
    until: Until::Verified,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let node = known("Node", &seen.node)?;
    let flag = seen.kubelet.as_ref().ok().and_then(|kubelet| kubelet.node_ip.as_ref());
    let cite =
        |addresses: &[IpAddr]| Evidence::of("Node status.addresses", format!("InternalIP {}", listed(addresses)));
    if node.internal_ips.is_empty() {
        let failed = fail(format!("node {} has no InternalIP", node.name)).seen(cite(&[]));
        return Ok(blame(failed, flag));
    }
    let own = known("this machine's addresses", &seen.addresses)?;
    let foreign: Vec<IpAddr> = node.internal_ips.iter().copied().filter(|it| !own.contains(it)).collect();
    if foreign.is_empty() {
        return Ok(pass(format!("the Node's address is this machine's: {}", listed(&node.internal_ips))));
    }
    let failed =
        fail(format!("node {} has the InternalIP {}, which this machine has not", node.name, listed(&foreign)))
            .seen(cite(&node.internal_ips))
            .seen(Evidence::of("ip addr show", listed(own)));
    Ok(blame(failed, flag))
}

/// What the kubelet was told is to blame, where it was told something.
fn blame(failed: Verdict, flag: Option<&KubeletFlag>) -> Verdict {
    match flag {
        Some(flag) => failed
            .seen(Evidence::of(flag.file.as_str(), flag.word.as_str()))
            .fix(format!("{}    # it finds its address by itself", flag.taken_out()))
            .means(id!("kubelet.node-ip-not-here")),
        None => {
            failed.fix("journalctl -u kubelet -n 200 --no-pager | grep -i -e nodeip -e 'address of node'    # says why")
        }
    }
}

fn listed(addresses: &[IpAddr]) -> String {
    if addresses.is_empty() {
        return "none".to_owned();
    }
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Why;
    use crate::join::verify::testing::{OWN_ADDRESS, STARTED, joined, judged, node, table, with};
    use crate::join::verify::{Kubelet, Node};

    const THEIRS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 99));

    fn with_addresses(addresses: &[IpAddr]) -> NodeEvidence {
        NodeEvidence { node: Ok(Node { internal_ips: addresses.to_vec(), ..node() }), ..joined() }
    }

    #[test]
    fn judges() {
        table(
            &PROOF,
            [
                ("its own", joined(), Pass),
                ("none", with_addresses(&[]), Fail),
                ("another's", with_addresses(&[THEIRS]), Fail),
                ("one of two", with_addresses(&[OWN_ADDRESS, THEIRS]), Fail),
                ("no ip here", with(|s| s.addresses = Err(Why::NoTool)), Unknown),
                ("no Node to ask", with(|s| s.node = Err(Why::TimedOut)), Unknown),
            ],
        );
    }

    #[test]
    fn the_flag_is_taken_out_where_it_stands() {
        let node_ip = Some(KubeletFlag { word: "--node-ip=10.0.0.99".into(), file: "/etc/default/kubelet".into() });
        let kubelet = Ok(Kubelet { active: true, started_at: Some(STARTED), node_ip, ..Kubelet::default() });
        let verdict = judged(&PROOF, &NodeEvidence { kubelet, ..with_addresses(&[]) });
        assert_eq!(verdict.means.map(|about| about.id), Some("kubelet.node-ip-not-here"));
        assert!(verdict.remedy[0].starts_with("sed -i 's|--node-ip=10.0.0.99||' /etc/default/kubelet"), "{verdict:?}");
        assert_eq!(judged(&PROOF, &with_addresses(&[])).means, None, "nobody told it to");
    }
}
