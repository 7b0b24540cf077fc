//! The rules of iptables, as `iptables-save` prints them, held against a packet.
//!
//! Matches that are not known may fit: they make an answer uncertain, never wrong.
//!
//! Shared: `firewall` reads them, `reset::chains` removes some.

use std::collections::BTreeMap;

use super::cidr::Cidr;
use super::netfilter::{Action, BaseChain, Chains, Fits, NetfilterRule, Packet, Passage, Walk};

/// The tables and chains that a packet for this machine comes by, in order. (nat's rewrite, they do not filter.)
const INPUT: [(&str, &str); 4] =
    [("raw", "PREROUTING"), ("mangle", "PREROUTING"), ("mangle", "INPUT"), ("filter", "INPUT")];
/// Those that one comes by which this machine passes on.
const FORWARD: [(&str, &str); 4] =
    [("raw", "PREROUTING"), ("mangle", "PREROUTING"), ("mangle", "FORWARD"), ("filter", "FORWARD")];

#[derive(Default)]
struct Table {
    chains: Chains,
    bases: Vec<BaseChain>,
    /// Its COMMIT was seen: nothing is missing.
    whole: bool,
}

/// What `iptables-save` printed, held against a packet.
pub struct Ruleset {
    tables: BTreeMap<String, Table>,
    /// Tables and chains the packet comes by.
    path: [(&'static str, &'static str); 4],
}

impl Ruleset {
    pub fn parse(text: &str, packet: &Packet) -> Self {
        let mut tables: BTreeMap<String, Table> = BTreeMap::new();
        let path = if packet.is_forwarded() { FORWARD } else { INPUT };
        let mut current = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('*') {
                name.trim().clone_into(&mut current);
                tables.entry(current.clone()).or_default();
            } else if let Some(table) = tables.get_mut(&current) {
                table.take(line, packet, path.iter().any(|(name, _)| *name == current));
            }
        }
        Ruleset { tables, path }
    }

    /// The tables that were read as a whole.
    pub fn has_table(&self, name: &str) -> bool {
        self.tables.get(name).is_some_and(|table| table.whole)
    }

    pub fn passage(&self, walk: &mut Walk) -> Passage {
        let mut passage = Passage::Open;
        for (name, hook) in self.path {
            let Some(table) = self.tables.get(name) else { continue };
            if !table.whole {
                // A chain that blocks by what is left of it might have let the packet pass by the rest.
                passage = passage.and(Passage::CannotTell(format!("table {name} was too long to be read whole")));
                continue;
            }
            for base in table.bases.iter().filter(|base| base.chain == hook) {
                passage = passage.and(walk.passage(&table.chains, base));
            }
        }
        passage
    }
}

impl Table {
    /// A busy node has ten thousands of rules in `nat`, which no packet is held against.
    fn take(&mut self, line: &str, packet: &Packet, filters: bool) {
        if line.trim() == "COMMIT" {
            self.whole = true;
        } else if let Some(chain) = line.strip_prefix(':').filter(|_| filters) {
            let mut words = chain.split_whitespace();
            // A chain of one's own has `-` for a policy.
            if let (Some(chain), Some(policy @ ("ACCEPT" | "DROP"))) = (words.next(), words.next()) {
                let text = format!(":{chain} {policy}");
                self.bases.push(BaseChain { chain: chain.to_owned(), accepts: policy == "ACCEPT", text });
            }
        } else if filters && let Some((chain, rule)) = parse_rule(line, packet) {
            self.chains.entry(chain).or_default().push(rule);
        }
    }
}

/// One option of a rule: `! --dport 80`.
struct Part {
    name: String,
    negated: bool,
    values: Vec<String>,
}

fn parse_rule(line: &str, packet: &Packet) -> Option<(String, NetfilterRule)> {
    let parts = parts(line);
    let first = parts.first().filter(|part| part.name == "-A")?;
    let chain = first.values.first()?.clone();
    let action = parts.iter().find_map(action).unwrap_or(Action::Nothing);
    let (mut fits, mut fits_marked) = (Fits::Yes, Fits::Yes);
    for part in parts.iter().skip(1) {
        let (plain, marked) = part_fits(part, packet, &action);
        fits = fits.and(plain);
        fits_marked = fits_marked.and(marked);
    }
    Some((chain, NetfilterRule { fits, fits_marked, action, text: line.trim().to_owned() }))
}

