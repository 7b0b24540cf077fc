//! Prerequisites of a join: one file each, `FAMILY/NAME.rs` for the id `FAMILY.NAME`; `build.rs` finds them.
//!
//! A check reads facts and gives a [`Verdict`]. What it needs and does not know makes it `Unknown`, never a pass.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fact::{Capture, Facts, Missing, Why, version};

mod step;

include!(concat!(env!("OUT_DIR"), "/checks.rs"));

/// One prerequisite of a join.
pub struct Check {
    /// `family.name`, as the file is called.
    pub id: &'static str,
    /// What holds when it passes.
    pub title: &'static str,
    pub subsystem: Subsystem,
    /// kubeadm's names for the same thing: `--ignore` takes them too.
    pub kubeadm: &'static [&'static str],
    pub judge: fn(&Facts, &Policy) -> Verdict,
}

/// A check as the registry knows it.
pub struct Registered {
    /// The id its place in the tree gives it; a test holds it against [`Check::id`].
    pub file: &'static str,
    pub check: &'static Check,
    /// The text of `carrick explain`.
    pub explain: &'static str,
}

/// Which part of a machine a finding speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Subsystem {
    Machine,
    Kernel,
    Filesystem,
    Runtime,
    Kubelet,
    Network,
    Cni,
    Permissions,
    ControlPlane,
    Time,
}

impl Subsystem {
    pub const ALL: [Subsystem; 10] = [
        Subsystem::Machine,
        Subsystem::Kernel,
        Subsystem::Filesystem,
        Subsystem::Runtime,
        Subsystem::Kubelet,
        Subsystem::Network,
        Subsystem::Cni,
        Subsystem::Permissions,
        Subsystem::ControlPlane,
        Subsystem::Time,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Subsystem::Machine => "machine",
            Subsystem::Kernel => "kernel",
            Subsystem::Filesystem => "filesystem",
            Subsystem::Runtime => "runtime",
            Subsystem::Kubelet => "kubelet",
            Subsystem::Network => "network",
            Subsystem::Cni => "cni",
            Subsystem::Permissions => "permissions",
            Subsystem::ControlPlane => "control-plane",
            Subsystem::Time => "time",
        }
    }
}

/// What the operator said about this judging.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The pod network must already be configured (an image that brings it, a node that is joined).
    pub cni_expected: bool,
}

/// How a check came out. The order is the order of concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Outcome {
    /// Does not apply here.
    Skip,
    Pass,
    /// Could not be told: a fact is missing.
    Unknown,
    /// The join may work, or may break later.
    Warn,
    /// The join would fail, or would only look joined.
    Fail,
}

/// The very place where something was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    pub text: String,
}

impl Evidence {
    pub fn of(source: impl Into<String>, text: impl Into<String>) -> Self {
        Evidence { source: source.into(), line: None, text: text.into() }
    }

    pub fn at(source: impl Into<String>, line: u32, text: impl Into<String>) -> Self {
        Evidence { source: source.into(), line: Some(line), text: text.into() }
    }

    /// The first line of a capture that contains a text, cited with its number.
    pub fn line_with(source: &str, capture: &Capture, needle: &str) -> Option<Self> {
        let (number, line) = capture.lines().find(|(_, line)| line.contains(needle))?;
        Some(Evidence::at(source, number, line.trim()))
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.source.is_empty()) {
            (Some(line), _) => write!(f, "{}:{line}  {}", self.source, self.text),
            (None, false) => write!(f, "{}: {}", self.source, self.text),
            (None, true) => f.write_str(&self.text),
        }
    }
}

/// What a check found: the outcome, one sentence, the evidence, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub outcome: Outcome,
    pub says: String,
    pub evidence: Vec<Evidence>,
    /// Commands, or where no command can do it, what to do.
    pub remedy: Vec<String>,
    /// Ids of what this would cause.
    pub explains: Vec<&'static str>,
}

pub fn pass(says: impl Into<String>) -> Verdict {
    Verdict::new(Outcome::Pass, says)
}

pub fn warn(says: impl Into<String>) -> Verdict {
    Verdict::new(Outcome::Warn, says)
}

pub fn fail(says: impl Into<String>) -> Verdict {
    Verdict::new(Outcome::Fail, says)
}

pub fn skip(says: impl Into<String>) -> Verdict {
    Verdict::new(Outcome::Skip, says)
}

/// A needed fact is missing. What nobody asked for, and what another check already fails for, is skipped; everything else
/// is unknown.
pub fn unknown(missing: &Missing) -> Verdict {
    let cannot_tell = || Verdict::new(Outcome::Unknown, format!("cannot tell: {missing}"));
    match (&missing.why, told_by(missing)) {
        (Why::NotAsked, _) => skip("needs the cluster: give --api (and --token-file, --ca-hash)"),
        (_, Some(id)) => skip(format!("not judged: see {id}")),
        (Why::Denied, None) => cannot_tell().fix("run it as root: sudo carrick check"),
        _ => cannot_tell(),
    }
}

