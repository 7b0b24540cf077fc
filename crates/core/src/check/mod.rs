//! Prerequisites of a join: one file each, `FAMILY/NAME.rs` for the id `FAMILY.NAME`; `build.rs` finds them.
//!
//! A check reads facts and gives a [`Verdict`]. What it needs and does not know makes it `Unknown`, never a pass.

use serde::{Deserialize, Serialize};

use crate::catalogue::{About, Class, Role, Stops, is_same};
use crate::fact::{Facts, Known, Missing, Why};
use crate::join::prepare::Preparation;
use crate::names::{self, Names};

pub use crate::fact::evidence::Evidence;

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
    /// What a join does where it fails.
    pub class: Class,
    /// Whether it says why, or only that: a symptom leaves the first word to whoever knows more.
    pub role: Role,
    /// What it stops on a node while it fails.
    pub stops: Stops,
    pub needed: Needed,
    pub in_join: InJoin,
    pub fixed_by: FixedBy,
    /// Facts that are missing for the very reason it fails: whoever needs them is skipped, and it is told once, here.
    pub accounts_for: fn(&Missing) -> bool,
    /// A fact that is missing ends it: `?`.
    pub judge: fn(&Facts, &CheckPolicy) -> Known<Verdict>,
}

impl Check {
    /// What it finds; where a fact it needs is missing, that.
    pub fn verdict(&self, facts: &Facts, policy: &CheckPolicy) -> Verdict {
        let mut verdict = Verdict::of((self.judge)(facts, policy));
        if names::is_open(&verdict.remedy) {
            Names::of(facts).fill_all(&mut verdict.remedy);
        }
        verdict
    }

    /// What a join does where it fails, as `carrick explain` says it.
    pub fn does(&self) -> String {
        let does = self.class.does();
        match self.in_join {
            InJoin::Blocks => does.to_owned(),
            InJoin::SetRight(_) => format!("sets it right before kubeadm runs; where it cannot, it {does}"),
            InJoin::GoesOn(why) => format!("goes on: {why}"),
            InJoin::Decided => "decides by whose Node it is".to_owned(),
        }
    }

    pub const fn about(&self) -> About<'static> {
        let Check { id, class, role, stops, subsystem, needed, .. } = *self;
        About { id, class, role, stops, subsystem, needed }
    }
}

/// No missing fact follows from a check's failure.
pub(crate) fn nothing(_: &Missing) -> bool {
    false
}

/// When a node needs what a check wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    Always,
    /// Only kubeadm needs it: on a node that has joined, its lack is a warning.
    ToJoin,
    /// What an earlier join left: on a node that has joined, it is in its place.
    Leftover,
}

/// What a failure means to a join that is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InJoin {
    /// It is not begun.
    Blocks,
    /// This preparation sets it right, for this run at least. What is not persistent, `check` goes on saying. Where it can
    /// do nothing about it, the failure blocks.
    SetRight(Preparation),
    /// It is begun all the same, and nothing is done about it: why.
    GoesOn(&'static str),
    /// The decision about the Node has settled it.
    Decided,
}

/// Who sets right what a check finds wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedBy {
    /// `check --fix`, by these files of `fix/`.
    Carrick(&'static [&'static str]),
    /// The operator: why Carrick does not change it.
    Operator(&'static str),
}

impl FixedBy {
    /// Programs and files of packages are the package manager's; Carrick installs nothing.
    pub(crate) const PACKAGES: FixedBy =
        FixedBy::Operator("packages are yours to install: which version, from which repository");
    /// What the walk to the API server finds.
    pub(crate) const CLUSTER: FixedBy =
        FixedBy::Operator("the reason lies in the cluster, on the way to it, or in what was given for it");
    pub(crate) const LEFTOVERS: FixedBy =
        FixedBy::Operator("what an earlier join left may be what is left of a node; nothing of it is removed unasked");
}