/// The words of a line, options with what follows them. A quoted word is never an option.
fn parts(line: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut negated = false;
    for (word, quoted) in words(line) {
        if word == "!" && !quoted {
            negated = true;
        } else if word.starts_with('-') && !quoted {
            parts.push(Part { name: word, negated: std::mem::take(&mut negated), values: Vec::new() });
        } else if let Some(part) = parts.last_mut() {
            // Before iptables 1.4.3 the mark stood after the option: `--dport ! 80`.
            part.negated |= std::mem::take(&mut negated);
            part.values.push(word);
        }
    }
    parts
}

pub(crate) fn words(line: &str) -> Vec<(String, bool)> {
    let mut words = Vec::new();
    let (mut word, mut in_quotes, mut quoted) = (String::new(), false, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if in_quotes => word.extend(letters.next()),
            '"' => (in_quotes, quoted) = (!in_quotes, true),
            letter if letter.is_whitespace() && !in_quotes => {
                if !word.is_empty() || quoted {
                    words.push((std::mem::take(&mut word), quoted));
                }
                quoted = false;
            }
            letter => word.push(letter),
        }
    }
    if !word.is_empty() || quoted {
        words.push((word, quoted));
    }
    words
}

fn action(part: &Part) -> Option<Action> {
    let target = part.values.first()?;
    match part.name.as_str() {
        "-g" | "--goto" => Some(Action::Goto(target.clone())),
        "-j" | "--jump" => Some(match target.as_str() {
            "ACCEPT" => Action::Accept,
            "DROP" | "REJECT" | "TARPIT" => Action::Block,
            "RETURN" => Action::Return,
            "NFQUEUE" | "QUEUE" | "TPROXY" => Action::Ask,
            "MARK" | "CONNMARK" => Action::Mark,
            "LOG" | "NFLOG" | "ULOG" | "AUDIT" | "CT" | "NOTRACK" | "SET" | "TRACE" | "TCPMSS" | "CHECKSUM" | "TOS"
            | "DSCP" | "TTL" | "CLASSIFY" | "TEE" => Action::Nothing,
            chain => Action::Jump(chain.to_owned()),
        }),
        _ => None,
    }
}

/// Whether one option fits: a packet that nobody marked, and one that was.
fn part_fits(part: &Part, packet: &Packet, action: &Action) -> (Fits, Fits) {
    let value = part.values.first().map_or("", String::as_str);
    let same = |fits: Fits| (fits, fits);
    let turned = |fits: Fits| same(if part.negated { fits.not() } else { fits });
    match part.name.as_str() {
        "--mark" => {
            let zero = matches!(value.split('/').next(), Some("0" | "0x0"));
            (Fits::of(zero != part.negated), Fits::Maybe)
        }
        "-p" | "--protocol" => turned(protocol_fits(value, packet)),
        "--dport" | "--dports" | "--destination-port" | "--destination-ports" => turned(port_fits(value, packet)),
        "--ports" => turned(port_fits(value, packet).or(Fits::Maybe)),
        "-i" | "--in-interface" => turned(packet.link_fits(value)),
        "-o" | "--out-interface" => turned(packet.out_link_fits(value)),
        "-s" | "--source" => same(source_fits(value, packet, part.negated, action)),
        "-d" | "--destination" => {
            turned(each(value, |cidr| cidr.parse().map_or(Fits::Maybe, |cidr| packet.destination_fits(cidr))))
        }
        "--ctstate" | "--state" => turned(Fits::of(value.split(',').any(|state| state == "NEW"))),
        "--dst-type" => turned(packet.destination_kind_fits(value)),
        "--src-type" => turned(Fits::of(value.split(',').any(|kind| kind == "UNICAST"))),
        "--pkt-type" => turned(Fits::of(value == "unicast")),
        "--tcp-flags" => turned(flags_fit(value, part.values.get(1).map_or("", String::as_str))),
        "--syn" => turned(Fits::Yes),
        // A packet that came by the way its answer will go passes the reverse path filter; ICMP it is not.
        "--invert" | "--icmp-type" => same(Fits::No),
        "-m" | "--match" => same(if KNOWN_MODULES.contains(&value) { Fits::Yes } else { Fits::Maybe }),
        "-A" | "-j" | "-g" | "--jump" | "--goto" | "--comment" | "--nfacct-name" | "--loose" | "--validmark" | "-f" => {
            same(Fits::Yes)
        }
        name if OF_TARGETS.iter().any(|prefix| name.starts_with(prefix)) => same(Fits::Yes),
        _ => same(Fits::Maybe),
    }
}

