//! Who listens on which port, as `ss` tells it.

use std::net::{IpAddr, Ipv4Addr};

use super::keep::USUAL;
use super::{Facts, Known, Missing, Query, Source};

pub const LISTENERS: Query = Query { name: "ss -H -lntup", argv: &["ss", "-H", "-lntup"], keep: USUAL };

/// The first line of what somebody looked at with `ss -lnt`: nothing is said of UDP.
pub const ONLY_TCP: &str = "# only tcp";

pub const SOURCES: &[Source] = &[Source::Query(&LISTENERS)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    Tcp,
    Udp,
}

impl Proto {
    pub fn name(self) -> &'static str {
        match self {
            Proto::Tcp => "tcp",
            Proto::Udp => "udp",
        }
    }
}

/// A socket that waits for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListeningSocket {
    pub proto: Proto,
    /// `0.0.0.0` is every address.
    pub address: IpAddr,
    pub port: u16,
    /// The first process that holds it. None: the kernel's own (a vxlan), or hidden from whoever asked without being
    /// root.
    pub owner: Option<Owner>,
    /// The line, for evidence.
    pub line: u32,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub name: String,
    pub pid: u32,
}

impl ListeningSocket {
    /// Whether it stands in the way of a listener on 127.0.0.1.
    pub fn takes_loopback(&self) -> bool {
        self.address == IpAddr::from(Ipv4Addr::UNSPECIFIED) || self.address == IpAddr::from(Ipv4Addr::LOCALHOST)
    }
}

/// Lines that are no sockets are passed over.
pub fn parse(text: &str) -> Vec<ListeningSocket> {
    (1u32..).zip(text.lines()).filter_map(|(line, text)| parse_line(line, text)).collect()
}

fn parse_line(line: u32, text: &str) -> Option<ListeningSocket> {
    let mut fields = text.split_whitespace();
    let proto = match fields.next()? {
        "tcp" => Proto::Tcp,
        "udp" => Proto::Udp,
        _ => return None,
    };
    let (address, port) = fields.nth(3)?.rsplit_once(':')?;
    let users = fields.nth(1);
    Some(ListeningSocket {
        proto,
        address: parse_address(address)?,
        port: port.parse().ok()?,
        owner: users.and_then(parse_owner),
        line,
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// `*` (every address of both families), `0.0.0.0`, `127.0.0.53%lo`, `[::1]`, `[fe80::1]%eth0`.
fn parse_address(text: &str) -> Option<IpAddr> {
    if text == "*" {
        return Some(Ipv4Addr::UNSPECIFIED.into());
    }
    let address = text.split('%').next()?;
    let address = address.strip_prefix('[').map_or(address, |rest| rest.strip_suffix(']').unwrap_or(rest));
    address.parse().ok()
}

/// `users:(("kubelet",pid=1234,fd=20),("kubelet",pid=1234,fd=21))`.
fn parse_owner(text: &str) -> Option<Owner> {
    let (name, rest) = text.strip_prefix("users:((\"")?.split_once("\",pid=")?;
    let pid = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some(Owner { name: name.to_owned(), pid })
}

impl Facts {
    /// Whether a UDP port that is not listed is free, or nobody looked.
    pub fn udp_was_looked_at(&self) -> bool {
        self.query(&LISTENERS).is_ok_and(|said| !said.text.starts_with(ONLY_TCP))
    }

    pub fn listeners(&self) -> Known<Vec<ListeningSocket>> {
        let said = self.query(&LISTENERS)?;
        if said.exit.is_some_and(|exit| exit != 0) {
            return Err(Missing::broken(LISTENERS.name, said.errors.lines().next().unwrap_or("ended with an error")));
        }
        Ok(parse(&said.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    #[test]
    fn reads_what_ss_prints() {
        let listeners = parse(
            "udp UNCONN 0      0      127.0.0.53%lo:53  0.0.0.0:* users:((\"systemd-resolve\",pid=412,fd=13))\n\
             udp UNCONN 0      0            0.0.0.0:8472 0.0.0.0:*\n\
             tcp LISTEN 0      128          0.0.0.0:10250 0.0.0.0:* users:((\"kubelet\",pid=14037,fd=3),(\"kubelet\",pid=14037,fd=4))\n\
             tcp LISTEN 0      128                *:10256       *:* users:((\"kube-proxy\",pid=1,fd=4))\n\
             tcp LISTEN 0      128            [::1]:631      [::]:*\n\
             tcp LISTEN 0      128   [fe80::1]%eth0:80       [::]:*\n\
             tcp LISTEN 0      128             [::]:81       [::]:*\n\
             nl  UNCONN 0 0 rtnl:kernel *\n\
             tcp LISTEN\n",
        );
        let seen: Vec<String> = listeners
            .iter()
            .map(|l| {
                let owner = l.owner.as_ref().map_or_else(String::new, |owner| format!(" {}/{}", owner.name, owner.pid));
                format!("{} {} {} {}{owner}", l.line, l.proto.name(), l.address, l.port)
            })
            .collect();
        assert_eq!(
            seen,
            [
                "1 udp 127.0.0.53 53 systemd-resolve/412",
                "2 udp 0.0.0.0 8472",
                "3 tcp 0.0.0.0 10250 kubelet/14037",
                "4 tcp 0.0.0.0 10256 kube-proxy/1",
                "5 tcp ::1 631",
                "6 tcp fe80::1 80",
                "7 tcp :: 81",
            ]
        );
        let loopback: Vec<bool> = listeners.iter().map(ListeningSocket::takes_loopback).collect();
        assert_eq!(loopback, [false, true, true, true, false, false, false]);
    }

    #[test]
    fn an_ss_that_failed_is_a_missing_fact() {
        assert!(facts().with_exit(&LISTENERS, 1, "", "Cannot open netlink socket\n").listeners().is_err());
        assert!(facts().with_query(&LISTENERS, "").listeners().unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_listeners(text in ".*", line in "(tcp|udp) [A-Z]* [0-9] [0-9] [^ ]* [^ ]* users:.*") {
            parse(&text);
            parse(&line);
        }
    }
}
