//! Which changes bring back the configuration that the cluster has for this machine.
//!
//! Only what a ConfigMap holds word for word can be brought back. Files of others are never taken away: where one comes
//! first, the operator is told.
//!
//! Shared: `carrick cni sync`, for every flavour.

use super::{ConfigMapKey, ConfigOrigin, Flavour, flannel};
use crate::fact::cni::{Candidate, Conf, parse_conf};
use crate::fact::{Facts, Known, OrAbsent};
use crate::id;
use crate::plan::{Effect, Plan, RunningContainers, Step};

/// As flannel's own init container leaves it: everybody may read it.
const FILE_MODE: u32 = 0o644;
const DIR_MODE: u32 = 0o755;

/// Why there is nothing to bring back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncRefusal {
    #[error(
        "{name}'s install container fills in its template (ConfigMap {namespace}/{config_map}) with what only it knows; \
         let it write the file: {restart}"
    )]
    Template { name: &'static str, namespace: &'static str, config_map: &'static str, restart: String },
    #[error("{name} writes its file itself, once it is ready; see why it is not: {restart}")]
    Daemon { name: &'static str, restart: String },
    #[error("this pod network is none that Carrick knows: where its file comes from cannot be told")]
    Unknown,
    #[error(
        "ConfigMap {namespace}/{config_map} has no key {key}: it was deployed in another way than flannel's manifest does"
    )]
    NoKey { namespace: &'static str, config_map: &'static str, key: &'static str },
    #[error(
        "ConfigMap {namespace}/{config_map} itself is broken ({key}: {why}): fix it first, nothing was written here"
    )]
    Broken { namespace: &'static str, config_map: &'static str, key: &'static str, why: String },
}

/// Which pod networks this machine may be meant to have, the surest first: the cluster's word, else every trace here. Where
/// there is none, flannel is asked for: it is the only one whose configuration can be read by a node.
pub fn networks(facts: &Facts) -> Vec<&'static Flavour> {
    let sets = facts.network_daemon_sets().unwrap_or_default();
    let mut found: Vec<&'static Flavour> = sets.iter().filter_map(|set| Flavour::of_daemon_set(&set.name)).collect();
    if found.is_empty() {
        let files = facts.cni_candidates().unwrap_or_default();
        found.extend(files.iter().filter_map(Candidate::flavour));
        let links = facts.links().unwrap_or_default();
        found.extend(links.iter().filter_map(|link| Flavour::of_link(&link.name)));
    }
    if found.is_empty() {
        found.push(&flannel::FLAVOUR);
    }
    let mut told = Vec::new();
    found.retain(|flavour| {
        let new = !told.contains(&flavour.name);
        told.push(flavour.name);
        new
    });
    found
}

/// Which ConfigMap says what the file must say.
pub fn key(flavour: &'static Flavour, node: &str) -> Result<&'static ConfigMapKey, SyncRefusal> {
    match &flavour.origin {
        ConfigOrigin::ConfigMap(key) => Ok(key),
        ConfigOrigin::Template(ConfigMapKey { namespace, name: config_map, .. }) => {
            Err(SyncRefusal::Template { name: flavour.name, namespace, config_map, restart: flavour.restarts(node) })
        }
        ConfigOrigin::Daemon => Err(SyncRefusal::Daemon { name: flavour.name, restart: flavour.restarts(node) }),
        ConfigOrigin::Unknown => Err(SyncRefusal::Unknown),
    }
}

/// The file as the cluster has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterCniConfig {
    pub path: String,
    pub text: String,
    pub conf: Conf,
    /// Whose it is, for the plan.
    pub from: String,
}

impl ClusterCniConfig {
    /// `data`: the key's text, `None` where the ConfigMap has no such key.
    pub fn of(
        facts: &Facts,
        flavour: &'static Flavour,
        key: &ConfigMapKey,
        data: Option<String>,
    ) -> Result<Self, SyncRefusal> {
        let ConfigMapKey { namespace, name: config_map, key } = *key;
        let text = data.ok_or(SyncRefusal::NoKey { namespace, config_map, key })?;
        let name = file_name(facts, flavour);
        let conf = parse_conf(&name, &text).map_err(|why| SyncRefusal::Broken {
            namespace,
            config_map,
            key,
            why: why.to_string(),
        })?;
        let path = format!("{}/{name}", facts.cni_conf_dir());
        Ok(ClusterCniConfig { path, text, conf, from: format!("ConfigMap {namespace}/{config_map}") })
    }
}

