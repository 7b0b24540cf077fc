//! Links, addresses and routes, as `ip -j` tells them.

use std::cmp::Reverse;
use std::net::IpAddr;

use serde_json::Value;

use super::cidr::Cidr;
use super::evidence::Evidence;
use super::keep::NETWORK_TABLE;
use super::{Facts, Known, Missing, Query, Source};
use crate::cni::FLAVOURS;

pub const LINKS: Query =
    Query { name: "ip -j -d addr show", argv: &["ip", "-j", "-d", "addr", "show"], keep: NETWORK_TABLE };
/// Both families: `table all` is not limited to IPv4.
pub const ROUTES: Query = Query {
    name: "ip -j route show table all",
    argv: &["ip", "-j", "route", "show", "table", "all"],
    keep: NETWORK_TABLE,
};

/// Looked at only where somebody does not answer: on a busy node there are thousands.
pub const NEIGHBOURS: Query =
    Query { name: "ip -j neigh show", argv: &["ip", "-j", "neigh", "show"], keep: NETWORK_TABLE };

pub const SOURCES: &[Source] = &[Source::Query(&LINKS), Source::Query(&ROUTES)];

/// Marks a link in text that `ip` printed without `-d`.
pub const WITHOUT_KIND: &str = "without_kind";

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    /// 0 where it is not told.
    pub mtu: u64,
    /// `bridge`, `vxlan`, `veth` …; a physical card has none.
    pub kind: Option<String>,
    /// `UP`, `DOWN`, and `UNKNOWN` for every vxlan and loopback: not a sign of trouble.
    pub state: String,
    pub addresses: Vec<Cidr>,
    /// Of a vxlan or a geneve: the UDP port it sends to.
    pub vxlan_port: Option<u64>,
    /// False where it was printed without `-d`: its kind is not known then.
    pub has_kind: bool,
}

impl Link {
    pub fn is_vxlan(&self) -> bool {
        self.kind.as_deref() == Some("vxlan")
    }
}

/// Interfaces that pod networks make: their addresses and routes are the cluster's, not the machine's.
pub fn is_of_pod_network(link: &str) -> bool {
    FLAVOURS.iter().any(|flavour| flavour.makes(link))
}

/// One way out of the machine, or one destination in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// `None` is the default route.
    pub to: Option<Cidr>,
    pub links: Vec<String>,
    pub gateway: Option<String>,
    /// `main` where nothing is said.
    pub table: String,
    /// `unicast` where nothing is said; `local`, `broadcast`, `blackhole` …
    pub kind: String,
    pub metric: u64,
    pub is_v6: bool,
    /// The card has no carrier, or is gone.
    pub is_dead: bool,
}

impl Route {
    /// As `ip route` shows it.
    pub fn line(&self) -> String {
        let mut words = vec![self.to.map_or_else(|| "default".to_owned(), |to| to.to_string())];
        words.extend(self.gateway.as_ref().map(|gateway| format!("via {gateway}")));
        words.extend(self.links.iter().map(|link| format!("dev {link}")));
        if self.is_dead {
            words.push("linkdown".to_owned());
        }
        words.join(" ")
    }
}

/// The route that a packet to this address takes: of the main table, the longest prefix, then the lowest metric.
pub fn route_to(routes: &[Route], address: IpAddr) -> Option<&Route> {
    let leads = |route: &&Route| {
        let family = route.to.map_or(route.is_v6, Cidr::is_v6);
        let is_way = route.table == "main" && route.kind == "unicast" && !route.is_dead;
        is_way && family == address.is_ipv6() && route.to.is_none_or(|to| to.contains(address))
    };
    let length = |route: &&Route| route.to.map_or(0, Cidr::length);
    routes.iter().filter(leads).max_by_key(|route| (length(route), Reverse(route.metric)))
}

pub fn parse_links(text: &str) -> Result<Vec<Link>, String> {
    Ok(objects(text)?.iter().filter_map(link).collect())
}

