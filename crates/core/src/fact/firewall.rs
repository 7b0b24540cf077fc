//! Whether a packet from another machine gets in: the kernel's rules where they can be read, else the word of firewalld
//! or ufw.

use super::cidr::Cidr;
use super::iptables::Ruleset;
use super::keep::{RULESET, RULESET_JSON, USUAL};
use super::listen::Proto;
use super::net::Link;
use super::netfilter::{self, Bridge, Packet, PacketPath, Passage, Walk};
use super::nftables;
use super::{Capture, Facts, Known, Missing, Query, Source, Why};

/// A node that runs kube-proxy on iptables-nft prints its rules here too.
pub const NFT: Query =
    Query { name: "nft -j list ruleset", argv: &["nft", "-j", "list", "ruleset"], keep: RULESET_JSON };
/// Without `-t`, which would load the module of a table that nobody uses.
pub const IPTABLES: Query = Query { name: "iptables-save", argv: &["iptables-save"], keep: RULESET };
pub const LEGACY: Query = Query { name: "iptables-legacy-save", argv: &["iptables-legacy-save"], keep: RULESET };
pub const FIREWALLD: Query = Query {
    name: "firewall-cmd --list-all",
    argv: &["sh", "-c", "firewall-cmd --state && firewall-cmd --list-all"],
    keep: USUAL,
};
pub const UFW: Query = Query { name: "ufw status verbose", argv: &["ufw", "status", "verbose"], keep: USUAL };

pub const SOURCES: &[Source] = &[
    Source::Query(&NFT),
    Source::Query(&IPTABLES),
    Source::Query(&LEGACY),
    Source::Query(&FIREWALLD),
    Source::Query(&UFW),
];

/// Which firewall program runs here: its command is the one to open a port with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firewall {
    Firewalld,
    Ufw,
    /// Rules that somebody else put there, or none.
    Plain,
}

impl Firewall {
    /// The command that lets through what pods behind this bridge send and get, which this rule drops.
    pub fn forwards(self, bridge: &str, rule: &str) -> String {
        match (self, chain_of(rule)) {
            (Firewall::Firewalld, _) => {
                format!("firewall-cmd --permanent --zone=trusted --add-interface={bridge} && firewall-cmd --reload")
            }
            (Firewall::Ufw, _) => format!("ufw route allow in on {bridge} && ufw route allow out on {bridge}"),
            (Firewall::Plain, Some((table, chain))) => {
                let insert = |link: &str| format!("nft insert rule {table} {chain} {link} {bridge} accept");
                format!("{} && {}    # and where your rules are kept", insert("iifname"), insert("oifname"))
            }
            (Firewall::Plain, None) => {
                let insert = |link: &str| format!("iptables -I FORWARD {link} {bridge} -j ACCEPT");
                format!("{} && {}    # and where your rules are kept", insert("-i"), insert("-o"))
            }
        }
    }

    /// The command that opens a port that this rule closes.
    pub fn opens(self, proto: Proto, port: u16, rule: &str) -> String {
        let proto = proto.name();
        match (self, chain_of(rule)) {
            (Firewall::Firewalld, _) => {
                format!("firewall-cmd --permanent --add-port={port}/{proto} && firewall-cmd --reload")
            }
            (Firewall::Ufw, _) => format!("ufw allow {port}/{proto}"),
            (Firewall::Plain, Some((table, chain))) => {
                format!(
                    "nft insert rule {table} {chain} {proto} dport {port} accept    # and where your rules are kept"
                )
            }
            (Firewall::Plain, None) => {
                format!("iptables -I INPUT -p {proto} --dport {port} -j ACCEPT    # and where your rules are kept")
            }
        }
    }
}

/// The table and the chain of a rule of nftables.
fn chain_of(rule: &str) -> Option<(&str, &str)> {
    let (table, chain) = rule.strip_prefix("table ")?.split_once(", chain ")?;
    Some((table, chain.split([',', ':']).next().unwrap_or_default()))
}

