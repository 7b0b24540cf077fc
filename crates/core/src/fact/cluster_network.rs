//! The cluster's networks, as its `kubeadm-config` and this machine's Node tell them.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::cidr::Cidr;
use super::{Facts, Known, Missing, OrAbsent, Source};

pub const SOURCES: &[Source] = &[Source::Api("kubeadm-config"), Source::Api("node")];

/// What the cluster was set up with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNetwork {
    /// One, or one of each family; empty where the pod network allots addresses itself.
    pub pods: Vec<Cidr>,
    pub services: Vec<Cidr>,
    pub dns_domain: Option<String>,
    /// `v1.34.4`.
    pub kubernetes_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClusterConfiguration {
    kubernetes_version: Option<String>,
    #[serde(default)]
    networking: Networking,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Networking {
    pod_subnet: Option<String>,
    service_subnet: Option<String>,
    dns_domain: Option<String>,
}

/// The ClusterConfiguration of `kubeadm-config`.
pub fn parse(text: &str) -> Result<ClusterNetwork, String> {
    let ClusterConfiguration { kubernetes_version, networking } =
        serde_saphyr::from_str(text).map_err(|error| format!("not a ClusterConfiguration: {error}"))?;
    Ok(ClusterNetwork {
        pods: ranges(networking.pod_subnet.as_deref())?,
        services: ranges(networking.service_subnet.as_deref())?,
        dns_domain: networking.dns_domain,
        kubernetes_version,
    })
}

/// `10.244.0.0/16,fd00::/48`.
fn ranges(text: Option<&str>) -> Result<Vec<Cidr>, String> {
    let parts = text.unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse::<Cidr>().map_err(|error| error.to_string())).collect()
}

/// Families of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families {
    pub v4: bool,
    pub v6: bool,
}

impl Families {
    fn of(ranges: &[Cidr]) -> Option<Self> {
        let is = |v6| ranges.iter().any(|range| range.is_v6() == v6);
        (!ranges.is_empty()).then(|| Families { v4: is(false), v6: is(true) })
    }
}

