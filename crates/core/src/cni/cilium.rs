//! Cilium. Not tried in the lab: from its sources.
//!
//! Its agent writes the configuration when it is ready, and moves the files of others aside (`*.cilium_bak`): what lies
//! there is no leftover, and a file that is missing says that the agent is not ready.

use super::{Addresses, ConfigOrigin, Daemon, Flavour, Port, ReadinessSign};
use crate::fact::listen::Proto;

pub const FLAVOUR: Flavour = Flavour {
    name: "cilium",
    plugins: &["cilium-cni"],
    file: "05-cilium.conflist",
    calls: &[],
    daemon: Daemon { namespace: "kube-system", name: "cilium", selector: "k8s-app=cilium", known_by: &["cilium"] },
    state: &["/run/cilium/cilium.sock"],
    links: &["cilium*", "lxc#", "lxc_health"],
    bridge: None,
    ports: &[
        Port { proto: Proto::Udp, number: 8472, what_for: "vxlan" },
        Port { proto: Proto::Tcp, number: 4240, what_for: "health" },
    ],
    ready: ReadinessSign::Http { port: 9879, path: "/healthz" },
    // Its operator allots them, unless it is set to Kubernetes' own.
    addresses: Addresses::Own,
    origin: ConfigOrigin::Daemon,
    calls_another: false,
    // Whether its agent serves an endpoint without a Pod was not tried.
    needs_pod: true,
    // What it writes to the Node are addresses of its own range; between nodes it uses the Node's.
    tells_address: None,
};
