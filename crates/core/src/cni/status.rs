//! What is configured, what the runtime has loaded, and what runs: the pieces `diagnose` tells of the pod network, with
//! what its flavour adds, and the checks of it.
//!
//! Shared: `carrick cni status`, for every flavour.

use super::{Addresses, Detected, Flavour, ReadinessSign};
use crate::catalogue::{self, Role};
use crate::check::Subsystem;
use crate::diagnose::Case;
use crate::diagnose::pod_network::told;
use crate::fact::{Facts, Known};
use crate::judge::Ignore;
use crate::report::{self, Cause, Judged, Overall, Piece, Reading, Report};
use crate::signature::Library;

pub const VERB: &str = "cni status";

pub fn report(library: &Library, facts: &Facts) -> Report {
    let mut diagnosed = Case::of_facts(library, facts.clone(), None).report(&Ignore::default());
    let pieces = diagnosed.reading.take().map(|reading| reading.pod_network).unwrap_or_default();
    let of_network = |finding: &Judged| finding.subsystem == Subsystem::Cni;
    let findings: Vec<Judged> = diagnosed.findings.into_iter().filter(of_network).collect();
    let causes: Vec<Cause> = diagnosed.causes.into_iter().filter(|it| is_about_network(&it.id, &it.explains)).collect();
    let verdict = if causes.is_empty() { report::overall(&findings) } else { Overall::Fail };
    let pod_network = own_pieces(facts).into_iter().chain(pieces).collect();
    let reading = Reading { pod_network, ..Reading::default() };
    Report {
        verdict,
        causes,
        machine: diagnosed.machine,
        reading: Some(reading),
        ..report::of(VERB, &facts.host, findings)
    }
}

/// A cause that is the pod network's own, that shows where its packets do not arrive, or that explains one of these.
fn is_about_network(id: &str, explains: &[String]) -> bool {
    let is_one = |id: &str| {
        catalogue::about(id).is_some_and(|about| match about.subsystem {
            Subsystem::Cni => true,
            Subsystem::Network => about.role == Role::Symptom,
            _ => false,
        })
    };
    is_one(id) || explains.iter().any(|id| is_one(id))
}

fn own_pieces(facts: &Facts) -> Vec<Piece> {
    let mut pieces = vec![network(facts)];
    if let Ok(Some(Detected { flavour, .. })) = facts.pod_network() {
        if !flavour.state.is_empty() {
            pieces.push(told("state", state(facts, flavour)));
        }
        pieces.extend(addresses(facts, flavour).map(|says| told("addresses", says)));
    }
    pieces
}

fn network(facts: &Facts) -> Piece {
    let found = facts.pod_network();
    let expected = matches!(found, Ok(None)) && facts.has_kubelet_conf() == Ok(false);
    let says = found.map(|network| match network {
        None if expected => "none: normal before a join".to_owned(),
        None => "none".to_owned(),
        Some(Detected { flavour, by }) => format!("{} ({})", flavour.name, by.name()),
    });
    Piece { expected, ..told("network", says) }
}

fn state(facts: &Facts, flavour: &Flavour) -> Known<String> {
    let traces = facts.network_state(flavour)?;
    let shown: Vec<String> = traces
        .iter()
        .map(|(path, there)| format!("{path} {}", if *there { "is there" } else { "is not there: it has not started" }))
        .collect();
    let asked = match flavour.ready {
        ReadinessSign::Http { port, path } => format!("; itself it says so at 127.0.0.1:{port}{path}"),
        ReadinessSign::ByState => String::new(),
    };
    Ok(shown.join("; ") + &asked)
}

