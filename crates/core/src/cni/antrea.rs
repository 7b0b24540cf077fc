//! Antrea. Not tried in the lab: from its sources.

use super::{Addresses, ConfigOrigin, Daemon, Flavour, Port, ReadinessSign, TellsAddress};
use crate::fact::listen::Proto;

pub const FLAVOUR: Flavour = Flavour {
    name: "antrea",
    plugins: &["antrea"],
    file: "10-antrea.conflist",
    calls: &[],
    daemon: Daemon {
        namespace: "kube-system",
        name: "antrea-agent",
        selector: "app=antrea,component=antrea-agent",
        known_by: &["antrea"],
    },
    state: &["/run/antrea/cni.sock"],
    links: &["antrea*"],
    bridge: None,
    ports: &[Port { proto: Proto::Udp, number: 6081, what_for: "geneve" }],
    ready: ReadinessSign::Http { port: 10350, path: "/readyz" },
    addresses: Addresses::PodCidr,
    origin: ConfigOrigin::Daemon,
    calls_another: false,
    needs_pod: true,
    tells_address: Some(TellsAddress {
        annotations: &["node.antrea.io/transport-addresses"],
        set_by: "kubectl -n kube-system edit configmap antrea-config    # transportInterface, transportInterfaceCIDRs; then restart the antrea-agent pods",
    }),
};
