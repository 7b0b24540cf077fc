//! The machine's own networks are not the cluster's.
//!
//! Where an address or a route of this machine lies in the cluster's range for pods or services, packets for pods leave
//! by the card, or packets for the machine's neighbours end in a pod: the node joins, is Ready, and part of the network
//! cannot be reached. What pod networks themselves put there (cni0, flannel.1, veth…) does not count.
//!
//! See it yourself: `ip addr; ip route show table all`, beside `kubectl -n kube-system get cm kubeadm-config -o yaml`
//! Mend it: renumber the machine's network, or the route (a VPN, docker0: `bip` in /etc/docker/daemon.json); the
//! cluster's ranges are chosen at `kubeadm init` and hard to change later.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
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

/// A network of the machine that lies in one of the cluster's.
struct Overlap {
    what: String,
    range: Cidr,
    of: &'static str,
    source: &'static str,
}

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let cluster = facts.cluster_network()?;
    let (links, routes) = (facts.links()?, facts.routes()?);
    let has_pod_network = !facts.cni_candidates()?.is_empty();
    let mut overlaps = Vec::new();
    for (of, ranges) in [("pods", &cluster.pods), ("services", &cluster.services)] {
        for &range in ranges {
            let own = links.iter().filter(|link| !is_of_pod_network(&link.name));
            let addresses = own.flat_map(|link| link.addresses.iter().map(move |address| (link, address)));
            overlaps.extend(addresses.filter(|(_, address)| address.overlaps(range)).map(|(link, address)| Overlap {
                what: format!("{} {address}", link.name),
                range,
                of,
                source: LINKS.name,
            }));
            let routes = routes.iter().filter(|route| leads_into(route, range));
            let routes = routes.filter(|route| !(has_pod_network && of == "pods" && is_to_another_node(route, range)));
            overlaps.extend(routes.map(|route| Overlap { what: route.line(), range, of, source: ROUTES.name }));
        }
    }
    let Some(first) = overlaps.first() else {
        return Ok(pass("no address or route of the machine lies in the cluster's ranges"));
    };
    Ok(fail(format!("{} lies in the cluster's {} {}", first.what, first.of, first.range))
        .seen(overlaps.iter().map(|overlap| {
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
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
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
        let direct = r#",{"dst":"10.244.2.0/24","dev":"tun0"}"#;
        let service = r#",{"dst":"10.100.0.0/24","gateway":"192.168.4.9","dev":"eth0"}"#;
        table(
            &CHECK,
            [
                ("apart", machine("192.168.4.61/24", ""), Pass),
                ("an address among the pods", machine("10.244.77.5/24", ""), Fail),
                ("a network around the pods", machine("10.0.0.5/8", ""), Fail),
                ("an address among the services", machine("10.96.5.5/24", ""), Fail),
                ("just past the services", machine("10.112.0.1/24", ""), Pass),
                ("a VPN's route", machine("192.168.4.61/24", direct), Fail),
                ("a route among the services", with_cni(machine("192.168.4.61/24", service)), Fail),
                ("a gateway to pods before any pod network", machine("192.168.4.61/24", host_gw), Fail),
                ("host-gw", with_cni(machine("192.168.4.61/24", host_gw)), Pass),
                ("direct, with a pod network", with_cni(machine("192.168.4.61/24", direct)), Fail),
                ("all pods by one gateway", with_cni(machine("192.168.4.61/24", whole)), Fail),
                ("not asked", facts(), Skip),
                ("the cluster did not answer", facts().without(Source::Api("kubeadm-config"), Why::TimedOut), Unknown),
                ("no ip", machine("192.168.4.61/24", "").without(Source::Query(&LINKS), Why::NoTool), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&machine("10.244.77.5/24", ""), &CheckPolicy::default());
        assert_eq!(verdict.says, "eth0 10.244.77.5/24 lies in the cluster's pods 10.244.0.0/16");
        assert_eq!(verdict.evidence.len(), 1);
    }
}
