//! What a remedy leaves open, by name: `{node}`, `{server}` … Checks and signatures write the name in their own files; where
//! the remedy is shown, it is filled with what is known there: of the machine, of its join, of the line that was recognised.
//! What is not known is told in words, and never stands there as if it could be pasted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::discovery::is_dns_name;
use crate::fact::Facts;

/// The names any remedy may use beside the captures of its signature; what stands there where one is not known, and where
/// an operator finds it.
const NAMES: [(&str, &str, &str); 7] = [
    ("node", "NODE", "as in kubectl get nodes"),
    ("server", "HOST:PORT", "the API server's, as in the join line"),
    ("server_host", "HOST", "the API server's, as in the join line"),
    ("server_port", "PORT", "the API server's, as in the join line"),
    ("request", "REQUEST", "its name in kubectl get csr"),
    ("token_id", "TOKEN-ID", "the part of the token before the dot"),
    ("address", "ADDRESS", "one of this machine, as in ip -brief address"),
];

/// What is known where a remedy is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<&'static str, String>);

impl Names {
    /// What the facts of a machine tell of itself and of its cluster.
    pub fn of(facts: &Facts) -> Self {
        let walked = facts.api_path().ok();
        let token = walked.as_ref().and_then(|path| Some(path.token.as_ref()?.id.clone()));
        let path = walked.map(|path| path.endpoint);
        let conf = || facts.kubelet_kubeconfig().or_else(|_| facts.bootstrap_kubeconfig()).ok()?.server;
        let uplink = facts.uplink().ok().flatten();
        let address = uplink.and_then(|link| link.addresses.first().map(|it| it.address.to_string()));
        // Of a text, the machine is called as its lines call the node.
        let called =
            || Some(facts.host.to_lowercase()).filter(|host| is_dns_name(host) && host.parse::<IpAddr>().is_err());
        Names::default()
            .with("node", facts.kubelet_node_name().ok().or_else(called))
            .with_server(path.or_else(conf).as_deref())
            .with("address", address)
            .with("token_id", token)
    }

    /// With this value, where there is one. It goes into commands: one that a shell would take for more than a word is not
    /// put into any.
    pub fn with(mut self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        if let Some(value) = value.map(Into::into).filter(|value| is_word(value)) {
            self.0.insert(name, value);
        }
        self
    }