fn link(value: &Value) -> Option<Link> {
    let info = value.get("linkinfo");
    Some(Link {
        name: text(value, "ifname")?,
        mtu: value.get("mtu").and_then(Value::as_u64).unwrap_or(0),
        kind: info.and_then(|info| text(info, "info_kind")),
        state: text(value, "operstate").unwrap_or_default(),
        addresses: array(value, "addr_info").filter_map(address).collect(),
        has_kind: value.get(WITHOUT_KIND).is_none(),
        vxlan_port: info.and_then(|info| info.pointer("/info_data/port")).and_then(Value::as_u64),
    })
}

fn address(value: &Value) -> Option<Cidr> {
    let length = value.get("prefixlen").and_then(Value::as_u64).and_then(|length| u8::try_from(length).ok())?;
    Cidr::new(value.get("local")?.as_str()?.parse().ok()?, length)
}

/// Who is known to be a hop away by a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub address: IpAddr,
    pub link: String,
    /// `REACHABLE`, `PERMANENT`, `FAILED` …; an entry may have several.
    pub states: Vec<String>,
}

impl Neighbour {
    /// The kernel has asked for its hardware address in vain.
    pub fn is_lost(&self) -> bool {
        self.states.iter().any(|state| state == "FAILED" || state == "INCOMPLETE")
    }
}

pub fn parse_neighbours(text: &str) -> Result<Vec<Neighbour>, String> {
    Ok(objects(text)?.iter().filter_map(neighbour).collect())
}

fn neighbour(value: &Value) -> Option<Neighbour> {
    let states = array(value, "state").filter_map(Value::as_str).map(str::to_owned).collect();
    Some(Neighbour { address: text(value, "dst")?.parse().ok()?, link: text(value, "dev")?, states })
}

pub fn parse_routes(text: &str) -> Result<Vec<Route>, String> {
    Ok(objects(text)?.iter().filter_map(route).collect())
}

fn route(value: &Value) -> Option<Route> {
    let to = text(value, "dst")?;
    let gateway =
        text(value, "gateway").or_else(|| value.pointer("/via/host").and_then(Value::as_str).map(str::to_owned));
    let hops: Vec<&Value> = array(value, "nexthops").collect();
    let flags = |value: &Value| array(value, "flags").any(|flag| matches!(flag.as_str(), Some("dead" | "linkdown")));
    let to = if to == "default" { None } else { Some(to.parse::<Cidr>().ok()?) };
    // `ip` prints the preference of IPv6 routes only.
    let is_v6 = to.map_or_else(|| value.get("pref").is_some(), Cidr::is_v6);
    Some(Route {
        to,
        links: text(value, "dev").into_iter().chain(hops.iter().filter_map(|hop| text(hop, "dev"))).collect(),
        gateway: gateway.or_else(|| hops.iter().find_map(|hop| text(hop, "gateway"))),
        table: text(value, "table").unwrap_or_else(|| "main".to_owned()),
        kind: text(value, "type").unwrap_or_else(|| "unicast".to_owned()),
        metric: value.get("metric").and_then(Value::as_u64).unwrap_or(0),
        is_v6,
        is_dead: flags(value) || (!hops.is_empty() && hops.iter().all(|hop| flags(hop))),
    })
}

/// `ip -j` prints an array; some versions print nothing at all where there is nothing.
fn objects(text: &str) -> Result<Vec<Value>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

impl Facts {
    pub fn links(&self) -> Known<Vec<Link>> {
        self.told_by_ip(&LINKS, parse_links)
    }

    /// One link by its name; `None` where the machine has no such link.
    pub fn link(&self, name: &str) -> Known<Option<Link>> {
        Ok(self.links()?.into_iter().find(|link| link.name == name))
    }

