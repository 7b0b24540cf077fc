//! The rules of nftables, as `nft -j list ruleset` prints them, held against a packet over IPv4.
//!
//! Expressions that are not known may fit: they make an answer uncertain, never wrong.
//!
//! Shared: `firewall` reads them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::cidr::Cidr;
use super::listen::Proto;
use super::netfilter::{Action, BaseChain, Chains, Fits, NetfilterRule, Packet, Passage, Walk};

/// Family and name of a table.
type TableName = (String, String);

#[derive(Default)]
struct Table {
    chains: Chains,
    bases: Vec<(Hook, BaseChain)>,
    sets: BTreeMap<String, Value>,
}

/// The order in which base chains are called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hook {
    /// `input` or `forward`, which come after `prerouting`.
    is_last: bool,
    priority: i64,
}

/// What happens to the packet in every table but those that iptables owns: `nft` prints their rules without the values,
/// `iptables-save` prints them in full.
pub fn passage(text: &str, packet: &Packet, owned: impl Fn(&str) -> bool, walk: &mut Walk) -> Result<Passage, String> {
    let mut tables: BTreeMap<TableName, Table> = BTreeMap::new();
    let judged = |(family, name): &(&str, &str)| matches!(*family, "ip" | "inet") && !(*family == "ip" && owned(name));
    // Rules name sets and chains that may be listed after them.
    for kinds in [&["chain", "set", "map"][..], &["rule"]] {
        each_item(text, |kind, item| {
            let text = |key: &str| item.get(key).and_then(Value::as_str);
            let place = text("family").zip(text("table")).filter(judged);
            if let Some((family, name)) = place.filter(|_| kinds.contains(&kind)) {
                let place = (family.to_owned(), name.to_owned());
                take(tables.entry(place).or_default(), kind, &item, packet);
            }
        })?;
    }
    let mut bases: Vec<(Hook, &Table, &BaseChain)> =
        tables.values().flat_map(|table| table.bases.iter().map(move |(hook, base)| (*hook, table, base))).collect();
    bases.sort_by_key(|(hook, ..)| *hook);
    Ok(bases
        .into_iter()
        .fold(Passage::Open, |passage, (_, table, base)| passage.and(walk.passage(&table.chains, base))))
}

/// Calls for each thing of a ruleset with its kind. One is in memory at a time: tens of thousands of rules as a tree of JSON would
/// take a hundred megabytes and more.
fn each_item(text: &str, call: impl FnMut(&str, Value)) -> Result<(), String> {
    let mut json = serde_json::Deserializer::from_str(text);
    let listed = Ruleset(call).deserialize(&mut json).and_then(|listed| json.end().map(|()| listed));
    let is_listed = listed.map_err(|error| format!("not JSON: {error}"))?;
    if is_listed { Ok(()) } else { Err("no nftables".to_owned()) }
}

/// `{"nftables": [{KIND: {…}}, …]}`; gives whether there is such a list.
struct Ruleset<F>(F);

impl<'de, F: FnMut(&str, Value)> DeserializeSeed<'de> for Ruleset<F> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, F: FnMut(&str, Value)> Visitor<'de> for Ruleset<F> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ruleset")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<bool, A::Error> {
        let mut listed = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "nftables" {
                map.next_value_seed(Items(&mut self.0))?;
                listed = true;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(listed)
    }
}

struct Items<'f, F>(&'f mut F);

impl<'de, F: FnMut(&str, Value)> DeserializeSeed<'de> for Items<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&str, Value)> Visitor<'de> for Items<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tables, chains and rules")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element::<Value>()? {
            let things = match item {
                Value::Object(things) => things,
                _ => Map::new(),
            };
            things.into_iter().for_each(|(kind, thing)| (self.0)(&kind, thing));
        }
        Ok(())
    }
}

