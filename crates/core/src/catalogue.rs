//! What Carrick knows about an id, beside its texts: what a join does about it, whether it says why, what it stops while
//! it stands, which part of the machine it speaks of.
//!
//! It stands in the id's own file: a check's `CHECK`, a signature's TOML. Nothing is listed here; this is where it is
//! looked up. Code that names an id writes `id!("csr.denied")`, which does not compile where there is no such id.

use serde::{Deserialize, Serialize};

use crate::check::{self, Needed, Subsystem};
use crate::join::verify::Until;
use crate::signature;

/// What a join does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It may pass: clean up and try again.
    Transient,
    /// It may pass while the pod network starts. Once its configuration stands it does not: every network installs its
    /// plugins before that.
    UntilNetwork,
    /// Something must be changed first: by `--fix`, or by hand.
    Configuration,
    /// Not to be tried at all: it would do harm.
    Fatal,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Transient, Class::UntilNetwork, Class::Configuration, Class::Fatal];

    /// Whether a cleaned-up attempt may succeed although nobody changed anything.
    pub fn may_pass(self) -> bool {
        match self {
            Class::Transient | Class::UntilNetwork => true,
            Class::Configuration | Class::Fatal => false,
        }
    }

    /// As a signature's file has it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Transient => "transient",
            Class::UntilNetwork => "until-network",
            Class::Configuration => "configuration",
            Class::Fatal => "fatal",
        }
    }

    /// What a join does about it, as `carrick explain` says it.
    pub fn does(self) -> &'static str {
        match self {
            Class::Transient => {
                "cleans up and tries again; once the machine has its certificate it only waits, and leaves it in the cluster"
            }
            Class::UntilNetwork => "waits while the pod network starts, and stops once its configuration stands",
            Class::Configuration => "stops: somebody has to change something",
            Class::Fatal => "stops: to go on would do harm",
        }
    }
}

/// Whether an id says why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It says why.
    Root,
    /// It says only that something failed, or how far it came: whoever knows why has the first word.
    Symptom,
}

impl Role {
    /// As a signature's file has it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Root => "root",
            Role::Symptom => "symptom",
        }
    }
}

/// What an id stops while it stands: what `verify` and `join` must not say *joined* over ([`crate::join::verify`]).
///
/// The rule by which a file says it:
/// * what one pod's own image, volume, command or manifest is to blame for stops nothing: the node is well. So does a
///   registry, or a mirror before it, that gives no image: agents that wait for one are not Ready, which the proofs see;
/// * so does what only a join needs (kubeadm, tokens, discovery), what only the next boot will bring, and what concerns
///   the cluster as a whole;
/// * a line that does not say whom it hits (any process, any disk) stops nothing: the proofs see what comes of it;
/// * what the Node itself shows as soon as it is so (no lease, NotReady, pressure, a runtime that gives no answer) stops
///   the node: there the proofs are fresher than any file or line, and overrule it;
/// * the rest is what a node that is Ready hides, by the first thing that goes wrong with a pod there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stops {
    /// It keeps no pod from running here, and nobody from reaching one.
    Nothing,
    /// The kubelet or the runtime does not come up, has no way to its cluster, or the Node says itself that it takes no
    /// pods: the proofs see that, and overrule it.
    Node,
    /// Pods are not started, or are killed.
    Pods,
    /// The pod network does not come up, or gives pods no address of their own.
    Network,
    /// Pods run, and what they and others say to each other is lost: pods of other nodes, Services, the API server's
    /// calls to the kubelet.
    Traffic,
}

impl Stops {
    pub const ALL: [Stops; 5] = [Stops::Nothing, Stops::Node, Stops::Pods, Stops::Network, Stops::Traffic];

    /// As a signature's file has it.
    pub fn name(self) -> &'static str {
        match self {
            Stops::Nothing => "nothing",
            Stops::Node => "node",
            Stops::Pods => "pods",
            Stops::Network => "network",
            Stops::Traffic => "traffic",
        }
    }

    /// From how far on nobody says *joined* over it; `None`: it keeps no pod from running, or the proofs see what comes of it.
    pub fn forbidden_from(self) -> Option<Until> {
        match self {
            Stops::Nothing | Stops::Node => None,
            Stops::Pods => Some(Until::Registered),
            Stops::Network => Some(Until::Network),
            Stops::Traffic => Some(Until::Verified),
        }
    }

    /// What `verify` and `join` do about it where everything else holds, as `carrick explain` says it.
    pub fn forbids(self) -> &'static str {
        match self {
            Stops::Nothing => "Pods run on the node in spite of it.",
            Stops::Node => "Where the Node is Ready and its lease is renewed, pods run in spite of it.",
            Stops::Pods => {
                "While it lasts pods do not run on the node, and carrick does not report the node as joined."
            }
            Stops::Network => {
                "While it lasts pods get no network, and carrick does not report the node as joined, except with --until \
                 registered."
            }
            Stops::Traffic => {
                "While it lasts pods do not reach others or are not reached, and carrick does not report the node as \
                 joined, except with --until registered or --until network."
            }
        }
    }
}

/// What is known about an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About<'a> {
    pub id: &'a str,
    pub class: Class,
    pub role: Role,
    pub stops: Stops,
    pub subsystem: Subsystem,
    pub needed: Needed,
}