    /// The links that are vxlans; a missing fact where nobody asked for the kinds of links.
    pub fn vxlans(&self) -> Known<Vec<Link>> {
        Ok(self.tunnels()?.into_iter().filter(Link::is_vxlan).collect())
    }

    /// The links that carry packets to other machines in UDP: vxlans and geneves.
    pub fn tunnels(&self) -> Known<Vec<Link>> {
        let links = self.links()?;
        if links.iter().any(|link| !link.has_kind) {
            return Err(Missing::broken("ip addr show", "was asked without -d: it does not say which link is a vxlan"));
        }
        Ok(links.into_iter().filter(|link| matches!(link.kind.as_deref(), Some("vxlan" | "geneve"))).collect())
    }

    /// Every route of every table.
    pub fn routes(&self) -> Known<Vec<Route>> {
        self.told_by_ip(&ROUTES, parse_routes)
    }

    pub fn neighbours(&self) -> Known<Vec<Neighbour>> {
        self.told_by_ip(&NEIGHBOURS, parse_neighbours)
    }

    /// Why packets to an address of another node's pod do not even leave, where that is so: no route leads there, or the
    /// tunnel it leads into does not know the node at its other end. What rules of `ip rule` do is not followed.
    pub fn no_way_to(&self, address: IpAddr) -> Known<Option<Evidence>> {
        let routes = self.routes()?;
        let leads = |route: &&Route| match route.to {
            _ if route.table != "main" => false,
            Some(to) => to.contains(address),
            None => route.is_v6 == address.is_ipv6(),
        };
        let length = |route: &&Route| route.to.map_or(0, Cidr::length);
        let Some(best) = routes.iter().filter(leads).max_by_key(|route| (length(route), Reverse(route.metric))) else {
            return Ok(Some(Evidence::of(ROUTES.name, format!("no route leads to {address}"))));
        };
        if best.is_dead || matches!(best.kind.as_str(), "unreachable" | "blackhole" | "prohibit") {
            return Ok(Some(Evidence::of(ROUTES.name, format!("{} {}", best.kind, best.line()))));
        }
        if best.to.is_none() && self.flannel_tunnels_to(address)? {
            let says = format!("{}: flannel has no route to {address}", best.line());
            return Ok(Some(Evidence::of(ROUTES.name, says)));
        }
        let tunnel = self.tunnels()?.into_iter().find(|link| best.links.contains(&link.name));
        let gateway = best.gateway.as_ref().and_then(|gateway| gateway.parse::<IpAddr>().ok());
        let (Some(tunnel), Some(gateway)) = (tunnel, gateway) else { return Ok(None) };
        let known = self.neighbours()?.into_iter().find(|it| it.address == gateway && it.link == tunnel.name);
        let says = match known {
            Some(known) if known.is_lost() => format!("{gateway} dev {}: {}", tunnel.name, known.states.join(" ")),
            Some(_) => return Ok(None),
            None => format!("{gateway} dev {}: not there", tunnel.name),
        };
        Ok(Some(Evidence::of(NEIGHBOURS.name, says)))
    }

    /// Whether flannel's tunnel ought to have a route to this address, as to every other node's range: some of its backends
    /// leave routing to a cloud, and have no link.
    fn flannel_tunnels_to(&self, address: IpAddr) -> Known<bool> {
        let network = self.flannel()?.and_then(|flannel| flannel.network);
        let is_of_it = network.is_some_and(|network| network.contains(address));
        Ok(is_of_it && self.links()?.iter().any(|link| link.name.starts_with("flannel")))
    }

    /// The default routes of the main table, the preferred first: IPv4 before IPv6, then by metric, as the kubelet,
    /// kubeadm and flannel look for them.
    pub fn default_routes(&self) -> Known<Vec<Route>> {
        let mut routes = self.routes()?;
        routes.retain(|route| route.to.is_none() && route.table == "main" && route.kind == "unicast");
        routes.sort_by_key(|route| (route.is_v6, route.metric));
        Ok(routes)
    }