/// A check as the registry knows it.
pub struct RegisteredCheck {
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
pub struct CheckPolicy {
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
    /// The fact that was not known.
    pub missing: Option<Missing>,
    /// Of a failure: it may pass by itself this time, as somebody was only too slow to answer.
    pub may_pass: bool,
    /// Of a failure: what is wrong, where it only shows in what this check looks at.
    pub means: Option<About<'static>>,
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

/// A needed fact is missing: what nobody asked for is skipped, everything else is unknown.
fn unknown(missing: &Missing) -> Verdict {
    let verdict = match missing.why {
        Why::NotAsked => skip("needs the cluster: give --api (and --token-file, --ca-hash)"),
        Why::NotAdmin => skip("needs an admin's rights: give --kubeconfig"),
        Why::Denied => {
            Verdict::new(Outcome::Unknown, format!("cannot tell: {missing}")).fix("run it as root: sudo carrick check")
        }
        _ => Verdict::new(Outcome::Unknown, format!("cannot tell: {missing}")),
    };
    Verdict { missing: Some(missing.clone()), ..verdict }
}

impl Verdict {
    /// What was judged; where a fact was missing, that.
    pub fn of(judged: Known<Verdict>) -> Self {
        judged.unwrap_or_else(|missing| unknown(&missing))
    }

    fn new(outcome: Outcome, says: impl Into<String>) -> Self {
        Verdict {
            outcome,
            says: says.into(),
            evidence: Vec::new(),
            remedy: Vec::new(),
            explains: Vec::new(),
            missing: None,
            may_pass: false,
            means: None,
        }
    }

    /// Adds evidence: a piece of it, or none where there is nothing to cite.
    pub fn seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Adds a command that fixes it; `{node}` and the other [`crate::names`] are put in.
    pub fn fix(mut self, command: impl Into<String>) -> Self {
        self.remedy.push(command.into());
        self
    }

    /// Says of a failure what it is a sign of.
    pub fn means(self, about: About<'static>) -> Self {
        Verdict { means: Some(about), ..self }
    }

    /// Says of a failure whether somebody was only too slow to answer.
    pub fn may_pass(self, may_pass: bool) -> Self {
        Verdict { may_pass, ..self }
    }

    /// Says what it would cause: `id!("node.not-ready")`.
    pub fn explains(mut self, caused: impl IntoIterator<Item = About<'static>>) -> Self {
        self.explains.extend(caused.into_iter().map(|about| about.id));
        self
    }
}

/// A check and what it found.
pub struct Finding {
    pub check: &'static Check,
    pub verdict: Verdict,
}

impl Finding {
    pub fn of(check: &'static Check, facts: &Facts, policy: &CheckPolicy) -> Self {
        Finding { check, verdict: check.verdict(facts, policy) }
    }
}

/// Runs every check. What is unknown for the very reason another check fails is skipped: it is told once, there.
pub fn run(facts: &Facts, policy: &CheckPolicy) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        CHECKS.iter().map(|registered| Finding::of(registered.check, facts, policy)).collect();
    let is_failure = |finding: &&Finding| finding.verdict.outcome == Outcome::Fail;
    let failed: Vec<&'static Check> = findings.iter().filter(is_failure).map(|finding| finding.check).collect();
    for finding in findings.iter_mut().filter(|finding| finding.verdict.outcome == Outcome::Unknown) {
        let Some(missing) = &finding.verdict.missing else { continue };
        if let Some(check) = failed.iter().find(|check| (check.accounts_for)(missing)) {
            finding.verdict = skip(format!("not judged: see {}", check.id));
        }
    }
    findings
}

/// The id of every check.
pub fn ids() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|registered| registered.check.id)
}

/// What is known about a check's id.
pub const fn about(id: &str) -> Option<About<'static>> {
    let mut at = 0;
    while at < CHECKS.len() {
        if is_same(CHECKS[at].check.id, id) {
            return Some(CHECKS[at].check.about());
        }
        at += 1;
    }
    None
}

/// The checks of an id or of one of kubeadm's names, in any case: `Swap` is `machine.swap`, `CRI` is several.
pub fn find(name: &str) -> impl Iterator<Item = &'static RegisteredCheck> {
    CHECKS.iter().filter(move |registered| {
        let Check { id, kubeadm, .. } = registered.check;
        id.eq_ignore_ascii_case(name) || kubeadm.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    })
}