/// Modules whose options say all there is; any other narrows a rule in a way that is not known.
const KNOWN_MODULES: [&str; 12] = [
    "tcp",
    "udp",
    "icmp",
    "multiport",
    "conntrack",
    "state",
    "comment",
    "addrtype",
    "pkttype",
    "mark",
    "rpfilter",
    "nfacct",
];

/// Options that tell a target what to do, not a rule what to fit.
const OF_TARGETS: [&str; 11] = [
    "--reject-with",
    "--log-",
    "--nflog-",
    "--set-",
    "--save-mark",
    "--restore-mark",
    "--nfmask",
    "--ctmask",
    "--queue-",
    "--or-mark",
    "--and-mark",
];

fn each(values: &str, fits: impl Fn(&str) -> Fits) -> Fits {
    values.split(',').map(fits).fold(Fits::No, Fits::or)
}

fn protocol_fits(value: &str, packet: &Packet) -> Fits {
    let number = match packet.proto {
        super::listen::Proto::Tcp => "6",
        super::listen::Proto::Udp => "17",
    };
    Fits::of(matches!(value, "all" | "0") || value == packet.proto.name() || value == number)
}

/// `22`, `30000:32767`, `22,80,30000:32767`.
fn port_fits(value: &str, packet: &Packet) -> Fits {
    each(value, |ports| {
        let (low, high) = ports.split_once(':').unwrap_or((ports, ports));
        let low = if low.is_empty() { Some(0) } else { low.parse::<u16>().ok() };
        let high = if high.is_empty() { Some(u16::MAX) } else { high.parse::<u16>().ok() };
        // A name such as `ssh`: iptables-save prints numbers, so this is not one we know.
        low.zip(high).map_or(Fits::Maybe, |(low, high)| Fits::of((low..=high).contains(&packet.port)))
    })
}

/// Strangers who are blocked are no concern of the cluster's; strangers who are let in may be the cluster.
fn source_fits(value: &str, packet: &Packet, negated: bool, action: &Action) -> Fits {
    let Ok(cidr) = value.parse::<Cidr>() else { return Fits::Maybe };
    match (negated, action) {
        (false, Action::Block) if packet.is_stranger(cidr) => Fits::No,
        (true, _) => packet.source_fits(cidr).not(),
        (false, _) => packet.source_fits(cidr),
    }
}

