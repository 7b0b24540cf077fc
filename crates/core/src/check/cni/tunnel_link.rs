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
use crate::fact::cni::{SUBNET_ENV, SubnetEnv};
use crate::fact::net::{self, LINKS, Link, Route};
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
    let Some((flannel, told)) = facts.flannel()?.and_then(|flannel| Some((flannel, flannel.mtu?))) else {
        return Ok(skip("flannel has not started: see cni.subnet-env"));
    };
    let (links, routes) = (facts.links()?, facts.routes().unwrap_or_default());
    let own: Vec<&Link> = links.iter().filter(|link| link.name.starts_with("flannel")).collect();
    let Some(says) = missing_link(&own, flannel) else {
        let names: Vec<&str> = own.iter().map(|link| link.name.as_str()).collect();
        return Ok(pass(format!("{} is up", names.join(", "))));
    };
    let by_a_tunnel = |card: &&Link| card.mtu > told && OVERHEADS.contains(&(card.mtu - told));
    let mut cards = links.iter().filter(|link| !net::is_of_pod_network(&link.name) && link.name != "lo");
    if own.is_empty() && (cards.clone().any(|card| card.mtu == told) || leads_by_a_card(&routes, flannel)) {
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

/// What is wrong with the links of the tunnels, one for each family where they are vxlans; wireguard may have one for both.
fn missing_link(own: &[&Link], flannel: SubnetEnv) -> Option<String> {
    if let Some(down) = own.iter().find(|link| link.state == "DOWN") {
        return Some(format!("{} is down", down.name));
    }
    let is_six = |link: &&&Link| link.name.contains("-v6");
    let (six, four) = (own.iter().find(is_six), own.iter().find(|link| !is_six(link)));
    let is_vxlan = |link: &&&Link| link.name.rsplit_once('.').is_some_and(|(_, id)| id.parse::<u32>().is_ok());
    match (four, six) {
        (None, None) => Some("no link called flannel*".to_owned()),
        (None, Some(six)) if flannel.network.is_some() && is_vxlan(&six) => {
            Some(format!("no link called flannel.* beside {}", six.name))
        }
        (Some(four), None) if flannel.network_v6.is_some() && is_vxlan(&four) => {
            Some(format!("no link called flannel-v6.* beside {}", four.name))
        }
        _ => None,
    }
}

/// Whether pods of other nodes are reached by those nodes' addresses: flannel's host-gw.
fn leads_by_a_card(routes: &[Route], flannel: SubnetEnv) -> bool {
    let networks = [flannel.network, flannel.network_v6];
    let is_others = |route: &&Route| {
        let to = route.to.filter(|to| networks.iter().flatten().any(|network| network.covers(*to)));
        to.is_some() && route.gateway.is_some() && !route.links.iter().any(|link| net::is_of_pod_network(link))
    };
    routes.iter().any(|route| is_others(&route))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::kubeconfig::KUBELET;
    use crate::fact::net::ROUTES;
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
        const FOUR: (&str, u64, &str) = ("flannel.1", 1450, "UNKNOWN");
        const SIX: (&str, u64, &str) = ("flannel-v6.1", 1430, "UNKNOWN");
        const HOST_GW: &str = r#"[{"dst":"10.244.2.0/24","gateway":"10.0.0.22","dev":"eth0"}]"#;
        let both = |links: &[(&str, u64, &str)]| {
            let env = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_IPV6_NETWORK=fd00:244::/56\nFLANNEL_MTU=1430\n";
            node(1430, links).with_file(SUBNET_ENV, env)
        };
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
                (
                    "host-gw, and the card was given a larger MTU since",
                    node(1450, &[ETH0, BRIDGE]).with_query(&ROUTES, HOST_GW),
                    Pass,
                ),
                ("both families", both(&[ETH0, FOUR, SIX]), Pass),
                ("both families, and IPv4's was deleted", both(&[ETH0, SIX]), Fail),
                ("both families, and IPv6's was deleted", both(&[ETH0, FOUR]), Fail),
                ("both families, and IPv6's was taken down", both(&[ETH0, FOUR, ("flannel-v6.1", 1430, "DOWN")]), Fail),
                ("both families in one wireguard", both(&[ETH0, ("flannel-wg", 1420, "UNKNOWN")]), Pass),
                ("ipsec", node(1423, &[ETH0]), Skip),
                ("flannel has not started", node(1450, &[ETH0]).without_file(SUBNET_ENV), Skip),
                ("another network", node(1450, &[ETH0]).with_file("/etc/cni/net.d/10-flannel.conflist", calico), Skip),
                ("not joined", node(1450, &[ETH0]).without_file(KUBELET), Skip),
                ("no ip", node(1450, &[]).without(Source::Query(&LINKS), Why::NoTool), Unknown),
            ],
        );
    }
}
