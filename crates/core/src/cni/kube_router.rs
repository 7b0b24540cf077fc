//! kube-router: plain plugins, in a file into which it writes the Node's podCIDR. Not tried in the lab: from its sources.

use super::{Addresses, ConfigOrigin, Daemon, Flavour, Port, ReadinessSign};
use crate::fact::listen::Proto;

pub const FLAVOUR: Flavour = Flavour {
    name: "kube-router",
    plugins: &[],
    file: "10-kuberouter.conflist",
    calls: &[],
    daemon: Daemon {
        namespace: "kube-system",
        name: "kube-router",
        selector: "k8s-app=kube-router",
        known_by: &["kube-router"],
    },
    state: &[],
    links: &["kube-bridge", "kube-dummy-if"],
    bridge: Some("kube-bridge"),
    ports: &[Port { proto: Proto::Tcp, number: 179, what_for: "BGP" }],
    ready: ReadinessSign::Http { port: 20244, path: "/healthz" },
    addresses: Addresses::PodCidr,
    origin: ConfigOrigin::Daemon,
    calls_another: false,
    needs_pod: false,
    tells_address: None,
};
