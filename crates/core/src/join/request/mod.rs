//! What a join is asked for: by flags, by kubeadm's own join line ([`line`]), by a JoinConfiguration ([`file`]), by the
//! environment; and the JoinConfiguration that kubeadm gets ([`configuration`]). What cannot be used is refused in one line
//! that names the field.

use std::fmt;

use crate::discovery::{Discovery, Endpoint, Pin, Token, is_dns_name};
use crate::join::state::JoinPolicy;
use crate::join::taint::Taint;
use crate::redact::redact;

pub mod configuration;
pub mod file;
pub mod line;
mod yaml;

use file::Document;

/// Where an API server listens unless somebody says otherwise.
const API_PORT: u16 = 6443;

/// An input that cannot be used: which field, and why. It is safe to print: no secret is ever in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadInput {
    pub field: String,
    pub why: String,
}

impl BadInput {
    pub fn of(field: impl Into<String>, why: impl fmt::Display) -> Self {
        BadInput { field: field.into(), why: masked(&why.to_string()) }
    }

    /// A join line or file that would make another control plane.
    pub(super) fn control_plane(field: &str) -> Self {
        BadInput::of(field, "this is a control-plane join line; carrick joins workers")
    }
}

/// One line, without anything that may be the secret half of a token: also where it was typed into the wrong field.
fn masked(text: &str) -> String {
    let clean = redact(text).replace(['\n', '\r'], " ");
    let mut shown = String::with_capacity(clean.len());
    for (n, part) in clean.split('.').enumerate() {
        let secret = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        let (run, rest) = part.split_at(secret);
        shown.push_str(if n > 0 { "." } else { "" });
        shown.push_str(if n > 0 && run.len() >= SECRET_LENGTH { "<redacted>" } else { run });
        shown.push_str(rest);
    }
    shown
}

/// Of the half of a token behind its dot.
const SECRET_LENGTH: usize = 16;

/// What a join is to do, as far as it was said. The token's `Debug` and the document's hide their secrets.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub api: Option<Endpoint>,
    pub token: Option<Token>,
    pub pins: Vec<Pin>,
    /// The person chose not to have the CA proven.
    pub skip_ca_check: bool,
    /// A kubeconfig, or the address of one, that stands in for token discovery.
    pub discovery_file: Option<String>,
    /// In lower case, as kubeadm makes it; `None` is the machine's own name.
    pub node_name: Option<String>,
    /// The runtime to use: the only one that is looked at, too.
    pub cri_socket: Option<Socket>,
    pub labels: Vec<Label>,
    pub taints: Vec<Taint>,
    /// kubeadm's names of checks that do not count.
    pub ignore: Vec<String>,
    pub patches: Option<String>,
    pub skip_phases: Vec<String>,
    /// The JoinConfiguration it came from: what this type does not know stays as it was written.
    pub document: Option<Document>,
}

/// What flags say, as typed. What is given here goes before what a line or a file says.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub api: Option<String>,
    /// Already read from its file; it is in no message.
    pub token: Option<Token>,
    pub ca_hashes: Vec<String>,
    pub node_name: Option<String>,
    pub cri_socket: Option<String>,
    pub labels: Vec<String>,
    pub taints: Vec<String>,
}

impl Request {
    /// Puts the flags over what a line or a file said. Where those do not say where to join, an admin's kubeconfig does;
    /// `MASTER_IP` comes last, for it may be left over in the environment from another day.
    pub fn with(
        mut self,
        flags: &Flags,
        admin: Option<&Endpoint>,
        environment: &Environment,
    ) -> Result<Self, BadInput> {
        if let Some(api) = &flags.api {
            self.api = Some(parsed("--api", api)?);
        }
        self.token = flags.token.clone().or(self.token);
        if !flags.ca_hashes.is_empty() {
            self.pins = all("--ca-hash", &flags.ca_hashes)?;
        }
        if let Some(name) = &flags.node_name {
            self.node_name = Some(node_name("--node-name", name)?);
        }
        if let Some(socket) = &flags.cri_socket {
            self.cri_socket = Some(parsed("--cri-socket", socket)?);
        }
        self.labels.extend(all::<Label>("--label", &flags.labels)?);
        self.taints.extend(all::<Taint>("--taint", &flags.taints)?);
        if self.api.is_none() && self.discovery_file.is_none() {
            self.api = admin.or(environment.master.as_ref()).cloned();
        }
        Ok(self)
    }

