//! What kubectl and systemctl print for people: tables, descriptions, the status of a unit. A row says of which node it is by a
//! column, or by the head of what it stands in.

use super::around::Around;
use super::plain;
use super::when::{Cursor, Stamp};

/// What is known of a row besides its words.
#[derive(Default)]
pub(super) struct About {
    pub stamp: Option<Stamp>,
    pub host: Option<String>,
    pub program: Option<String>,
}

pub(super) fn about(line: &str, around: &Around) -> About {
    node_row(line)
        .or_else(|| pod_row(line))
        .or_else(|| request_row(line))
        .or_else(|| event_row(line))
        .or_else(|| unit(line, around))
        .or_else(|| described(line, around))
        .unwrap_or_default()
}

/// `w1   NotReady   <none>   5m   v1.34.4`
fn node_row(line: &str) -> Option<About> {
    let mut columns = line.split_ascii_whitespace();
    let (name, status) = (columns.next()?, columns.next()?);
    let is_status = matches!(status.split(',').next(), Some("Ready" | "NotReady" | "Unknown"));
    let named =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    (is_status && named && columns.count() >= 3).then(|| About { host: Some(name.to_owned()), ..About::default() })
}

/// `kube-system   kube-proxy-x7k2p   0/1   CrashLoopBackOff   5 (2m ago)   9m   10.1.1.9   w9   <none>   <none>`
fn pod_row(line: &str) -> Option<About> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    let [before @ .., address, node, "<none>", "<none>"] = columns.as_slice() else { return None };
    let is_ready = |column: &&str| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        column.split_once('/').is_some_and(|(ready, all)| digits(ready) && digits(all))
    };
    let is_pod = before.iter().any(is_ready);
    let is_address = *address == "<none>" || address.parse::<std::net::IpAddr>().is_ok();
    (is_pod && is_address && *node != "<none>").then(|| About { host: Some((*node).to_owned()), ..About::default() })
}

/// `csr-x7kzb   5m   kubernetes.io/kube-apiserver-client-kubelet   system:node:w1   <none>   Pending`
fn request_row(line: &str) -> Option<About> {
    line.trim_start().starts_with("csr-").then_some(())?;
    let node = line.split_ascii_whitespace().find_map(|column| column.strip_prefix("system:node:"))?;
    Some(About { host: Some(node.to_owned()), ..About::default() })
}

/// `2m10s   Warning   NodeNotReady   node/w1   Node w1 status is now: NodeNotReady`: an age is no time; ISO is one.
fn event_row(line: &str) -> Option<About> {
    let mut columns = line.split_ascii_whitespace();
    let object = columns.find(|column| matches!(*column, "Warning" | "Normal")).and_then(|_| columns.nth(1))?;
    let stamp = line.split_ascii_whitespace().next().and_then(|first| Cursor::new(first).iso());
    let host = object.strip_prefix("node/").map(str::to_owned);
    (object.contains('/')).then_some(About { stamp, host, program: None })
}

/// The lines under `● kubelet.service - …`; `Active:` says since when.
fn unit(line: &str, around: &Around) -> Option<About> {
    let head = plain::text(around.owner()?);
    let name = head.strip_prefix(['●', '○', '×', '*', '↻'])?.trim_start().split_once(".service")?.0;
    let since = line.split_once(" since ").and_then(|(_, since)| Cursor::new(since).full());
    let stamp = line.trim_start().starts_with("Active: ").then_some(since).flatten();
    Some(About { stamp, host: None, program: Some(name.to_owned()) })
}

/// `kubectl describe`: a condition has its times in the row, an event its age only; the node is named at the top.
fn described(line: &str, around: &Around) -> Option<About> {
    let section = around.owner()?;
    let in_conditions = section.starts_with(b"Conditions:");
    if !in_conditions && !section.starts_with(b"Events:") {
        return None;
    }
    let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    // Last heartbeat, then last transition: since when it is so.
    let stamp = columns.iter().rev().find_map(|column| Cursor::new(column).mail());
    // Type, reason, age, from, message.
    let from = (!in_conditions && columns.len() >= 5).then(|| columns.get(3)).flatten();
    let program = from.and_then(|from| from.split(',').next()).map(str::to_owned);
    Some(About { stamp, host: described_node(around), program })
}

/// A Node's own `Name:`, a Pod's `Node:`.
fn described_node(around: &Around) -> Option<String> {
    let mut roles = false;
    for line in around.above() {
        if let Some(node) = line.strip_prefix(b"Node:") {
            let node = plain::text(node);
            return Some(node.trim().split('/').next()?.to_owned());
        }
        roles |= line.starts_with(b"Roles:");
        if let Some(name) = line.strip_prefix(b"Name:") {
            return roles.then(|| plain::text(name).trim().to_owned());
        }
    }
    None
}

/// The pod that a row is about: of `kubectl get pods` and `get events` by its name, of a description by the head of that.
pub(super) fn pod(line: &str, around: &Around) -> Option<String> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    if let Some(name) = columns.iter().find_map(|column| column.strip_prefix("pod/")) {
        return Some(name.to_owned());
    }
    let is_ready = |column: &&str| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        column.split_once('/').is_some_and(|(ready, all)| digits(ready) && digits(all))
    };
    if let Some(at) = columns.iter().position(is_ready) {
        return columns.get(at.checked_sub(1)?).map(|name| (*name).to_owned());
    }
    around.owner().filter(|owner| owner.starts_with(b"Events:"))?;
    let named =
        around.above().take_while(|line| !line.starts_with(b"Roles:")).find_map(|line| line.strip_prefix(b"Name:"));
    // Without its name it is still not another's: each description has its own events.
    let nameless = || format!("events {}", around.above().filter(|line| line.starts_with(b"Events:")).count());
    Some(named.map_or_else(nameless, |name| plain::text(name).trim().to_owned()))
}