fn take(table: &mut Table, kind: &str, item: &Value, packet: &Packet) {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    let place = format!("{} {}", text("family").unwrap_or_default(), text("table").unwrap_or_default());
    match (kind, text("name"), text("chain")) {
        ("set" | "map", Some(name), _) => {
            table.sets.insert(name.to_owned(), item.clone());
        }
        ("chain", Some(name), _) if text("type") == Some("filter") => {
            let last = if packet.is_forwarded() { "forward" } else { "input" };
            let is_last = text("hook") == Some(last);
            if is_last || text("hook") == Some("prerouting") {
                let policy = text("policy").unwrap_or("accept");
                let base = BaseChain {
                    chain: name.to_owned(),
                    accepts: policy != "drop",
                    text: format!("table {place}, chain {name}: policy {policy}"),
                };
                let priority = item.get("prio").and_then(Value::as_i64).unwrap_or(0);
                table.bases.push((Hook { is_last, priority }, base));
            }
        }
        ("rule", _, Some(chain)) => {
            let handle = item.get("handle").and_then(Value::as_u64).unwrap_or(0);
            let place = format!("table {place}, chain {chain}, handle {handle}");
            let rules = read_rule(item, &table.sets, packet, &place);
            table.chains.entry(chain.to_owned()).or_default().extend(rules);
        }
        _ => {}
    }
}

/// Reading one rule: how far it fits so far, and what it does.
struct Reading<'a> {
    packet: &'a Packet,
    sets: &'a BTreeMap<String, Value>,
    fits: Fits,
    fits_marked: Fits,
    /// The sources it is limited to, where they are strangers to this machine's network.
    strangers: bool,
}

fn read_rule(item: &Value, sets: &BTreeMap<String, Value>, packet: &Packet, place: &str) -> Vec<NetfilterRule> {
    let mut reading = Reading { packet, sets, fits: Fits::Yes, fits_marked: Fits::Yes, strangers: false };
    let mut rules = Vec::new();
    for expression in item.get("expr").and_then(Value::as_array).into_iter().flatten() {
        let Some((kind, value)) = expression.as_object().and_then(|object| object.iter().next()) else { continue };
        if kind == "vmap" {
            rules.extend(reading.verdict_map(value, place));
        } else if let Some(action) = verdict(kind, value) {
            rules.push(reading.rule(Fits::Yes, action, place));
        } else {
            reading.narrow(kind, value);
        }
    }
    rules
}

fn verdict(kind: &str, value: &Value) -> Option<Action> {
    let target = || value.get("target").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(match kind {
        "accept" => Action::Accept,
        "drop" | "reject" => Action::Block,
        "return" => Action::Return,
        "jump" => Action::Jump(target()),
        "goto" => Action::Goto(target()),
        "queue" | "tproxy" => Action::Ask,
        "mangle" if is_mark(value.get("key")) => Action::Mark,
        "xt" if value.get("type").and_then(Value::as_str) == Some("target") => {
            if value.get("name").and_then(Value::as_str) == Some("REJECT") { Action::Block } else { Action::Nothing }
        }
        _ => return None,
    })
}

fn is_mark(left: Option<&Value>) -> bool {
    let key =
        |kind: &str| left.and_then(|left| left.get(kind)).and_then(|meta| meta.get("key")).and_then(Value::as_str);
    key("meta") == Some("mark") || key("ct") == Some("mark")
}

