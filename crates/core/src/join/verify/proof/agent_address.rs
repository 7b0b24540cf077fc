//! The network agent's own address is one of the Node's InternalIPs.
//!
//! flannel, calico and antrea choose the address to which other nodes send this node's pod traffic, and write it to the Node. On a
//! machine with several interfaces that may be another than the one the nodes reach each other by: pods run, and packets
//! between nodes are lost. It may also be chosen (--iface, public-ip-overwrite): alone it is a warning. It fails where the far
//! ends of this node's tunnels are reached over another interface than the one with that address, or no pod of another node
//! answers.
//!
//! See it yourself: `kubectl get node NAME -o yaml | grep -e public-ip -e IPv4Address`, `ip route get PEER`, `bridge fdb show`
//! Fix: tell the agent which interface to use: flannel `--iface=NAME`, calico `IP_AUTODETECTION_METHOD=kubernetes-internal-ip`

use crate::check::{Evidence, Subsystem, Verdict, fail, pass, skip, warn};
use crate::fact::Known;
use crate::join::verify::{AgentAddress, AgentPod, Node, NodeEvidence, Proof, Until, known};

pub const PROOF: Proof = Proof {
    id: "verify.agent-address",
    title: "the pod network uses the Node's address",
    subsystem: Subsystem::Cni,
    until: Until::Verified,
    after: &["verify.kubelet", "verify.cluster", "verify.certificate", "verify.identity", "verify.node-address"],
    judge,
};

fn judge(seen: &NodeEvidence, _: Until) -> Known<Verdict> {
    let node = known("Node", &seen.node)?;
    let own = told(node, known("the node's pods", &seen.agents)?);
    let Some(first) = own.iter().copied().find(|it| differs(node, it)) else {
        return Ok(match own.first() {
            None => skip("no agent of the pod network says which address it uses"),
            Some(it) => pass(format!("{} uses the Node's address {}", it.network, it.address)),
        });
    };
    let says = format!("{} uses {}, which is no InternalIP of node {}", first.network, first.address, node.name);
    let detours = seen.detours.as_deref().unwrap_or_default();
    let unanswered = seen.peers.as_ref().is_ok_and(|dialled| dialled.is_unanswered() && dialled.has_lasted);
    let verdict = if detours.is_empty() && !unanswered {
        warn(says)
    } else {
        fail(format!("{says}: pods of other nodes are not reached"))
    };
    Ok(verdict
        .seen(Evidence::of("Node metadata.annotations", format!("{}: {}", first.annotation, first.address)))
        .seen(node.internal_ips.iter().map(|ip| Evidence::of("Node status.addresses", format!("InternalIP {ip}"))))
        .seen(detours.iter().take(3).map(|says| Evidence::of("bridge fdb show, ip route show", says.as_str())))
        .fix(first.set_by.clone()))
}

/// What the agents that run here say; what a network that was here before wrote stays on the Node.
fn told<'n>(node: &'n Node, agents: &[AgentPod]) -> Vec<&'n AgentAddress> {
    let is_here = |it: &&AgentAddress| agents.iter().any(|pod| pod.network.as_ref() == Some(&it.network));
    node.agent_addresses.iter().filter(is_here).collect()
}

fn differs(node: &Node, it: &AgentAddress) -> bool {
    let mut family = node.internal_ips.iter().filter(|ip| ip.is_ipv6() == it.address.is_ipv6()).peekable();
    family.peek().is_some() && !family.any(|ip| *ip == it.address)
}

/// That an agent's address is not the Node's, as a sign of why no pod of another node answers.
pub(super) fn sign(seen: &NodeEvidence) -> Option<Evidence> {
    let (node, agents) = (seen.node.as_ref().ok()?, seen.agents.as_ref().ok()?);
    let first = told(node, agents).into_iter().find(|it| differs(node, it))?;
    let says = format!("{}: {}, which is no InternalIP", first.annotation, first.address);
    Some(Evidence::of(format!("Node {}", node.name), says))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::Why;
    use crate::join::verify::testing::{OWN_ADDRESS, agent, joined, node, peer_dial, table, with};
    use crate::join::verify::{Dialled, PeerDial};

    fn using(address: &str, detours: Result<Vec<String>, Why>) -> NodeEvidence {
        let own = AgentAddress {
            network: "flannel".into(),
            annotation: "flannel.alpha.coreos.com/public-ip".into(),
            address: address.parse().unwrap(),
            set_by: "--iface".into(),
        };
        let flannel = AgentPod { network: Some("flannel".into()), ..agent("kube-flannel/kube-flannel-ds-1") };
        NodeEvidence {
            node: Ok(Node { agent_addresses: vec![own], ..node() }),
            agents: Ok(vec![flannel, agent("kube-system/kube-proxy-1")]),
            detours,
            ..joined()
        }
    }

    fn unanswered(address: &str) -> NodeEvidence {
        let peers = Ok(PeerDial { has_lasted: true, ..peer_dial(&[Dialled::Silent], &[]) });
        NodeEvidence { peers, ..using(address, Ok(Vec::new())) }
    }

    #[test]
    fn another_address_is_a_sign() {
        assert_eq!(sign(&using(&OWN_ADDRESS.to_string(), Ok(Vec::new()))), None);
        let said = sign(&using("10.0.2.15", Err(Why::NotCollected))).map(|seen| seen.text);
        assert_eq!(said.as_deref(), Some("flannel.alpha.coreos.com/public-ip: 10.0.2.15, which is no InternalIP"));
    }

    fn left_behind() -> NodeEvidence {
        NodeEvidence { agents: joined().agents, ..using("10.0.2.15", Ok(vec!["x".into()])) }
    }

    #[test]
    fn judges() {
        let detour = || Ok(vec!["10.0.0.11 goes over eth1; 10.0.2.15 is on eth0".to_owned()]);
        table(
            &PROOF,
            [
                ("says nothing", joined(), Skip),
                ("the Node's own", using(&OWN_ADDRESS.to_string(), Ok(Vec::new())), Pass),
                ("another, which may be chosen", using("10.0.2.15", Ok(Vec::new())), Warn),
                ("another, and nobody looked further", using("10.0.2.15", Err(Why::NotCollected)), Warn),
                ("another, and peers are elsewhere", using("10.0.2.15", detour()), Fail),
                ("another, and no pod of another node answers", unanswered("10.0.2.15"), Fail),
                ("the Node's own, and no pod answers", unanswered(&OWN_ADDRESS.to_string()), Pass),
                ("a family the Node does not have", using("fd00::1", detour()), Pass),
                ("of a network that is gone", left_behind(), Skip),
                ("not asked", with(|s| s.agents = Err(Why::TimedOut)), Unknown),
            ],
        );
        let _: IpAddr = OWN_ADDRESS;
    }
}
