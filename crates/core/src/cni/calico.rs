//! Calico, and canal, which is Calico's policy on flannel's network. Not tried in the lab: from its sources.
//!
//! Its install container fills in a template (node name, MTU, the path of a kubeconfig with a token of a day), so that
//! what its file should say is known to it alone.

use super::{Addresses, ConfigMapKey, ConfigOrigin, Daemon, Flavour, Port, ReadinessSign, TellsAddress};
use crate::fact::listen::Proto;

pub const FLAVOUR: Flavour = Flavour {
    name: "calico",
    plugins: &["calico"],
    file: "10-calico.conflist",
    calls: &[],
    daemon: Daemon {
        namespace: "kube-system",
        name: "calico-node",
        selector: "k8s-app=calico-node",
        known_by: &["calico", "canal"],
    },
    state: &["/var/lib/calico/nodename"],
    links: &["cali*", "vxlan.calico", "wireguard.cali", "tunl*"],
    bridge: None,
    ports: &[
        Port { proto: Proto::Tcp, number: 179, what_for: "BGP" },
        Port { proto: Proto::Udp, number: 4789, what_for: "vxlan" },
        Port { proto: Proto::Tcp, number: 5473, what_for: "typha" },
    ],
    ready: ReadinessSign::Http { port: 9099, path: "/readiness" },
    addresses: Addresses::Own,
    origin: ConfigOrigin::Template(ConfigMapKey {
        namespace: "kube-system",
        name: "calico-config",
        key: "cni_network_config",
    }),
    calls_another: false,
    needs_pod: true,
    tells_address: Some(TellsAddress {
        annotations: &["projectcalico.org/IPv4Address", "projectcalico.org/IPv6Address"],
        set_by: "kubectl -n kube-system set env daemonset/calico-node IP_AUTODETECTION_METHOD=kubernetes-internal-ip    # of the operator: spec.calicoNetwork.nodeAddressAutodetectionV4",
    }),
};