    /// More checks of kubeadm's that do not count; it knows their names in any case of letters.
    pub fn ignore_also(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if !self.ignore.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                self.ignore.push(name);
            }
        }
    }

    pub fn ignores_all(&self) -> bool {
        self.ignore.iter().any(|name| name.eq_ignore_ascii_case("all"))
    }

    /// Whether it can be carried out; an admin's kubeconfig gives what is missing of place, token and CA.
    pub fn complete(&self, has_admin: bool) -> Result<(), BadInput> {
        if has_admin || self.discovery_file.is_some() {
            return Ok(());
        }
        let missing = |field, how| Err(BadInput::of(field, format!("missing; {how}")));
        if self.api.is_none() {
            return missing(
                "--api",
                "give HOST:PORT of the API server, or --config, or --kubeconfig, or the line of kubeadm token create \
                 --print-join-command (- reads it from stdin)",
            );
        }
        if self.token.is_none() {
            return missing("--token-file", "make a token on the control plane: kubeadm token create");
        }
        if self.pins.is_empty() && !self.skip_ca_check {
            return missing("--ca-hash", "how to print it: carrick explain api.ca-pin");
        }
        Ok(())
    }

    /// The cluster, as `check` walks to it.
    pub fn target(&self) -> Option<Discovery> {
        let endpoint = self.api.clone()?;
        Some(Discovery { endpoint, token: self.token.clone(), pins: self.pins.clone() })
    }
}

/// Reads a value of its own type; what is wrong is told of this field.
pub(super) fn parsed<T: std::str::FromStr<Err = String>>(field: &str, text: &str) -> Result<T, BadInput> {
    text.trim().parse().map_err(|why| BadInput::of(field, why))
}

pub(super) fn all<T: std::str::FromStr<Err = String>>(field: &str, texts: &[String]) -> Result<Vec<T>, BadInput> {
    texts.iter().map(|text| parsed(field, text)).collect()
}

/// The name of a Node: kubeadm trims it and lowers its case.
pub(super) fn node_name(field: &str, text: &str) -> Result<String, BadInput> {
    let name = text.trim().to_lowercase();
    if is_dns_name(&name) && !name.ends_with('.') {
        return Ok(name);
    }
    Err(BadInput::of(field, format!("{text:?} is not a node name (a-z, 0-9, hyphens, between dots)")))
}

/// The names the scripts before Carrick took from the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    pub master: Option<Endpoint>,
    /// Seconds for the TLS bootstrap.
    pub join_timeout: Option<u32>,
    /// How often to try, the first time included.
    pub attempts: Option<u32>,
}

/// A day; what is more is a mistake in the unit.
const LONGEST_TIMEOUT: u32 = 86_400;
const MOST_ATTEMPTS: u32 = 100;

impl Environment {
    /// `value` looks a variable up; an empty one is one that is not set.
    pub fn read(value: impl Fn(&str) -> Option<String>) -> Result<Self, BadInput> {
        let value = |name| value(name).filter(|text| !text.trim().is_empty());
        Ok(Environment {
            master: value("MASTER_IP").map(|text| master(&text)).transpose()?,
            join_timeout: value("JOIN_TIMEOUT")
                .map(|text| number("JOIN_TIMEOUT", &text, "seconds", LONGEST_TIMEOUT))
                .transpose()?,
            attempts: value("MAX_RETRIES")
                .map(|text| number("MAX_RETRIES", &text, "attempts", MOST_ATTEMPTS))
                .transpose()?,
        })
    }

    /// What it says over what is usual; there are no flags for these.
    pub fn policy(&self) -> JoinPolicy {
        let usual = JoinPolicy::default();
        JoinPolicy {
            attempts: self.attempts.unwrap_or(usual.attempts),
            join_timeout: self.join_timeout.unwrap_or(usual.join_timeout),
            ..usual
        }
    }
}

fn master(text: &str) -> Result<Endpoint, BadInput> {
    let text = text.trim();
    let bare = text.parse::<std::net::IpAddr>();
    let with_port = match bare {
        Ok(std::net::IpAddr::V6(address)) => format!("[{address}]:{API_PORT}"),
        Ok(std::net::IpAddr::V4(address)) => format!("{address}:{API_PORT}"),
        Err(_) if text.contains(':') => text.to_owned(),
        Err(_) => format!("{text}:{API_PORT}"),
    };
    parsed("MASTER_IP", &with_port)
}

fn number(field: &str, text: &str, unit: &str, most: u32) -> Result<u32, BadInput> {
    let read = text.trim().parse().ok().filter(|number| (1..=most).contains(number));
    read.ok_or_else(|| BadInput::of(field, format!("{text:?} is not a number of {unit} from 1 to {most}")))
}

/// The path a runtime listens on. Shown as kubeadm writes it, `unix:///run/…`; a bare path is taken, too, as by kubeadm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket(String);

/// The kernel's limit (`sun_path`), its closing zero apart.
const LONGEST_SOCKET: usize = 107;

impl Socket {
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0)
    }
}