/// Where a rule was read, and the rule.
pub fn found(rule: &str) -> (&str, &str) {
    match rule.split_once(": ") {
        Some((program @ ("firewalld" | "ufw"), words)) => (program, words),
        _ if rule.starts_with("table ") => (NFT.name, rule),
        _ => (IPTABLES.name, rule),
    }
}

impl Facts {
    pub fn firewall(&self) -> Firewall {
        if self.firewalld().is_some() {
            Firewall::Firewalld
        } else if self.ufw().is_some() {
            Firewall::Ufw
        } else {
            Firewall::Plain
        }
    }

    /// Whether a new packet from a neighbour of this machine gets in on a port. Blocked is only what no neighbour gets
    /// through with, whichever card the cluster is on.
    pub fn inbound(&self, proto: Proto, port: u16) -> Known<Passage> {
        if self.is_on_ipv6() {
            return Err(Missing::broken("IPv6", "the cluster is on it, and its rules are not read"));
        }
        let packet = |link: Option<&Link>| {
            let path = PacketPath::Input { link: link.map(|link| link.name.clone()), from: link.and_then(v4_of) };
            Packet { proto, port, path }
        };
        let (uplink, others) = self.outer_links()?;
        let first = packet(uplink.as_ref());
        match (self.rules(&first), self.words(&first)) {
            (Ok(Passage::Blocked(rule)), _) => {
                let mut others = others.iter().map(|link| self.rules(&packet(Some(link))));
                let only_here = others.any(|passage| !matches!(passage, Ok(Passage::Blocked(_))));
                Ok(if only_here { Passage::CannotTell(rule) } else { Passage::Blocked(rule) })
            }
            (Ok(Passage::CannotTell(_)) | Err(_), Some(said @ (Passage::Open | Passage::SaidBlocked(_)))) => Ok(said),
            (Ok(Passage::Open), Some(said)) if self.query_is_missing(&NFT) => Ok(said),
            (rules, _) => rules,
        }
    }

    /// Whether this machine passes on what pods behind this bridge, and pods of other nodes, say to each other.
    pub fn forwarded(&self, bridge: &Bridge) -> Known<Passage> {
        let judge = |path| self.rules(&Packet { proto: Proto::Tcp, port: DNS, path });
        Ok(judge(PacketPath::FromPods(bridge.clone()))?.and(judge(PacketPath::ToPods(bridge.clone()))?))
    }

    /// The same of a pod network that is still to come, by the rules of nftables alone: to those of iptables it adds its own.
    pub fn would_be_forwarded(&self) -> Known<Passage> {
        let packet = Packet { proto: Proto::Tcp, port: DNS, path: PacketPath::BetweenPods };
        let iptables = self.rules_of(&IPTABLES)?.map_or("", |said| said.text.as_str());
        let owned = Ruleset::parse(iptables, &packet);
        match self.rules_of(&NFT)? {
            Some(said) => nft_rules(said, &owned, &packet, &mut Walk::default()),
            None => Ok(Passage::Open),
        }
    }

    /// The bridge that pods of this node are on: its network's own, and of the range that the Node has, where that is known.
    /// `None` where its network has none, or it is not there yet.
    pub fn pod_bridge(&self) -> Known<Option<Bridge>> {
        let links = self.links()?;
        if !links.iter().any(|link| link.kind.as_deref() == Some("bridge")) {
            return Ok(None);
        }
        let Some(name) = self.bridge_of_pods()? else { return Ok(None) };
        let is_it = |link: &&Link| link.kind.as_deref() == Some("bridge") && link.name == name;
        let flannel = self.flannel().ok().flatten().and_then(|flannel| flannel.subnet);
        let range = self.pod_cidr().ok().flatten().filter(|range| !range.is_v6()).or(flannel);
        let is_of_range = |pods: &Cidr| range.is_none_or(|range| range.network().contains(pods.address));
        let bridge = |link: &Link| v4_of(link).filter(is_of_range).map(|pods| Bridge { link: link.name.clone(), pods });
        Ok(links.iter().find(is_it).and_then(bridge))
    }