impl Reading<'_> {
    fn rule(&self, fits: Fits, action: Action, place: &str) -> NetfilterRule {
        // As with iptables: strangers who are blocked are no concern of the cluster's.
        let strangers = if self.strangers && action == Action::Block { Fits::No } else { Fits::Yes };
        let text = format!("{place}: {}", named(&action));
        let (fits, fits_marked) = (self.fits.and(fits).and(strangers), self.fits_marked.and(fits).and(strangers));
        NetfilterRule { fits, fits_marked, action, text }
    }

    fn narrow(&mut self, kind: &str, value: &Value) {
        let (plain, marked) = match kind {
            "match" => self.match_fits(value),
            "counter" | "log" | "notrack" | "set" | "mangle" | "comment" | "ct helper" | "ct timeout" | "secmark" => {
                (Fits::Yes, Fits::Yes)
            }
            "xt" if value.get("name").and_then(Value::as_str) == Some("comment") => (Fits::Yes, Fits::Yes),
            _ => (Fits::Maybe, Fits::Maybe),
        };
        self.fits = self.fits.and(plain);
        self.fits_marked = self.fits_marked.and(marked);
    }

    fn match_fits(&mut self, value: &Value) -> (Fits, Fits) {
        let (Some(left), Some(right)) = (value.get("left"), value.get("right")) else {
            return (Fits::Maybe, Fits::Maybe);
        };
        let negated = match value.get("op").and_then(Value::as_str) {
            Some("==" | "in") => false,
            Some("!=") => true,
            _ => return (Fits::Maybe, Fits::Maybe),
        };
        let masked = left.get("&").and_then(Value::as_array).and_then(|parts| parts.first());
        if is_mark(Some(left)) || is_mark(masked) {
            let zero = right.as_u64() == Some(0);
            return (Fits::of(zero != negated), Fits::Maybe);
        }
        if !self.can_have(left) {
            return (Fits::No, Fits::No);
        }
        let fits = self.value_fits(left, right, 0);
        if is_payload(left, &["ip"], "saddr") && !negated && fits == Fits::Maybe {
            self.strangers = all_strangers(right, self.packet);
        }
        let fits = if negated { fits.not() } else { fits };
        (fits, fits)
    }

    /// A rule about UDP ports does not fit TCP, whatever the ports, and one about IPv6 does not fit IPv4.
    fn can_have(&self, left: &Value) -> bool {
        match left.pointer("/payload/protocol").and_then(Value::as_str) {
            Some("tcp") => self.packet.proto == Proto::Tcp,
            Some("udp") => self.packet.proto == Proto::Udp,
            Some("th" | "ip" | "ether") | None => true,
            Some(_) => false,
        }
    }

    /// Sets and ranges are taken apart; single values are held against the packet.
    fn value_fits(&self, left: &Value, right: &Value, depth: u8) -> Fits {
        /// A set in a set in a set is no longer a rule anyone wrote.
        const DEEPEST: u8 = 8;
        if depth > DEEPEST {
            return Fits::Maybe;
        }
        let any = |values: &Vec<Value>| {
            values.iter().map(|value| self.value_fits(left, value, depth + 1)).fold(Fits::No, Fits::or)
        };
        if let Some(values) = right.get("set").and_then(Value::as_array).or_else(|| right.as_array()) {
            return any(values);
        }
        if let Some(value) = right.pointer("/elem/val") {
            return self.value_fits(left, value, depth + 1);
        }
        if let Some(name) = right.as_str().and_then(|text| text.strip_prefix('@')) {
            return match self.elements(name) {
                Some(elements) => elements.map_or(Fits::No, any),
                None => Fits::Maybe,
            };
        }
        let joined = |value: &Value| value.get("concat").and_then(Value::as_array).cloned();
        if let (Some(lefts), Some(rights)) = (joined(left), joined(right)) {
            let pairs = lefts.iter().zip(&rights);
            let each =
                pairs.map(|(left, right)| Fits::of(self.can_have(left)).and(self.value_fits(left, right, depth + 1)));
            return each.fold(Fits::of(lefts.len() == rights.len()), Fits::and);
        }
        self.single_fits(left, right)
    }

    /// The elements of a named set or map; `None` inside where it is empty, outside where they are not to be known: rules
    /// and timeouts change what is in a dynamic one.
    #[allow(clippy::option_option)]
    fn elements(&self, name: &str) -> Option<Option<&Vec<Value>>> {
        let set = self.sets.get(name)?;
        let mut flags = set.get("flags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let changes = flags.any(|flag| matches!(flag, "dynamic" | "timeout"));
        let elements = set.get("elem").and_then(Value::as_array);
        (!changes).then_some(elements)
    }

    fn single_fits(&self, left: &Value, right: &Value) -> Fits {
        let packet = self.packet;
        let text = right.as_str().unwrap_or_default();
        if let Some(key) = left.pointer("/meta/key").and_then(Value::as_str) {
            return match key {
                "iifname" | "iif" => packet.link_fits(text),
                "oifname" | "oif" => packet.out_link_fits(text),
                "l4proto" => protocol_fits(right, packet),
                "nfproto" => Fits::of(text == "ipv4"),
                "protocol" => Fits::of(text == "ip"),
                "pkttype" => Fits::of(matches!(text, "host" | "unicast")),
                _ => Fits::Maybe,
            };
        }
        if let Some(key) = left.pointer("/ct/key").and_then(Value::as_str) {
            return match key {
                "state" => Fits::of(text == "new"),
                "status" => Fits::No,
                "direction" => Fits::of(text == "original"),
                _ => Fits::Maybe,
            };
        }
        if let Some(result) = left.pointer("/fib/result").and_then(Value::as_str) {
            // The reverse path of a neighbour exists.
            return if result == "type" { packet.destination_kind_fits(text) } else { Fits::No };
        }
        if is_payload(left, &["tcp", "udp", "th"], "dport") {
            return port_fits(right, packet);
        }
        if is_payload(left, &["ip"], "protocol") {
            return protocol_fits(right, packet);
        }
        if is_payload(left, &["ip"], "saddr") {
            return range(right).map_or(Fits::Maybe, |cidr| packet.source_fits(cidr));
        }
        if is_payload(left, &["ip"], "daddr") {
            return range(right).map_or(Fits::Maybe, |cidr| packet.destination_fits(cidr));
        }
        Fits::Maybe
    }

    /// `tcp dport vmap { 80 : accept, 443 : drop }`: one rule for each pair.
    fn verdict_map(&self, value: &Value, place: &str) -> Vec<NetfilterRule> {
        let (Some(key), Some(data)) = (value.get("key"), value.get("data")) else { return Vec::new() };
        let named = || data.as_str().and_then(|name| name.strip_prefix('@')).and_then(|name| self.elements(name));
        let Some(pairs) = data.get("set").map(Value::as_array).or_else(named) else {
            // It may hold any verdict, and none for this packet.
            return vec![self.rule(Fits::Maybe, Action::Ask, place)];
        };
        let pairs = pairs
            .into_iter()
            .flatten()
            .filter_map(|pair| Some((pair.get(0)?, pair.get(1)?.as_object()?.iter().next()?)));
        let rules = pairs.filter_map(|(from, (kind, value))| {
            let any = from.as_str() == Some("*");
            let fits = match (any, self.can_have(key)) {
                (_, false) => Fits::No,
                (true, true) => Fits::Yes,
                (false, true) => self.value_fits(key, from, 0),
            };
            Some(self.rule(fits, verdict(kind, value)?, place))
        });
        rules.collect()
    }
}

