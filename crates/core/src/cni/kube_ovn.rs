//! Kube-OVN. Not tried in the lab: from its sources.

use super::{Addresses, ConfigOrigin, Daemon, Flavour, Port, ReadinessSign};
use crate::fact::listen::Proto;

pub const FLAVOUR: Flavour = Flavour {
    name: "kube-ovn",
    plugins: &["kube-ovn"],
    file: "01-kube-ovn.conflist",
    calls: &[],
    daemon: Daemon {
        namespace: "kube-system",
        name: "kube-ovn-cni",
        selector: "app=kube-ovn-cni",
        known_by: &["kube-ovn"],
    },
    state: &["/run/openvswitch/kube-ovn-daemon.sock"],
    links: &["ovn0"],
    bridge: None,
    ports: &[Port { proto: Proto::Udp, number: 6081, what_for: "geneve" }],
    ready: ReadinessSign::ByState,
    addresses: Addresses::Own,
    origin: ConfigOrigin::Daemon,
    calls_another: false,
    needs_pod: true,
    tells_address: None,
};