/// The check that fails for the very reason a fact is missing: to say "unknown" of everything behind it would be noise.
fn told_by(missing: &Missing) -> Option<&'static str> {
    match (&missing.why, missing.source_name.as_str()) {
        (Why::NoTool, name) if name == version::KUBELET.name => Some("kubelet.installed"),
        (Why::NoTool, name) if name == version::KUBEADM.name => Some("kubeadm.installed"),
        (Why::Absent, name) if name.starts_with("cri ") => Some("runtime.socket"),
        (Why::Broken(detail), _) if detail.contains(NO_SYSTEMD) => Some("machine.systemd"),
        _ => None,
    }
}

/// What systemctl, journalctl and timedatectl say where something else is the first process.
pub const NO_SYSTEMD: &str = "System has not been booted with systemd";

impl Verdict {
    fn new(outcome: Outcome, says: impl Into<String>) -> Self {
        Verdict { outcome, says: says.into(), evidence: Vec::new(), remedy: Vec::new(), explains: Vec::new() }
    }

    /// Adds evidence: a piece of it, or none where there is nothing to cite.
    pub fn seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Adds a command that mends it.
    pub fn fix(mut self, command: impl Into<String>) -> Self {
        self.remedy.push(command.into());
        self
    }

    pub fn explains(mut self, ids: impl IntoIterator<Item = &'static str>) -> Self {
        self.explains.extend(ids);
        self
    }
}

impl IntoIterator for Evidence {
    type Item = Evidence;
    type IntoIter = std::iter::Once<Evidence>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

/// Takes the value of a fact, or ends the check as `Unknown` (`Skip` where nobody asked), saying which fact is missing.
#[macro_export]
macro_rules! known {
    ($fact:expr) => {
        match $fact {
            Ok(value) => value,
            Err(missing) => return $crate::check::unknown(&missing),
        }
    };
}

/// A check and what it found.
pub struct Finding {
    pub check: &'static Check,
    pub verdict: Verdict,
}

/// Runs every check.
pub fn run(facts: &Facts, policy: &Policy) -> Vec<Finding> {
    CHECKS
        .iter()
        .map(|registered| Finding { check: registered.check, verdict: (registered.check.judge)(facts, policy) })
        .collect()
}

/// The checks of an id or of one of kubeadm's names, in any case: `Swap` is `machine.swap`, `CRI` is several.
pub fn find(name: &str) -> impl Iterator<Item = &'static Registered> {
    CHECKS.iter().filter(move |registered| {
        let Check { id, kubeadm, .. } = registered.check;
        id.eq_ignore_ascii_case(name) || kubeadm.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fact::Source;
    use crate::testing::facts;

    #[test]
    fn an_id_is_its_files_place_and_unique() {
        let mut ids = BTreeSet::new();
        for registered in CHECKS {
            assert_eq!(registered.check.id, registered.file);
            assert!(ids.insert(registered.check.id), "{} is there twice", registered.check.id);
        }
    }

    #[test]
    fn every_check_is_found_by_id_and_by_kubeadms_name_in_any_case() {
        for registered in CHECKS {
            for name in registered.check.kubeadm.iter().chain([&registered.check.id]) {
                let found = find(&name.to_lowercase()).any(|found| found.check.id == registered.check.id);
                assert!(found, "{name} does not lead to {}", registered.check.id);
            }
            assert_eq!(find(registered.check.id).count(), 1, "{} is also kubeadm's name of another", registered.check.id);
        }
    }

    #[test]
    fn what_is_skipped_because_another_check_tells_it_is_told_there() {
        let missing = |source: Source, why: Why| facts().without(source, why);
        let no_sockets = ["/run/containerd", "/run/crio", "/run"].into_iter().fold(facts(), Facts::without_dir);
        for (facts, id, skipped) in [
            (missing(Source::Query(&version::KUBELET), Why::NoTool), "kubelet.installed", "kubeadm.skew"),
            (missing(Source::Query(&version::KUBEADM), Why::NoTool), "kubeadm.installed", "kubeadm.same-minor"),
            (no_sockets.without(Source::Cri("status"), Why::Absent), "runtime.socket", "runtime.ready"),
            (facts().with_file("/proc/1/comm", "tini\n"), "machine.systemd", "machine.systemd"),
        ] {
            let verdict = |id: &str| (find(id).next().unwrap().check.judge)(&facts, &Policy::default());
            assert_eq!(verdict(id).outcome, Outcome::Fail, "{id}");
            assert!(skipped == id || verdict(skipped).outcome == Outcome::Skip, "{skipped}: {}", verdict(skipped).says);
        }
    }

    #[test]
    fn without_any_fact_nothing_passes() {
        let facts = facts();
        for finding in run(&facts, &Policy::default()) {
            assert!(
                matches!(finding.verdict.outcome, Outcome::Unknown | Outcome::Skip),
                "{} says {:?} of a machine nothing is known about: {}",
                finding.check.id,
                finding.verdict.outcome,
                finding.verdict.says
            );
        }
    }
}