fn is_payload(left: &Value, protocols: &[&str], field: &str) -> bool {
    let text = |key: &str| left.get("payload").and_then(|payload| payload.get(key)).and_then(Value::as_str);
    text("field") == Some(field) && text("protocol").is_some_and(|protocol| protocols.contains(&protocol))
}

fn protocol_fits(right: &Value, packet: &Packet) -> Fits {
    let number = match packet.proto {
        Proto::Tcp => 6,
        Proto::Udp => 17,
    };
    Fits::of(right.as_str() == Some(packet.proto.name()) || right.as_u64() == Some(number))
}

fn port_fits(right: &Value, packet: &Packet) -> Fits {
    let port = u64::from(packet.port);
    if let Some(value) = right.as_u64() {
        return Fits::of(value == port);
    }
    let end = |at: usize| right.get("range").and_then(|range| range.get(at)).and_then(Value::as_u64);
    end(0).zip(end(1)).map_or(Fits::Maybe, |(low, high)| Fits::of((low..=high).contains(&port)))
}

/// `"10.0.0.1"` or `{"prefix": {"addr": "10.0.0.0", "len": 8}}`.
fn range(right: &Value) -> Option<Cidr> {
    if let Some(text) = right.as_str() {
        return text.parse().ok();
    }
    let prefix = right.get("prefix")?;
    let length = u8::try_from(prefix.get("len")?.as_u64()?).ok()?;
    Cidr::new(prefix.get("addr")?.as_str()?.parse().ok()?, length)
}

