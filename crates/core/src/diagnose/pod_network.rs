//! The pod network on a machine, piece by piece, in the order in which it comes up: directory, configuration, what the
//! runtime makes of it, the daemon that writes it, interfaces, and what the kubelet says of it.

use super::scan::Sighting;
use crate::check::Subsystem;
use crate::fact::net::is_of_pod_network;
use crate::fact::{Facts, Known, OrAbsent, daemon_sets};
use crate::report::Piece;
use crate::shown;
use crate::signature::{Library, Severity};

/// None where nothing but the kubelet's word is known: a log alone says little of a machine's network.
pub fn pieces(facts: &Facts, library: &Library, sightings: &[&Sighting]) -> Vec<Piece> {
    let on_machine = [
        told("directory", directory(facts)),
        told("configuration", configuration(facts)),
        told("runtime", runtime(facts)),
        told("daemon set", daemon_set(facts)),
        told("interfaces", interfaces(facts)),
    ];
    if on_machine.iter().all(|piece| !piece.known) {
        return Vec::new();
    }
    on_machine.into_iter().chain([told("kubelet", Ok(kubelet(library, sightings)))]).collect()
}

/// A piece: what is known of it, or why nothing is.
pub fn told(what: &'static str, says: Known<String>) -> Piece {
    let known = says.is_ok();
    let says = says.unwrap_or_else(|missing| format!("not known: {missing}"));
    Piece { what, says: shown::in_line(&says), known, expected: false }
}

fn directory(facts: &Facts) -> Known<String> {
    let dir = facts.cni_conf_dir();
    let Some(entries) = facts.dir(&dir).or_absent()? else { return Ok(format!("{dir} is not there")) };
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    Ok(if names.is_empty() { format!("{dir} is empty") } else { format!("{dir}: {}", names.join(", ")) })
}

fn configuration(facts: &Facts) -> Known<String> {
    let Some((file, conf)) = facts.cni_winner()? else { return Ok("none".to_owned()) };
    let plugins: Vec<&str> = conf.plugins.iter().map(|plugin| plugin.kind.as_str()).collect();
    let version = conf.version.map(|version| format!(", CNI {version}")).unwrap_or_default();
    Ok(format!("{} (network {}{version}: {})", file.name, conf.name, plugins.join(", ")))
}

fn runtime(facts: &Facts) -> Known<String> {
    let status = facts.runtime_status()?;
    let ready = match status.condition("NetworkReady") {
        None => "does not say whether the network is ready".to_owned(),
        Some(condition) if condition.status => "NetworkReady=true".to_owned(),
        Some(condition) => format!("NetworkReady=false ({}: {})", condition.reason, condition.message),
    };
    let load = status.last_cni_load.map(|load| format!("; last load: {load}")).unwrap_or_default();
    Ok(ready + &load)
}

fn daemon_set(facts: &Facts) -> Known<String> {
    let sets = facts.network_daemon_sets()?;
    let one =
        |set: &daemon_sets::DaemonSet| format!("{}/{}: {} of {} ready", set.namespace, set.name, set.ready, set.wanted);
    let all: Vec<String> = sets.iter().map(one).collect();
    Ok(if all.is_empty() { "none that is known as a pod network's".to_owned() } else { all.join("; ") })
}

fn interfaces(facts: &Facts) -> Known<String> {
    let links = facts.links()?.into_iter().filter(|link| is_of_pod_network(&link.name));
    let shown = links.map(|link| {
        let addresses: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
        format!("{} {} {}", link.name, link.state, addresses.join(" ")).trim_end().to_owned()
    });
    let all: Vec<String> = shown.collect();
    Ok(if all.is_empty() { "none of a pod network".to_owned() } else { all.join("; ") })
}

fn kubelet(library: &Library, sightings: &[&Sighting]) -> String {
    let of_kubelet = |sighting: &&&Sighting| {
        let signature = library.get(sighting.signature);
        let by_kubelet = sighting.hits.iter().any(|hit| hit.program.as_deref() == Some("kubelet"));
        signature.subsystem == Subsystem::Cni && signature.severity > Severity::Good && by_kubelet
    };
    let said: Vec<String> = sightings
        .iter()
        .filter(of_kubelet)
        .map(|sighting| format!("{} ({}×)", library.get(sighting.signature).title, sighting.count))
        .collect();
    if said.is_empty() { "no complaint in what was read".to_owned() } else { said.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Source, Why};
    use crate::testing::facts;

    #[test]
    fn tells_how_the_pod_networks_daemon_set_is_or_what_it_takes_to_know() {
        let list = r#"{"items":[{"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel"},"status":{"desiredNumberScheduled":3,"numberReady":2}}]}"#;
        let missing = |why| facts().without(Source::Api("daemon-sets"), why);
        let broken = Why::Broken("cp:6443: connection refused".to_owned());
        let told = |facts: &Facts| daemon_set(facts).map_err(|missing| missing.to_string());
        let known = |says: &str| Ok(says.to_owned());
        let unknown = |says: &str| Err(says.to_owned());
        for (facts, says) in [
            (facts().with_api("daemon-sets", list), known("kube-flannel/kube-flannel-ds: 2 of 3 ready")),
            (facts().with_api("daemon-sets", r#"{"items":[]}"#), known("none that is known as a pod network's")),
            (facts(), unknown("needs --kubeconfig")),
            (
                missing(Why::Denied),
                unknown("daemon sets: the user of --kubeconfig is not accepted, or may not list them"),
            ),
            (missing(broken), unknown("api daemon-sets: cp:6443: connection refused")),
        ] {
            assert_eq!(told(&facts), says);
        }
    }
}