/// Where this machine's pods get theirs; nothing where only the configuration could tell.
fn addresses(facts: &Facts, flavour: &Flavour) -> Option<Known<String>> {
    match flavour.addresses {
        Addresses::Own => Some(Ok(format!("allotted by {}; the Node's podCIDR means nothing", flavour.name))),
        Addresses::Configured => None,
        Addresses::PodCidr => {
            let told = facts.flannel().map(|env| env.and_then(|env| env.subnet));
            Some(told.map(|subnet| match subnet {
                Some(subnet) => format!("{}, of the Node's podCIDR", subnet.network()),
                None => "of the Node's podCIDR, which is not told here yet".to_owned(),
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::cni::CONF_DIR;
    use crate::testing::facts;

    const STATUS: &str = r#"{"status":{"conditions":[{"type":"NetworkReady","status":true}]},"lastCNILoadStatus":"OK",
        "cniconfig":{"PluginConfDir":"/etc/cni/net.d","Networks":[{"Config":{"Name":"cbr0"}}]}}"#;

    fn flannel() -> Facts {
        facts()
            .with_dir(CONF_DIR, &[("-rw-r--r--", "10-flannel.conflist")])
            .with_file(
                "/etc/cni/net.d/10-flannel.conflist",
                r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"}]}"#,
            )
            .with_file("/run/flannel/subnet.env", "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n")
            .with_cri("status", STATUS)
    }

    fn pieces(report: &Report) -> Vec<String> {
        let pieces = report.reading.iter().flat_map(|reading| &reading.pod_network);
        pieces.map(|piece| format!("{}: {}", piece.what, piece.says)).collect()
    }

    #[test]
    fn tells_what_is_configured_loaded_and_running() {
        let library = Library::built_in().unwrap();
        let told = report(&library, &flannel());
        assert_eq!(
            pieces(&told)[..6],
            [
                "network: flannel (by its configuration)",
                "state: /run/flannel/subnet.env is there",
                "addresses: 10.244.1.0/24, of the Node's podCIDR",
                "directory: /etc/cni/net.d: 10-flannel.conflist",
                "configuration: 10-flannel.conflist (network cbr0, CNI 0.3.1: flannel)",
                "runtime: NetworkReady=true; last load: OK",
            ]
        );
        assert!(told.findings.iter().all(|finding| finding.subsystem == Subsystem::Cni));
        assert_eq!((told.verb, told.host.as_str()), ("cni status", "w1"));
        let gone = report(&library, &flannel().without_file("/run/flannel/subnet.env"));
        assert_eq!(pieces(&gone)[1], "state: /run/flannel/subnet.env is not there: it has not started");
        assert_eq!(gone.verdict, Overall::Warn);
        let bad = report(&library, &flannel().with_file("/etc/cni/net.d/10-flannel.conflist", "{"));
        assert_eq!((bad.verdict, bad.causes[0].id.as_str()), (Overall::Fail, "cni.config"));
        let fresh = facts().with_dir(CONF_DIR, &[]).without_file("/etc/kubernetes/kubelet.conf");
        let fresh = report(&library, &fresh);
        assert_eq!(pieces(&fresh)[0], "network: none: normal before a join");
        let expected = |report: &Report| report.reading.iter().any(|it| it.pod_network.iter().any(|it| it.expected));
        let gone = report(&library, &facts().with_dir(CONF_DIR, &[]).with_file("/etc/kubernetes/kubelet.conf", ""));
        assert_eq!([&fresh, &told, &gone].map(expected), [true, false, false]);
        assert_eq!(report(&library, &facts()).verdict, Overall::Unknown);
    }

    #[test]
    fn names_the_causes_that_keep_pods_from_one_another() {
        for (id, explains, expected) in [
            ("cni.no-pod-cidr", "", true),
            ("pod.no-address", "", true),
            ("pod.no-route", "", true),
            ("firewall.vxlan", "pod.no-route", true),
            ("runtime.socket", "cni.not-initialised", true),
            ("network.ports", "kubelet.crash-loop", false),
            ("pod.mount-failed", "", false),
            ("filesystem.nfs-refused", "pod.mount-failed", false),
            ("kubelet.standalone", "node.never-registered", false),
        ] {
            assert_eq!(is_about_network(id, &[explains.to_owned()]), expected, "{id}");
        }
    }
}
