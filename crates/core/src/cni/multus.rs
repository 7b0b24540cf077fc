//! Multus: calls another pod network, before whose file its own is meant to stand. Not tried in the lab: from its sources.

use super::{Addresses, ConfigOrigin, Daemon, Flavour, ReadinessSign};

pub const FLAVOUR: Flavour = Flavour {
    name: "multus",
    plugins: &["multus", "multus-shim"],
    file: "00-multus.conf",
    calls: &[],
    daemon: Daemon { namespace: "kube-system", name: "kube-multus-ds", selector: "name=multus", known_by: &["multus"] },
    state: &["/run/multus/multus.sock"],
    links: &[],
    bridge: None,
    ports: &[],
    ready: ReadinessSign::ByState,
    addresses: Addresses::Configured,
    origin: ConfigOrigin::Daemon,
    calls_another: true,
    needs_pod: true,
    tells_address: None,
};