fn all_strangers(right: &Value, packet: &Packet) -> bool {
    let stranger = |value: &Value| range(value).is_some_and(|cidr| packet.is_stranger(cidr));
    match right.get("set").and_then(Value::as_array) {
        Some(values) => values.iter().all(stranger),
        None => stranger(right),
    }
}

fn named(action: &Action) -> String {
    match action {
        Action::Accept => "accept".into(),
        Action::Block => "drop or reject".into(),
        Action::Return => "return".into(),
        Action::Jump(chain) => format!("jump {chain}"),
        Action::Goto(chain) => format!("goto {chain}"),
        Action::Ask => "not followed".into(),
        Action::Mark => "mark".into(),
        Action::Nothing => "nothing".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::netfilter::PacketPath;
    use proptest::prelude::*;

    fn packet(proto: Proto, port: u16) -> Packet {
        let path = PacketPath::Input { link: Some("eth0".into()), from: Some("192.168.4.61/24".parse().unwrap()) };
        Packet { proto, port, path }
    }

    /// A table `inet t` whose input chain holds these rules (`[expressions]` each), before what is in `more`.
    fn ruleset(policy: &str, rules: &[&str], more: &str) -> String {
        let rules: String = rules.iter().zip(1..).fold(String::new(), |all, (expr, handle)| {
            all + &format!(
                r#",{{"rule":{{"family":"inet","table":"t","chain":"in","handle":{handle},"expr":[{expr}]}}}}"#
            )
        });
        format!(
            r#"{{"nftables":[{{"metainfo":{{"version":"1.0.6","json_schema_version":1}}}},{{"table":{{"family":"inet","name":"t","handle":2}}}},
            {{"chain":{{"family":"inet","table":"t","name":"in","handle":1,"type":"filter","hook":"input","prio":0,"policy":"{policy}"}}}}{rules}{more}]}}"#
        )
    }

    fn judge(text: &str, proto: Proto, port: u16) -> Passage {
        passage(text, &packet(proto, port), |_| false, &mut Walk::default()).unwrap()
    }

    fn fits(expr: &str) -> Fits {
        let sets = serde_json::json!({"name": "ports", "elem": [22, {"range": [10000, 10300]}]});
        let empty = serde_json::json!({"name": "empty"});
        let filling = serde_json::json!({"name": "filling", "flags": ["dynamic"], "elem": [22]});
        let sets = [("ports", sets), ("empty", empty), ("filling", filling)].map(|(name, set)| (name.to_owned(), set));
        let sets: BTreeMap<String, Value> = sets.into();
        let item: Value = serde_json::from_str(&format!(r#"{{"expr":[{expr},{{"drop":null}}]}}"#)).unwrap();
        read_rule(&item, &sets, &packet(Proto::Tcp, 10250), "here")[0].fits
    }

    fn is(left: &str, right: &str) -> String {
        format!(r#"{{"match":{{"op":"==","left":{left},"right":{right}}}}}"#)
    }

    #[test]
    fn each_expression_is_known_or_makes_it_uncertain() {
        let payload =
            |protocol: &str, field: &str| format!(r#"{{"payload":{{"protocol":"{protocol}","field":"{field}"}}}}"#);
        let meta = |key: &str| format!(r#"{{"meta":{{"key":"{key}"}}}}"#);
        let ct = |key: &str| format!(r#"{{"ct":{{"key":"{key}"}}}}"#);
        for (left, right, expected) in [
            (payload("tcp", "dport"), "10250", Fits::Yes),
            (payload("tcp", "dport"), "22", Fits::No),
            (payload("udp", "dport"), "10250", Fits::No),
            (payload("th", "dport"), "10250", Fits::Yes),
            (payload("tcp", "dport"), r#"{"range":[10250,10259]}"#, Fits::Yes),
            (payload("tcp", "dport"), r#"{"range":[10251,10259]}"#, Fits::No),
            (payload("tcp", "dport"), r#"{"set":[{"range":[4000,5000]},10250,10256]}"#, Fits::Yes),
            (payload("tcp", "dport"), r#"{"set":[{"elem":{"val":10250,"comment":"kubelet"}}]}"#, Fits::Yes),
            (payload("tcp", "dport"), r#"{"set":[22,80]}"#, Fits::No),
            (payload("tcp", "dport"), r#""@ports""#, Fits::Yes),
            (payload("tcp", "dport"), r#""@empty""#, Fits::No),
            (payload("tcp", "dport"), r#""@filling""#, Fits::Maybe),
            (payload("tcp", "dport"), r#""@nowhere""#, Fits::Maybe),
            (payload("tcp", "sport"), "10250", Fits::Maybe),
            (payload("ip", "protocol"), r#""tcp""#, Fits::Yes),
            (payload("ip", "protocol"), "17", Fits::No),
            (payload("ip", "saddr"), r#"{"prefix":{"addr":"192.168.0.0","len":16}}"#, Fits::Yes),
            (payload("ip", "saddr"), r#""192.168.4.9""#, Fits::Maybe),
            (payload("ip", "saddr"), r#"{"prefix":{"addr":"10.0.0.0","len":8}}"#, Fits::No),
            (payload("ip", "saddr"), r#"{"set":["10.0.0.1","10.0.0.2"]}"#, Fits::No),
            (payload("ip", "saddr"), r#"{"set":["10.0.0.1","192.168.4.7"]}"#, Fits::Maybe),
            (payload("ip", "daddr"), r#""224.0.0.251""#, Fits::No),
            (payload("ip", "daddr"), r#""192.168.4.61""#, Fits::Maybe),
            (payload("ip6", "saddr"), r#""fe80::1""#, Fits::No),
            (payload("icmp", "type"), r#""echo-request""#, Fits::No),
            (meta("iifname"), r#""lo""#, Fits::No),
            (meta("iif"), r#""eth0""#, Fits::Yes),
            (meta("l4proto"), r#"{"set":["icmp","ipv6-icmp"]}"#, Fits::No),
            (meta("l4proto"), r#""tcp""#, Fits::Yes),
            (meta("nfproto"), r#""ipv6""#, Fits::No),
            (meta("protocol"), r#""ip""#, Fits::Yes),
            (meta("pkttype"), r#""multicast""#, Fits::No),
            (meta("pkttype"), r#""unicast""#, Fits::Yes),
            (meta("mark"), "16384", Fits::No),
            (meta("mark"), "0", Fits::Yes),
            (format!(r#"{{"&":[{},16384]}}"#, meta("mark")), "16384", Fits::No),
            (meta("skuid"), "0", Fits::Maybe),
            (ct("state"), r#"{"set":["established","related"]}"#, Fits::No),
            (ct("state"), r#"["new","untracked"]"#, Fits::Yes),
            (ct("state"), r#""invalid""#, Fits::No),
            (ct("status"), r#""dnat""#, Fits::No),
            (ct("mark"), "1", Fits::No),
            (ct("direction"), r#""original""#, Fits::Yes),
            (ct("zone"), "1", Fits::Maybe),
            (r#"{"fib":{"result":"type","flags":["daddr"]}}"#.into(), r#""local""#, Fits::Yes),
            (r#"{"fib":{"result":"type","flags":["daddr"]}}"#.into(), r#""broadcast""#, Fits::No),
            (r#"{"fib":{"result":"oif","flags":["saddr","iif"]}}"#.into(), "false", Fits::No),
            (r#"{"concat":[]}"#.into(), "[]", Fits::No),
            (r#"{"numgen":{}}"#.into(), "1", Fits::Maybe),
        ] {
            assert_eq!(fits(&is(&left, right)), expected, "{left} == {right}");
        }
        assert_eq!(
            fits(r#"{"match":{"op":"!=","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":22}}"#),
            Fits::Yes
        );
        assert_eq!(
            fits(r#"{"match":{"op":"!=","left":{"payload":{"protocol":"udp","field":"dport"}},"right":22}}"#),
            Fits::No
        );
        assert_eq!(fits(r#"{"match":{"op":"!=","left":{"meta":{"key":"mark"}},"right":1}}"#), Fits::Yes);
        assert_eq!(
            fits(r#"{"match":{"op":"<","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":22}}"#),
            Fits::Maybe
        );
        assert_eq!(fits(r#"{"counter":{"packets":0,"bytes":0}},{"log":{"prefix":"x"}}"#), Fits::Yes);
        assert_eq!(fits(r#"{"limit":{"rate":5,"per":"minute"}}"#), Fits::Maybe);
        assert_eq!(fits(r#"{"xt":{"type":"match","name":"conntrack"}}"#), Fits::Maybe);
        assert_eq!(fits(r#"{"xt":{"type":"match","name":"comment"}}"#), Fits::Yes);
    }

    const OPENS: &str =
        r#"{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":10250}},{"accept":null}"#;

    #[test]
    fn the_rules_and_then_the_policy_decide() {
        let text = ruleset("drop", &[OPENS], "");
        assert_eq!(judge(&text, Proto::Tcp, 10250), Passage::Open);
        assert_eq!(judge(&text, Proto::Udp, 8472), Passage::Blocked("table inet t, chain in: policy drop".into()));
        let text = ruleset("accept", &[OPENS, r#"{"reject":{"type":"icmpx","expr":"admin-prohibited"}}"#], "");
        assert_eq!(
            judge(&text, Proto::Udp, 8472),
            Passage::Blocked("table inet t, chain in, handle 2: drop or reject".into())
        );
        assert_eq!(judge(r#"{"nftables":[]}"#, Proto::Udp, 8472), Passage::Open);
    }

    #[test]
    fn firewalld_jumps_by_link_to_its_zone() {
        let chains = r#",{"chain":{"family":"inet","table":"t","name":"public","handle":3}},
            {"rule":{"family":"inet","table":"t","chain":"public","handle":9,"expr":[{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":22}},{"accept":null}]}}"#;
        let to_zone =
            r#"{"match":{"op":"==","left":{"meta":{"key":"iifname"}},"right":"eth0"}},{"goto":{"target":"public"}}"#;
        let text = ruleset("accept", &[r#"{"jump":{"target":"public"}}"#, r#"{"reject":{}}"#], chains);
        assert_eq!(judge(&text, Proto::Tcp, 22), Passage::Open);
        assert!(matches!(judge(&text, Proto::Tcp, 10250), Passage::Blocked(_)));
        assert_eq!(judge(&ruleset("accept", &[to_zone, r#"{"reject":{}}"#], chains), Proto::Tcp, 10250), Passage::Open);
    }

    #[test]
    fn a_verdict_map_is_a_rule_for_each_pair() {
        let by_state = r#"{"vmap":{"key":{"ct":{"key":"state"}},"data":{"set":[["invalid",{"drop":null}],["established",{"accept":null}]]}}}"#;
        let by_proto = r#"{"vmap":{"key":{"meta":{"key":"l4proto"}},"data":{"set":[["tcp",{"accept":null}],["udp",{"drop":null}]]}}}"#;
        let text = ruleset("accept", &[by_state, by_proto], "");
        assert_eq!(judge(&text, Proto::Tcp, 1), Passage::Open);
        assert_eq!(
            judge(&text, Proto::Udp, 1),
            Passage::Blocked("table inet t, chain in, handle 2: drop or reject".into())
        );
        let any = r#"{"vmap":{"key":{"payload":{"protocol":"tcp","field":"dport"}},"data":{"set":[[22,{"accept":null}],["*",{"drop":null}]]}}}"#;
        assert!(matches!(judge(&ruleset("accept", &[any], ""), Proto::Tcp, 1), Passage::Blocked(_)));
        assert_eq!(judge(&ruleset("accept", &[any], ""), Proto::Udp, 1), Passage::Open);
        let named = r#"{"vmap":{"key":{"ct":{"key":"state"}},"data":"@verdicts"}}"#;
        assert!(matches!(judge(&ruleset("accept", &[named], ""), Proto::Tcp, 1), Passage::CannotTell(_)));
    }

    #[test]
    fn kube_proxys_maps_are_looked_into() {
        let key = r#"{"concat":[{"payload":{"protocol":"ip","field":"daddr"}},{"meta":{"key":"l4proto"}},{"payload":{"protocol":"th","field":"dport"}}]}"#;
        let rule = format!(r#"{{"vmap":{{"key":{key},"data":"@no-endpoint-services"}}}}"#);
        let with = |elements: &str| {
            let map = format!(
                r#",{{"map":{{"family":"inet","table":"t","name":"no-endpoint-services","map":"verdict"{elements}}}}}"#
            );
            judge(&ruleset("accept", &[&rule], &map), Proto::Tcp, 10250)
        };
        assert_eq!(with(""), Passage::Open);
        assert_eq!(with(r#","elem":[[{"concat":["10.96.0.10","tcp",53]},{"drop":null}]]"#), Passage::Open);
        assert_eq!(with(r#","elem":[[{"concat":["10.96.0.10","udp",10250]},{"drop":null}]]"#), Passage::Open);
        let same = r#","elem":[[{"concat":["10.96.0.10","tcp",10250]},{"drop":null}]]"#;
        assert!(matches!(with(same), Passage::CannotTell(_)), "by the address");
        assert_eq!(with(r#","elem":[[{"concat":["10.96.0.10","tcp"]},{"drop":null}]]"#), Passage::Open);
    }

    #[test]
    fn only_tables_that_see_the_packet_are_asked() {
        let other = |family: &str, kind: &str, hook: &str| {
            let more = format!(
                r#",{{"chain":{{"family":"{family}","table":"u","name":"c","type":"{kind}","hook":"{hook}","prio":-300,"policy":"drop"}}}}"#
            );
            judge(&ruleset("accept", &[], &more), Proto::Tcp, 10250)
        };
        assert!(matches!(other("ip", "filter", "prerouting"), Passage::Blocked(_)));
        assert!(matches!(other("ip", "filter", "input"), Passage::Blocked(_)));
        assert_eq!(other("ip6", "filter", "input"), Passage::Open);
        assert_eq!(other("bridge", "filter", "input"), Passage::Open);
        assert_eq!(other("inet", "filter", "forward"), Passage::Open);
        assert_eq!(other("ip", "nat", "prerouting"), Passage::Open);
    }

    #[test]
    fn what_iptables_owns_is_left_to_it() {
        let text = r#"{"nftables":[{"chain":{"family":"ip","table":"filter","name":"INPUT","type":"filter","hook":"input","prio":0,"policy":"drop"}}]}"#;
        let packet = packet(Proto::Tcp, 10250);
        assert_eq!(passage(text, &packet, |table| table == "filter", &mut Walk::default()), Ok(Passage::Open));
        assert!(matches!(passage(text, &packet, |_| false, &mut Walk::default()), Ok(Passage::Blocked(_))));
    }

    #[test]
    fn marks_and_foreign_targets() {
        let marks = r#"{"mangle":{"key":{"meta":{"key":"mark"}},"value":1}}"#;
        let reads = r#"{"match":{"op":"==","left":{"meta":{"key":"mark"}},"right":1}},{"drop":null}"#;
        assert!(matches!(judge(&ruleset("accept", &[marks, reads], ""), Proto::Tcp, 1), Passage::CannotTell(_)));
        assert_eq!(judge(&ruleset("accept", &[reads], ""), Proto::Tcp, 1), Passage::Open);
        let reject = r#"{"xt":{"type":"target","name":"REJECT"}}"#;
        assert!(matches!(judge(&ruleset("accept", &[reject], ""), Proto::Tcp, 1), Passage::Blocked(_)));
        let log = r#"{"xt":{"type":"target","name":"LOG"}}"#;
        assert_eq!(judge(&ruleset("accept", &[log], ""), Proto::Tcp, 1), Passage::Open);
        let queue = r#"{"queue":{"num":0}}"#;
        assert!(matches!(judge(&ruleset("accept", &[queue], ""), Proto::Tcp, 1), Passage::CannotTell(_)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_ruleset_or_not(text in ".*", expr in "[\\[\\]{}\":a-z0-9,@&]*") {
            let packet = packet(Proto::Tcp, 10250);
            for text in [text, ruleset("drop", &[&expr], ""), ruleset("drop", &[&is("{}", &expr)], "")] {
                let _ = passage(&text, &packet, |_| false, &mut Walk::default());
            }
        }
    }
}