/// What kubeadm calls the checks of a name: itself, where it is kubeadm's already; nothing, where kubeadm has none such.
pub fn kubeadm_names(name: &str) -> Vec<String> {
    match CHECKS.iter().find(|registered| registered.check.id.eq_ignore_ascii_case(name)) {
        Some(registered) => registered.check.kubeadm.iter().map(|&name| name.to_owned()).collect(),
        None => vec![name.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fact::{Source, example, unit, version};
    use crate::testing::facts;

    #[test]
    fn what_is_ignored_here_is_ignored_by_kubeadm() {
        for (name, expected) in
            [("machine.swap", &["Swap"][..]), ("Swap", &["Swap"]), ("all", &["all"]), ("kubeadm.skew", &[])]
        {
            assert_eq!(kubeadm_names(name), expected, "{name}");
        }
    }

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
            assert_eq!(
                find(registered.check.id).count(),
                1,
                "{} is also kubeadm's name of another",
                registered.check.id
            );
        }
    }

    #[test]
    fn what_one_check_fails_for_is_not_unknown_to_the_others() {
        let bare = || ["/run/containerd", "/run/crio", "/run"].into_iter().fold(facts(), Facts::without_dir);
        let kubeadm = || facts().with_query(&version::KUBEADM, "v1.34.4\n");
        let no_systemd = "System has not been booted with systemd as init system (PID 1). Can't operate.\n";
        let unreached = r#"{"endpoint":"e:1","steps":[{"step":"tcp","state":"failed","detail":"refused"}]}"#;
        for (facts, fails, skipped) in [
            (
                kubeadm().without(Source::Query(&version::KUBELET), Why::NoTool),
                "kubelet.installed",
                "kubeadm.same-minor",
            ),
            (bare().without(Source::Query(&version::KUBEADM), Why::NoTool), "kubeadm.installed", "kubeadm.same-minor"),
            (bare().without(Source::Cri("status"), Why::Absent), "runtime.socket", "runtime.ready"),
            (
                facts().with_file("/proc/1/comm", "tini\n").with_exit(&unit::SHOW, 1, "", no_systemd),
                "machine.systemd",
                "kubelet.masked",
            ),
            (
                facts().with_api("path", unreached).without(Source::Api("version"), Why::Broken("not reached".into())),
                "api.tcp",
                "kubeadm.skew",
            ),
        ] {
            let findings = run(&facts, &CheckPolicy::default());
            let of = |id: &str| &findings.iter().find(|finding| finding.check.id == id).unwrap().verdict;
            assert_eq!(of(fails).outcome, Outcome::Fail, "{fails}: {}", of(fails).says);
            assert_eq!(of(skipped).outcome, Outcome::Skip, "{skipped}: {}", of(skipped).says);
            assert!(of(skipped).says.contains(fails), "{}", of(skipped).says);
        }
    }

    #[test]
    fn what_no_check_fails_for_stays_unknown() {
        let facts = facts().without(Source::Query(&version::KUBELET), Why::TimedOut);
        let findings = run(&facts, &CheckPolicy::default());
        let skew = findings.iter().find(|finding| finding.check.id == "kubeadm.same-minor").unwrap();
        assert_eq!(skew.verdict.outcome, Outcome::Unknown);
    }

    #[test]
    fn without_any_fact_nothing_passes() {
        let facts = facts();
        for finding in run(&facts, &CheckPolicy::default()) {
            assert!(
                matches!(finding.verdict.outcome, Outcome::Unknown | Outcome::Skip),
                "{} says {:?} of a machine nothing is known about: {}",
                finding.check.id,
                finding.verdict.outcome,
                finding.verdict.says
            );
        }
    }

    #[test]
    fn the_troubled_worker_fails_for_what_was_put_in_and_nothing_else() {
        let findings = run(&example::troubled_worker(), &CheckPolicy::default());
        let ids = |outcome: Outcome| -> Vec<&str> {
            findings
                .iter()
                .filter(|finding| finding.verdict.outcome == outcome)
                .map(|finding| finding.check.id)
                .collect()
        };
        assert_eq!(ids(Outcome::Fail), ["kubelet.standalone", "network.ports"]);
        assert!(ids(Outcome::Warn).contains(&"machine.swap-after-boot"));
        assert_eq!(ids(Outcome::Unknown), ["firewall.forward", "firewall.kubelet", "firewall.vxlan"]);
    }
}
