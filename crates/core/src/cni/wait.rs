//! Whether a machine's pod network works by now, and if not, what it waits for.
//!
//! It works where the runtime says so, every check of it passes, and, once the machine has joined, the kubelet says that
//! it is ready: the runtime alone says true of a network whose programs are missing.
//!
//! Shared: `carrick cni wait`, for every flavour.

use super::generic;
use crate::catalogue::{self, Role};
use crate::check::cni::subnet_env;
use crate::check::{CHECKS, CheckPolicy, Evidence, Outcome, Subsystem, Verdict};
use crate::fact::{Facts, Missing, Source, Why, cni, identity, kubeconfig, net, pki, version};
use crate::id;
use crate::join::causes::recognised;
use crate::names::Names;
use crate::report::{Cause, Confidence};
use crate::shown;
use crate::signature::Library;

pub const VERB: &str = "cni wait";

/// What is looked at again and again: little, so that it can be done every second.
pub fn sources() -> Vec<Source> {
    let mut sources: Vec<Source> = [cni::SOURCES, kubeconfig::SOURCES, pki::SOURCES].concat();
    sources.extend([Source::Query(&net::LINKS), Source::Query(&version::CONTAINERD), Source::File(identity::HOSTNAME)]);
    sources
}

/// How it stands at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkState {
    /// What was seen of it.
    Works(String),
    Waits(WaitReason),
    /// It will not be known later either: who asks may not look.
    CannotTell(WaitReason),
}

/// Why it does not work yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitReason {
    /// The check that says so; none where the kubelet does.
    pub id: Option<&'static str>,
    pub says: String,
    pub evidence: Vec<Evidence>,
    pub remedy: Vec<String>,
    /// False where the network works, and the kubelet waits for something else.
    pub is_network: bool,
}

