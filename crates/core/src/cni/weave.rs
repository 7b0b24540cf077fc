//! Weave Net, which nobody looks after any more. Not tried in the lab: from its sources.

use super::{Addresses, ConfigOrigin, Daemon, Flavour, Port, ReadinessSign};
use crate::fact::listen::Proto;

pub const FLAVOUR: Flavour = Flavour {
    name: "weave",
    plugins: &["weave-net"],
    file: "10-weave.conflist",
    calls: &[],
    daemon: Daemon {
        namespace: "kube-system",
        name: "weave-net",
        selector: "name=weave-net",
        known_by: &["weave-net"],
    },
    state: &[],
    links: &["weave*"],
    bridge: Some("weave"),
    ports: &[Port { proto: Proto::Tcp, number: 6783, what_for: "control" }],
    ready: ReadinessSign::Http { port: 6784, path: "/status" },
    addresses: Addresses::Own,
    origin: ConfigOrigin::Daemon,
    calls_another: false,
    needs_pod: false,
    tells_address: None,
};
