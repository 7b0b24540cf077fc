//! What an earlier join left on this machine, and whether it still lives.

use super::evidence::Evidence;
use super::kubeconfig::{self, Kubeconfig};
use super::pki;
use super::{Facts, Known, OrAbsent, Source, Why};

pub const MANIFESTS: &str = "/etc/kubernetes/manifests";

pub const SOURCES: &[Source] = &[Source::Dir(MANIFESTS)];

/// Whether this machine belongs to a cluster, as far as it can tell by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// No `kubelet.conf`.
    Unjoined,
    /// A kubelet runs with a certificate of its own that has not expired.
    Joined { server: String },
    /// Everything a kubelet needs to be in its cluster, and no kubelet that runs.
    Stopped { server: String, seen: Evidence },
    /// A `kubelet.conf` with which no kubelet can be in a cluster, and why.
    Left { server: String, why: String, seen: Evidence },
}

impl Facts {
    pub fn join_state(&self) -> Known<JoinState> {
        let conf = match self.kubelet_kubeconfig() {
            Ok(conf) => conf,
            Err(missing) if missing.why == Why::Absent => return Ok(JoinState::Unjoined),
            Err(missing) => match missing.why {
                Why::Broken(why) => {
                    let seen = Evidence::of(kubeconfig::KUBELET, &why);
                    return Ok(JoinState::Left {
                        server: "an unknown server".to_owned(),
                        why: "it cannot be read".to_owned(),
                        seen,
                    });
                }
                _ => return Err(missing),
            },
        };
        let server = conf.server.clone().unwrap_or_else(|| "no server".to_owned());
        if let Some((why, seen)) = self.why_not_joined(&conf)? {
            return Ok(JoinState::Left { server, why, seen });
        }
        let kubelet = self.unit_state("kubelet")?;
        Ok(if kubelet.is_active() {
            JoinState::Joined { server }
        } else {
            JoinState::Stopped { server, seen: kubelet.cite() }
        })
    }

    /// Why a kubelet with this kubeconfig cannot be in a cluster; `None` where nothing speaks against it.
    fn why_not_joined(&self, conf: &Kubeconfig) -> Known<Option<(String, Evidence)>> {
        if let (Ok(cluster), Some(ca)) = (self.cluster_ca(), conf.ca())
            && cluster.pin != ca.pin
        {
            return Ok(Some(("it trusts another cluster's CA".to_owned(), Evidence::of(kubeconfig::KUBELET, ca.pin))));
        }
        let Some(client) = self.client_certificate().or_absent()? else {
            return Ok(Some(("the kubelet has no certificate".to_owned(), Evidence::of(pki::CLIENT, "not there"))));
        };
        if !client.is_valid_at(self.taken_at) {
            let seen = Evidence::of(pki::CLIENT, format!("valid from {} to {}", client.not_before, client.not_after));
            return Ok(Some(("the kubelet's certificate is not valid now".to_owned(), seen)));
        }
        let own = self.own_common_name()?;
        if client.common_name != own {
            let seen = Evidence::of(pki::CLIENT, format!("CN={}", client.common_name));
            return Ok(Some((format!("the kubelet's certificate is not for {own}"), seen)));
        }
        Ok(None)
    }

    /// The name the kubelet's certificate must bear: `system:node:` and the node's name.
    pub fn own_common_name(&self) -> Known<String> {
        Ok(format!("system:node:{}", self.kubelet_node_name()?))
    }

    /// What the kubelet here calls its Node.
    pub fn kubelet_node_name(&self) -> Known<String> {
        if let Ok(command) = self.kubelet_command()
            && let Some((name, _)) = command.flag("--hostname-override")
            && !name.is_empty()
        {
            return Ok(name.to_lowercase());
        }
        self.node_name()
    }
}

/// Machines before and after a join, for tests.
#[cfg(test)]
pub mod sample {
    use super::*;
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::unit;
    use crate::testing::facts;

    pub const SERVER: &str = "https://10.0.0.11:6443";

