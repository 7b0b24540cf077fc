//! Pod networks: what is known of each, one file a flavour, and what is made of it.
//!
//! * every file here with a `pub const FLAVOUR` is a pod network that is told apart; `build.rs` finds it
//! * [`status`]: what is configured, loaded and running
//! * [`lint`]: configuration files, judged as the checks judge the one that is loaded
//! * [`wait`]: whether it works by now, and if not, what it waits for
//! * [`sync`]: which changes bring back the configuration that the cluster has for this machine
//!
//! Where the facts of a machine's own network are parsed: [`crate::fact::cni`].

use crate::fact::cni::{Candidate, Conf};
use crate::fact::listen::Proto;
use crate::fact::{Facts, Known, OrAbsent, Why};

include!(concat!(env!("OUT_DIR"), "/flavours.rs"));

pub(crate) use generic::{REFERENCE_IPAM, REFERENCE_PLUGINS};

/// A pod network, as its project ships it.
#[derive(Debug, PartialEq, Eq)]
pub struct Flavour {
    pub name: &'static str,
    /// Types of plugins that only its configuration names.
    pub plugins: &'static [&'static str],
    /// What its configuration file is called.
    pub file: &'static str,
    /// Programs that its plugins call and its configuration does not name.
    pub calls: &'static [&'static str],
    pub daemon: Daemon,
    /// What is there only once its daemon has worked on this machine.
    pub state: &'static [&'static str],
    /// Interfaces it makes; `cali*` is every one that begins so, `lxc#` every one that goes on in hexadecimal digits (`lxcbr0` is
    /// LXC's own).
    pub links: &'static [&'static str],
    /// The bridge its pods are behind; `None`: they are behind none, or its configuration says which.
    pub bridge: Option<&'static str>,
    /// What other nodes must reach.
    pub ports: &'static [Port],
    pub ready: ReadinessSign,
    pub addresses: Addresses,
    pub origin: ConfigOrigin,
    /// It only calls another pod network, and is meant to stand before it.
    pub calls_another: bool,
    /// Its plugin asks the cluster for the Pod: a sandbox without one proves nothing.
    pub needs_pod: bool,
    /// Where its agent writes which address other nodes are to send to; `None` where it uses the Node's, or does not say.
    pub tells_address: Option<TellsAddress>,
}

/// The annotations of a Node with the address of its network agent.
#[derive(Debug, PartialEq, Eq)]
pub struct TellsAddress {
    pub annotations: &'static [&'static str],
    /// What chooses it.
    pub set_by: &'static str,
}

/// What runs it on every node.
#[derive(Debug, PartialEq, Eq)]
pub struct Daemon {
    pub namespace: &'static str,
    pub name: &'static str,
    /// Labels of its pods.
    pub selector: &'static str,
    /// A DaemonSet with one of these in its name is of this network.
    pub known_by: &'static [&'static str],
}

#[derive(Debug, PartialEq, Eq)]
pub struct Port {
    pub proto: Proto,
    pub number: u16,
    pub what_for: &'static str,
}

/// How its daemon says that it is ready.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadinessSign {
    /// It answers this on the machine itself.
    Http { port: u16, path: &'static str },
    /// Only what it leaves on the machine tells ([`Flavour::state`]).
    ByState,
}

/// Where a node's pod addresses come from.
#[derive(Debug, PartialEq, Eq)]
pub enum Addresses {
    /// The Node's `spec.podCIDR`: without one it does not start.
    PodCidr,
    /// Allotted by itself; a podCIDR means nothing.
    Own,
    /// As its configuration says.
    Configured,
}

/// Where its configuration file comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// A key of a ConfigMap is copied as it is.
    ConfigMap(ConfigMapKey),
    /// An install container fills a template in, with what only it knows.
    Template(ConfigMapKey),
    /// Its daemon writes it, once it is ready.
    Daemon,
    /// Whoever set it up.
    Unknown,
}

/// A key of a ConfigMap.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigMapKey {
    pub namespace: &'static str,
    pub name: &'static str,
    pub key: &'static str,
}

