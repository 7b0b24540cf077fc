//! Any other configuration: plain plugins that somebody set up. The reference plugins were tried in the lab, under
//! flannel.

use super::{Addresses, ConfigOrigin, Daemon, Flavour, ReadinessSign};

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
