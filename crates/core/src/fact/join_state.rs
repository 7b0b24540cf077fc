//! What an earlier join left on this machine, and whether it still lives.

use super::evidence::Evidence;
use super::kubeconfig::{self, Kubeconfig};
use super::pki::{self, Certificate};
use super::{Capture, Facts, Known, Missing, OrAbsent, Source, Why};

/// The key of the name that a join asks for: nothing of the machine, but what its Node is looked for by.
const ASKED: &str = "node asked";

pub const MANIFESTS: &str = "/etc/kubernetes/manifests";

pub const SOURCES: &[Source] = &[Source::Dir(MANIFESTS)];

/// Whether this machine belongs to a cluster, as far as it can tell by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// No `kubelet.conf`.
    Unjoined,
    /// A kubelet runs with a certificate of its own that has not expired, as this Node.
    Joined { server: String, node: String },
    /// Everything a kubelet needs to be in its cluster as this Node, and no kubelet that runs.
    Stopped { server: String, node: String, seen: Evidence },
    /// A `kubelet.conf` with which no kubelet can be in a cluster, and why.
    Left { server: String, why: String, seen: Evidence },
}

const UNKNOWN_SERVER: &str = "an unknown server";

impl Facts {
    pub fn join_state(&self) -> Known<JoinState> {
        // Whoever lives has read its files; what became of them since makes no leftover of it.
        if let Ok(Some(node)) = self.live_node() {
            let server = self.kubelet_kubeconfig().ok().and_then(|conf| conf.server);
            return Ok(JoinState::Joined { server: server.unwrap_or_else(|| UNKNOWN_SERVER.to_owned()), node });
        }
        let conf = match self.kubelet_kubeconfig() {
            Ok(conf) => conf,
            Err(missing) if missing.why == Why::Absent => return Ok(JoinState::Unjoined),
            Err(missing) => match missing.why {
                Why::Broken(why) => {
                    let seen = Evidence::of(kubeconfig::KUBELET, &why);
                    let (server, why) = (UNKNOWN_SERVER.to_owned(), "it cannot be read".to_owned());
                    return Ok(JoinState::Left { server, why, seen });
                }
                _ => return Err(missing),
            },
        };
        let server = conf.server.clone().unwrap_or_else(|| "no server".to_owned());
        let node = match self.certified(&conf)? {
            Err((why, seen)) => return Ok(JoinState::Left { server, why, seen }),
            Ok(node) => node,
        };
        let kubelet = self.unit_state("kubelet")?;
        Ok(if kubelet.is_active() {
            JoinState::Joined { server, node }
        } else {
            JoinState::Stopped { server, node, seen: kubelet.cite() }
        })
    }

    /// The Node as which a kubelet lives here: it runs, it is told of a kubeconfig, and its certificate is a node's and good
    /// now. Neither the name the host has by now nor another cluster's CA takes anything from that, nor that no CA known here
    /// has signed it, as a cluster may have one for its clients alone, or an intermediate one: only the API server could.
    /// Where something cannot be seen that would say it, it is not known that nothing lives here.
    pub fn live_node(&self) -> Known<Option<String>> {
        if !self.unit_state("kubelet")?.is_active() {
            return Ok(None);
        }
        if matches!(self.kubelet_process(), Ok(Some(process)) if !process.has_flag("--kubeconfig")) {
            return Ok(None);
        }
        // It may have been removed, or broken, since the kubelet has read it.
        let conf = match self.kubelet_kubeconfig() {
            Err(Missing { why: Why::Absent | Why::Broken(_), .. }) => None,
            conf => Some(conf?),
        };
        let client = self.client_certificate().or_absent()?.filter(|client| self.is_in_date(client));
        if let Some(node) = client.as_ref().and_then(Certificate::node) {
            return Ok(Some(node.to_owned()));
        }
        // What lies here besides is not what it goes by.
        if conf.is_some_and(|conf| conf.has_other_credential()) {
            let source_name = "the credential that kubelet.conf names".to_owned();
            return Err(Missing { source_name, why: Why::NotCollected });
        }
        Ok(None)
    }

    /// The kubeconfig of a kubelet that runs and was not set up by kubeadm: whether that lives, and as what, is not known here.
    pub fn foreign_kubeconfig(&self) -> Known<Option<String>> {
        if !self.unit_state("kubelet")?.is_active() {
            return Ok(None);
        }
        let process = self.kubelet_process()?;
        let named = process.as_ref().and_then(|process| process.flag("--kubeconfig"));
        Ok(named.filter(|path| *path != kubeconfig::KUBELET).map(str::to_owned))
    }

    /// By this machine's clock, or by the API server's: it is not the certificate's fault if this clock is wrong.
    fn is_in_date(&self, certificate: &Certificate) -> bool {
        let server = self.api_path().ok().and_then(|path| path.clocks).map(|clocks| clocks.server);
        [Some(self.taken_at), server].into_iter().flatten().any(|now| certificate.is_valid_at(now))
    }

