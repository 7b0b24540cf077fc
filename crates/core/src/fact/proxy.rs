//! Proxy variables: of the environment a command gets here, and of /etc/environment.

use std::net::IpAddr;

use super::cidr::Cidr;
use super::evidence::Evidence;
use super::keep::USUAL;
use super::{Facts, Known, OrAbsent, Query, Source};

/// Only these four are read: an environment holds other people's secrets.
pub const ENVIRONMENT: Query = Query {
    name: "env | grep -i _proxy",
    argv: &["sh", "-c", "env | grep -iE '^(http|https|no|all)_proxy=' || true"],
    keep: USUAL,
};
pub const ETC_ENVIRONMENT: &str = "/etc/environment";

pub const SOURCES: &[Source] = &[Source::Query(&ENVIRONMENT), Source::File(ETC_ENVIRONMENT)];

/// The proxy that a unit sets for its own process, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitProxy {
    pub proxy: Proxy,
    /// Of what sends HTTPS to it.
    pub seen: Evidence,
}

/// A variable that is set, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyVariable {
    pub source: &'static str,
    pub line: u32,
    /// In lower case: programs take either.
    pub name: String,
    pub value: String,
}

/// The proxy variables of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    pub settings: Vec<ProxyVariable>,
}

impl Proxy {
    /// The settings that send HTTPS, which is what a cluster speaks, to a proxy.
    pub fn proxies(&self) -> impl Iterator<Item = &ProxyVariable> {
        self.settings
            .iter()
            .filter(|setting| matches!(setting.name.as_str(), "https_proxy" | "http_proxy" | "all_proxy"))
    }

    pub fn exceptions(&self) -> impl Iterator<Item = &str> {
        let lists = self.settings.iter().filter(|setting| setting.name == "no_proxy");
        lists.flat_map(|setting| setting.value.split(',')).map(str::trim).filter(|entry| !entry.is_empty())
    }

    /// Whether a host, a name or an address, is reached without the proxy; as Go reads the list.
    pub fn spares_host(&self, host: &str) -> bool {
        let address = host.parse::<IpAddr>().ok();
        let is_it = |entry: &str| {
            let domain = entry.trim_start_matches("*.").trim_start_matches('.');
            let within =
                address.zip(entry.parse::<Cidr>().ok()).is_some_and(|(address, range)| range.contains(address));
            let below = host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
            entry == "*" || within || (!domain.is_empty() && below)
        };
        self.exceptions().any(is_it)
    }

    /// Whether every address of a range is reached without the proxy.
    pub fn spares(&self, range: Cidr) -> bool {
        self.exceptions().any(|entry| entry == "*" || entry.parse::<Cidr>().is_ok_and(|cidr| cidr.covers(range)))
    }
}

/// Lines `name=value`, with or without `export` and quotes.
pub fn parse(source: &'static str, text: &str) -> Vec<ProxyVariable> {
    let settings = (1u32..).zip(text.lines()).filter_map(|(line, text)| {
        let text = text.trim();
        let (name, value) = text.strip_prefix("export ").unwrap_or(text).split_once('=')?;
        let name = name.trim().to_lowercase();
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        let is_proxy = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"].contains(&name.as_str());
        (is_proxy && !value.is_empty()).then_some(ProxyVariable { source, line, name, value })
    });
    settings.collect()
}

impl Facts {
    /// The proxy that the kubelet's unit or a drop-in of it sets; `None` where none does.
    pub fn kubelet_proxy(&self) -> Known<Option<UnitProxy>> {
        let Some(unit) = self.unit("kubelet").or_absent()? else { return Ok(None) };
        let (mut proxy, mut at) = (Proxy::default(), None);
        for (name, value, seen) in unit.variables() {
            proxy.settings.extend(parse("kubelet.service", &format!("{name}={value}")));
            let is_for_https = ["https_proxy", "all_proxy"].contains(&name.to_lowercase().as_str());
            at = at.or(Some(seen).filter(|_| is_for_https && !value.is_empty()));
        }
        Ok(at.map(|seen| UnitProxy { proxy, seen }))
    }

    pub fn proxy(&self) -> Known<Proxy> {
        let mut settings = parse(ENVIRONMENT.name, &self.query(&ENVIRONMENT)?.text);
        if let Some(capture) = self.file(ETC_ENVIRONMENT).or_absent()? {
            settings.extend(parse(ETC_ENVIRONMENT, &capture.text));
        }
        Ok(Proxy { settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_both_spellings() {
        let settings = parse(
            "here",
            "PATH=/bin\nHTTPS_PROXY=http://proxy:3128\nexport no_proxy=\"localhost, 10.0.0.0/8\"\nhttp_proxy=\n# https_proxy=x\n",
        );
        let seen: Vec<String> = settings.iter().map(|s| format!("{} {}={}", s.line, s.name, s.value)).collect();
        assert_eq!(seen, ["2 https_proxy=http://proxy:3128", "3 no_proxy=localhost, 10.0.0.0/8"]);
        let proxy = Proxy { settings };
        assert_eq!(proxy.proxies().count(), 1);
        assert_eq!(proxy.exceptions().collect::<Vec<_>>(), ["localhost", "10.0.0.0/8"]);
    }

    #[test]
    fn a_host_is_spared_as_go_reads_the_list() {
        for (list, host, expected) in [
            ("10.0.0.0/8", "10.0.0.11", true),
            ("10.0.0.11", "10.0.0.11", true),
            ("10.0.0.1", "10.0.0.11", false),
            ("example.com", "cp.example.com", true),
            (".example.com", "cp.example.com", true),
            ("ample.com", "cp.example.com", false),
            ("*", "cp", true),
            ("localhost", "cp", false),
        ] {
            let proxy = Proxy { settings: parse("here", &format!("NO_PROXY={list}")) };
            assert_eq!(proxy.spares_host(host), expected, "{list} {host}");
        }
    }

    #[test]
    fn knows_what_goes_without_the_proxy() {
        let spares = |list: &str, range: &str| {
            Proxy { settings: parse("here", &format!("NO_PROXY={list}")) }.spares(range.parse().unwrap())
        };
        assert!(spares("10.0.0.0/8", "10.244.0.0/16"));
        assert!(spares("localhost,*", "10.244.0.0/16"));
        assert!(!spares("10.244.1.0/24", "10.244.0.0/16"));
        assert!(!spares("localhost,.lan", "10.244.0.0/16"));
    }

    proptest! {
        #[test]
        fn any_text_is_settings(text in ".*") {
            parse("here", &text);
        }
    }
}
