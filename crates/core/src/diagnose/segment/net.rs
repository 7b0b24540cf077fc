//! Sockets, links, routes and firewalld, in the words of `ss -H -lntup` and `ip -j`.

use serde_json::{Value, json};

use super::section::{Body, Harvest};
use crate::fact::cidr::Cidr;
use crate::fact::listen::{LISTENERS, ONLY_TCP};
use crate::fact::net::{LINKS, ROUTES, WITHOUT_KIND};
use crate::fact::{Source, firewall};

/// Rows of `ss` begin with the protocol only where several were asked for.
pub(super) fn read_sockets(udp: bool, netstat: bool, body: &Body, harvest: &mut Harvest) {
    let with_protocol = body.lines.iter().any(|(_, line)| line.trim_start().starts_with("Netid"));
    let rows: Vec<String> = body
        .lines
        .iter()
        .filter_map(|(_, line)| if netstat { of_netstat(line) } else { of_ss(line, with_protocol) })
        .collect();
    let headed = body.lines.iter().any(|(_, line)| line.contains("Local Address") || line.contains("Active Internet"));
    if rows.is_empty() && !headed {
        return;
    }
    let udp = udp && (with_protocol || netstat || rows.iter().any(|row| row.starts_with("udp")));
    let first = if udp { Vec::new() } else { vec![ONLY_TCP.to_owned()] };
    let text = first.into_iter().chain(rows).flat_map(|row| [row, "\n".to_owned()]).collect();
    harvest.segments.push(body.told(Source::Query(&LISTENERS).key(), body.first, text));
}

fn of_ss(line: &str, with_protocol: bool) -> Option<String> {
    let line = line.trim();
    let first = line.split_whitespace().next()?;
    match first {
        "tcp" | "udp" if with_protocol || line.contains("LISTEN") || line.contains("UNCONN") => Some(line.to_owned()),
        "LISTEN" if !with_protocol => Some(format!("tcp {line}")),
        _ => None,
    }
}

/// `tcp6  0  0 :::10250  :::*  LISTEN  812/kubelet`.
fn of_netstat(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [protocol, received, sent, local, peer, rest @ ..] = words.as_slice() else { return None };
    let protocol = match *protocol {
        "tcp" | "tcp6" if rest.first() == Some(&"LISTEN") => "tcp",
        "udp" | "udp6" => "udp",
        _ => return None,
    };
    let bracketed = |address: &str| match address.rsplit_once(':') {
        Some((ip, port)) if ip.contains(':') => format!("[{ip}]:{port}"),
        _ => address.to_owned(),
    };
    let owner = rest.iter().find_map(|word| word.split_once('/')).filter(|(pid, _)| pid.parse::<u32>().is_ok());
    let owner = owner.map_or_else(String::new, |(pid, name)| format!(" users:((\"{name}\",pid={pid},fd=0))"));
    let state = if protocol == "tcp" { "LISTEN" } else { "UNCONN" };
    Some(format!("{protocol} {state} {received} {sent} {} {}{owner}", bracketed(local), bracketed(peer)))
}

/// `ip -brief address` (`eth0 UP 10.0.0.2/24`) and `ip address`, which has the MTU. Neither says a link's kind.
pub(super) fn read_links(body: &Body, harvest: &mut Harvest) {
    let mut links: Vec<Value> = Vec::new();
    for (_, line) in &body.lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(link) = brief_link(&words).or_else(|| headed_link(&words)) {
            links.push(link);
        } else if let ["inet" | "inet6", address, ..] = words.as_slice()
            && let Some(list) =
                links.last_mut().and_then(|link| link.get_mut("addr_info")).and_then(Value::as_array_mut)
        {
            list.extend(address_info(address));
        }
    }
    // Every machine has a loopback: without it this is a part.
    if links.iter().any(|link| link.get("ifname") == Some(&json!("lo"))) {
        harvest.segments.push(body.told(Source::Query(&LINKS).key(), body.first, Value::from(links).to_string()));
    }
}

/// `flannel.1 UNKNOWN 10.244.1.0/32 fe80::1/64`.
pub(super) fn brief_link(words: &[&str]) -> Option<Value> {
    let [name, state @ ("UP" | "DOWN" | "UNKNOWN" | "LOWERLAYERDOWN" | "DORMANT"), addresses @ ..] = words else {
        return None;
    };
    let addresses: Vec<Value> = addresses.iter().filter_map(|address| address_info(address)).collect();
    Some(json!({"ifname": link_name(name), "operstate": state, "addr_info": addresses, WITHOUT_KIND: true}))
}

/// `2: eth0@if5: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP group default`.
fn headed_link(words: &[&str]) -> Option<Value> {
    let [index, name, flags, rest @ ..] = words else { return None };
    index.strip_suffix(':')?.parse::<u32>().ok()?;
    let name = name.strip_suffix(':').filter(|_| flags.starts_with('<'))?;
    let value = |key: &str| rest.iter().position(|word| *word == key).and_then(|at| rest.get(at + 1)).copied();
    let mut link = json!({"ifname": link_name(name), "addr_info": [], WITHOUT_KIND: true});
    if let Some(fields) = link.as_object_mut() {
        fields.extend(value("mtu").and_then(|mtu| mtu.parse::<u64>().ok()).map(|mtu| ("mtu".to_owned(), mtu.into())));
        fields.extend(value("state").map(|state| ("operstate".to_owned(), state.into())));
    }
    Some(link)
}