    /// The link that the rest of the world is reached by; `None` where there is no way out.
    pub fn uplink(&self) -> Known<Option<Link>> {
        let routes = self.default_routes()?;
        let Some(name) = routes.iter().find(|route| !route.is_dead).and_then(|route| route.links.first()) else {
            return Ok(None);
        };
        self.link(name)
    }

    fn told_by_ip<T>(&self, query: &Query, parse: fn(&str) -> Result<Vec<T>, String>) -> Known<Vec<T>> {
        let said = self.query(query)?;
        if said.exit.is_some_and(|exit| exit != 0) {
            return Err(Missing::broken(query.name, said.errors.lines().next().unwrap_or("ended with an error")));
        }
        parse(&said.text).map_err(|detail| Missing::broken(query.name, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Why;
    use crate::testing::facts;
    use proptest::prelude::*;

    const WORKER: &str = r#"[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536,"qdisc":"noqueue","operstate":"UNKNOWN","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8,"scope":"host","label":"lo"},{"family":"inet6","local":"::1","prefixlen":128,"scope":"host"}]},
        {"ifindex":2,"ifname":"eth0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,"operstate":"UP","addr_info":[{"family":"inet","local":"192.168.4.61","prefixlen":24,"scope":"global","label":"eth0"}]},
        {"ifindex":3,"ifname":"flannel.1","mtu":1450,"operstate":"UNKNOWN","linkinfo":{"info_kind":"vxlan","info_data":{"id":1,"local":"192.168.4.61","link":"eth0","port":8472,"learning":false}},"addr_info":[{"family":"inet","local":"10.244.1.0","prefixlen":32}]},
        {"ifindex":4,"ifname":"cni0","mtu":1450,"operstate":"UP","linkinfo":{"info_kind":"bridge","info_data":{"forward_delay":1500}},"addr_info":[{"family":"inet","local":"10.244.1.1","prefixlen":24},{"local":"?","prefixlen":24},{"local":"10.0.0.1","prefixlen":99}]}]"#;

    const ROUTED: &str = r#"[{"dst":"default","gateway":"192.168.4.1","dev":"eth0","metric":100,"flags":[]},
        {"dst":"default","gateway":"10.0.2.2","dev":"eth1","metric":50,"flags":["linkdown"]},
        {"dst":"default","gateway":"10.9.9.9","dev":"eth9","table":"100","flags":[]},
        {"type":"unreachable","dst":"default","dev":"lo","table":"main","metric":4294967295,"flags":[],"pref":"medium"},
        {"dst":"default","gateway":"fd00::1","dev":"eth0","metric":1,"flags":[],"pref":"medium"},
        {"dst":"10.244.0.0/24","gateway":"10.244.0.0","dev":"flannel.1","flags":["onlink"]},
        {"type":"local","dst":"10.244.1.1","dev":"cni0","table":"local","protocol":"kernel","scope":"host","flags":[]}]"#;

    #[test]
    fn the_longest_prefix_and_then_the_lowest_metric_leads_there() {
        let routes = parse_routes(ROUTED).unwrap();
        let via = |address: &str| route_to(&routes, address.parse().unwrap()).map(Route::line);
        assert_eq!(via("10.244.0.7").as_deref(), Some("10.244.0.0/24 via 10.244.0.0 dev flannel.1"));
        assert_eq!(via("8.8.8.8").as_deref(), Some("default via 192.168.4.1 dev eth0"), "a dead one leads nowhere");
        assert_eq!(via("fd01::1").as_deref(), Some("default via fd00::1 dev eth0"));
        assert_eq!(route_to(&[], "8.8.8.8".parse().unwrap()), None);
    }

    /// One end of a pod's network in a bridge, with the keys that iproute2 6.1 prints for it.
    fn in_a_bridge(index: usize) -> Value {
        const PORT: &[&str] = &[
            "state",
            "priority",
            "cost",
            "hairpin",
            "guard",
            "root_block",
            "fastleave",
            "learning",
            "flood",
            "id",
            "no",
            "designated_port",
            "designated_cost",
            "bridge_id",
            "root_id",
            "hold_timer",
            "message_age_timer",
            "forward_delay_timer",
            "topology_change_ack",
            "config_pending",
            "proxy_arp",
            "proxy_arp_wifi",
            "multicast_router",
            "mcast_flood",
            "bcast_flood",
            "mcast_to_unicast",
            "neigh_suppress",
            "group_fwd_mask",
            "group_fwd_mask_str",
            "vlan_tunnel",
            "isolated",
            "locked",
            "mcast_eht_hosts_limit",
            "mcast_eht_hosts_cnt",
        ];
        let port: serde_json::Map<String, Value> =
            PORT.iter().map(|key| ((*key).to_owned(), Value::from("8000.36:84:4e:91:c2:1b"))).collect();
        let addresses = serde_json::json!([{"family": "inet6", "local": format!("fe80::{index:x}"), "prefixlen": 64,
            "scope": "link", "protocol": "kernel_ll", "valid_life_time": 4_294_967_295_u64, "preferred_life_time": 4_294_967_295_u64}]);
        serde_json::json!({"ifindex": index, "link_index": 2, "ifname": format!("veth{index:08x}"),
            "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"], "mtu": 1450, "qdisc": "noqueue", "master": "cni0",
            "operstate": "UP", "group": "default", "link_type": "ether", "address": "5e:8d:1c:2f:aa:01",
            "broadcast": "ff:ff:ff:ff:ff:ff", "link_netnsid": index, "promiscuity": 1, "min_mtu": 68, "max_mtu": 65535,
            "linkinfo": {"info_kind": "veth", "info_slave_kind": "bridge", "info_slave_data": port},
            "inet6_addr_gen_mode": "eui64", "num_tx_queues": 2, "num_rx_queues": 2, "gso_max_size": 65536,
            "gso_max_segs": 65535, "tso_max_size": 524_280, "gro_max_size": 65536, "addr_info": addresses})
    }

    #[test]
    fn the_links_and_routes_of_a_thousand_pods_are_read_whole() {
        let mut links: Vec<Value> = serde_json::from_str(WORKER).unwrap();
        let mut routes: Vec<Value> = serde_json::from_str(ROUTED).unwrap();
        for index in 10..1010 {
            links.push(in_a_bridge(index));
            for (kind, dst) in [
                ("local", format!("fe80::{index:x}")),
                ("multicast", "ff00::/8".into()),
                ("unicast", "fe80::/64".into()),
            ] {
                routes.push(
                    serde_json::json!({"type": kind, "dst": dst, "dev": format!("veth{index:08x}"), "table": "local",
                    "protocol": "kernel", "metric": 256, "flags": [], "pref": "medium"}),
                );
            }
        }
        let kept = |query: &Query, all: Vec<Value>| {
            let text = Value::from(all).to_string();
            let mut keeper = crate::fact::keep::Keeper::new(query.keep);
            keeper.push(text.as_bytes());
            (keeper.finish().0, text.len())
        };
        let (links, length) = kept(&LINKS, links);
        assert!(links.is_whole() && length > 1 << 20, "{length} bytes");
        let (routes, _) = kept(&ROUTES, routes);
        let mut facts = Facts::new("w1", crate::testing::NOW);
        facts.insert(Source::Query(&LINKS).key(), Ok(links));
        facts.insert(Source::Query(&ROUTES).key(), Ok(routes));
        assert_eq!(facts.link("cni0").unwrap().and_then(|link| link.kind).as_deref(), Some("bridge"));
        assert_eq!(facts.links().unwrap().len(), 1004);
        let alone = crate::testing::facts().with_query(&ROUTES, ROUTED);
        assert_eq!(facts.default_routes(), alone.default_routes());
        assert!(facts.default_routes().is_ok());
    }

    #[test]
    fn reads_links() {
        let links = parse_links(WORKER).unwrap();
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["lo", "eth0", "flannel.1", "cni0"]);
        assert_eq!((links[1].mtu, links[1].kind.as_deref(), links[1].state.as_str()), (1500, None, "UP"));
        assert_eq!(links[1].addresses, ["192.168.4.61/24".parse().unwrap()]);
        assert!(links[2].is_vxlan() && !links[3].is_vxlan());
        assert_eq!(links[2].vxlan_port, Some(8472));
        assert_eq!(links[3].addresses, ["10.244.1.1/24".parse().unwrap()], "what is no address is passed over");
    }