    /// Whether the cluster's machines are known to speak IPv6: by the API server's address, or as its pods have no other.
    fn is_on_ipv6(&self) -> bool {
        let pods = || self.pod_families().is_some_and(|families| families.v6 && !families.v4);
        self.api_server_address().map_or_else(pods, |server| server.is_ipv6())
    }

    /// The links by which another machine may come in over IPv4: the way out, and the others. Which of them the cluster is
    /// on is not known.
    fn outer_links(&self) -> Known<(Option<Link>, Vec<Link>)> {
        // Where nothing is known of links, rules that speak of none still tell.
        let Ok(links) = self.links() else { return Ok((None, Vec::new())) };
        let has_v4 = |link: &Link| link.addresses.iter().any(|it| !it.is_v6() && !it.address.is_loopback());
        let is_outer = |link: &Link| has_v4(link) && !netfilter::is_inner(&link.name);
        let outer: Vec<Link> = links.iter().filter(|link| is_outer(link)).cloned().collect();
        if outer.is_empty() && links.iter().any(|link| !link.addresses.is_empty()) {
            return Err(Missing::broken("IPv4", "no link has an address of it, and the rules of IPv6 are not read"));
        }
        let uplink = self.uplink().ok().flatten().filter(has_v4).or_else(|| outer.first().cloned());
        let others = outer.into_iter().filter(|link| Some(&link.name) != uplink.as_ref().map(|up| &up.name));
        let others = others.collect();
        Ok((uplink, others))
    }

    fn rules(&self, packet: &Packet) -> Known<Passage> {
        let iptables = self.rules_of(&IPTABLES)?;
        let nft = self.rules_of(&NFT)?;
        if iptables.is_none() && nft.is_none() {
            return Err(Missing { source_name: NFT.name.to_owned(), why: Why::NoTool });
        }
        let mut walk = Walk::default();
        let mut passage = Passage::Open;
        let mut owned = Ruleset::parse("", packet);
        if let Some(said) = iptables {
            owned = Ruleset::parse(&said.text, packet);
            passage = owned.passage(&mut walk);
            if said.errors.contains("iptables-legacy tables present") {
                passage = passage.and(self.legacy(packet, &mut walk));
            }
        }
        if let Some(said) = nft {
            passage = passage.and(nft_rules(said, &owned, packet, &mut walk)?);
        }
        Ok(passage)
    }

    /// Rules of the old kernel interface, which `iptables-save` only mentions.
    fn legacy(&self, packet: &Packet, walk: &mut Walk) -> Passage {
        match self.rules_of(&LEGACY) {
            Ok(Some(said)) => Ruleset::parse(&said.text, packet).passage(walk),
            _ => Passage::CannotTell("iptables-legacy tables are there and cannot be read".to_owned()),
        }
    }

    /// What a program printed; `None` where it is not installed: whoever set rules had it.
    fn rules_of(&self, query: &Query) -> Known<Option<&Capture>> {
        let said = match self.query(query) {
            Err(Missing { why: Why::NoTool, .. }) => return Ok(None),
            said => said?,
        };
        if said.exit.is_some_and(|exit| exit != 0) {
            let error = said.errors.lines().next().unwrap_or("ended with an error");
            return Err(Missing::broken(query.name, error));
        }
        // The rule that decides may be the one that was not read.
        self.whole(query).map(Some)
    }

    fn query_is_missing(&self, query: &Query) -> bool {
        self.query(query).is_err()
    }

    /// What firewalld or ufw say, where one of them runs and speaks of this port.
    fn words(&self, packet: &Packet) -> Option<Passage> {
        self.firewalld()
            .map(|text| firewalld_says(text, packet))
            .or_else(|| self.ufw().map(|text| ufw_says(text, packet)))
    }

    fn firewalld(&self) -> Option<&str> {
        let said = self.query(&FIREWALLD).ok()?;
        said.text.strip_prefix("running\n").filter(|_| said.exit.is_none_or(|exit| exit == 0))
    }

    fn ufw(&self) -> Option<&str> {
        self.query(&UFW).ok()?.text.strip_prefix("Status: active\n")
    }
}

