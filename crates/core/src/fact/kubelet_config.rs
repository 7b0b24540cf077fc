//! The kubelet's configuration: the file on this machine, and the one the cluster gives to every node that joins.

use serde::Deserialize;

use super::{Facts, Known, Missing, OrAbsent, Source, Why};

pub const FILE: &str = "/var/lib/kubelet/config.yaml";
/// What kubeadm 1.34 writes of this machine alone into the configuration, its runtime's socket; it stays where a join fails.
pub const INSTANCE: &str = "/var/lib/kubelet/instance-config.yaml";
/// Where systemd-resolved keeps the real name servers. Clusters made on Ubuntu tell every node to read it.
pub const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

pub const SOURCES: &[Source] =
    &[Source::File(FILE), Source::File(INSTANCE), Source::File(RESOLVED), Source::File("/etc/resolv.conf")];

/// What of a KubeletConfiguration matters for a join. What is not written is `None`: the kubelet's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfig {
    pub kind: Option<String>,
    pub cgroup_driver: Option<String>,
    pub fail_swap_on: Option<bool>,
    #[serde(rename = "failCgroupV1")]
    pub fail_cgroup_v1: Option<bool>,
    pub resolv_conf: Option<String>,
    #[serde(rename = "clusterDNS")]
    pub cluster_dns: Option<Vec<String>>,
    pub static_pod_path: Option<String>,
    pub container_runtime_endpoint: Option<String>,
    pub rotate_certificates: Option<bool>,
    #[serde(rename = "serverTLSBootstrap")]
    pub server_tls_bootstrap: Option<bool>,
    /// 0: it has none.
    pub healthz_port: Option<u16>,
}

pub fn parse(text: &str) -> Result<KubeletConfig, String> {
    let config: KubeletConfig = from_yaml(text)?;
    match config.kind.as_deref() {
        Some("KubeletConfiguration") => Ok(config),
        Some(kind) => Err(format!("its kind is {kind}, not KubeletConfiguration")),
        None => Err("it has no kind".to_owned()),
    }
}

/// YAML, or in one line why it is not.
pub fn from_yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let said = error.to_string();
        format!("not YAML as expected: {}", said.lines().next().unwrap_or_default())
    })
}

impl Facts {
    /// What kubeadm wrote at the last join.
    pub fn kubelet_config(&self) -> Known<KubeletConfig> {
        parse(&self.file(FILE)?.text).map_err(|detail| Missing::broken(FILE, detail))
    }

    /// What the kubelet will go by: once joined the file; before that the cluster's, which a join puts in the file's place.
    /// `None` where nobody asked the cluster: the defaults.
    pub fn coming_kubelet_config(&self) -> Known<Option<KubeletConfig>> {
        if self.has_kubelet_conf()? {
            return self.kubelet_config().or_absent();
        }
        match self.cluster_kubelet_config() {
            Err(Missing { why: Why::NotAsked, .. }) => Ok(None),
            config => config.map(Some),
        }
    }

    /// What the cluster will give to this machine.
    pub fn cluster_kubelet_config(&self) -> Known<KubeletConfig> {
        parse(&self.api("kubelet-config")?.text)
            .map_err(|detail| Missing::broken("the cluster's kubelet-config", detail))
    }
}

/// A configuration as kubeadm writes it, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    pub fn with(lines: &str) -> String {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
containerRuntimeEndpoint: \"\"
kind: KubeletConfiguration
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
{lines}"
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fact::Why;
    use crate::testing::facts;

    #[test]
    fn reads_what_kubeadm_writes() {
        let text = sample::with(
            "cgroupDriver: systemd\nresolvConf: /run/systemd/resolve/resolv.conf\nfailSwapOn: false\nfailCgroupV1: false\nserverTLSBootstrap: true\n",
        );
        let read = facts().with_file(FILE, &text).kubelet_config().expect("known");
        assert_eq!(read.cgroup_driver.as_deref(), Some("systemd"));
        assert_eq!(read.resolv_conf.as_deref(), Some(RESOLVED));
        assert_eq!(
            (read.fail_swap_on, read.fail_cgroup_v1, read.server_tls_bootstrap),
            (Some(false), Some(false), Some(true))
        );
        assert_eq!(read.cluster_dns.as_deref(), Some(["10.96.0.10".to_owned()].as_slice()));
        assert_eq!(
            (read.static_pod_path.as_deref(), read.rotate_certificates),
            (Some("/etc/kubernetes/manifests"), Some(true))
        );
    }

    #[test]
    fn what_is_not_a_configuration_says_why() {
        assert_eq!(parse("kind: Pod\n"), Err("its kind is Pod, not KubeletConfiguration".to_owned()));
        assert_eq!(parse("a: 1\n"), Err("it has no kind".to_owned()));
        assert!(parse("a: [").unwrap_err().starts_with("not YAML as expected: "));
        assert_eq!(facts().cluster_kubelet_config().unwrap_err().why, Why::NotAsked);
        let known = facts().with_api("kubelet-config", &sample::with(""));
        assert_eq!(known.cluster_kubelet_config().expect("known").cgroup_driver, None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error(text in "(kind: KubeletConfiguration|cgroupDriver|[:\\-\n &*!\\[{]|.)*") {
            let _ = parse(&text);
        }
    }
}
