//! The machine's own networks are not the cluster's.
//!
//! Where an address or a route of this machine lies in the cluster's range for pods or services, packets for pods leave
//! by the card, or packets for the machine's neighbours end in a pod: the node joins, is Ready, and part of the network
//! cannot be reached. What pod networks themselves put there (cni0, flannel.1, veth…) does not count. A network around
//! the cluster's range (10.0.0.0/8 around 10.244.0.0/16) takes nothing from it: the kernel follows the longest prefix.
//! Only this machine's neighbours with such addresses are out of reach, and that is a warning. So it is where the API
//! server's own address lies in the pods' range: such a cluster gives its pods addresses of the machines' network.
//!
//! See it yourself: `ip addr; ip route show table all`, beside `kubectl -n kube-system get cm kubeadm-config -o yaml`
//! Fix: renumber the machine's network, or the route (a VPN, docker0: `bip` in /etc/docker/daemon.json); the
//! cluster's ranges are chosen at `kubeadm init` and hard to change later.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::cidr::Cidr;
use crate::fact::net::{LINKS, ROUTES, Route, is_of_pod_network};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "network.cidr-overlap",
    title: "the machine's own networks are not the cluster's",
    subsystem: Subsystem::Network,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("one of two networks has to be renumbered"),
    accounts_for: nothing,
    judge,
};

/// A network of the machine that has addresses in common with one of the cluster's.
struct Overlap {
    what: String,
    range: Cidr,
    of: &'static str,
    source: &'static str,
    /// Its addresses are the cluster's; otherwise it only lies around them.
    within: bool,
}

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let cluster = facts.cluster_network()?;
    let (links, routes) = (facts.links()?, facts.routes()?);
    let has_pod_network = !facts.cni_candidates()?.is_empty();
    let server = facts.api_server_address();
    let mut overlaps = Vec::new();
    for (of, ranges) in [("pods", &cluster.pods), ("services", &cluster.services)] {
        for &range in ranges {
            let is_flat = of == "pods" && server.is_some_and(|server| range.contains(server));
            let own = links.iter().filter(|link| !is_of_pod_network(&link.name));
            let addresses = own.flat_map(|link| link.addresses.iter().map(move |address| (link, address)));
            overlaps.extend(addresses.filter(|(_, address)| address.overlaps(range)).map(|(link, address)| Overlap {
                what: format!("{} {address}", link.name),
                range,
                of,
                source: LINKS.name,
                within: range.contains(address.address) && !is_flat,
            }));
            let routes = routes.iter().filter(|route| leads_into(route, range));
            let routes = routes.filter(|route| !(has_pod_network && of == "pods" && is_to_another_node(route, range)));
            overlaps.extend(routes.map(|route| Overlap {
                what: route.line(),
                range,
                of,
                source: ROUTES.name,
                within: route.to.is_some_and(|to| to.length() > range.length()) && !is_flat,
            }));
        }
    }
    // What is around one range is no word on another.
    let worst = overlaps.iter().find(|overlap| overlap.within).or(overlaps.first());
    let Some(first) = worst else {
        return Ok(pass("no address or route of the machine lies in the cluster's ranges"));
    };
    let is_flat = server.is_some_and(|server| first.range.contains(server));
    let (what, of, range) = (&first.what, first.of, first.range);
    let verdict = match (first.within, is_flat) {
        (true, _) => fail(format!("{what} lies in the cluster's {of} {range}")),
        (false, true) => {
            warn(format!("{what} and the API server lie in the cluster's {of} {range}: pods share their network"))
        }
        (false, false) => warn(format!(
            "{what} lies around the cluster's {of} {range}: machines with such addresses are out of reach"
        )),
    };
    Ok(verdict
        .seen(overlaps.iter().filter(|overlap| overlap.within == first.within).map(|overlap| {
            Evidence::of(overlap.source, format!("{}  in {} {}", overlap.what, overlap.of, overlap.range))
        }))
        .fix("renumber that network, or take the route away: the cluster's ranges cannot be changed later")
        .explains([id!("pod.no-route")]))
}

/// A route of the machine's own with a destination in the range.
fn leads_into(route: &Route, range: Cidr) -> bool {
    route.kind == "unicast"
        && route.to.is_some_and(|to| to.overlaps(range))
        && !route.links.iter().any(|link| is_of_pod_network(link))
}