/// What is known about the id of a check or of a built-in signature; nothing of a signature that is never a cause.
pub const fn about(id: &str) -> Option<About<'static>> {
    if let Some(about) = check::about(id) {
        return Some(about);
    }
    let mut at = 0;
    while at < signature::CLASSIFIED.len() {
        if is_same(signature::CLASSIFIED[at].id, id) {
            return Some(signature::CLASSIFIED[at]);
        }
        at += 1;
    }
    None
}

/// `==` of strings is not `const` yet.
pub(crate) const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// [`about`] an id that is written in the code; one that does not exist does not compile.
///
/// ```
/// assert_eq!(carrick_core::id!("csr.denied").id, "csr.denied");
/// ```
///
/// ```compile_fail
/// let about = carrick_core::id!("csr.denide");
/// ```
#[macro_export]
macro_rules! id {
    ($id:literal) => {{
        const ABOUT: $crate::catalogue::About<'static> = match $crate::catalogue::about($id) {
            Some(about) => about,
            None => panic!("neither a check nor a signature that can be a cause has this id"),
        };
        ABOUT
    }};
}

/// The one of these ids that is closest to what was typed.
pub fn nearest<'a>(typed: &str, ids: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let (distance, id) = ids.into_iter().map(|id| (distance(&typed, id), id)).min()?;
    (distance <= typed.len().max(3) / 2).then_some(id)
}

/// How many letters must be added, dropped or changed; a typed last part (`swap`) counts as the whole id.
fn distance(typed: &str, id: &str) -> usize {
    let last = id.rsplit('.').next().unwrap_or(id);
    levenshtein(typed, id).min(levenshtein(typed, last) + 1)
}

fn levenshtein(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, right) in b.iter().enumerate() {
            let change = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::Severity;

    #[test]
    fn an_id_is_found_in_its_own_file() {
        for (id, class, role) in [
            ("api.tcp", Class::Transient, Role::Root),
            ("api.refused", Class::Transient, Role::Root),
            ("stale.ca-left", Class::Transient, Role::Root),
            ("cni.plugins", Class::UntilNetwork, Role::Root),
            ("kubelet.restart-loop", Class::Configuration, Role::Symptom),
            ("runtime.ready", Class::Configuration, Role::Symptom),
            ("cni.network-ready", Class::Transient, Role::Symptom),
            ("csr.pending", Class::Transient, Role::Root),
            ("cni.no-pod-cidr", Class::Transient, Role::Root),
            ("stale.ca", Class::Transient, Role::Root),
            ("kubelet.standalone", Class::Configuration, Role::Root),
            ("csr.denied", Class::Configuration, Role::Root),
            ("kubeadm.tls-timeout", Class::Transient, Role::Symptom),
            ("api.ca-pin", Class::Fatal, Role::Root),
        ] {
            assert_eq!(about(id).map(|about| (about.id, about.class, about.role)), Some((id, class, role)));
        }
        assert_eq!(id!("stale.ca").needed, Needed::Leftover);
        // A good sign is no cause.
        for unknown in ["node.ready", "api.refusedly", "api.", ""] {
            assert_eq!(about(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn what_an_id_stops_is_found_in_its_own_file() {
        for (id, stops) in [
            ("machine.swap", Stops::Node),
            ("filesystem.space", Stops::Node),
            ("node.disk-pressure", Stops::Node),
            ("runtime.cgroup-driver", Stops::Pods),
            ("runtime.no-sandbox-image", Stops::Pods),
            ("cni.plugins", Stops::Network),
            ("cni.cilium-agent-down", Stops::Network),
            ("firewall.vxlan", Stops::Traffic),
            ("kube-proxy.crash-loop", Stops::Traffic),
            ("node.cordoned", Stops::Nothing),
            ("kubelet.enabled", Stops::Nothing),
            ("pod.program-missing", Stops::Nothing),
        ] {
            assert_eq!(about(id).map(|about| about.stops), Some(stops), "{id}");
        }
    }

    #[test]
    fn the_table_made_at_build_time_is_what_the_files_say() {
        let signatures = signature::built_in().unwrap();
        let causes: Vec<_> = signatures.iter().filter(|one| one.severity >= Severity::Warning).collect();
        assert_eq!(causes.len(), signature::CLASSIFIED.len());
        for (signature, listed) in causes.iter().zip(signature::CLASSIFIED) {
            let of_file = signature.about().unwrap();
            assert_eq!(of_file.id, signature.cause_id());
            assert_eq!(About { id: &signature.id, subsystem: signature.subsystem, ..of_file }, *listed);
        }
    }

    #[test]
    fn a_name_is_what_a_file_says() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
        for role in [Role::Root, Role::Symptom] {
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
        for stops in Stops::ALL {
            assert_eq!(serde_json::to_value(stops).unwrap(), stops.name());
        }
    }

    #[test]
    fn every_check_is_found() {
        for id in check::ids() {
            assert_eq!(about(id).map(|about| about.id), Some(id));
        }
    }

    #[test]
    fn the_nearest_id_is_one_that_could_have_been_meant() {
        assert_eq!(nearest("swapp", check::ids()), Some("machine.swap"));
        assert_eq!(nearest("quite another thing altogether", check::ids()), None);
    }
}