    /// All that a kubelet needs to be in a cluster is here, whether it runs or not.
    pub fn has_joined(&self) -> bool {
        self.kubelet_kubeconfig().is_ok_and(|conf| matches!(self.certified(&conf), Ok(Ok(_))))
    }

    /// The Node that a kubelet with this kubeconfig is; or why it cannot be in a cluster.
    fn certified(&self, conf: &Kubeconfig) -> Known<Result<String, (String, Evidence)>> {
        let trusted = self.trusted_by(conf);
        let client = self.client_certificate().or_absent()?;
        if self.differs(&trusted, client.as_ref()) {
            let seen = Evidence::of(kubeconfig::KUBELET, pki::shown_pins(&trusted));
            return Ok(Err(("it trusts another cluster's CA".to_owned(), seen)));
        }
        let Some(client) = client else {
            return Ok(Err(("the kubelet has no certificate".to_owned(), Evidence::of(pki::CLIENT, "not there"))));
        };
        if !client.is_valid_at(self.taken_at) {
            let seen = Evidence::of(pki::CLIENT, format!("valid from {} to {}", client.not_before, client.not_after));
            return Ok(Err(("the kubelet's certificate is not valid now".to_owned(), seen)));
        }
        match client.node() {
            // Of this very join, whatever the host is called by now.
            Some(node) if client.is_signed_by_any(&trusted) => Ok(Ok(node.to_owned())),
            _ => {
                let (name, own) = (self.coming_node_name()?, self.own_common_name()?);
                let seen = || Evidence::of(pki::CLIENT, format!("CN={}", client.common_name));
                let is_own = client.common_name == own;
                Ok(if is_own { Ok(name) } else { Err((format!("the kubelet's certificate is not for {own}"), seen())) })
            }
        }
    }

    /// The kubelet here is in another cluster than the one that was asked.
    pub fn is_of_another_cluster(&self) -> bool {
        let Ok(conf) = self.kubelet_kubeconfig() else { return false };
        self.differs(&self.trusted_by(&conf), self.client_certificate().ok().as_ref())
    }

    fn differs(&self, trusted: &[Certificate], client: Option<&Certificate>) -> bool {
        self.cluster_cas().is_ok_and(|asked| pki::is_in_cluster(trusted, client, &asked, &[]) == Some(false))
    }

    /// The name that a certificate for the kubelet's next start must bear: `system:node:` and the node's name.
    pub fn own_common_name(&self) -> Known<String> {
        Ok(format!("system:node:{}", self.coming_node_name()?))
    }

    /// What the Node of a join that is to come shall be called, where somebody asks for a name (`--node-name`).
    pub fn ask_for_node_name(&mut self, name: &str) {
        self.insert(ASKED.to_owned(), Ok(Capture::text(name)));
    }

    pub fn asked_node_name(&self) -> Option<&str> {
        self.get(ASKED).ok().map(|asked| asked.text.as_str())
    }

    /// What the kubelet here calls its Node: what its certificate says, once it has joined; until then what it shall, or would.
    pub fn kubelet_node_name(&self) -> Known<String> {
        match self.join_state() {
            Ok(JoinState::Joined { node, .. } | JoinState::Stopped { node, .. }) => Ok(node),
            _ => self.asked_node_name().map_or_else(|| self.coming_node_name(), |asked| Ok(asked.to_owned())),
        }
    }