/// The file of this network that is there, whatever it is called; else as its project calls it.
fn file_name(facts: &Facts, flavour: &'static Flavour) -> String {
    let there = facts.cni_candidates().unwrap_or_default();
    let own = there.iter().find(|file| file.flavour() == Some(flavour));
    own.map_or_else(|| flavour.file.to_owned(), |file| file.name.clone())
}

/// What is to be done. `same`: the file there holds exactly what it should; facts do not tell, they are redacted.
pub fn plan(facts: &Facts, wanted: &ClusterCniConfig, same: bool) -> Known<Plan> {
    let dir = facts.cni_conf_dir();
    let step = |effect, why: &str| Step { effect, why: vec![why.to_owned()] };
    let (unit, running) = (runtime_unit(facts), RunningContainers::on(facts, runtime_unit(facts)));
    let restart = |why| step(Effect::RestartRuntime { unit: unit.to_owned(), running }, why);
    let mut steps = Vec::new();
    let no_dir = facts.dir(&dir).or_absent()?.is_none();
    if no_dir {
        let parent = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
        let missing = !parent.is_empty() && facts.dir(parent).or_absent()?.is_none();
        let dirs = missing.then(|| parent.to_owned()).into_iter().chain([dir]);
        steps.extend(dirs.map(|path| step(Effect::MakeDir { path, mode: DIR_MODE }, id!("cni.directory").id)));
    }
    if !same {
        let ClusterCniConfig { path, text, from, .. } = wanted;
        let write = Effect::Write { path: path.clone(), text: text.clone(), mode: FILE_MODE, in_place: true };
        steps.push(step(write, from));
    }
    // It watches the directory that is gone, and reads the one that is there when it starts.
    if no_dir {
        steps.push(restart("cni.directory: the runtime watches the directory that was removed"));
    } else if same && is_first(facts, wanted)? && !is_loaded(facts, wanted)? {
        steps.push(restart(id!("cni.watch-lost").id));
    }
    Ok(Plan { steps })
}

/// Whether the runtime has loaded it, by its own word.
pub fn is_loaded(facts: &Facts, wanted: &ClusterCniConfig) -> Known<bool> {
    let status = facts.runtime_status()?;
    Ok(match (&status.last_cni_load, status.condition("NetworkReady")) {
        // Without any network's name, OK is all there is.
        (Some(load), _) => {
            load == "OK" && (status.cni_networks.is_empty() || status.cni_networks.contains(&wanted.conf.name))
        }
        (None, Some(ready)) => ready.status,
        (None, None) => false,
    })
}

/// Whether no file of somebody else's comes before it.
pub fn is_first(facts: &Facts, wanted: &ClusterCniConfig) -> Known<bool> {
    let files = facts.cni_candidates()?;
    Ok(files.iter().take(facts.cni_loads()).any(|file| file.path == wanted.path))
}