impl std::str::FromStr for Socket {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        let plain = |c: char| !c.is_whitespace() && !c.is_control();
        if path.len() < 2 || !path.starts_with('/') || path.ends_with('/') || !path.chars().all(plain) {
            return Err(format!("{text:?} is not unix:///PATH, nor the absolute path of a socket"));
        }
        if path.len() > LONGEST_SOCKET {
            return Err(format!("{text:?} is longer than a socket's path can be ({LONGEST_SOCKET} bytes)"));
        }
        Ok(Socket(path.to_owned()))
    }
}

/// `key=value` on the Node from its first moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub key: String,
    pub value: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl std::str::FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
        if !is_qualified(key) || !(value.is_empty() || is_word(value)) {
            return Err(format!("{text:?} is not a label (KEY=VALUE of letters, digits, '-', '_' and '.')"));
        }
        if !kubelet_may_set(key) {
            // The kubelet does not start with such a label.
            return Err(format!("a kubelet may not give itself {key:?}; set it after the join: kubectl label node"));
        }
        Ok(Label { key: key.to_owned(), value: value.to_owned() })
    }
}

/// `[prefix/]name`.
pub(super) fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_word(name),
        None => is_word(key),
    }
}

pub(super) fn is_word(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Kubernetes keeps its own prefixes from kubelets, but for these (kubelet/apis/well_known_labels.go).
fn kubelet_may_set(key: &str) -> bool {
    const KNOWN: [&str; 11] = [
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    ];
    let Some((prefix, _)) = key.split_once('/') else { return true };
    let under = |domain: &str| prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let reserved = under("kubernetes.io") || under("k8s.io");
    !reserved || KNOWN.contains(&key) || under("node.kubernetes.io") || under("kubelet.kubernetes.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const HASH: &str = "sha256:8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f8c1f";

    #[test]
    fn flags_go_before_a_line_that_before_a_kubeconfig_and_the_environment_comes_last() {
        let api = |text: Option<&str>| text.map(|text| text.parse::<Endpoint>().unwrap());
        for (flag, line, kubeconfig, master, expected) in [
            (Some("flag:1"), Some("line:1"), Some("admin:1"), Some("old"), Some("flag:1")),
            (None, Some("line:1"), Some("admin:1"), Some("old"), Some("line:1")),
            (None, None, Some("admin:1"), Some("old"), Some("admin:1")),
            (None, None, None, Some("old"), Some("old:6443")),
            (None, None, Some("admin:1"), None, Some("admin:1")),
            (None, None, None, None, None),
        ] {
            let environment = Environment::read(|name| master.filter(|_| name == "MASTER_IP").map(str::to_owned));
            let flags = Flags { api: flag.map(str::to_owned), ..Flags::default() };
            let said = Request { api: api(line), ..Request::default() };
            let request = said.with(&flags, api(kubeconfig).as_ref(), &environment.unwrap()).unwrap();
            assert_eq!(request.api, api(expected), "{flag:?} {line:?} {kubeconfig:?} {master:?}");
        }
        let file = Request { discovery_file: Some("/x".into()), ..Request::default() };
        let environment = Environment { master: api(Some("old:6443")), ..Environment::default() };
        let by_file = file.with(&Flags::default(), api(Some("admin:1")).as_ref(), &environment).unwrap();
        assert_eq!(by_file.api, None, "the file says where");
        let line = Request { node_name: Some("w9".into()), ..Request::default() };
        let flags = Flags { node_name: Some(" W1 ".into()), ..Flags::default() };
        assert_eq!(line.with(&flags, None, &environment).unwrap().node_name.as_deref(), Some("w1"));
    }

    #[test]
    fn the_environment_goes_before_what_is_usual() {
        let usual = JoinPolicy::default();
        for (timeout, retries, expected) in [
            (None, None, (usual.join_timeout, usual.attempts)),
            (Some("30"), None, (30, usual.attempts)),
            (None, Some("1"), (usual.join_timeout, 1)),
            (Some("30"), Some("7"), (30, 7)),
            (Some(" "), Some(""), (usual.join_timeout, usual.attempts)),
        ] {
            let value =
                |name: &str| if name == "JOIN_TIMEOUT" { timeout } else { retries.filter(|_| name == "MAX_RETRIES") };
            let policy = Environment::read(|name| value(name).map(str::to_owned)).unwrap().policy();
            assert_eq!((policy.join_timeout, policy.attempts), expected, "{timeout:?} {retries:?}");
        }
    }

    #[test]
    fn every_refusal_names_the_field_and_the_value() {
        let flags = |set: fn(&mut Flags)| {
            let mut flags = Flags::default();
            set(&mut flags);
            Request::default().with(&flags, None, &Environment::default()).unwrap_err().to_string()
        };
        for (error, expected) in [
            (flags(|f| f.api = Some("cp".into())), "--api: \"cp\" has no port"),
            (flags(|f| f.ca_hashes = vec!["8c1f".into()]), "--ca-hash: \"8c1f\" is not sha256:<64 hex digits>"),
            (flags(|f| f.node_name = Some("Bad_Host".into())), "--node-name: \"Bad_Host\" is not a node name"),
            (
                flags(|f| f.cri_socket = Some("tcp://127.0.0.1:2375".into())),
                "--cri-socket: \"tcp://127.0.0.1:2375\" is not unix:///PATH, nor the absolute path of a socket",
            ),
            (flags(|f| f.labels = vec!["disk".into()]), "--label: \"disk\" is not KEY=VALUE"),
            (flags(|f| f.labels = vec!["a b=c".into()]), "--label: \"a b=c\" is not a label"),
            (
                flags(|f| f.labels = vec!["node-role.kubernetes.io/worker=".into()]),
                "--label: a kubelet may not give itself \"node-role.kubernetes.io/worker\"",
            ),
            (flags(|f| f.taints = vec!["gpu".into()]), "--taint: \"gpu\" is not KEY[=VALUE]:NoSchedule"),
            (flags(|f| f.taints = vec!["gpu:Never".into()]), "--taint: \"gpu:Never\""),
        ] {
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn what_is_missing_is_named_unless_an_admin_can_give_it() {
        let mut request = Request::default();
        let field = |request: &Request| request.complete(false).map_err(|bad| bad.field);
        assert_eq!(field(&request), Err("--api".into()));
        assert_eq!(request.complete(true), Ok(()));
        request.api = Some("cp:6443".parse().unwrap());
        assert_eq!(field(&request), Err("--token-file".into()));
        request.token = Some("abcdef.0123456789abcdef".parse().unwrap());
        assert_eq!(field(&request), Err("--ca-hash".into()));
        request.pins = vec![HASH.parse().unwrap()];
        assert_eq!(field(&request), Ok(()));
    }

    #[test]
    fn reads_the_names_of_the_scripts_before() {
        let read = |name: &'static str, value: &'static str| {
            Environment::read(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(read("JOIN_TIMEOUT", "300").unwrap().join_timeout, Some(300));
        assert_eq!(read("MAX_RETRIES", " 3 ").unwrap().attempts, Some(3));
        assert_eq!(read("JOIN_TIMEOUT", "").unwrap(), Environment::default());
        for (value, shown) in [("cp:7443", "cp:7443"), ("cp", "cp:6443"), ("fd00::1", "[fd00::1]:6443")] {
            assert_eq!(read("MASTER_IP", value).unwrap().master.unwrap().to_string(), shown);
        }
        for (name, value, expected) in [
            ("JOIN_TIMEOUT", "abc", "JOIN_TIMEOUT: \"abc\" is not a number of seconds from 1 to 86400"),
            ("JOIN_TIMEOUT", "0", "JOIN_TIMEOUT: \"0\""),
            ("JOIN_TIMEOUT", "-1", "JOIN_TIMEOUT: \"-1\""),
            ("MAX_RETRIES", "many", "MAX_RETRIES: \"many\" is not a number of attempts"),
            ("MASTER_IP", "a b", "MASTER_IP: \"a b:6443\": \"a b\" is neither an address nor a host name"),
        ] {
            let error = read(name, value).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_socket_is_a_path_with_or_without_its_scheme() {
        for (text, shown) in [
            ("unix:///run/crio/crio.sock", "unix:///run/crio/crio.sock"),
            ("/run/cri-dockerd.sock", "unix:///run/cri-dockerd.sock"),
        ] {
            assert_eq!(text.parse::<Socket>().unwrap().to_string(), shown);
        }
        let long = format!("/{}", "x".repeat(LONGEST_SOCKET));
        for text in
            ["", "/", "unix://", "unix:///", "unix://run/x", "run/x.sock", "npipe:////./pipe/x", "/a b", "/run/", &long]
        {
            assert!(text.parse::<Socket>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn labels_are_those_a_kubelet_may_set() {
        for text in
            ["disk=ssd", "example.org/rack=7", "node.kubernetes.io/pool=a", "topology.kubernetes.io/zone=z", "a="]
        {
            assert_eq!(text.parse::<Label>().unwrap().to_string(), text);
        }
        for text in
            ["kubernetes.io/role=worker", "x.k8s.io/a=b", "-a=b", "a=b c", "/a=b", &format!("a={}", "x".repeat(64))]
        {
            assert!(text.parse::<Label>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_in_the_wrong_field_is_not_repeated() {
        for text in ["abcdef.0123456789abcdef", "xabcdef.0123456789abcdef0", "a=b.0123456789abcdefgh/x"] {
            let error = BadInput::of("--api", format!("{text:?} is wrong")).to_string();
            assert!(!error.contains("0123456789abcdef"), "{error}");
        }
    }
}
