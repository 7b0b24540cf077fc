//! The link of flannel's tunnel stands on this node.
//!
//! flannel makes it when it starts (flannel.1 for vxlan) and never looks whether it is still there. Where somebody deletes it or
//! takes it down (a restart of the network's services, a clean-up script), the node stays Ready, pods get addresses, and
//! what they say to pods of other nodes is lost: their routes went with the link. Which backend flannel uses is told by the
//! size that it gives packets: a tunnel's is smaller than the card's by what the tunnel adds.
//!
//! See it yourself: `ip -d link show type vxlan; ip route | grep flannel; cat /run/flannel/subnet.env`
//! Fix: restart the flannel pod of this node, which makes the link and its routes anew

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip,
};
use crate::cni::flannel;
use crate::fact::cni::SUBNET_ENV;
use crate::fact::net::{self, LINKS, Link};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.tunnel-link",
    title: "the link of flannel's tunnel is up",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::GoesOn("flannel makes it when it starts"),
    fixed_by: FixedBy::Operator("flannel makes it when it starts, with routes that only it knows"),
    accounts_for: nothing,
    judge,
};

/// What flannel's tunnels add to a packet: ipip, udp, vxlan over IPv4 and over IPv6, wireguard. Its host-gw adds nothing; what
/// else makes packets smaller has no link.
const OVERHEADS: [u64; 5] = [20, 28, 50, 70, 80];

const RESTART: &str = "kubectl -n kube-flannel delete pod -l app=flannel --field-selector spec.nodeName={node}";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if !facts.has_kubelet_conf()? || facts.cni_flavour()? != Some(&flannel::FLAVOUR) {
        return Ok(skip("flannel is no network of a node here"));
    }
    let Some(told) = facts.flannel()?.and_then(|flannel| flannel.mtu) else {
        return Ok(skip("flannel has not started: see cni.subnet-env"));
    };
    let links = facts.links()?;
    let says = match links.iter().find(|link| link.name.starts_with("flannel")) {
        Some(link) if link.state == "DOWN" => format!("{} is down", link.name),
        Some(link) => return Ok(pass(format!("{} is up", link.name))),
        None => "no link called flannel*".to_owned(),
    };
    let by_a_tunnel = |card: &&Link| card.mtu > told && OVERHEADS.contains(&(card.mtu - told));
    let mut cards = links.iter().filter(|link| !net::is_of_pod_network(&link.name) && link.name != "lo");
    if cards.clone().any(|card| card.mtu == told) {
        return Ok(pass("flannel uses no tunnel"));
    }
    let Some(card) = cards.find(by_a_tunnel) else {
        return Ok(skip(format!("FLANNEL_MTU={told} is of no card, and of no tunnel that makes a link")));
    };
    Ok(fail("flannel's tunnel is down: pods here reach no pod of another node")
        .seen([
            Evidence::of(LINKS.name, says),
            Evidence::of(SUBNET_ENV, format!("FLANNEL_MTU={told}, {} less than {}'s", card.mtu - told, card.name)),
        ])
        .fix(RESTART)
        .explains([id!("pod.no-route")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::kubeconfig::KUBELET;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn node(told: u64, links: &[(&str, u64, &str)]) -> Facts {
        let link = |(name, mtu, state): &(&str, u64, &str)| {
            format!(r#"{{"ifname":"{name}","mtu":{mtu},"operstate":"{state}","addr_info":[]}}"#)
        };
        let links: Vec<String> = links.iter().map(link).collect();
        facts()
            .with_file(KUBELET, "")
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-flannel.conflist")])
            .with_file("/etc/cni/net.d/10-flannel.conflist", r#"{"name":"x","plugins":[{"type":"flannel"}]}"#)
            .with_file(SUBNET_ENV, &format!("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_MTU={told}\n"))
            .with_query(&LINKS, &format!("[{}]", links.join(",")))
    }

    #[test]
    fn judges() {
        const ETH0: (&str, u64, &str) = ("eth0", 1500, "UP");
        const BRIDGE: (&str, u64, &str) = ("cni0", 1450, "UP");
        let calico = r#"{"name":"x","plugins":[{"type":"calico"}]}"#;
        table(
            &CHECK,
            [
                ("vxlan", node(1450, &[ETH0, ("flannel.1", 1450, "UNKNOWN")]), Pass),
                ("vxlan's link was deleted", node(1450, &[ETH0, BRIDGE]), Fail),
                ("vxlan's link was taken down", node(1450, &[ETH0, ("flannel.1", 1450, "DOWN")]), Fail),
                ("wireguard's was deleted", node(8921, &[("ens5", 9001, "UP")]), Fail),
                ("host-gw", node(1500, &[ETH0, BRIDGE]), Pass),
                ("host-gw over a second card", node(1450, &[ETH0, ("eth1", 1450, "UP")]), Pass),
                ("ipsec", node(1423, &[ETH0]), Skip),
                ("flannel has not started", node(1450, &[ETH0]).without_file(SUBNET_ENV), Skip),
                ("another network", node(1450, &[ETH0]).with_file("/etc/cni/net.d/10-flannel.conflist", calico), Skip),
                ("not joined", node(1450, &[ETH0]).without_file(KUBELET), Skip),
                ("no ip", node(1450, &[]).without(Source::Query(&LINKS), Why::NoTool), Unknown),
            ],
        );
    }
}