impl Flavour {
    /// The one whose configuration this is; `None` where it is none that is known.
    pub fn of(file: &str, conf: &Conf) -> Option<&'static Self> {
        let by_plugin = |kind: &str| FLAVOURS.iter().copied().find(|flavour| flavour.plugins.contains(&kind));
        // Some use plain plugins; only their file's name tells.
        let by_file = || FLAVOURS.iter().copied().find(|flavour| flavour.plugins.is_empty() && flavour.file == file);
        conf.plugins.iter().find_map(|plugin| by_plugin(&plugin.kind)).or_else(by_file)
    }

    pub fn of_daemon_set(set: &str) -> Option<&'static Self> {
        FLAVOURS.iter().copied().find(|flavour| flavour.daemon.known_by.iter().any(|part| set.contains(part)))
    }

    /// The one that alone makes interfaces of this name.
    fn of_link(link: &str) -> Option<&'static Self> {
        let shared = generic::FLAVOUR.makes(link);
        FLAVOURS.iter().copied().find(|flavour| !shared && flavour.makes(link))
    }

    /// Whether it makes interfaces of this name.
    pub fn makes(&self, link: &str) -> bool {
        let is_hex = |id: &str| !id.is_empty() && id.bytes().all(|digit| digit.is_ascii_hexdigit());
        self.links.iter().any(|pattern| match (pattern.strip_suffix('*'), pattern.strip_suffix('#')) {
            (Some(beginning), _) => link.starts_with(beginning),
            (_, Some(beginning)) => link.strip_prefix(beginning).is_some_and(is_hex),
            (None, None) => link == *pattern,
        })
    }

    pub fn uses(&self, proto: Proto, number: u16) -> bool {
        self.ports.iter().any(|port| port.proto == proto && port.number == number)
    }

    /// What shows its pod on a machine, and makes it anew.
    pub fn restarts(&self, node: &str) -> String {
        let Daemon { namespace, selector, .. } = &self.daemon;
        format!("kubectl -n {namespace} delete pod -l {selector} --field-selector spec.nodeName={node}")
    }
}

/// How it is known which pod network a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected {
    pub flavour: &'static Flavour,
    pub by: DetectedBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectedBy {
    Configuration,
    DaemonSet,
    Interface,
}

impl DetectedBy {
    pub fn name(self) -> &'static str {
        match self {
            DetectedBy::Configuration => "by its configuration",
            DetectedBy::DaemonSet => "by its DaemonSet",
            DetectedBy::Interface => "by its interface",
        }
    }
}

impl Facts {
    /// The pod network this machine has: the one that is loaded, else one that lies there, else the cluster's, else the
    /// one whose interface is left. A machine with files of no known one has the generic one.
    pub fn pod_network(&self) -> Known<Option<Detected>> {
        let files = self.cni_candidates();
        let here = files.as_deref().unwrap_or_default();
        // Who only calls another is not the one that gives addresses.
        let by_file =
            |meta: bool| here.iter().filter_map(Candidate::flavour).find(|flavour| flavour.calls_another == meta);
        let found = |by| move |flavour| Detected { flavour, by };
        let known = by_file(false)
            .map(found(DetectedBy::Configuration))
            .or_else(|| self.network_by_daemon_set().map(found(DetectedBy::DaemonSet)))
            .or_else(|| by_file(true).map(found(DetectedBy::Configuration)))
            .or_else(|| self.network_by_link().map(found(DetectedBy::Interface)));
        if let Some(detected) = known {
            return Ok(Some(detected));
        }
        let any = files?.iter().any(|file| matches!(&file.conf, Ok(Ok(conf)) if !conf.is_loopback_only()));
        Ok(any.then_some(Detected { flavour: &generic::FLAVOUR, by: DetectedBy::Configuration }))
    }