/// Pod networks without a tunnel (flannel's host-gw, BGP) reach the pods of another node by that node's address.
fn is_to_another_node(route: &Route, pods: Cidr) -> bool {
    route.gateway.is_some() && route.to.is_some_and(|to| pods.covers(to) && to.length() > pods.length())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const CONFIG: &str =
        "kind: ClusterConfiguration\nnetworking:\n  podSubnet: 10.244.0.0/16\n  serviceSubnet: 10.96.0.0/12\n";

    fn machine(address: &str, routes: &str) -> Facts {
        let (address, length) = address.split_once('/').unwrap();
        let links = format!(
            r#"[{{"ifname":"lo","mtu":65536,"addr_info":[{{"local":"127.0.0.1","prefixlen":8}}]}},
            {{"ifname":"eth0","mtu":1500,"addr_info":[{{"local":"{address}","prefixlen":{length}}}]}},
            {{"ifname":"cni0","mtu":1450,"addr_info":[{{"local":"10.244.1.1","prefixlen":24}}]}},
            {{"ifname":"kube-ipvs0","mtu":1500,"addr_info":[{{"local":"10.96.0.1","prefixlen":32}}]}}]"#
        );
        let routes = format!(
            r#"[{{"dst":"default","gateway":"192.168.4.1","dev":"eth0"}},{{"dst":"10.244.0.0/24","gateway":"10.244.0.0","dev":"flannel.1"}},
            {{"type":"blackhole","dst":"10.244.9.0/26"}}{routes}]"#
        );
        facts()
            .with_api("kubeadm-config", CONFIG)
            .with_query(&LINKS, &links)
            .with_query(&ROUTES, &routes)
            .with_dir("/etc/cni/net.d", &[])
    }

    #[test]
    fn judges() {
        let with_cni = |facts: Facts| facts.with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-flannel.conflist")]);
        let host_gw = r#",{"dst":"10.244.2.0/24","gateway":"192.168.4.62","dev":"eth0"}"#;
        let whole = r#",{"dst":"10.244.0.0/16","gateway":"192.168.4.62","dev":"eth0"}"#;
        let around = r#",{"dst":"10.0.0.0/8","gateway":"192.168.4.1","dev":"eth0"}"#;
        let path = r#"{"endpoint":"10.244.0.11:6443","steps":[]}"#;
        let flat = |address: &str| machine(address, "").with_api("path", path);
        let direct = r#",{"dst":"10.244.2.0/24","dev":"tun0"}"#;
        let service = r#",{"dst":"10.100.0.0/24","gateway":"192.168.4.9","dev":"eth0"}"#;
        table(
            &CHECK,
            [
                ("apart", machine("192.168.4.61/24", ""), Pass),
                ("an address among the pods", machine("10.244.77.5/24", ""), Fail),
                ("a network around the pods", machine("10.0.0.5/8", ""), Warn),
                ("an address among the pods, in a network around them", machine("10.244.77.5/8", ""), Fail),
                ("a route around the pods", machine("192.168.4.61/24", around), Warn),
                (
                    "a route around the pods, and a VPN's into them",
                    machine("192.168.4.61/24", &format!("{around}{direct}")),
                    Fail,
                ),
                ("pods are of the machines' network", flat("10.244.77.5/16"), Warn),
                ("pods are of the machines' network, services are not", flat("10.96.5.5/24"), Fail),
                ("an address among the services", machine("10.96.5.5/24", ""), Fail),
                ("just past the services", machine("10.112.0.1/24", ""), Pass),
                ("a VPN's route", machine("192.168.4.61/24", direct), Fail),
                ("a route among the services", with_cni(machine("192.168.4.61/24", service)), Fail),
                ("a gateway to pods before any pod network", machine("192.168.4.61/24", host_gw), Fail),
                ("host-gw", with_cni(machine("192.168.4.61/24", host_gw)), Pass),
                ("direct, with a pod network", with_cni(machine("192.168.4.61/24", direct)), Fail),
                ("all pods by one gateway", with_cni(machine("192.168.4.61/24", whole)), Warn),
                ("not asked", facts(), Skip),
                ("the cluster did not answer", facts().without(Source::Api("kubeadm-config"), Why::TimedOut), Unknown),
                ("no ip", machine("192.168.4.61/24", "").without(Source::Query(&LINKS), Why::NoTool), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&machine("10.244.77.5/24", ""), &CheckPolicy::default());
        assert_eq!(verdict.says, "eth0 10.244.77.5/24 lies in the cluster's pods 10.244.0.0/16");
        assert_eq!(verdict.evidence.len(), 1);
        let verdict = CHECK.verdict(&machine("192.168.4.61/24", around), &CheckPolicy::default());
        assert_eq!(
            verdict.says,
            "10.0.0.0/8 via 192.168.4.1 dev eth0 lies around the cluster's pods 10.244.0.0/16: machines with such addresses are out of reach"
        );
        let verdict = CHECK.verdict(&flat("10.244.77.5/16"), &CheckPolicy::default());
        assert_eq!(
            verdict.says,
            "eth0 10.244.77.5/16 and the API server lie in the cluster's pods 10.244.0.0/16: pods share their network"
        );
    }
}
