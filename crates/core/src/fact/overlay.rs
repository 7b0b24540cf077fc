//! The tunnels that carry what pods say to pods of other nodes: those whose link stands on this machine, and those that
//! the cluster's own configuration names.
//!
//! That a network *can* tunnel says nothing: cilium routes natively, flannel has host-gw, calico BGP.

use serde_json::Value;

use super::daemon_sets::DaemonSet;
use super::evidence::Evidence;
use super::net::{self, Link};
use super::{Facts, Known, Missing, Source, Why};
use crate::cni::{Flavour, cilium, flannel};

/// What the networks' own ConfigMaps say, of those keys alone that are named here.
pub const CALL: &str = "overlay";

pub const SOURCES: &[Source] = &[Source::Api(CALL)];

/// A tunnel between nodes: other nodes send to this UDP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    pub port: u16,
    /// The link, or the ConfigMap, that says so.
    pub seen: Evidence,
}

/// A ConfigMap that says whether its network tunnels.
pub struct OverlayConfig {
    flavour: &'static Flavour,
    pub namespace: &'static str,
    pub name: &'static str,
    pub keys: &'static [&'static str],
    /// The port, by what stands under these keys; `None` where it does not tunnel.
    port: fn(&Value) -> Option<u16>,
}

/// Of the networks whose configuration one ConfigMap holds. calico's is spread over resources of its own.
pub const CONFIGS: [OverlayConfig; 2] = [
    OverlayConfig {
        flavour: &flannel::FLAVOUR,
        namespace: "kube-flannel",
        name: "kube-flannel-cfg",
        keys: &["net-conf.json"],
        port: of_flannel,
    },
    OverlayConfig {
        flavour: &cilium::FLAVOUR,
        namespace: "kube-system",
        name: "cilium-config",
        keys: &["routing-mode", "tunnel", "tunnel-protocol", "tunnel-port"],
        port: of_cilium,
    },
];

/// The ports that Linux and Open vSwitch use where nobody chose another.
const VXLAN: u16 = 8472;
const GENEVE: u16 = 6081;

