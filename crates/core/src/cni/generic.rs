//! Any other configuration: plain plugins that somebody set up. The reference plugins were tried in the lab, under
//! flannel.

use super::{Addresses, ConfigOrigin, Daemon, Flavour, ReadinessSign};

/// The plugins of the CNI project: they go by their configuration, and ask nobody for the pod.
pub const REFERENCE_PLUGINS: [&str; 15] = [
    "bandwidth",
    "bridge",
    "dummy",
    "firewall",
    "host-device",
    "ipvlan",
    "loopback",
    "macvlan",
    "portmap",
    "ptp",
    "sbr",
    "tap",
    "tuning",
    "vlan",
    "vrf",
];
pub const REFERENCE_IPAM: [&str; 3] = ["dhcp", "host-local", "static"];

pub const FLAVOUR: Flavour = Flavour {
    name: "generic",
    plugins: &[],
    file: "",
    calls: &[],
    daemon: Daemon { namespace: "", name: "", selector: "", known_by: &[] },
    state: &[],
    // What the bridge plugin makes, whoever calls it; what no network's name is in.
    links: &["cni0", "veth*", "kube-ipvs0", "nodelocaldns", "lxc#", "lxc_health"],
    bridge: None,
    ports: &[],
    ready: ReadinessSign::ByState,
    addresses: Addresses::Configured,
    origin: ConfigOrigin::Unknown,
    calls_another: false,
    needs_pod: false,
    tells_address: None,
};
