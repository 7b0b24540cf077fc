//! flannel: a bridge on each node, its range the Node's podCIDR, a vxlan between them. Tried in the lab.
//!
//! Its init container copies the configuration before flannel itself has written `subnet.env`: a node is Ready for a
//! moment in which every pod fails, and again after each boot.

use super::{Addresses, ConfigMapKey, ConfigOrigin, Daemon, Flavour, Port, ReadinessSign, TellsAddress};
use crate::fact::cni::SUBNET_ENV;
use crate::fact::listen::Proto;

pub const FLAVOUR: Flavour = Flavour {
    name: "flannel",
    plugins: &["flannel"],
    file: "10-flannel.conflist",
    // Its plugin only writes a configuration for these.
    calls: &["bridge", "host-local"],
    daemon: Daemon {
        namespace: "kube-flannel",
        name: "kube-flannel-ds",
        selector: "app=flannel",
        known_by: &["flannel"],
    },
    state: &[SUBNET_ENV],
    links: &["flannel*", "cni0"],
    // UDP 8285 and 51820 are of backends that few use, and which its own configuration would have to name.
    bridge: Some("cni0"),
    ports: &[Port { proto: Proto::Udp, number: 8472, what_for: "vxlan" }],
    // Its health endpoint is off unless it is told a port.
    ready: ReadinessSign::ByState,
    addresses: Addresses::PodCidr,
    origin: ConfigOrigin::ConfigMap(ConfigMapKey {
        namespace: "kube-flannel",
        name: "kube-flannel-cfg",
        key: "cni-conf.json",
    }),
    calls_another: false,
    needs_pod: false,
    tells_address: Some(TellsAddress {
        annotations: &["flannel.alpha.coreos.com/public-ip", "flannel.alpha.coreos.com/public-ipv6"],
        set_by: "kubectl -n kube-flannel edit daemonset kube-flannel-ds    # args of kube-flannel: --iface=NAME of the interface the nodes reach each other by",
    }),
};