pub fn now(facts: &Facts) -> NetworkState {
    let policy = CheckPolicy { cni_expected: true };
    let judged = CHECKS.iter().filter(|registered| registered.check.subsystem == Subsystem::Cni);
    let judged = judged.map(|registered| (registered.check.id, registered.check.verdict(facts, &policy)));
    let wrong: Vec<(&'static str, Verdict)> = judged.filter(|(id, verdict)| blocks(id, verdict)).collect();
    if let Some((id, verdict)) = root(&wrong) {
        let denied = matches!(verdict.missing, Some(Missing { why: Why::Denied, .. }));
        let Verdict { says, evidence, remedy, .. } = verdict.clone();
        let reason = WaitReason { id: Some(*id), says, evidence, remedy, is_network: true };
        return if denied { NetworkState::CannotTell(reason) } else { NetworkState::Waits(reason) };
    }
    kubelet(facts)
}

impl WaitReason {
    /// What it comes down to, where the waiting ended: what a plugin or the kubelet said is known by its signature.
    pub fn into_cause(self, library: &Library, names: &Names) -> Cause {
        let WaitReason { id, says, evidence, mut remedy, .. } = self;
        let known = recognised(library, &says, &Evidence::of(VERB, says.as_str()), |_| id.is_none());
        let known = known.into_iter().max_by_key(|known| known.signature.severity);
        if remedy.is_empty() {
            remedy.extend(known.iter().flat_map(|known| known.cause.remedy.clone()));
        }
        names.fill_all(&mut remedy);
        let why = known.as_ref().map(|known| known.signature.title.clone()).unwrap_or_default();
        let by_signature = known.map(|known| known.cause.id);
        let id = id.map(str::to_owned).or(by_signature).unwrap_or_else(|| id!("node.not-ready").id.to_owned());
        let explains = Vec::new();
        let prevent = Vec::new();
        Cause {
            id,
            confidence: Confidence::Certain,
            title: shown::in_line(&says),
            why,
            evidence,
            remedy,
            prevent,
            explains,
        }
    }
}

/// Whether pods cannot have a network while a check says this.
fn blocks(id: &str, verdict: &Verdict) -> bool {
    match verdict.outcome {
        Outcome::Fail | Outcome::Unknown => true,
        // That flannel has not started yet is normal at every boot, so that the check only warns.
        Outcome::Warn => id == subnet_env::CHECK.id,
        Outcome::Pass | Outcome::Skip => false,
    }
}

/// The one that no other explains; the graver first, and of equals what is only a symptom last.
fn root<'a>(wrong: &'a [(&'static str, Verdict)]) -> Option<&'a (&'static str, Verdict)> {
    let is_explained = |id: &str| wrong.iter().any(|(_, other)| other.explains.contains(&id));
    let last = |id: &str| catalogue::about(id).is_some_and(|about| about.role == Role::Symptom);
    let order =
        |(id, verdict): &&(&'static str, Verdict)| (is_explained(id), std::cmp::Reverse(verdict.outcome), last(id));
    wrong.iter().min_by_key(order)
}

/// The runtime's side is well; what the kubelet has told the cluster, where the machine has joined.
fn kubelet(facts: &Facts) -> NetworkState {
    let network = facts.pod_network().ok().flatten().map_or(generic::FLAVOUR.name, |found| found.flavour.name);
    let runtime = format!("{network}: the runtime says NetworkReady");
    let waits = |says: String, is_network| {
        NetworkState::Waits(WaitReason { id: None, says, evidence: Vec::new(), remedy: Vec::new(), is_network })
    };
    match facts.node_ready() {
        Ok(Some(Some(ready))) if ready.is_true() => NetworkState::Works(format!("{runtime}, the Node is Ready")),
        Ok(Some(Some(ready))) => {
            let says = format!("the Node is not Ready ({}): {}", ready.reason, ready.message);
            let evidence =
                vec![Evidence::of("the Node's condition Ready", format!("{}: {}", ready.reason, ready.message))];
            let remedy = vec!["journalctl -u kubelet -p warning -n 50 --no-pager".to_owned()];
            NetworkState::Waits(WaitReason { id: None, says, evidence, remedy, is_network: ready.blames_network() })
        }
        Ok(Some(None)) => waits("the kubelet has not said yet whether it is ready".to_owned(), false),
        Ok(None) => waits("the machine has joined, and the cluster has no Node of its name".to_owned(), false),
        // Nobody asked: before a join there is nobody to ask.
        Err(Missing { why: Why::NotAsked, .. }) => match facts.has_kubelet_conf() {
            Ok(false) => NetworkState::Works(format!("{runtime}; not joined")),
            _ => NetworkState::Works(format!("{runtime}; the kubelet's own word was not asked for")),
        },
        Err(missing) => waits(format!("the Node cannot be read: {missing}"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::cni::{CONF_DIR, HEADERS};
    use crate::testing::facts;

    const ELF: &str = " 7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00\n 02 00 3e 00\n";
    const PROGRAMS: [&str; 5] = ["loopback", "flannel", "bridge", "host-local", "portmap"];
    const CONF: &str = "/etc/cni/net.d/10-flannel.conflist";

    fn runtime(ready: bool, load: &str) -> String {
        let networks = if load == "OK" { r#"{"Config":{"Name":"cbr0"}}"# } else { "" };
        format!(
            r#"{{"status":{{"conditions":[{{"type":"NetworkReady","status":{ready},"reason":"NetworkPluginNotReady","message":"cni plugin not initialized"}}]}},
            "lastCNILoadStatus":"{load}","cniconfig":{{"PluginConfDir":"/etc/cni/net.d","PluginMaxConfNum":1,"PluginDirs":["/opt/cni/bin"],"Networks":[{networks}]}}}}"#
        )
    }

    /// A worker with flannel at work, not joined.
    fn flannel() -> Facts {
        let entries = PROGRAMS.map(|name| ("-rwxr-xr-x", name));
        let headers =
            PROGRAMS.iter().fold("x86_64\n".to_owned(), |all, name| format!("{all}/opt/cni/bin/{name}\n{ELF}"));
        facts()
            .with_dir("/etc/cni", &[("drwxr-xr-x", "net.d")])
            .with_dir(CONF_DIR, &[("-rw-r--r--", "10-flannel.conflist")])
            .with_file(
                CONF,
                r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"},{"type":"portmap"}]}"#,
            )
            .with_dir("/opt/cni/bin", &entries)
            .with_query(&HEADERS, &headers)
            .with_query(&net::LINKS, r#"[{"ifname":"flannel.1"}]"#)
            .with_file(cni::SUBNET_ENV, "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n")
            .with_cri("status", &runtime(true, "OK"))
            .without_file(kubeconfig::KUBELET)
    }

    fn node(facts: Facts, status: &str, message: &str) -> Facts {
        let condition = format!(r#"{{"type":"Ready","status":"{status}","reason":"R","message":"{message}"}}"#);
        facts.with_api("node", &format!(r#"{{"status":{{"conditions":[{condition}]}}}}"#))
    }

    fn told(facts: &Facts) -> String {
        match now(facts) {
            NetworkState::Works(says) => format!("works: {says}"),
            NetworkState::Waits(reason) => format!(
                "{} ({})",
                reason.says,
                reason.id.unwrap_or(if reason.is_network { "network" } else { "other" })
            ),
            NetworkState::CannotTell(reason) => format!("cannot tell: {}", reason.says),
        }
    }

    #[test]
    fn it_works_where_the_runtime_the_checks_and_the_kubelet_say_so() {
        let joined = || flannel().with_file(kubeconfig::KUBELET, "");
        for (facts, expected) in [
            (flannel(), "works: flannel: the runtime says NetworkReady; not joined"),
            (joined(), "works: flannel: the runtime says NetworkReady; the kubelet's own word was not asked for"),
            (node(joined(), "True", ""), "works: flannel: the runtime says NetworkReady, the Node is Ready"),
            (
                node(joined(), "False", "container runtime network not ready: NetworkReady=false"),
                "the Node is not Ready (R): container runtime network not ready: NetworkReady=false (network)",
            ),
            (node(joined(), "Unknown", "stopped posting"), "the Node is not Ready (R): stopped posting (other)"),
            (joined().with_api("node", "{}"), "the kubelet has not said yet whether it is ready (other)"),
            (
                joined().without(Source::Api("node"), Why::Absent),
                "the machine has joined, and the cluster has no Node of its name (other)",
            ),
            (
                joined().without(Source::Api("node"), Why::Broken("cp:6443: connection refused".into())),
                "the Node cannot be read: api node: cp:6443: connection refused (other)",
            ),
        ] {
            assert_eq!(told(&facts), expected);
        }
    }

    #[test]
    fn it_waits_for_the_root_of_what_is_wrong() {
        let broken = "cni config load failed: x";
        let unloaded = || flannel().with_cri("status", &runtime(false, broken));
        let empty = || unloaded().with_dir(CONF_DIR, &[]);
        for (facts, expected) in [
            (empty(), "no pod network is configured in /etc/cni/net.d (cni.config)"),
            (
                unloaded().with_file(CONF, "{"),
                "10-flannel.conflist is broken, and as the first file it counts (cni.config)",
            ),
            (unloaded(), "containerd has not loaded 10-flannel.conflist (cni.watch-lost)"),
            (
                flannel().without_file(cni::SUBNET_ENV),
                "flannel is configured and has not started: no pod gets an address (cni.subnet-env)",
            ),
            (
                flannel().with_dir("/opt/cni/bin", &[]),
                "10-flannel.conflist needs loopback, flannel, bridge, host-local, portmap: not usable in /opt/cni/bin (cni.plugins)",
            ),
            (
                flannel().without(Source::Cri("status"), Why::Broken("connection refused".into())),
                "cannot tell: cri status: connection refused (cni.watch-lost)",
            ),
            (
                flannel().without(Source::Cri("status"), Why::Denied),
                "cannot tell: cannot tell: cri status: permission denied",
            ),
        ] {
            assert_eq!(told(&facts), expected);
        }
    }

    #[test]
    fn what_a_plugin_says_is_known_by_its_signature() {
        let library = Library::built_in().unwrap();
        let of = |says: &str| {
            let reason = WaitReason { id: None, says: says.into(), evidence: vec![], remedy: vec![], is_network: true };
            reason.into_cause(&library, &Names::default())
        };
        for (says, id) in [
            (
                r#"a sandbox gets no address: RunPodSandbox: failed to find plugin "flannel" in path [/opt/cni/bin]"#,
                "cni.plugins",
            ),
            (
                r#"RunPodSandbox: plugin type="flannel" failed (add): open /run/flannel/subnet.env: no such file or directory"#,
                "cni.subnet-env",
            ),
            ("the Node is not Ready (KubeletNotReady): something nobody knows", "node.not-ready"),
        ] {
            let cause = of(says);
            assert_eq!((cause.id.as_str(), cause.title.as_str()), (id, says));
        }
        assert!(!of(r#"failed to find plugin "bridge" in path [/opt/cni/bin]"#).remedy.is_empty());
    }

    #[test]
    fn nothing_known_is_nothing_that_works() {
        assert!(!matches!(now(&facts()), NetworkState::Works(_)));
    }
}