fn link_name(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

fn address_info(address: &str) -> Option<Value> {
    let (local, length) = address.split_once('/').unwrap_or((address, "32"));
    let local: std::net::IpAddr = local.parse().ok()?;
    Some(json!({"local": local.to_string(), "prefixlen": length.parse::<u64>().ok()?}))
}

const TYPES: [&str; 8] =
    ["local", "broadcast", "unreachable", "blackhole", "prohibit", "multicast", "throw", "unicast"];

/// `default via 10.0.0.1 dev eth0 proto dhcp metric 100 linkdown`.
pub(super) fn route(line: &str) -> Option<Value> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, words) = match words.split_first() {
        Some((first, rest)) if TYPES.contains(first) => (Some(*first), rest),
        _ => (None, words.as_slice()),
    };
    let (to, rest) = words.split_first()?;
    let is_place = *to == "default" || to.parse::<Cidr>().is_ok() || to.parse::<std::net::IpAddr>().is_ok();
    let value = |key: &str| rest.iter().position(|word| *word == key).and_then(|at| rest.get(at + 1)).copied();
    // A destination and a way there; of several ways, each has a line of its own below.
    let leads = value("dev").is_some() || value("via").is_some() || kind.is_some() || value("proto").is_some();
    if !is_place || !leads {
        return None;
    }
    let flags: Vec<&str> = rest.iter().copied().filter(|word| ["linkdown", "dead", "onlink"].contains(word)).collect();
    let mut route = json!({"dst": to, "flags": flags});
    let fields = route.as_object_mut()?;
    let via = value("via").map(|via| if via == "inet6" { value("inet6").unwrap_or(via) } else { via });
    fields.extend(via.map(|via| ("gateway".to_owned(), via.into())));
    for key in ["dev", "table", "pref"] {
        fields.extend(value(key).map(|value| (key.to_owned(), value.into())));
    }
    fields.extend(value("metric").and_then(|it| it.parse::<u64>().ok()).map(|it| ("metric".to_owned(), it.into())));
    fields.extend(kind.map(|kind| ("type".to_owned(), kind.into())));
    Some(route)
}

pub(super) fn read_routes(body: &Body, harvest: &mut Harvest) {
    let mut routes: Vec<Value> = Vec::new();
    for (_, line) in &body.lines {
        if let Some(hop) = line.trim_start().strip_prefix("nexthop ") {
            let hop = route(&format!("default {hop}"));
            let hops = routes.last_mut().and_then(Value::as_object_mut);
            if let (Some(fields), Some(hop)) = (hops, hop)
                && let Some(list) = fields.entry("nexthops").or_insert_with(|| json!([])).as_array_mut()
            {
                list.push(hop);
            }
        } else {
            routes.extend(route(line));
        }
    }
    if !routes.is_empty() {
        harvest.segments.push(body.told(Source::Query(&ROUTES).key(), body.first, Value::from(routes).to_string()));
    }
}

/// A zone is only listed by a firewalld that runs, which Carrick's own question says first.
pub(super) fn read_firewalld(body: &Body, harvest: &mut Harvest) {
    let text = body.text();
    if text.contains("target:") && text.contains("services:") {
        let key = Source::Query(&firewall::FIREWALLD).key();
        harvest.segments.push(body.told(key, body.first, format!("running\n{text}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_routes() {
        assert_eq!(
            route("default via 10.0.0.1 dev eth0 proto dhcp metric 100 linkdown"),
            Some(json!({"dst": "default", "gateway": "10.0.0.1", "dev": "eth0", "metric": 100, "flags": ["linkdown"]}))
        );
        assert_eq!(
            route("10.77.0.0/24 dev host0 proto kernel scope link src 10.77.0.21"),
            Some(json!({"dst": "10.77.0.0/24", "dev": "host0", "flags": []}))
        );
        assert_eq!(
            route("blackhole 10.244.1.0/24"),
            Some(json!({"dst": "10.244.1.0/24", "type": "blackhole", "flags": []}))
        );
        assert_eq!(route("default"), None);
        assert_eq!(route("default route is missing"), None);
    }

    #[test]
    fn reads_netstat_as_ss() {
        assert_eq!(
            of_netstat("tcp6       0      0 :::10250     :::*     LISTEN      812/kubelet").as_deref(),
            Some("tcp LISTEN 0 0 [::]:10250 [::]:* users:((\"kubelet\",pid=812,fd=0))")
        );
        assert_eq!(of_netstat("tcp 0 0 10.0.0.2:22 10.0.0.3:5 ESTABLISHED 1/sshd"), None);
    }
}