    /// What a kubelet that is started now would call its Node.
    pub fn coming_node_name(&self) -> Known<String> {
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
    use crate::fact::{process, unit};

    fn why(facts: &Facts) -> String {
        match facts.join_state().expect("known") {
            JoinState::Left { why, server, .. } => format!("{server}: {why}"),
            other => format!("{other:?}"),
        }
    }

    fn stopped(facts: Facts) -> Facts {
        facts.with_query(&unit::SHOW, &kubelet_state("inactive", "dead"))
    }

    #[test]
    fn tells_a_live_join_from_what_one_left() {
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        let live = || Ok(JoinState::Joined { server: SERVER.to_owned(), node: "w1".to_owned() });
        assert_eq!(clean().join_state(), Ok(JoinState::Unjoined));
        assert_eq!(joined(&ca).join_state(), live());
        assert_eq!(joined(&ca).with_api("cluster-ca", &ca.pem).join_state(), live());
        let foreign = joined(&ca).with_api("cluster-ca", &other.pem);
        assert_eq!((foreign.join_state(), foreign.is_of_another_cluster()), (live(), true), "it lives, elsewhere");
        let left = |facts: Facts| why(&facts);
        assert_eq!(left(stopped(foreign)), format!("{SERVER}: it trusts another cluster's CA"));
        assert_eq!(left(joined(&ca).without_file(pki::CLIENT)), format!("{SERVER}: the kubelet has no certificate"));
        assert_eq!(
            left(joined(&ca).with_file(pki::CLIENT, &ca.node("system:node:w1", 2026))),
            format!("{SERVER}: the kubelet's certificate is not valid now")
        );
        assert_eq!(
            left(stopped(joined(&ca).with_file(pki::CLIENT, &other.node("system:node:w2", 2027)))),
            format!("{SERVER}: the kubelet's certificate is not for system:node:w1")
        );
        let at_rest = stopped(joined(&ca)).join_state();
        assert!(matches!(at_rest, Ok(JoinState::Stopped { ref server, .. }) if server == SERVER), "{at_rest:?}");
        assert_eq!(
            left(stopped(joined(&ca)).with_file(kubeconfig::KUBELET, "{")),
            "an unknown server: it cannot be read"
        );
    }

    /// What has happened to the host and to its files since the kubelet started does not end it.
    #[test]
    fn a_kubelet_that_runs_with_a_good_certificate_lives() {
        let (ca, other) = (SampleAuthority::make(), SampleAuthority::make());
        let bundle = format!("{}{}", other.pem, ca.pem);
        let mut behind = joined(&ca).with_api(
            "path",
            r#"{"endpoint":"e","steps":[],"clocks":{"server":"2026-11-15T12:00:00Z","here":"2001-01-01T00:00:00Z"}}"#,
        );
        behind.taken_at = "2001-01-01T00:00:00Z".parse().unwrap();
        let by_clients_ca = || joined(&ca).with_file(pki::CLIENT, &other.node("system:node:w1", 2027));
        for (name, facts) in [
            ("as it joined", joined(&ca)),
            ("signed by a CA for clients alone", by_clients_ca()),
            ("the same, and renamed", by_clients_ca().with_file("/proc/sys/kernel/hostname", "w1-dhcp\n")),
            ("renamed", joined(&ca).with_file("/proc/sys/kernel/hostname", "w1-dhcp\n")),
            ("another cluster was asked", joined(&ca).with_api("cluster-ca", &other.pem)),
            ("kubelet.conf broken since", joined(&ca).with_file(kubeconfig::KUBELET, "{")),
            ("kubelet.conf removed since", joined(&ca).without_file(kubeconfig::KUBELET)),
            ("two CAs", joined(&ca).with_file(kubeconfig::KUBELET, &kubeconfig::sample::kubelet(SERVER, &bundle))),
            ("ca.crt removed since", joined(&ca).without_file(pki::CA)),
            ("this clock is behind", behind),
        ] {
            assert_eq!(facts.live_node(), Ok(Some("w1".to_owned())), "{name}");
            assert!(matches!(facts.join_state(), Ok(JoinState::Joined { ref node, .. }) if node == "w1"), "{name}");
            assert_eq!(facts.kubelet_node_name().as_deref(), Ok("w1"), "{name}");
        }
        let runs = format!("{}MainPID=17\n", kubelet_state("active", "running"));
        let alone = joined(&ca).with_query(&unit::SHOW, &runs);
        let alone = alone.with_query(&process::KUBELET, "17 60 /usr/bin/kubelet\n");
        for (name, facts) in [
            ("stopped", stopped(joined(&ca))),
            ("standalone", alone),
            ("expired", joined(&ca).with_file(pki::CLIENT, &ca.node("system:node:w1", 2026))),
            ("no node's", joined(&ca).with_file(pki::CLIENT, &ca.node("kubernetes-admin", 2027))),
            ("none yet", joined(&ca).without_file(pki::CLIENT)),
        ] {
            assert_eq!(facts.live_node(), Ok(None), "{name}");
        }
        let token = kubeconfig::sample::bootstrap(SERVER, &ca.pem);
        for credential in [
            "token: x",
            "tokenFile: /var/run/secrets/token",
            "exec: {command: aws-iam-authenticator}",
            "auth-provider: {name: oidc}",
            "{username: kubelet, password: x}",
            "client-certificate: /etc/kubernetes/pki/node.pem",
        ] {
            let conf = token.replace("token: <redacted:bootstrap-token>", credential);
            let alone = joined(&ca).without_file(pki::CLIENT).with_file(kubeconfig::KUBELET, &conf);
            let expired = alone.clone().with_file(pki::CLIENT, &ca.node("system:node:w1", 2026));
            assert!(alone.live_node().is_err() && expired.live_node().is_err(), "it may well live by {credential}");
        }
        assert!(joined(&ca).without(Source::File(pki::CLIENT), Why::Denied).live_node().is_err());
    }

    #[test]
    fn a_renamed_machine_that_is_stopped_is_still_the_node_it_was() {
        let ca = SampleAuthority::make();
        let renamed = stopped(joined(&ca)).with_file("/proc/sys/kernel/hostname", "w1-dhcp\n");
        assert!(matches!(renamed.join_state(), Ok(JoinState::Stopped { ref node, .. }) if node == "w1"));
        assert_eq!(renamed.coming_node_name().as_deref(), Ok("w1-dhcp"));
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