    /// The pod network of which something else than a file tells: the cluster's, else the one whose interface is there.
    pub fn network_at_work(&self) -> Option<&'static Flavour> {
        self.network_by_daemon_set().or_else(|| self.network_by_link())
    }

    fn network_by_daemon_set(&self) -> Option<&'static Flavour> {
        self.network_daemon_sets().ok()?.iter().find_map(|set| Flavour::of_daemon_set(&set.name))
    }

    fn network_by_link(&self) -> Option<&'static Flavour> {
        self.links().ok()?.iter().find_map(|link| Flavour::of_link(&link.name))
    }

    /// The name of the bridge that pods here are behind: of the network that is set up, or is the cluster's. `None`: its pods are
    /// behind none, or there is no network yet.
    pub fn bridge_of_pods(&self) -> Known<Option<String>> {
        let Some(network) = self.pod_network()? else { return Ok(None) };
        if let Some(bridge) = network.flavour.bridge {
            return Ok(Some(bridge.to_owned()));
        }
        if *network.flavour != generic::FLAVOUR {
            return Ok(None);
        }
        let confs = self.cni_candidates()?.into_iter().filter_map(|file| file.conf.ok()?.ok());
        Ok(confs.flat_map(|conf| conf.plugins).find_map(|plugin| plugin.bridge))
    }

    /// Which of the traces of a network's daemon are there.
    pub fn network_state(&self, flavour: &Flavour) -> Known<Vec<(&'static str, bool)>> {
        flavour.state.iter().map(|&path| Ok((path, self.is_file_there(path)?))).collect()
    }

    fn is_file_there(&self, path: &str) -> Known<bool> {
        match self.file(path).or_absent() {
            Ok(file) => Ok(file.is_some()),
            Err(missing) if missing.why == Why::NotCollected => {
                let (dir, name) = path.rsplit_once('/').unwrap_or(("/", path));
                Ok(self.entry(dir, name)?.is_some())
            }
            Err(missing) => Err(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Source;
    use crate::fact::cni::{CONF_DIR, is_conf_name, parse_conf};
    use crate::fact::net::LINKS;
    use crate::testing::facts;

    fn named(name: &str) -> &'static Flavour {
        FLAVOURS.iter().copied().find(|flavour| flavour.name == name).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn tells_pod_networks_apart() {
        for (file, kind, expected) in [
            ("10-flannel.conflist", "flannel", Some("flannel")),
            ("10-calico.conflist", "calico", Some("calico")),
            ("10-canal.conflist", "calico", Some("calico")),
            ("05-cilium.conflist", "cilium-cni", Some("cilium")),
            ("10-antrea.conflist", "antrea", Some("antrea")),
            ("00-multus.conflist", "multus-shim", Some("multus")),
            ("01-kube-ovn.conflist", "kube-ovn", Some("kube-ovn")),
            ("10-kuberouter.conflist", "bridge", Some("kube-router")),
            ("10-weave.conflist", "weave-net", Some("weave")),
            ("10-containerd-net.conflist", "bridge", None),
        ] {
            let conf = parse_conf(file, &format!(r#"{{"name":"x","plugins":[{{"type":"{kind}"}}]}}"#)).unwrap();
            assert_eq!(Flavour::of(file, &conf).map(|flavour| flavour.name), expected, "{file}");
        }
        for (set, expected) in [
            ("kube-flannel-ds", Some("flannel")),
            ("kube-flannel-ds-amd64", Some("flannel")),
            ("calico-node", Some("calico")),
            ("canal", Some("calico")),
            ("cilium", Some("cilium")),
            ("kube-proxy", None),
            ("weave-net", Some("weave")),
            ("weave-scope-agent", None),
            ("node-exporter", None),
        ] {
            assert_eq!(Flavour::of_daemon_set(set).map(|flavour| flavour.name), expected, "{set}");
        }
        for (link, expected) in [
            ("flannel.1", Some("flannel")),
            ("cali1234", Some("calico")),
            ("cilium_host", Some("cilium")),
            ("kube-bridge", Some("kube-router")),
            ("lxc_health", None),
            ("lxcbr0", None),
            ("cni0", None),
            ("veth1234", None),
            ("eth0", None),
        ] {
            assert_eq!(Flavour::of_link(link).map(|flavour| flavour.name), expected, "{link}");
        }
    }

    #[test]
    fn lxcs_own_bridge_is_no_pods() {
        use crate::fact::net::is_of_pod_network;
        assert!(is_of_pod_network("lxc3d1f0a9be7c2") && is_of_pod_network("lxc_health"));
        assert!(!is_of_pod_network("lxcbr0") && !is_of_pod_network("lxc"));
    }

    #[test]
    fn the_bridge_of_pods_is_the_networks() {
        let conf = |kind: &str, more: &str| {
            let text = format!(r#"{{"name":"x","plugins":[{{"type":"{kind}"{more}}}]}}"#);
            facts()
                .with_dir(CONF_DIR, &[("-rw-r--r--", "10-x.conflist")])
                .with_file(&format!("{CONF_DIR}/10-x.conflist"), &text)
        };
        let told = |facts: Facts| facts.bridge_of_pods().map_err(|missing| missing.why);
        assert_eq!(told(conf("flannel", "")), Ok(Some("cni0".to_owned())));
        assert_eq!(told(conf("bridge", "")), Ok(Some("cni0".to_owned())));
        assert_eq!(told(conf("bridge", r#","bridge":"br-pods""#)), Ok(Some("br-pods".to_owned())));
        assert_eq!(told(conf("calico", "")), Ok(None));
        assert_eq!(told(conf("ptp", "")), Ok(None));
        assert_eq!(told(facts().with_dir(CONF_DIR, &[])), Ok(None));
        assert_eq!(told(facts().without(Source::Tree(CONF_DIR), Why::Denied)), Err(Why::Denied));
    }

    #[test]
    fn each_is_told_whole() {
        for flavour in FLAVOURS {
            let Flavour { name, plugins, file, daemon, .. } = flavour;
            assert!(is_conf_name(file) || *name == "generic", "{name}: {file}");
            assert!(!flavour.links.is_empty() || flavour.calls_another, "{name} makes no interface");
            assert!(daemon.name.is_empty() || Flavour::of_daemon_set(daemon.name) == Some(flavour), "{name}");
            let same = FLAVOURS.iter().filter(|other| other.plugins.iter().any(|kind| plugins.contains(kind)));
            assert!(same.count() <= 1, "{name} is told by a plugin that another has, too");
        }
    }

    #[test]
    fn the_network_is_the_one_that_is_loaded_else_the_best_trace() {
        let conf = |kind: &str| format!(r#"{{"name":"x","plugins":[{{"type":"{kind}"}}]}}"#);
        let with = |files: &[(&str, &str)]| {
            let entries: Vec<(&str, &str)> = files.iter().map(|(name, _)| ("-rw-r--r--", *name)).collect();
            files.iter().fold(facts().with_dir(CONF_DIR, &entries), |facts, (name, kind)| {
                facts.with_file(&format!("{CONF_DIR}/{name}"), &conf(kind))
            })
        };
        let set = r#"{"items":[{"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel"}}]}"#;
        let links = r#"[{"ifname":"cni0"},{"ifname":"flannel.1"}]"#;
        let told = |facts: Facts| {
            let found = facts.pod_network().map_err(|missing| missing.why);
            found.map(|found| found.map(|detected| (detected.flavour.name, detected.by)))
        };
        let flannel = Ok(Some(("flannel", DetectedBy::Configuration)));
        assert_eq!(told(with(&[("10-flannel.conflist", "flannel")])), flannel);
        assert_eq!(told(with(&[("05-x.conflist", "bridge"), ("10-flannel.conflist", "flannel")])), flannel);
        assert_eq!(told(with(&[("00-multus.conf", "multus"), ("10-flannel.conflist", "flannel")])), flannel);
        assert_eq!(told(with(&[]).with_api("daemon-sets", set)), Ok(Some(("flannel", DetectedBy::DaemonSet))));
        assert_eq!(told(with(&[]).with_query(&LINKS, links)), Ok(Some(("flannel", DetectedBy::Interface))));
        assert_eq!(told(with(&[("10-x.conflist", "bridge")])), Ok(Some(("generic", DetectedBy::Configuration))));
        assert_eq!(told(with(&[("99-lo.conflist", "loopback")])), Ok(None));
        assert_eq!(told(with(&[])), Ok(None));
        assert_eq!(told(facts().without(Source::Tree(CONF_DIR), Why::Denied)), Err(Why::Denied));
    }

    #[test]
    fn traces_of_a_daemon_are_files_or_entries_of_a_directory() {
        let calico = named("calico");
        let there = facts().with_dir("/var/lib/calico", &[("-rw-r--r--", "nodename")]);
        assert_eq!(there.network_state(calico), Ok(vec![("/var/lib/calico/nodename", true)]));
        let gone = facts().without_dir("/var/lib/calico");
        assert_eq!(gone.network_state(calico), Ok(vec![("/var/lib/calico/nodename", false)]));
        assert!(facts().network_state(calico).is_err());
        let flannel = facts().with_file("/run/flannel/subnet.env", "");
        assert_eq!(flannel.network_state(named("flannel")), Ok(vec![("/run/flannel/subnet.env", true)]));
    }
}