/// The host of `10.0.0.11:6443`, `[fd00::11]:6443` or `https://…`, where it is an address.
fn address_in(server: &str) -> Option<IpAddr> {
    let server = server.strip_prefix("https://").unwrap_or(server).trim_end_matches('/');
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The `podCIDRs` of a Node: one, or one of each family.
fn pod_cidrs(text: &str) -> Vec<Cidr> {
    let node: Value = serde_json::from_str(text).unwrap_or_default();
    let listed = node.pointer("/spec/podCIDRs").and_then(Value::as_array).into_iter().flatten();
    listed.chain(node.pointer("/spec/podCIDR")).filter_map(|cidr| cidr.as_str()?.parse().ok()).collect()
}

/// The `podCIDR` of a Node.
pub fn parse_pod_cidr(text: &str) -> Result<Option<Cidr>, String> {
    let node: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let cidr = node.pointer("/spec/podCIDR").and_then(Value::as_str).filter(|cidr| !cidr.is_empty());
    cidr.map(|cidr| cidr.parse::<Cidr>().map_err(|error| error.to_string())).transpose()
}

impl Facts {
    pub fn cluster_network(&self) -> Known<ClusterNetwork> {
        parse(&self.api("kubeadm-config")?.text).map_err(|detail| Missing::broken("kubeadm-config", detail))
    }

    /// The API server's address, where it is named by one: as it was asked, else in kubelet.conf.
    pub fn api_server_address(&self) -> Option<IpAddr> {
        let asked =
            self.api_path().ok().and_then(|path| address_in(path.advertised.as_ref().unwrap_or(&path.endpoint)));
        asked.or_else(|| address_in(&self.kubelet_kubeconfig().ok()?.server?))
    }

    /// Of which families the pods' addresses here are: by the Node, else by what flannel was told, else by the cluster;
    /// `None`: nothing tells.
    pub fn pod_families(&self) -> Option<Families> {
        let of_node = || Families::of(&pod_cidrs(&self.api("node").ok()?.text));
        let of_flannel = || {
            let told = self.flannel().ok()??;
            Families::of(&[told.network, told.network_v6].into_iter().flatten().collect::<Vec<_>>())
        };
        let of_cluster = || Families::of(&self.cluster_network().ok()?.pods);
        of_node().or_else(of_flannel).or_else(of_cluster)
    }

    /// The addresses the cluster gave to this machine's pods; `None` where it has no Node of this name, or gave none.
    pub fn pod_cidr(&self) -> Known<Option<Cidr>> {
        let Some(node) = self.api("node").or_absent()? else { return Ok(None) };
        parse_pod_cidr(&node.text).map_err(|detail| Missing::broken("node", detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Why;
    use crate::testing::facts;
    use proptest::prelude::*;

    const CONFIG: &str = "apiServer: {}\napiVersion: kubeadm.k8s.io/v1beta4\nclusterName: kubernetes\nkind: ClusterConfiguration\n\
        kubernetesVersion: v1.34.4\nnetworking:\n  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16,fd00:244::/56\n  serviceSubnet: 10.96.0.0/12\n";

    #[test]
    fn reads_a_cluster_configuration() {
        let network = facts().with_api("kubeadm-config", CONFIG).cluster_network().unwrap();
        assert_eq!(network.pods, ["10.244.0.0/16".parse().unwrap(), "fd00:244::/56".parse().unwrap()]);
        assert_eq!(network.services, ["10.96.0.0/12".parse().unwrap()]);
        assert_eq!(network.dns_domain.as_deref(), Some("cluster.local"));
        assert_eq!(network.kubernetes_version.as_deref(), Some("v1.34.4"));
        assert!(parse("kind: ClusterConfiguration\nnetworking:\n  podSubnet: \"\"\n").unwrap().pods.is_empty());
        assert!(parse("kind: ClusterConfiguration\n").unwrap().services.is_empty());
        assert!(parse("networking:\n  podSubnet: here\n").is_err());
        assert!(parse("- 1\n").is_err());
    }

    #[test]
    fn the_families_of_pods_and_the_server_are_told_by_whoever_knows() {
        let node = |cidrs: &str| facts().with_api("node", &format!(r#"{{"spec":{{"podCIDRs":[{cidrs}]}}}}"#));
        let v6 = Some(Families { v4: false, v6: true });
        assert_eq!(node(r#""fd00::/64""#).pod_families(), v6);
        assert_eq!(node(r#""fd00::/64","10.244.1.0/24""#).pod_families(), Some(Families { v4: true, v6: true }));
        let cluster = facts().with_api("kubeadm-config", "networking:\n  podSubnet: fd00::/56\n");
        assert_eq!(cluster.pod_families(), v6);
        let env = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n";
        let v4 = Some(Families { v4: true, v6: false });
        assert_eq!(cluster.with_file(crate::fact::cni::SUBNET_ENV, env).pod_families(), v4);
        assert_eq!((facts().pod_families(), node("").pod_families()), (None, None));
        for (server, address) in [
            ("10.0.0.11:6443", Some("10.0.0.11")),
            ("[fd00::11]:6443", Some("fd00::11")),
            ("https://10.0.0.11:6443/", Some("10.0.0.11")),
            ("cp.lan:6443", None),
        ] {
            assert_eq!(address_in(server), address.map(|it| it.parse().unwrap()), "{server}");
        }
    }

    #[test]
    fn a_node_that_is_not_there_has_no_range() {
        let node = r#"{"kind":"Node","metadata":{"name":"w1"},"spec":{"podCIDR":"10.244.1.0/24","podCIDRs":["10.244.1.0/24"]}}"#;
        assert_eq!(facts().with_api("node", node).pod_cidr(), Ok(Some("10.244.1.0/24".parse().unwrap())));
        assert_eq!(facts().with_api("node", r#"{"spec":{}}"#).pod_cidr(), Ok(None));
        assert_eq!(facts().without(Source::Api("node"), Why::Absent).pod_cidr(), Ok(None));
        assert_eq!(facts().pod_cidr().unwrap_err().why, Why::NotAsked);
        assert!(facts().with_api("node", "{").pod_cidr().is_err());
        assert!(facts().with_api("node", r#"{"spec":{"podCIDR":"x"}}"#).pod_cidr().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_cluster_or_not(text in ".*") {
            let _ = parse(&text);
            let _ = parse_pod_cidr(&text);
        }
    }
}