fn runtime_unit(facts: &Facts) -> &'static str {
    let endpoint = facts.runtime_status().ok().and_then(|status| status.endpoint).unwrap_or_default();
    if endpoint.contains("crio") { "crio" } else { "containerd" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cni::{calico, cilium, generic};
    use crate::fact::Source;
    use crate::fact::cni::CONF_DIR;
    use crate::fact::net::LINKS;
    use crate::testing::facts;

    const TEXT: &str = "{\"name\": \"cbr0\", \"cniVersion\": \"0.3.1\", \"plugins\": [{\"type\": \"flannel\"}]}\n";
    const PATH: &str = "/etc/cni/net.d/10-flannel.conflist";

    fn runtime(load: &str) -> Facts {
        let json =
            format!(r#"{{"status":{{"conditions":[]}},"lastCNILoadStatus":"{load}","cniconfig":{{"Networks":[]}}}}"#);
        facts().with_cri("status", &json)
    }

    fn net_d(facts: Facts, files: &[&str]) -> Facts {
        let entries: Vec<(&str, &str)> = files.iter().map(|name| ("-rw-r--r--", *name)).collect();
        files.iter().fold(facts.with_dir(CONF_DIR, &entries), |facts, name| {
            facts.with_file(&format!("{CONF_DIR}/{name}"), TEXT)
        })
    }

    fn wanted(facts: &Facts) -> ClusterCniConfig {
        let key = key(&flannel::FLAVOUR, "w1").unwrap();
        ClusterCniConfig::of(facts, &flannel::FLAVOUR, key, Some(TEXT.to_owned())).unwrap()
    }

    #[test]
    fn what_is_missing_is_written_and_what_lost_its_watcher_is_restarted() {
        let write = format!("write {PATH} in place");
        let restart = "restart containerd and wait for it to answer; what runs on it could not be told";
        for (name, facts, same, expected) in [
            ("as it should be", net_d(runtime("OK"), &["10-flannel.conflist"]), true, vec![]),
            ("missing", net_d(runtime("no network config found"), &[]), false, vec![write.as_str()]),
            ("different", net_d(runtime("OK"), &["10-flannel.conflist"]), false, vec![write.as_str()]),
            ("there and not loaded", net_d(runtime("no network"), &["10-flannel.conflist"]), true, vec![restart]),
            (
                "behind another: a restart would not help",
                net_d(runtime("failed"), &["00-a.conflist", "10-flannel.conflist"])
                    .with_file("/etc/cni/net.d/00-a.conflist", "{"),
                true,
                vec![],
            ),
            (
                "no directory",
                runtime("no network").without_dir(CONF_DIR).with_dir("/etc/cni", &[]),
                false,
                vec!["make the directory /etc/cni/net.d (mode 0755)", &write, restart],
            ),
        ] {
            let plan = plan(&facts, &wanted(&facts), same).unwrap();
            let told: Vec<String> = plan.steps.iter().map(|step| step.effect.to_string()).collect();
            assert_eq!(told, expected, "{name}");
            assert!(plan.steps.iter().all(|step| !step.why.is_empty()), "{name}");
        }
        let denied = runtime("OK").without(Source::Tree(CONF_DIR), crate::fact::Why::Denied);
        assert!(plan(&denied, &wanted(&denied), false).is_err());
    }

    #[test]
    fn the_clusters_word_goes_before_what_lies_here() {
        let old = net_d(runtime("OK"), &["05-old.conflist", "10-flannel.conflist"])
            .with_file("/etc/cni/net.d/05-old.conflist", r#"{"name":"old","plugins":[{"type":"calico"}]}"#);
        let names = |facts: &Facts| networks(facts).iter().map(|flavour| flavour.name).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&old), "calico flannel");
        let set = r#"{"items":[{"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel"}}]}"#;
        assert_eq!(names(&old.with_api("daemon-sets", set)), "flannel");
        assert_eq!(
            names(&facts().with_query(&LINKS, r#"[{"ifname":"cilium_host"},{"ifname":"cilium_net"}]"#)),
            "cilium"
        );
        assert_eq!(names(&facts()), "flannel");
    }

    #[test]
    fn the_file_of_this_network_keeps_its_name() {
        let facts = net_d(runtime("OK"), &["20-my-flannel.conflist"]);
        assert_eq!(wanted(&facts).path, "/etc/cni/net.d/20-my-flannel.conflist");
        assert_eq!(wanted(&runtime("OK")).path, PATH);
    }

    #[test]
    fn what_cannot_be_known_is_refused_with_the_next_step() {
        let says = |flavour| key(flavour, "w1").unwrap_err().to_string();
        let calico = says(&calico::FLAVOUR);
        assert!(
            calico.contains("kube-system/calico-config")
                && calico.contains("kubectl -n kube-system delete pod -l k8s-app=calico-node"),
            "{calico}"
        );
        assert!(says(&cilium::FLAVOUR).starts_with("cilium writes its file itself"));
        assert!(says(&generic::FLAVOUR).contains("none that Carrick knows"));
        let of = |data: Option<&str>| {
            let key = key(&flannel::FLAVOUR, "w1").unwrap();
            ClusterCniConfig::of(&runtime("OK"), &flannel::FLAVOUR, key, data.map(str::to_owned))
                .unwrap_err()
                .to_string()
        };
        assert!(of(None).contains("has no key cni-conf.json"));
        assert!(
            of(Some("{"))
                .starts_with("ConfigMap kube-flannel/kube-flannel-cfg itself is broken (cni-conf.json: not JSON")
        );
    }

    #[test]
    fn loaded_is_what_the_runtime_says() {
        let of = |json: &str| {
            let facts = facts().with_cri("status", json);
            is_loaded(&facts, &wanted(&facts)).unwrap()
        };
        assert!(of(
            r#"{"status":{"conditions":[]},"lastCNILoadStatus":"OK","cniconfig":{"Networks":[{"Config":{"Name":"cbr0"}}]}}"#
        ));
        assert!(!of(
            r#"{"status":{"conditions":[]},"lastCNILoadStatus":"OK","cniconfig":{"Networks":[{"Config":{"Name":"old"}}]}}"#
        ));
        assert!(!of(r#"{"status":{"conditions":[]},"lastCNILoadStatus":"cni config load failed"}"#));
        assert!(of(r#"{"status":{"conditions":[{"type":"NetworkReady","status":true}]}}"#), "CRI-O");
        assert!(!of(r#"{"status":{"conditions":[]}}"#));
        assert!(is_loaded(&facts(), &wanted(&facts())).is_err());
    }
}