    pub fn kubelet_state(active: &str, sub: &str) -> String {
        format!(
            "Id=kubelet.service\nLoadState=loaded\nActiveState={active}\nSubState={sub}\nUnitFileState=enabled\nResult=success\n"
        )
    }

    /// A machine whose kubelet runs in the cluster of this CA.
    pub fn joined(ca: &SampleAuthority) -> Facts {
        facts()
            .with_file("/proc/sys/kernel/hostname", "W1\n")
            .with_file(kubeconfig::KUBELET, &kubeconfig::sample::kubelet(SERVER, &ca.pem))
            .with_file(pki::CLIENT, &ca.node("system:node:w1", 2027))
            .with_file(pki::CA, &ca.pem)
            .without_file(kubeconfig::BOOTSTRAP)
            .with_query(&unit::SHOW, &kubelet_state("active", "running"))
    }

    /// A machine that never joined anything.
    pub fn clean() -> Facts {
        facts()
            .with_file("/proc/sys/kernel/hostname", "w1\n")
            .without_file(kubeconfig::KUBELET)
            .without_file(kubeconfig::BOOTSTRAP)
            .without_file(pki::CLIENT)
            .without_file(pki::CA)
            .with_query(&unit::SHOW, &kubelet_state("activating", "auto-restart"))
    }
}

#[cfg(test)]
mod tests {
    use super::sample::{SERVER, clean, joined, kubelet_state};
    use super::*;
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::unit;

    fn why(facts: &Facts) -> String {
        match facts.join_state().expect("known") {
            JoinState::Left { why, server, .. } => format!("{server}: {why}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn tells_a_live_join_from_what_one_left() {
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        assert_eq!(clean().join_state(), Ok(JoinState::Unjoined));
        assert_eq!(joined(&ca).join_state(), Ok(JoinState::Joined { server: SERVER.to_owned() }));
        assert_eq!(
            joined(&ca).with_api("cluster-ca", &ca.pem).join_state(),
            Ok(JoinState::Joined { server: SERVER.to_owned() })
        );
        let left = |facts: Facts| why(&facts);
        assert_eq!(
            left(joined(&ca).with_api("cluster-ca", &other.pem)),
            format!("{SERVER}: it trusts another cluster's CA")
        );
        assert_eq!(left(joined(&ca).without_file(pki::CLIENT)), format!("{SERVER}: the kubelet has no certificate"));
        assert_eq!(
            left(joined(&ca).with_file(pki::CLIENT, &ca.node("system:node:w1", 2026))),
            format!("{SERVER}: the kubelet's certificate is not valid now")
        );
        assert_eq!(
            left(joined(&ca).with_file(pki::CLIENT, &ca.node("system:node:w2", 2027))),
            format!("{SERVER}: the kubelet's certificate is not for system:node:w1")
        );
        let stopped = joined(&ca).with_query(&unit::SHOW, &kubelet_state("inactive", "dead")).join_state();
        assert!(matches!(stopped, Ok(JoinState::Stopped { ref server, .. }) if server == SERVER), "{stopped:?}");
        assert_eq!(left(joined(&ca).with_file(kubeconfig::KUBELET, "{")), "an unknown server: it cannot be read");
    }

    #[test]
    fn what_cannot_be_read_is_not_judged() {
        let ca = SampleAuthority::make();
        assert!(joined(&ca).without(Source::File(kubeconfig::KUBELET), Why::Denied).join_state().is_err());
        assert!(joined(&ca).without(Source::File(pki::CLIENT), Why::Denied).join_state().is_err());
    }

    #[test]
    fn the_name_given_to_the_kubelet_counts_before_the_hostname() {
        let unit = unit::sample::packaged();
        let known = clean()
            .with_query(&unit::KUBELET, &unit)
            .with_file(unit::DEFAULTS, "KUBELET_EXTRA_ARGS=--hostname-override=Node-7\n");
        assert_eq!(known.own_common_name().as_deref(), Ok("system:node:node-7"));
        assert_eq!(clean().own_common_name().as_deref(), Ok("system:node:w1"));
    }
}