/// Of the tables that iptables does not own.
fn nft_rules(said: &Capture, owned: &Ruleset, packet: &Packet, walk: &mut Walk) -> Known<Passage> {
    nftables::passage(&said.text, packet, |table| owned.has_table(table), walk)
        .map_err(|detail| Missing::broken(NFT.name, detail))
}

/// What pods ask first of pods elsewhere.
const DNS: u16 = 53;

fn v4_of(link: &Link) -> Option<Cidr> {
    link.addresses.iter().find(|address| !address.is_v6()).copied()
}

/// Services of firewalld's own that open the kubelet's port.
const KUBELET_SERVICES: [&str; 3] = ["kubelet", "kubelet-worker", "kube-worker"];

/// `firewall-cmd --list-all`: the default zone.
fn firewalld_says(text: &str, packet: &Packet) -> Passage {
    let zone = text.lines().next().unwrap_or_default();
    let line = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap_or_default().trim();
    let opens = |entry: &str| {
        let (ports, proto) = entry.split_once('/').unwrap_or((entry, ""));
        proto == packet.proto.name() && in_range(ports, '-', packet.port)
    };
    let kubelet = packet.proto == Proto::Tcp && packet.port == 10250;
    let by_service = kubelet && line("services:").split_whitespace().any(|service| KUBELET_SERVICES.contains(&service));
    let has_rich_rules = text.lines().any(|line| line.trim_start().starts_with("rule "));
    if !zone.ends_with("active)") {
        Passage::CannotTell(format!("firewalld: zone {zone} is not the active one"))
    } else if line("target:") == "ACCEPT" || by_service || line("ports:").split_whitespace().any(opens) {
        Passage::Open
    } else if has_rich_rules || !line("protocols:").is_empty() {
        Passage::CannotTell("firewalld: rich rules or protocols of the zone".to_owned())
    } else {
        let zone = zone.split_whitespace().next().unwrap_or_default();
        Passage::SaidBlocked(format!("firewalld: zone {zone}, ports: {}", line("ports:")))
    }
}

/// `ufw status verbose`.
fn ufw_says(text: &str, packet: &Packet) -> Passage {
    let default = text.lines().find(|line| line.starts_with("Default:")).unwrap_or_default();
    for line in text.lines().filter(|line| line.contains(" IN ") && !line.contains("(v6)")) {
        let mut words = line.split_whitespace();
        let to = words.next().unwrap_or_default();
        let (ports, proto) = to.split_once('/').unwrap_or((to, packet.proto.name()));
        let fits = proto == packet.proto.name() && ports.split(',').any(|ports| in_range(ports, ':', packet.port));
        if !fits && to != "Anywhere" {
            // Names of applications and rules for one address are not followed.
            if !to.starts_with(|c: char| c.is_ascii_digit()) || to.contains('.') {
                return Passage::CannotTell(format!("ufw: {}", line.trim_end()));
            }
            continue;
        }
        let anywhere = line.trim_end().ends_with("Anywhere") && !line.contains(" on ");
        return match words.next() {
            Some("ALLOW") if anywhere => Passage::Open,
            Some("DENY" | "REJECT") if anywhere => Passage::SaidBlocked(format!("ufw: {}", line.trim_end())),
            _ => Passage::CannotTell(format!("ufw: {}", line.trim_end())),
        };
    }
    if default.contains("allow (incoming)") { Passage::Open } else { Passage::SaidBlocked(format!("ufw: {default}")) }
}