    #[test]
    fn reads_routes_and_finds_the_way_out() {
        let facts = facts().with_query(&ROUTES, ROUTED).with_query(&LINKS, WORKER);
        let lines: Vec<String> = facts.default_routes().unwrap().iter().map(Route::line).collect();
        assert_eq!(
            lines,
            [
                "default via 10.0.2.2 dev eth1 linkdown",
                "default via 192.168.4.1 dev eth0",
                "default via fd00::1 dev eth0"
            ]
        );
        assert_eq!(facts.uplink().unwrap().unwrap().name, "eth0", "a route without carrier is no way out");
        assert!(facts.link("eth7").unwrap().is_none());
    }

    #[test]
    fn a_route_of_several_hops_is_dead_only_when_all_are() {
        let one = r#"{"dst":"default","nexthops":[{"gateway":"10.0.0.1","dev":"eth0","weight":1,"flags":["dead","linkdown"]},{"gateway":"10.0.1.1","dev":"eth1","weight":1,"flags":[]}]}"#;
        let routes = parse_routes(&format!("[{one}]")).unwrap();
        assert_eq!(routes[0].links, ["eth0", "eth1"]);
        assert!(!routes[0].is_dead);
        let both = one.replace(r#""weight":1,"flags":[]"#, r#""weight":1,"flags":["linkdown"]"#);
        assert!(parse_routes(&format!("[{both}]")).unwrap()[0].is_dead);
    }

    #[test]
    fn an_ip_that_knows_no_json_is_a_missing_fact() {
        let old = facts().with_exit(&LINKS, 255, "", "Option \"-j\" is unknown, try \"ip -help\".\n");
        assert_eq!(old.links().unwrap_err().why, Why::Broken("Option \"-j\" is unknown, try \"ip -help\".".into()));
        assert!(facts().with_query(&ROUTES, "").routes().unwrap().is_empty());
        assert!(facts().with_query(&ROUTES, "[{").routes().is_err());
    }

    #[test]
    fn tells_pod_links_from_the_machines() {
        for pod in [
            "cni0",
            "flannel.1",
            "flannel-wg",
            "veth0a1b",
            "cali123",
            "cilium_vxlan",
            "kube-ipvs0",
            "tunl0",
            "vxlan.calico",
        ] {
            assert!(is_of_pod_network(pod), "{pod}");
        }
        for own in ["eth0", "ens18", "docker0", "br-lan", "wg0", "lo", "vxlan0"] {
            assert!(!is_of_pod_network(own), "{own}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_links_and_routes_or_says_why(text in ".*") {
            let _ = (parse_links(&text), parse_routes(&text), parse_neighbours(&text));
        }

        #[test]
        fn any_value_in_any_field_is_survived(value in "(null|-1|1e99|\"x\"|\\[\\]|\\{\\})") {
            for key in ["ifname", "mtu", "addr_info", "linkinfo", "dst", "dev", "nexthops", "flags", "via"] {
                let text = format!(r#"[{{"dst":"default","ifname":"a","{key}":{value}}}]"#);
                let _ = (parse_links(&text), parse_routes(&text), parse_neighbours(&text));
            }
        }
    }
}