    /// With an API server: `HOST:PORT`, or its URL.
    pub fn with_server(self, server: Option<&str>) -> Self {
        let Some(server) = server.map(|it| it.trim_start_matches("https://").trim_end_matches('/')) else {
            return self;
        };
        let (host, port) = server.rsplit_once(':').unwrap_or((server, "443"));
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        self.with("server", Some(format!("{host}:{port}")))
            .with("server_host", Some(bare))
            .with("server_port", Some(port))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A remedy with the names put in; of what is not known, where to find it.
    pub fn fill(&self, remedy: &str) -> String {
        let mut unknown: Vec<&(&str, &str, &str)> = Vec::new();
        let mut filled = put_in(remedy, |name| {
            let known = NAMES.iter().find(|known| known.0 == name)?;
            Some(self.0.get(name).cloned().unwrap_or_else(|| {
                if !unknown.contains(&known) {
                    unknown.push(known);
                }
                known.1.to_owned()
            }))
        });
        for (_, shown, words) in unknown {
            let mark = if filled.contains("    # ") { ";" } else { "    #" };
            filled = format!("{filled}{mark} {shown}: {words}");
        }
        filled
    }

    /// The same, of which the rest is put in later.
    pub fn fill_known(&self, remedy: &str) -> String {
        put_in(remedy, |name| self.0.get(name).cloned())
    }

    pub fn fill_all(&self, remedy: &mut [String]) {
        for command in remedy {
            *command = self.fill(command);
        }
    }
}

/// The API server that a line of a log speaks of: whom it dials, else where it asks.
pub(crate) fn server_in(line: &str) -> Option<&str> {
    let dialled = line.split_once("dial tcp ").map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
    let asked = || {
        let rest = line.split_once("https://")?.1;
        rest.find(['/', '"', '\\', ' ']).map(|end| rest.split_at(end).0)
    };
    let has_port = |server: &&str| server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    dialled.map(|it| it.trim_end_matches(':')).filter(has_port).or_else(|| asked().filter(has_port))
}

/// Whether a remedy leaves something open.
pub fn is_open(remedy: &[String]) -> bool {
    remedy.iter().any(|command| command.contains('{'))
}

/// Whether any remedy may use this name.
pub fn is_name(name: &str) -> bool {
    NAMES.iter().any(|known| known.0 == name)
}

/// What a shell takes for one plain word.
fn is_word(value: &str) -> bool {
    !value.is_empty()
        && !value.starts_with('-')
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:_-/[]%".contains(&byte))
}

/// A text with values in place of `{name}`; what has none, and braces of anything else, stay.
pub(crate) fn put_in(text: &str, mut value_of: impl FnMut(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let named = after.split_once('}').and_then(|(name, after)| Some((value_of(name)?, after)));
        if let Some((value, after)) = named {
            filled.push_str(&value);
            rest = after;
        } else {
            filled.push('{');
            rest = after;
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::join_state::sample::{SERVER, joined};
    use crate::fact::pki::sample::SampleAuthority;
    use crate::testing::facts;
    use proptest::prelude::*;

    #[test]
    fn what_is_known_is_put_in_and_what_is_not_is_told_in_words() {
        let names = Names::default().with("node", Some("w1")).with_server(Some("https://[fd00::1]:6443/"));
        for (remedy, filled) in [
            ("kubectl get node {node}", "kubectl get node w1"),
            ("curl -k https://{server}/version", "curl -k https://[fd00::1]:6443/version"),
            ("ping {server_host}    # port {server_port}", "ping fd00::1    # port 6443"),
            (
                "kubectl certificate approve {request}",
                "kubectl certificate approve REQUEST    # REQUEST: its name in kubectl get csr",
            ),
            (
                "kubectl get csr {request} -o yaml    # who denied {request}",
                "kubectl get csr REQUEST -o yaml    # who denied REQUEST; REQUEST: its name in kubectl get csr",
            ),
            ("awk '{print $1}' ${HOME} {} {other}", "awk '{print $1}' ${HOME} {} {other}"),
        ] {
            assert_eq!(names.fill(remedy), filled);
        }
    }

    #[test]
    fn the_server_of_a_line_is_the_one_it_speaks_of() {
        for (line, server) in [
            ("dial tcp 10.0.0.11:6443: connect: connection refused", Some("10.0.0.11:6443")),
            (r#"Get \"https://lb:6443/api/v1/nodes/n1?timeout=10s\": context deadline exceeded"#, Some("lb:6443")),
            ("Get \"https://lb:6443/api\": dial tcp [fd00::1]:6443: connect: no route to host", Some("[fd00::1]:6443")),
            ("dial tcp: lookup lb: no such host", None),
            ("see https://kubernetes.io/docs for more", None),
            ("nothing of the kind", None),
        ] {
            assert_eq!(server_in(line), server, "{line}");
        }
    }

    #[test]
    fn nothing_that_a_shell_would_obey_is_put_in() {
        for value in ["w1; reboot", "$(reboot)", "`reboot`", "a b", "--all", "a\nb", "a'b", ""] {
            assert_eq!(Names::default().with("node", Some(value)), Names::default(), "{value:?}");
        }
    }

    #[test]
    fn a_machine_that_has_joined_names_itself_and_its_cluster() {
        let names = Names::of(&joined(&SampleAuthority::make()));
        assert_eq!(names.fill("{node} {server_host}"), format!("w1 {}", &SERVER["https://".len()..SERVER.len() - 5]));
        // Where nothing is known of a machine but how it is called, that is its node, unless it is an address.
        assert_eq!(Names::of(&facts()), Names::default().with("node", Some("w1")));
        let mut addressed = facts();
        addressed.host = "10.0.0.5".to_owned();
        assert_eq!(Names::of(&addressed), Names::default());
    }

    proptest! {
        #[test]
        fn any_text_is_filled(text in ".*") {
            let _ = (Names::default().fill(&text), server_in(&text));
        }
    }
}
