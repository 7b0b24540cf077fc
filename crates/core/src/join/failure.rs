//! What can go wrong in a join, and whether trying again helps.

use serde::{Deserialize, Serialize};

use super::state::Stage;
use crate::check::Evidence;
use crate::report::Judged;

/// What is to be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It may pass: clean up and try again.
    Transient,
    /// Something must be mended first: by `--fix`, or by hand.
    Configuration,
    /// Not to be tried at all: it would do harm.
    Fatal,
}

/// One reason, under the id of a check or a signature: `carrick explain` knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    pub id: String,
    pub says: String,
    pub seen: Vec<Evidence>,
    /// It may pass this time, whatever its id is known for: somebody was only too slow to answer.
    #[serde(default)]
    pub may_pass: bool,
}

impl Cause {
    pub fn of(id: &str, says: impl Into<String>) -> Self {
        Cause { id: id.to_owned(), says: says.into(), seen: Vec::new(), may_pass: false }
    }

    /// What a check found, as the cause of a failed attempt.
    pub fn of_finding(finding: &Judged) -> Self {
        let cause = Cause::of(finding.means.unwrap_or(finding.id), finding.title.clone());
        cause.seen(finding.evidence.clone()).may_pass(finding.may_pass)
    }

    pub fn seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.seen.extend(evidence);
        self
    }

    pub fn may_pass(self, may_pass: bool) -> Self {
        Cause { may_pass, ..self }
    }

    pub fn class(&self) -> Class {
        if self.may_pass { Class::Transient } else { class_of(&self.id) }
    }
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// How far it had come.
    pub stage: Stage,
    pub class: Class,
    /// In one sentence.
    pub says: String,
    /// As far as they are known so far; live diagnosis knows more.
    pub causes: Vec<Cause>,
    /// It took too long: exit status 6, not 3.
    pub overdue: bool,
}

/// Never to be tried again, nor mended by a program.
const FATAL: [&str; 4] = ["machine.control-plane", "kubeadm.ca-hash-mismatch", "api.ca-pin", "node.taken-over"];

/// What comes and goes by itself, or is gone once a failed attempt is cleaned up. Of a family: `cni.`.
const TRANSIENT: [&str; 32] = [
    "api.closed",
    "api.connection-lost",
    "api.dns",
    "api.http",
    "api.name-unresolved",
    "api.no-route",
    // Who has the name is looked at anew before the next attempt, and decided there.
    "api.node-name",
    "api.refused",
    "api.slow",
    "api.tcp",
    "api.tls",
    "api.unavailable",
    "api.unreachable",
    "cni.",
    "control-plane.etcd-busy",
    "control-plane.kubeadm-config-unread",
    "control-plane.no-endpoint",
    "kube-proxy.",
    "kubeadm.discovery-timeout",
    "kubeadm.killed",
    "kubeadm.kubelet-not-healthy",
    "kubeadm.node-query-failed",
    "kubeadm.tls-timeout",
    "network.resolver-silent",
    "node.name-taken",
    "node.network-not-ready",
    "node.not-ready",
    "pod.",
    "runtime.restarted-under-kubelet",
    "runtime.slow",
    "ssh.unreachable",
    // Of a failed attempt: kubeadm leaves them, and they go with it.
    "stale.",
];

/// The class of a check's or a signature's id. What is not known to pass by itself has to be mended.
pub fn class_of(id: &str) -> Class {
    let is = |known: &&str| id == *known || (known.ends_with('.') && id.starts_with(*known));
    if FATAL.iter().any(is) {
        Class::Fatal
    } else if TRANSIENT.iter().any(is) {
        Class::Transient
    } else {
        Class::Configuration
    }
}

/// What only says how far it came: whoever knows why has the first word.
const SYMPTOMS: [&str; 5] = [
    "kubeadm.discovery-timeout",
    "kubeadm.tls-timeout",
    "node.network-not-ready",
    "node.never-registered",
    "node.not-ready",
];

pub fn is_symptom(id: &str) -> bool {
    SYMPTOMS.contains(&id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every id that `carrick explain` knows.
    pub fn explained() -> BTreeSet<String> {
        let signatures = crate::signature::built_in().unwrap();
        crate::check::ids().map(str::to_owned).chain(signatures.into_iter().map(|signature| signature.id)).collect()
    }

    #[test]
    fn every_id_in_the_lists_is_one_that_exists() {
        let known = explained();
        for id in FATAL.iter().chain(&TRANSIENT).chain(&SYMPTOMS) {
            assert!(known.iter().any(|known| known == id || (id.ends_with('.') && known.starts_with(id))), "{id}");
        }
    }

    #[test]
    fn classes() {
        for (id, expected) in [
            ("api.refused", Class::Transient),
            ("cni.no-subnet-env", Class::Transient),
            ("stale.ca-left", Class::Transient),
            ("kubelet.standalone", Class::Configuration),
            ("api.token", Class::Configuration),
            ("filesystem.no-space", Class::Configuration),
            ("kubeadm.ca-hash-mismatch", Class::Fatal),
            ("api.refusedly", Class::Configuration),
            ("never.heard-of", Class::Configuration),
        ] {
            assert_eq!(class_of(id), expected, "{id}");
        }
    }
}
