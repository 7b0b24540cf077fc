//! How names are resolved: resolv.conf, what systemd-resolved keeps beside it, and the hosts file.

use std::net::IpAddr;

use super::{Facts, Known, OrAbsent, Source};

pub const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The servers behind systemd-resolved's stub; kubeadm gives this file to the kubelet where resolved runs.
pub const RESOLVED_CONF: &str = "/run/systemd/resolve/resolv.conf";
pub const HOSTS: &str = "/etc/hosts";

pub const SOURCES: &[Source] = &[Source::File(RESOLV_CONF), Source::File(RESOLVED_CONF), Source::File(HOSTS)];

/// A resolv.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolver {
    pub nameservers: Vec<Nameserver>,
    /// The last `search` or `domain` line counts.
    pub search: Vec<String>,
    pub options: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nameserver {
    pub address: IpAddr,
    pub line: u32,
    pub text: String,
}

impl Resolver {
    /// Every server is on the loopback: a pod that gets this file asks itself.
    pub fn is_loopback_only(&self) -> bool {
        !self.nameservers.is_empty() && self.nameservers.iter().all(|server| server.address.is_loopback())
    }
}

pub fn parse_resolv_conf(text: &str) -> Resolver {
    let mut resolver = Resolver::default();
    for (line, text) in (1u32..).zip(text.lines()) {
        let mut words = text.split_whitespace();
        let owned = |words: std::str::SplitWhitespace<'_>| words.map(str::to_owned).collect::<Vec<_>>();
        match words.next() {
            Some("nameserver") => {
                // A scoped address: `fe80::1%eth0`.
                let address = words.next().and_then(|word| word.split('%').next()).and_then(|word| word.parse().ok());
                let server = address.map(|address| Nameserver { address, line, text: text.trim().to_owned() });
                resolver.nameservers.extend(server);
            }
            Some("search" | "domain") => resolver.search = owned(words),
            Some("options") => resolver.options.extend(owned(words)),
            _ => {}
        }
    }
    resolver
}

/// A line of the hosts file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsLine {
    pub address: IpAddr,
    pub names: Vec<String>,
    pub line: u32,
    pub text: String,
}

impl HostsLine {
    /// Names in the hosts file know no case.
    pub fn names(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

pub fn parse_hosts(text: &str) -> Vec<HostsLine> {
    let lines = (1u32..).zip(text.lines()).filter_map(|(line, text)| {
        let mut words = text.split('#').next()?.split_whitespace();
        let address = words.next()?.split('%').next()?.parse().ok()?;
        Some(HostsLine { address, names: words.map(str::to_owned).collect(), line, text: text.trim().to_owned() })
    });
    lines.collect()
}

impl Facts {
    /// `None` where there is no `/etc/resolv.conf`, or it is a link to nothing.
    pub fn resolver(&self) -> Known<Option<Resolver>> {
        Ok(self.file(RESOLV_CONF).or_absent()?.map(|capture| parse_resolv_conf(&capture.text)))
    }

    /// What systemd-resolved asks; `None` where it does not run.
    pub fn resolved(&self) -> Known<Option<Resolver>> {
        Ok(self.file(RESOLVED_CONF).or_absent()?.map(|capture| parse_resolv_conf(&capture.text)))
    }

    /// The lines of the hosts file; `None` where there is none.
    pub fn hosts(&self) -> Known<Option<Vec<HostsLine>>> {
        Ok(self.file(HOSTS).or_absent()?.map(|capture| parse_hosts(&capture.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_resolv_conf() {
        let resolver = parse_resolv_conf(
            "# made by hand\nnameserver 192.168.4.1\nnameserver fe80::1%eth0\nnameserver nonsense\n; nameserver 1.1.1.1\n\
             domain old\nsearch lan home.lab\noptions edns0 trust-ad\noptions ndots:2\n",
        );
        let servers: Vec<(u32, String)> =
            resolver.nameservers.iter().map(|s| (s.line, s.address.to_string())).collect();
        assert_eq!(servers, [(2, "192.168.4.1".to_owned()), (3, "fe80::1".to_owned())]);
        assert_eq!(resolver.search, ["lan", "home.lab"]);
        assert_eq!(resolver.options, ["edns0", "trust-ad", "ndots:2"]);
        assert!(!resolver.is_loopback_only());
        assert!(!parse_resolv_conf("").is_loopback_only());
        assert!(parse_resolv_conf("nameserver 127.0.0.53\nnameserver ::1\n").is_loopback_only());
        assert!(!parse_resolv_conf("nameserver 127.0.0.53\nnameserver 1.1.1.1\n").is_loopback_only());
    }

    #[test]
    fn reads_hosts() {
        let hosts = parse_hosts("127.0.0.1 localhost\n# 10.0.0.1 no\n192.168.4.61\tW1 w1.lan # me\nnot an address\n\n");
        let seen: Vec<(u32, String)> = hosts.iter().map(|h| (h.line, format!("{} {:?}", h.address, h.names))).collect();
        assert_eq!(
            seen,
            [(1, "127.0.0.1 [\"localhost\"]".to_owned()), (3, "192.168.4.61 [\"W1\", \"w1.lan\"]".to_owned())]
        );
        assert!(hosts[1].names("w1") && !hosts[1].names("me"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_resolver_and_hosts(text in ".*") {
            parse_resolv_conf(&text);
            parse_hosts(&text);
        }
    }
}