/// `--tcp-flags FIN,SYN,RST,ACK SYN`, held against a first packet, which has SYN alone.
fn flags_fit(mask: &str, set: &str) -> Fits {
    let has_syn = |flags: &str| flags.split(',').any(|flag| flag == "SYN" || flag == "ALL");
    let only_syn = set == "SYN";
    Fits::of(if has_syn(mask) { only_syn } else { set == "NONE" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::listen::Proto;
    use crate::fact::netfilter::PacketPath;
    use proptest::prelude::*;

    fn packet(proto: Proto, port: u16) -> Packet {
        let path = PacketPath::Input { link: Some("eth0".into()), from: Some("192.168.4.61/24".parse().unwrap()) };
        Packet { proto, port, path }
    }

    fn input(policy: &str, rules: &str) -> String {
        format!(
            "# Generated by iptables-save v1.8.9 (nf_tables) on Sun Nov 15 17:58:16 2026\n*filter\n:INPUT {policy} [0:0]\n\
             :FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:own - [0:0]\n{rules}\nCOMMIT\n# Completed on Sun Nov 15 2026\n"
        )
    }

    fn passage(text: &str, proto: Proto, port: u16) -> Passage {
        Ruleset::parse(text, &packet(proto, port)).passage(&mut Walk::default())
    }

    fn kubelet(policy: &str, rules: &str) -> Passage {
        passage(&input(policy, rules), Proto::Tcp, 10250)
    }

    #[test]
    fn the_usual_hand_written_firewall() {
        let rules = "-A INPUT -i lo -j ACCEPT\n\
             -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
             -A INPUT -p tcp -m multiport --dports 22,10250,30000:32767 -m comment --comment \"a -j DROP\" -j ACCEPT\n\
             -A INPUT -j REJECT --reject-with icmp-host-prohibited";
        assert_eq!(kubelet("DROP", rules), Passage::Open);
        assert_eq!(passage(&input("DROP", rules), Proto::Tcp, 31000), Passage::Open);
        let reject = "-A INPUT -j REJECT --reject-with icmp-host-prohibited";
        assert_eq!(passage(&input("DROP", rules), Proto::Udp, 8472), Passage::Blocked(reject.into()));
        assert_eq!(passage(&input("DROP", rules), Proto::Tcp, 32768), Passage::Blocked(reject.into()));
        assert_eq!(kubelet("DROP", ""), Passage::Blocked(":INPUT DROP".into()));
        assert_eq!(kubelet("ACCEPT", ""), Passage::Open);
    }

    #[test]
    fn ufw_as_it_is_after_allowing_one_port() {
        let rules = "-A INPUT -j ufw-before-input\n-A INPUT -j ufw-after-input\n\
             -A ufw-after-input -m addrtype --dst-type BROADCAST -j ufw-skip\n\
             -A ufw-before-input -m conntrack --ctstate INVALID -j DROP\n\
             -A ufw-before-input -p icmp -m icmp --icmp-type 8 -j ACCEPT\n\
             -A ufw-before-input -p udp -m udp --sport 67 --dport 68 -j ACCEPT\n\
             -A ufw-before-input -j ufw-not-local\n\
             -A ufw-before-input -d 224.0.0.251/32 -p udp -m udp --dport 5353 -j ACCEPT\n\
             -A ufw-before-input -j ufw-user-input\n\
             -A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN\n\
             -A ufw-not-local -m limit --limit 3/min --limit-burst 10 -j LOG --log-prefix \"[UFW BLOCK] \"\n\
             -A ufw-not-local -j DROP\n\
             -A ufw-skip -j DROP\n\
             -A ufw-user-input -p tcp -m tcp --dport 10250 -j ACCEPT\n\
             -A ufw-user-input -s 192.168.4.0/24 -p udp -m udp --dport 8472 -j ACCEPT";
        let text = input("DROP", rules);
        assert_eq!(passage(&text, Proto::Tcp, 10250), Passage::Open);
        assert_eq!(passage(&text, Proto::Udp, 8472), Passage::Open, "the neighbours may");
        assert_eq!(passage(&text, Proto::Tcp, 10256), Passage::Blocked(":INPUT DROP".into()));
    }

    #[test]
    fn kube_proxys_and_the_kubelets_own_rules_block_nothing() {
        let rules = "-A INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j own\n\
             -A INPUT -j KUBE-FIREWALL\n\
             -A KUBE-FIREWALL -m comment --comment \"for dropping marked packets\" -m mark --mark 0x8000/0x8000 -j DROP\n\
             -A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment \"block incoming localnet connections\" \
             -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP";
        assert_eq!(kubelet("ACCEPT", rules), Passage::Open);
    }

    #[test]
    fn each_match_is_known_or_makes_it_uncertain() {
        for (rule, fits) in [
            ("-p tcp", Fits::Yes),
            ("-p 6", Fits::Yes),
            ("-p 17", Fits::No),
            ("-p all", Fits::Yes),
            ("-p udp", Fits::No),
            ("! -p udp", Fits::Yes),
            ("-p tcp -m tcp --dport 10250", Fits::Yes),
            ("-p tcp -m tcp --dport 10249", Fits::No),
            ("-p tcp -m tcp ! --dport 80", Fits::Yes),
            ("-p tcp -m tcp --dport ! 80", Fits::Yes),
            ("-p tcp -m tcp --dport 10250:10259", Fits::Yes),
            ("-p tcp -m tcp --dport 1024:", Fits::Yes),
            ("-p tcp -m tcp --dport :1024", Fits::No),
            ("-p tcp -m tcp --dport kubelet", Fits::Maybe),
            ("-p tcp -m multiport --ports 22", Fits::Maybe),
            ("-p tcp -m tcp --sport 1024", Fits::Maybe),
            ("-i eth0", Fits::Yes),
            ("! -i lo", Fits::Yes),
            ("-i cni0", Fits::No),
            ("-i eth1", Fits::Maybe),
            ("-s 192.168.4.0/24", Fits::Yes),
            ("! -s 192.168.4.0/24", Fits::No),
            ("-s 192.168.4.9/32", Fits::Maybe),
            ("-s 10.9.0.0/16", Fits::No),
            ("-s nonsense", Fits::Maybe),
            ("-d 127.0.0.0/8", Fits::No),
            ("-d 192.168.4.61/32", Fits::Maybe),
            ("-m state --state NEW,ESTABLISHED", Fits::Yes),
            ("-m state --state INVALID", Fits::No),
            ("-m conntrack ! --ctstate NEW", Fits::No),
            ("-m addrtype --dst-type MULTICAST", Fits::No),
            ("-m addrtype --src-type LOCAL", Fits::No),
            ("-m pkttype --pkt-type broadcast", Fits::No),
            ("-m pkttype --pkt-type unicast", Fits::Yes),
            ("-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN", Fits::Yes),
            ("-p tcp -m tcp --tcp-flags FIN,SYN,RST,PSH,ACK,URG NONE", Fits::No),
            ("-p tcp -m tcp --tcp-flags RST RST", Fits::No),
            ("-p tcp -m tcp --tcp-flags ALL FIN", Fits::No),
            ("-p tcp -m tcp --syn", Fits::Yes),
            ("-p tcp -m tcp ! --syn", Fits::No),
            ("-m rpfilter --validmark --invert", Fits::No),
            ("-m mark --mark 0x4000/0x4000", Fits::No),
            ("-m mark --mark 0x0", Fits::Yes),
            ("-m mark ! --mark 0x1", Fits::Yes),
            ("-m nfacct --nfacct-name dropped", Fits::Yes),
            ("-m set --match-set banned src", Fits::Maybe),
            ("-m hashlimit --hashlimit-above 5/sec", Fits::Maybe),
            ("-m comment --comment \"-p udp \\\" -i lo\"", Fits::Yes),
            ("-m comment --comment \"\"", Fits::Yes),
        ] {
            let line = format!("-A INPUT {rule} -j DROP");
            assert_eq!(parse_rule(&line, &packet(Proto::Tcp, 10250)).unwrap().1.fits, fits, "{rule}");
        }
    }

    #[test]
    fn strangers_who_are_let_in_may_be_the_cluster() {
        let rule = "-A INPUT -s 10.9.0.0/16 -p tcp -m tcp --dport 10250 -j ACCEPT";
        assert_eq!(kubelet("DROP", rule), Passage::CannotTell(rule.into()));
    }

    #[test]
    fn targets_do_what_they_say() {
        for (target, expected) in [
            ("-j ACCEPT", Passage::Open),
            ("-j RETURN", Passage::Blocked(":INPUT DROP".into())),
            ("-j LOG --log-prefix \"x: y\" --log-level 7", Passage::Blocked(":INPUT DROP".into())),
            ("-j NFQUEUE --queue-num 0", Passage::CannotTell("-A INPUT -j NFQUEUE --queue-num 0".into())),
            ("-g own", Passage::Open),
            ("-j own", Passage::Open),
        ] {
            let rules = format!("-A INPUT {target}\n-A own -j ACCEPT");
            assert_eq!(kubelet("DROP", &rules), expected, "{target}");
        }
    }

    #[test]
    fn a_mark_that_is_set_may_be_read() {
        let rules = "-A INPUT -j MARK --set-xmark 0x8000/0x8000\n-A INPUT -m mark --mark 0x8000/0x8000 -j DROP";
        assert!(matches!(kubelet("ACCEPT", rules), Passage::CannotTell(_)));
    }

    #[test]
    fn earlier_tables_can_block_too_and_nat_cannot() {
        let raw = "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 10250 -j DROP\nCOMMIT\n";
        let text = format!("{raw}{}", input("ACCEPT", ""));
        assert!(matches!(passage(&text, Proto::Tcp, 10250), Passage::Blocked(_)));
        assert_eq!(passage(&raw.replace("raw", "nat"), Proto::Tcp, 10250), Passage::Open);
    }

    #[test]
    fn half_a_table_is_no_table() {
        let text = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp";
        assert!(matches!(passage(text, Proto::Tcp, 10250), Passage::CannotTell(_)));
        let ruleset = Ruleset::parse(text, &packet(Proto::Tcp, 1));
        assert!(!ruleset.has_table("filter"));
        assert!(Ruleset::parse(&input("ACCEPT", ""), &packet(Proto::Tcp, 1)).has_table("filter"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_ruleset(text in ".*", rules in "(-A INPUT [-!a-z0-9 \"\\\\:,/.]*\n)*") {
            passage(&text, Proto::Tcp, 10250);
            kubelet("DROP", &rules);
        }
    }
}
