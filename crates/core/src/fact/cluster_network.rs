//! The cluster's networks, as its `kubeadm-config` and this machine's Node tell them.

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
