//! One machine, many names: a node's name, its host name with and without the domain, its addresses.
//!
//! A short name and a full one are one machine's. Which address is whose a text says itself: rows of `kubectl get nodes -o wide`, a
//! pod's `Node: w9/10.1.1.9`, a Node's addresses, an inventory.

use std::net::IpAddr;

/// Machines whose addresses are known: more than that is no paste of one join.
const MOST: usize = 256;

/// What a text says about which names are one machine's.
#[derive(Clone, Debug, Default)]
pub(super) struct MachineNames {
    /// A name, and an address of it.
    known: Vec<(String, IpAddr)>,
    /// The last address of the Node that is being described: its name follows.
    address: Option<IpAddr>,
}

impl MachineNames {
    /// Takes what a line says about names.
    pub(super) fn learn(&mut self, line: &str) {
        let words = line.trim();
        if let Some(found) = of_pod(words).or_else(|| of_row(words)).or_else(|| of_inventory(words)) {
            return self.know(found.0, found.1);
        }
        if let Some(address) = words.strip_prefix("InternalIP:") {
            self.address = address.trim().parse().ok();
        } else if let Some((name, address)) = words.strip_prefix("Hostname:").zip(self.address.take()) {
            self.know(name.trim(), address);
        }
    }

    fn know(&mut self, name: &str, address: IpAddr) {
        let known = self.known.iter().any(|(other, its)| *its == address && same_name(other, name));
        if !known && self.known.len() < MOST {
            self.known.push((name.to_owned(), address));
        }
    }

    /// Whether what is said of `host` is about this node; what names none is taken to be.
    pub(super) fn is_about(&self, node: Option<&str>, host: Option<&str>) -> bool {
        match (node, host) {
            (Some(node), Some(host)) => self.are_one(node, host),
            _ => true,
        }
    }

    /// Whether two names are one machine's.
    pub(super) fn are_one(&self, a: &str, b: &str) -> bool {
        let has = |name: &str, address: &str| {
            let address: Option<IpAddr> = address.parse().ok();
            self.known.iter().any(|(known, its)| Some(*its) == address && same_name(known, name))
        };
        same_name(a, b) || has(a, b) || has(b, a)
    }
}

/// A short name and a full one are one machine's; of addresses only the whole.
fn same_name(a: &str, b: &str) -> bool {
    let is_address = a.parse::<IpAddr>().is_ok() || b.parse::<IpAddr>().is_ok();
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    a.eq_ignore_ascii_case(b) || (!is_address && short(a) == short(b))
}

/// `Node:  w9/10.1.1.9`
fn of_pod(words: &str) -> Option<(&str, IpAddr)> {
    let (name, address) = words.strip_prefix("Node:")?.trim().split_once('/')?;
    Some((name, address.parse().ok()?))
}

/// `w9   NotReady   <none>   5m   v1.34.4   10.1.1.9   …`
fn of_row(words: &str) -> Option<(&str, IpAddr)> {
    let mut columns = words.split_ascii_whitespace();
    let (name, status) = (columns.next()?, columns.next()?);
    let is_status = matches!(status.split(',').next(), Some("Ready" | "NotReady" | "Unknown"));
    let address = columns.nth(3)?.parse().ok()?;
    is_status.then_some((name, address))
}

/// `w9 ansible_host=10.1.1.9 …`
fn of_inventory(words: &str) -> Option<(&str, IpAddr)> {
    let mut columns = words.split_ascii_whitespace();
    let name = columns.next()?;
    let address = columns.find_map(|column| column.strip_prefix("ansible_host="))?;
    Some((name, address.trim_matches(['"', '\'']).parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_one_machine_are_one() {
        let mut names = MachineNames::default();
        for line in [
            "w9     NotReady   <none>   5m   v1.34.4   10.1.1.9   <none>   Debian",
            "Node:             w8/10.1.1.8",
            "w7 ansible_host=10.1.1.7 ansible_user=root",
            "  InternalIP:  10.1.1.6",
            "  Hostname:    w6",
            "w5     NotReady   <none>   5m   v1.34.4",
        ] {
            names.learn(line);
        }
        for (a, b, one) in [
            ("w9", "w9.example.com", true),
            ("W9", "w9", true),
            ("w9", "10.1.1.9", true),
            ("10.1.1.9", "w9.example.com", true),
            ("w8", "10.1.1.8", true),
            ("w7", "10.1.1.7", true),
            ("w6", "10.1.1.6", true),
            ("w9", "10.1.1.8", false),
            ("w9", "w8", false),
            ("10.1.1.9", "10.1.1.8", false),
        ] {
            assert_eq!(names.are_one(a, b), one, "{a} {b}");
        }
        assert!(names.is_about(Some("w9"), None) && names.is_about(None, Some("w9")));
    }
}