fn in_range(ports: &str, between: char, port: u16) -> bool {
    let (low, high) = ports.split_once(between).unwrap_or((ports, ports));
    low.parse().ok().zip(high.parse().ok()).is_some_and(|(low, high): (u16, u16)| (low..=high).contains(&port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::net::{LINKS, ROUTES};
    use crate::testing::facts;
    use Proto::{Tcp, Udp};
    use proptest::prelude::*;

    const NO_RULES: &str = r#"{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}}]}"#;
    const CLOSED: &str = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 10250 -j ACCEPT\nCOMMIT\n";
    const ZONE: &str = "running\npublic (active)\n  target: default\n  icmp-block-inversion: no\n  interfaces: eth0\n  sources: \n  \
        services: dhcpv6-client ssh\n  ports: 8472/udp 30000-32767/tcp\n  protocols: \n  forward: yes\n  masquerade: no\n  rich rules: \n";
    const UFW_ACTIVE: &str = "Status: active\nLogging: on (low)\nDefault: deny (incoming), allow (outgoing), disabled (routed)\n\
        New profiles: skip\n\nTo                         Action      From\n--                         ------      ----\n\
        22/tcp                     ALLOW IN    Anywhere                  \n\
        10250/tcp                  ALLOW IN    Anywhere                  \n\
        8472/udp                   ALLOW IN    192.168.4.0/24            \n\
        30000:32767/tcp            DENY IN     Anywhere                  \n\
        10256/tcp (v6)             ALLOW IN    Anywhere (v6)             \n";

    fn readable() -> Facts {
        facts().with_query(&NFT, NO_RULES).with_query(&IPTABLES, "")
    }

    /// Through the keeper, as a machine's answer comes.
    fn kept(query: &Query, text: &str) -> Capture {
        let mut keeper = crate::fact::keep::Keeper::new(query.keep);
        text.as_bytes().chunks(64 << 10).for_each(|chunk| keeper.push(chunk));
        keeper.finish().0
    }

    #[test]
    fn of_twenty_thousand_rules_the_last_one_decides() {
        use crate::testing::rules::{iptables_save, nft_json};
        let answers = |query: &'static Query, text: &str| {
            let mut facts = readable();
            facts.insert(Source::Query(query).key(), Ok(kept(query, text)));
            (facts.inbound(Tcp, 10250), facts.inbound(Udp, 8472), facts.inbound(Tcp, 10256))
        };
        let (save, json) = (iptables_save(20_000), nft_json(20_000));
        assert!(save.matches("\n-A ").count() >= 20_000 && json.matches("\"rule\"").count() >= 20_000);
        assert!(save.len() > 2 << 20 && json.len() > 8 << 20, "{} {}", save.len(), json.len());
        let blocked = || Ok(Passage::Blocked(":INPUT DROP".into()));
        assert_eq!(answers(&IPTABLES, &save), (Ok(Passage::Open), blocked(), blocked()));
        let blocked = || Ok(Passage::Blocked("table inet guard, chain input: policy drop".into()));
        assert_eq!(answers(&NFT, &json), (Ok(Passage::Open), blocked(), blocked()));
    }

    #[test]
    fn what_was_not_read_whole_is_not_known_and_says_so() {
        for (query, text, says) in [
            (&IPTABLES, CLOSED, "iptables-save: longer than 8 MiB, and not read whole"),
            (&NFT, NO_RULES, "nft -j list ruleset: longer than 16 MiB, and not read whole"),
        ] {
            let mut facts = readable();
            facts.insert(Source::Query(query).key(), Ok(Capture { dropped: 1, ..Capture::text(text) }));
            assert_eq!(facts.inbound(Tcp, 10250).unwrap_err().to_string(), says);
            // Where another program speaks for the rules, it is heard.
            assert_eq!(facts.with_query(&FIREWALLD, ZONE).inbound(Udp, 8472), Ok(Passage::Open));
        }
        // A paste does not say that something is missing: the table without its end does.
        let cut = CLOSED.split_once("-A INPUT").unwrap().0;
        let cannot = Passage::CannotTell("table filter was too long to be read whole".into());
        assert_eq!(readable().with_query(&IPTABLES, cut).inbound(Tcp, 10250), Ok(cannot));
    }

    #[test]
    fn no_rules_let_everything_in() {
        assert_eq!(readable().inbound(Tcp, 10250), Ok(Passage::Open));
        assert_eq!(readable().firewall(), Firewall::Plain);
    }

    #[test]
    fn both_kinds_of_rules_count() {
        let closed = readable().with_query(&IPTABLES, CLOSED);
        assert_eq!(closed.inbound(Tcp, 10250), Ok(Passage::Open));
        assert_eq!(closed.inbound(Udp, 8472), Ok(Passage::Blocked(":INPUT DROP".into())));
        let nft = r#"{"nftables":[{"chain":{"family":"inet","table":"t","name":"in","type":"filter","hook":"input","prio":0,"policy":"drop"}}]}"#;
        assert!(matches!(closed.with_query(&NFT, nft).inbound(Tcp, 10250), Ok(Passage::Blocked(_))));
    }

    /// A card to the world that is closed, and one to the cluster that is open, is how many hosters' machines look.
    #[test]
    fn blocked_is_only_what_comes_in_by_no_card() {
        let routes = r#"[{"dst":"default","gateway":"203.0.113.1","dev":"eth0","flags":[]}]"#;
        let on = |links: &[(&str, &str)], rules: &str| {
            let link = |(name, address): &(&str, &str)| {
                format!(r#"{{"ifname":"{name}","addr_info":[{{"local":"{address}","prefixlen":24}}]}}"#)
            };
            let links = links.iter().map(link).collect::<Vec<_>>().join(",");
            let facts = readable().with_query(&LINKS, &format!("[{links}]")).with_query(&ROUTES, routes);
            facts.with_query(&IPTABLES, &format!("*filter\n{rules}COMMIT\n")).inbound(Tcp, 10250)
        };
        let (world, cluster) = (("eth0", "203.0.113.7"), ("eth1", "10.0.0.21"));
        let (pods, docker) = (("cni0", "10.244.1.1"), ("br-0123456789ab", "172.18.0.1"));
        let closed_to_the_world = ":INPUT ACCEPT [0:0]\n-A INPUT -i eth0 -j DROP\n";
        let only_containers = ":INPUT DROP [0:0]\n-A INPUT -i br-0123456789ab -j ACCEPT\n";
        let closed = || Passage::Blocked(":INPUT DROP".into());
        let rule = || "-A INPUT -i eth0 -j DROP".to_owned();
        for (name, links, rules, expected) in [
            ("one card, closed", &[world][..], closed_to_the_world, Passage::Blocked(rule())),
            ("another is open", &[world, cluster], closed_to_the_world, Passage::CannotTell(rule())),
            ("pods are no neighbours", &[world, pods], closed_to_the_world, Passage::Blocked(rule())),
            ("nor are docker's", &[world, docker], closed_to_the_world, Passage::Blocked(rule())),
            ("open to containers", &[world, docker], only_containers, closed()),
            ("all are closed", &[world, cluster], ":INPUT DROP [0:0]\n", closed()),
            ("open", &[world, cluster], ":INPUT ACCEPT [0:0]\n", Passage::Open),
        ] {
            assert_eq!(on(links, rules), Ok(expected), "{name}");
        }
        // The rules of IPv4 say nothing of a machine that has none.
        assert!(on(&[("lo", "127.0.0.1"), ("eth0", "2001:db8::7")], ":INPUT DROP [0:0]\n").is_err());
    }

    #[test]
    fn a_table_of_iptables_is_not_judged_twice() {
        // nft prints the iptables match on the port without its value.
        let nft = r#"{"nftables":[{"chain":{"family":"ip","table":"filter","name":"INPUT","type":"filter","hook":"input","prio":0,"policy":"drop"}},
            {"rule":{"family":"ip","table":"filter","chain":"INPUT","handle":4,"expr":[{"xt":{"type":"match","name":"multiport"}},{"accept":null}]}}]}"#;
        let facts = facts().with_query(&NFT, nft).with_query(&IPTABLES, CLOSED);
        assert_eq!(facts.inbound(Tcp, 10250), Ok(Passage::Open));
        let alone = facts.without(Source::Query(&IPTABLES), Why::NoTool);
        assert!(matches!(alone.inbound(Tcp, 10250), Ok(Passage::CannotTell(_))));
    }

    #[test]
    fn rules_of_ipv4_are_no_word_on_a_cluster_of_ipv6() {
        let closed = || readable().with_query(&IPTABLES, CLOSED);
        assert!(matches!(closed().inbound(Udp, 8472), Ok(Passage::Blocked(_))));
        let path = |endpoint: &str| closed().with_api("path", &format!(r#"{{"endpoint":"{endpoint}","steps":[]}}"#));
        assert!(path("[fd00::11]:6443").inbound(Udp, 8472).is_err());
        assert!(matches!(path("10.0.0.11:6443").inbound(Udp, 8472), Ok(Passage::Blocked(_))));
        let pods = |cidr: &str| closed().with_api("node", &format!(r#"{{"spec":{{"podCIDR":"{cidr}"}}}}"#));
        assert!(pods("fd00::/64").inbound(Udp, 8472).is_err());
        assert!(matches!(pods("10.244.1.0/24").inbound(Udp, 8472), Ok(Passage::Blocked(_))));
    }

    #[test]
    fn legacy_tables_beside_the_new_ones_count() {
        let warning = "# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n";
        let both = readable().with_exit(&IPTABLES, 0, "", warning);
        assert!(matches!(both.inbound(Udp, 8472), Ok(Passage::CannotTell(_))));
        assert!(matches!(both.clone().with_query(&LEGACY, CLOSED).inbound(Udp, 8472), Ok(Passage::Blocked(_))));
        assert_eq!(both.with_query(&LEGACY, CLOSED).inbound(Tcp, 10250), Ok(Passage::Open));
        assert_eq!(readable().with_query(&LEGACY, CLOSED).inbound(Udp, 8472), Ok(Passage::Open), "not in the kernel");
    }

    #[test]
    fn what_may_not_be_read_is_a_missing_fact() {
        let denied = readable().without(Source::Query(&NFT), Why::Denied);
        assert_eq!(denied.inbound(Tcp, 10250).unwrap_err().why, Why::Denied);
        let no_tool =
            readable().without(Source::Query(&NFT), Why::NoTool).without(Source::Query(&IPTABLES), Why::NoTool);
        assert_eq!(no_tool.inbound(Tcp, 10250).unwrap_err().why, Why::NoTool);
        let failed = readable().with_exit(&IPTABLES, 4, "", "iptables-save: Could not fetch rule set generation id\n");
        assert!(matches!(failed.inbound(Tcp, 10250).unwrap_err().why, Why::Broken(_)));
        assert!(readable().with_query(&NFT, "{").inbound(Tcp, 10250).is_err());
        let only_iptables = readable().without(Source::Query(&NFT), Why::NoTool).with_query(&IPTABLES, CLOSED);
        assert_eq!(only_iptables.inbound(Tcp, 10250), Ok(Passage::Open));
    }

    #[test]
    fn firewalld_speaks_where_rules_cannot_be_read() {
        let denied = facts().without(Source::Query(&NFT), Why::Denied).with_query(&FIREWALLD, ZONE);
        assert_eq!(denied.firewall(), Firewall::Firewalld);
        assert_eq!(denied.inbound(Udp, 8472), Ok(Passage::Open));
        assert_eq!(denied.inbound(Tcp, 31000), Ok(Passage::Open));
        let ports = "firewalld: zone public, ports: 8472/udp 30000-32767/tcp";
        assert_eq!(denied.inbound(Tcp, 10250), Ok(Passage::SaidBlocked(ports.into())));
        assert!(matches!(denied.inbound(Tcp, 8472), Ok(Passage::SaidBlocked(_))));
        let with =
            |from: &str, to: &str| denied.clone().with_query(&FIREWALLD, &ZONE.replace(from, to)).inbound(Tcp, 10250);
        assert_eq!(with("ssh", "ssh kube-worker"), Ok(Passage::Open));
        assert_eq!(with("target: default", "target: ACCEPT"), Ok(Passage::Open));
        assert!(
            with("rich rules: ", "rich rules: \n\trule family=\"ipv4\" accept").is_err(),
            "rich rules are not followed"
        );
        assert!(with("protocols: ", "protocols: tcp").is_err());
        assert!(with(" (active)", "").is_err());
        let stopped = denied.with_exit(&FIREWALLD, 252, "", "not running\n");
        assert_eq!(stopped.firewall(), Firewall::Plain);
        assert!(stopped.inbound(Udp, 8472).is_err());
    }

    #[test]
    fn firewalld_has_rules_of_its_own_where_nft_is_not_installed() {
        let facts =
            facts().with_query(&IPTABLES, "").without(Source::Query(&NFT), Why::NoTool).with_query(&FIREWALLD, ZONE);
        assert!(matches!(facts.inbound(Tcp, 10250), Ok(Passage::SaidBlocked(_))));
        assert_eq!(facts.inbound(Udp, 8472), Ok(Passage::Open));
    }

    #[test]
    fn ufw_speaks_where_rules_cannot_be_read() {
        let denied = facts().without(Source::Query(&IPTABLES), Why::Denied).with_query(&UFW, UFW_ACTIVE);
        assert_eq!(denied.firewall(), Firewall::Ufw);
        assert_eq!(denied.inbound(Tcp, 10250), Ok(Passage::Open));
        assert!(matches!(denied.inbound(Tcp, 31000), Ok(Passage::SaidBlocked(_))));
        assert!(denied.inbound(Udp, 8472).is_err(), "only for some");
        let default = "ufw: Default: deny (incoming), allow (outgoing), disabled (routed)";
        assert_eq!(
            denied.inbound(Tcp, 10256),
            Ok(Passage::SaidBlocked(default.into())),
            "what holds for IPv6 is not for IPv4"
        );
        let with =
            |from: &str, to: &str| denied.clone().with_query(&UFW, &UFW_ACTIVE.replace(from, to)).inbound(Tcp, 10256);
        assert_eq!(with("deny (incoming)", "allow (incoming)"), Ok(Passage::Open));
        assert_eq!(with("22/tcp  ", "Anywhere"), Ok(Passage::Open));
        assert_eq!(with("22/tcp ", "22,10256/tcp "), Ok(Passage::Open));
        assert!(with("22/tcp  ", "OpenSSH ").is_err());
        assert!(with("22/tcp     ", "10.0.0.1 22").is_err());
        assert_eq!(facts().with_query(&UFW, "Status: inactive\n").firewall(), Firewall::Plain);
    }

    #[test]
    fn a_rule_is_cited_with_its_source() {
        assert_eq!(found("ufw: Default: deny (incoming)"), ("ufw", "Default: deny (incoming)"));
        assert_eq!(found("firewalld: zone public"), ("firewalld", "zone public"));
        assert_eq!(found("table inet t, chain in: policy drop"), (NFT.name, "table inet t, chain in: policy drop"));
        assert_eq!(found(":INPUT DROP"), (IPTABLES.name, ":INPUT DROP"));
    }

    #[test]
    fn opens_a_port_with_the_program_that_runs() {
        assert_eq!(Firewall::Ufw.opens(Udp, 8472, ""), "ufw allow 8472/udp");
        assert!(Firewall::Firewalld.opens(Tcp, 10250, "").contains("--add-port=10250/tcp"));
        let plain = |rule: &str| Firewall::Plain.opens(Tcp, 10250, rule);
        assert!(plain(":INPUT DROP").starts_with("iptables -I INPUT -p tcp --dport 10250 -j ACCEPT"));
        for rule in
            ["table inet filter, chain input: policy drop", "table inet filter, chain input, handle 9: drop or reject"]
        {
            assert!(plain(rule).starts_with("nft insert rule inet filter input tcp dport 10250 accept"), "{rule}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_words_or_not(text in ".*") {
            let facts = facts().with_query(&FIREWALLD, &format!("running\n{text}")).with_query(&UFW, &format!("Status: active\n{text}"));
            let _ = facts.inbound(Tcp, 10250);
            let _ = facts.without(Source::Query(&FIREWALLD), Why::NoTool).inbound(Tcp, 10250);
        }
    }
}