fn of_flannel(data: &Value) -> Option<u16> {
    let conf: Value = serde_json::from_str(data.get("net-conf.json")?.as_str()?).ok()?;
    let backend = conf.get("Backend")?;
    let port = backend.get("Port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
    (backend.get("Type")? == "vxlan").then(|| port.filter(|port| *port > 0).unwrap_or(VXLAN))
}

/// `tunnel` is what versions before 1.14 say; `routing-mode` what later ones do, all of them where they tunnel.
fn of_cilium(data: &Value) -> Option<u16> {
    let text = |key: &str| data.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let protocol = match (text("routing-mode"), text("tunnel")) {
        (Some("tunnel"), _) => text("tunnel-protocol").unwrap_or("vxlan"),
        (None, Some(protocol)) => protocol,
        _ => return None,
    };
    let usual = match protocol {
        "vxlan" => VXLAN,
        "geneve" => GENEVE,
        _ => return None,
    };
    Some(text("tunnel-port").and_then(|port| port.parse().ok()).filter(|port| *port > 0).unwrap_or(usual))
}

impl Facts {
    /// Every tunnel that is known to be used. Before a join a link that stands here is an earlier cluster's.
    pub fn overlays(&self) -> Known<Vec<Overlay>> {
        let mut overlays = self.configured_overlays()?;
        if self.has_kubelet_conf()? {
            let standing = self.tunnels()?.into_iter().filter_map(|link| of_link(&link));
            overlays.extend(
                standing.filter(|link| !overlays.iter().any(|known| known.port == link.port)).collect::<Vec<_>>(),
            );
        }
        Ok(overlays)
    }

    /// What an admin can read of it; of a network whose agents the cluster has.
    fn configured_overlays(&self) -> Known<Vec<Overlay>> {
        let capture = match self.api(CALL) {
            Err(Missing { why: Why::NotAdmin | Why::NotCollected | Why::Denied, .. }) => return Ok(Vec::new()),
            capture => capture?,
        };
        let sets = self.network_daemon_sets()?;
        let maps: Value = serde_json::from_str(&capture.text).map_err(|error| Missing::broken(CALL, error))?;
        let runs =
            |flavour: &Flavour| sets.iter().any(|set: &DaemonSet| Flavour::of_daemon_set(&set.name) == Some(flavour));
        let named = |config: &OverlayConfig| {
            let place = format!("{}/{}", config.namespace, config.name);
            let port = (config.port)(maps.get(&place)?).filter(|_| runs(config.flavour))?;
            Some(Overlay { port, seen: Evidence::of(format!("ConfigMap {place}"), format!("tunnels over UDP {port}")) })
        };
        Ok(CONFIGS.iter().filter_map(named).collect())
    }
}

/// Of a link that a pod network made: Open vSwitch names its own after their port.
fn of_link(link: &Link) -> Option<Overlay> {
    let of_network = net::is_of_pod_network(&link.name)
        || link.name.starts_with("vxlan_sys_")
        || link.name.starts_with("genev_sys_");
    let kind = link.kind.as_deref()?;
    let port = link.vxlan_port.and_then(|port| u16::try_from(port).ok()).filter(|_| of_network)?;
    Some(Overlay { port, seen: Evidence::of("ip -d link", format!("{}: {kind}, UDP {port}", link.name)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::net::LINKS;
    use crate::testing::facts;
    use proptest::prelude::*;
    use serde_json::json;

    const SETS: &str = r#"{"items":[{"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel"}},
        {"metadata":{"name":"cilium","namespace":"kube-system"}}]}"#;

    fn ports(facts: &Facts) -> Vec<u16> {
        facts.overlays().unwrap().iter().map(|overlay| overlay.port).collect()
    }

    #[test]
    fn a_cluster_says_whether_it_tunnels() {
        let flannel = |backend: Value| json!({"kube-flannel/kube-flannel-cfg": {"net-conf.json": json!({"Backend": backend}).to_string()}});
        let cilium = |data: Value| json!({"kube-system/cilium-config": data});
        for (said, expected) in [
            (flannel(json!({"Type": "vxlan"})), Some(8472)),
            (flannel(json!({"Type": "vxlan", "Port": 4789})), Some(4789)),
            (flannel(json!({"Type": "host-gw"})), None),
            (json!({"kube-flannel/kube-flannel-cfg": {"net-conf.json": "{"}}), None),
            (cilium(json!({"routing-mode": "tunnel", "tunnel-protocol": "vxlan"})), Some(8472)),
            (cilium(json!({"routing-mode": "tunnel", "tunnel-protocol": "geneve"})), Some(6081)),
            (cilium(json!({"routing-mode": "tunnel", "tunnel-port": "7777"})), Some(7777)),
            (cilium(json!({"routing-mode": "native", "tunnel-protocol": "vxlan"})), None),
            (cilium(json!({"tunnel": "geneve"})), Some(6081)),
            (cilium(json!({"tunnel": "disabled"})), None),
            (cilium(json!({"tunnel-protocol": "vxlan"})), None),
            (json!({}), None),
        ] {
            let joining = facts().without_file("/etc/kubernetes/kubelet.conf").with_api(CALL, &said.to_string());
            assert_eq!(ports(&joining.with_api("daemon-sets", SETS)), Vec::from_iter(expected), "{said}");
            let none = facts().without_file("/etc/kubernetes/kubelet.conf").with_api(CALL, &said.to_string());
            assert_eq!(ports(&none.with_api("daemon-sets", r#"{"items":[]}"#)), [0_u16; 0], "nobody runs it: {said}");
        }
    }

    #[test]
    fn a_link_that_stands_on_a_node_is_used() {
        let links = r#"[{"ifname":"flannel.1","linkinfo":{"info_kind":"vxlan","info_data":{"port":8472}}},
            {"ifname":"genev_sys_6081","linkinfo":{"info_kind":"geneve","info_data":{"port":6081}}},
            {"ifname":"vxlan42","linkinfo":{"info_kind":"vxlan","info_data":{"port":4789}}},
            {"ifname":"cilium_host","linkinfo":{"info_kind":"veth"}},{"ifname":"eth0"}]"#;
        let node = facts().with_query(&LINKS, links).with_file("/etc/kubernetes/kubelet.conf", "");
        assert_eq!(ports(&node), [8472, 6081], "vxlan42 is somebody's own");
        let seen = node.overlays().unwrap().remove(0).seen;
        assert_eq!(seen, Evidence::of("ip -d link", "flannel.1: vxlan, UDP 8472"));
        let left = facts().with_query(&LINKS, links).without_file("/etc/kubernetes/kubelet.conf");
        assert_eq!(ports(&left), [0_u16; 0], "of an earlier cluster");
        assert!(node.with_query(&LINKS, "{").overlays().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_configuration_or_not(text in ".*", port in ".*") {
            let data = json!({"net-conf.json": text, "routing-mode": "tunnel", "tunnel-protocol": port, "tunnel-port": port});
            let _ = (of_flannel(&data), of_cilium(&data));
            let _ = facts().with_api("daemon-sets", SETS).with_api(CALL, &text).overlays();
        }
    }
}
