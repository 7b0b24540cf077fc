//! One look at a machine before kubeadm runs: its facts, and what the checks find in them, judged once; and what of that a
//! join goes by.

use super::failure::{Circumstance, JoinCause};
use super::prepare::{self, PreparationError};
use crate::catalogue;
use crate::check::{self, Check, Evidence, InJoin, Outcome};
use crate::fact::{Facts, Missing, Why, identity};
use crate::id;
use crate::judge::{self, Ignore};
use crate::plan::Plan;
use crate::plan::protect::Protected;
use crate::report::{Confidence, Judged, Report};

pub struct InspectedMachine {
    pub facts: Facts,
    /// What the checks find; what the operator ignores is marked so, and judged all the same.
    pub checked: Report,
}

impl InspectedMachine {
    pub fn at(facts: Facts, ignore: &Ignore) -> Self {
        let checked = judge::without_fixes(&facts, &check::CheckPolicy::default(), ignore);
        InspectedMachine { facts, checked }
    }

    /// Only root joins a machine: for anybody else nothing is begun.
    pub fn unprivileged(&self) -> Option<JoinCause> {
        let uid = self.facts.uid().ok().filter(|uid| *uid != 0)?;
        let seen = Evidence::of(identity::USER.name, uid.to_string());
        Some(
            JoinCause::of(id!("machine.privileges"), format!("only root may join a machine; this is user {uid}"))
                .seen(seen),
        )
    }

    /// What is wrong on the way to the cluster: the step that failed, or what is refused at its end.
    pub fn broken_path(&self) -> Option<JoinCause> {
        let is_wrong = |finding: &&Judged| finding.verdict == Outcome::Fail && finding.id.starts_with("api.");
        let wrong = || self.checked.findings.iter().filter(is_wrong);
        let path = self.facts.api_path().ok()?;
        let of_step = path.failed().and_then(|walked| wrong().find(|finding| finding.id == walked.check()));
        let blocks = |finding: &&Judged| check::find(finding.id).any(|it| self.is_blocked_by(it.check));
        of_step.or_else(|| wrong().find(blocks)).and_then(JoinCause::of_finding)
    }

    /// What forbids a join: not what preparation sets right, nor what the decision about the Node has settled.
    pub fn blockers(&self) -> Vec<JoinCause> {
        let counts = |finding: &&Judged| finding.verdict == Outcome::Fail && !finding.ignored;
        let blocks = |finding: &&Judged| check::find(finding.id).any(|it| self.is_blocked_by(it.check));
        let certain = || self.checked.findings.iter().filter(counts).filter(blocks);
        // What may be behind one of them, and cannot be told from what else may.
        let is_behind = |finding: &&Judged| certain().any(|failed| finding.explains.contains(&failed.id));
        let possible = self.checked.findings.iter().filter(|it| it.verdict == Outcome::Unknown).filter(is_behind);
        let possible = possible.filter_map(JoinCause::of_finding).map(|cause| cause.sure(Confidence::Possible));
        certain().filter_map(JoinCause::of_finding).chain(possible).collect()
    }

    /// What forbids a join, where the clock is among it: what is made now would be dated wrong, here or in the cluster.
    pub fn blockers_by_clock(&self) -> Option<Vec<JoinCause>> {
        let blockers = self.blockers();
        blockers.iter().any(|blocker| blocker.id == id!("time.skew").id).then_some(blockers)
    }

    fn is_blocked_by(&self, failed: &Check) -> bool {
        match failed.in_join {
            InJoin::Blocks => true,
            // A preparation that can change nothing here sets nothing right.
            InJoin::SetRight(preparation) => preparation.effects(&self.facts).is_ok_and(|effects| effects.is_empty()),
            InJoin::GoesOn(_) | InJoin::Decided => false,
        }
    }

    /// What does not forbid it, and may break it later.
    pub fn warnings(&self) -> impl Iterator<Item = &Judged> {
        self.checked.findings.iter().filter(|finding| finding.verdict == Outcome::Warn)
    }

    /// The worst of what `--fix` was to set right, where it did not; for a reason of its own where the checks find nothing.
    pub fn unfixed(&self, says: String) -> JoinCause {
        let is_wrong = |finding: &&Judged| !finding.ignored && finding.verdict > Outcome::Pass;
        let wrong = self.checked.findings.iter().filter(is_wrong);
        // The first of the worst, in the order of the checks.
        let worst = wrong.rev().max_by_key(|finding| finding.verdict).and_then(|it| catalogue::about(it.id));
        JoinCause::of(worst.unwrap_or(id!("join.not-begun")), says).under(Circumstance::NotFixed)
    }

    /// What is changed before kubeadm runs.
    pub fn preparation(&self) -> Result<Plan, PreparationError> {
        let wrong = self.checked.findings.iter().filter(|finding| finding.verdict > Outcome::Pass);
        let wrong: Vec<&str> = wrong.map(|finding| finding.id).collect();
        Ok(Plan::of(prepare::plan(&self.facts, &wrong)?)?)
    }

    /// The pause image, where the runtime is to pull it before kubeadm runs.
    pub fn image_to_pull(&self, ignore: &Ignore) -> Option<String> {
        prepare::image_to_pull(&self.facts).filter(|_| !ignore.covers(id!("runtime.sandbox-image").id))
    }

    /// Whether the machine was too busy to tell what a join cannot begin without.
    pub fn is_short(&self) -> bool {
        let needed = || -> Result<(), PreparationError> {
            self.facts.kubeadm_version()?;
            prepare::plan(&self.facts, &[])?;
            Ok(Protected::on(&self.facts, Vec::new()).map(drop)?)
        };
        matches!(needed(), Err(PreparationError::Missing(Missing { why: Why::TimedOut, .. })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Class;
    use crate::fact::api_path::{ApiPath, PathReason, PathStep, StepOutcome, Walked};
    use crate::fact::join_state::sample::kubelet_state;
    use crate::fact::{kernel, kubelet_config, modules, unit};
    use crate::testing::facts;

    fn looked(facts: Facts, ignored: &[&str]) -> InspectedMachine {
        InspectedMachine::at(facts, &Ignore::of(ignored.iter().copied()).unwrap())
    }

    fn ids(causes: &[JoinCause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.id.as_str()).collect()
    }

    fn broken_at(step: PathStep, reason: Option<PathReason>) -> Facts {
        let walked = Walked { reason, ..Walked::new(step, StepOutcome::Failed("it broke".into())) };
        let path = ApiPath { endpoint: "cp:6443".into(), steps: vec![walked], ..ApiPath::default() };
        facts().with_api("path", &serde_json::to_string(&path).unwrap())
    }

    #[test]
    fn the_broken_step_is_named_by_what_it_means() {
        for (step, reason, id, may_pass) in [
            (PathStep::Tcp, None, "api.tcp", true),
            (PathStep::Tls, None, "api.tls", true),
            (PathStep::Tls, Some(PathReason::NoAnswer), "api.slow", true),
            (PathStep::Auth, None, "api.auth", false),
            (PathStep::Auth, Some(PathReason::NoAnswer), "api.slow", true),
            (PathStep::Certificate, None, "api.certificate", false),
            (PathStep::Certificate, Some(PathReason::NotYetValid), "time.skew", false),
        ] {
            let cause = looked(broken_at(step, reason), &[]).broken_path().unwrap();
            assert_eq!((cause.id.as_str(), cause.class().may_pass()), (id, may_pass), "{step:?}, {reason:?}");
        }
        assert_eq!(looked(facts(), &[]).broken_path(), None);
    }

    #[test]
    fn clocks_that_are_apart_forbid_what_is_dated_by_them() {
        let apart = |server: &str| {
            let clocks = format!(
                r#"{{"endpoint":"e","steps":[],"clocks":{{"server":"{server}","here":"2026-11-15T12:00:00Z"}}}}"#
            );
            looked(facts().with_api("path", &clocks), &[]).blockers_by_clock().map(|blockers| blockers.len())
        };
        assert_eq!((apart("2026-11-15T12:00:20Z"), apart("2026-11-15T13:00:00Z")), (None, Some(1)));
    }

    #[test]
    fn only_root_joins() {
        let of = |uid: &str| looked(facts().with_query(&identity::USER, uid), &[]).unprivileged();
        assert_eq!(of("1000\n").map(|cause| cause.id), Some("machine.privileges".to_owned()));
        assert_eq!((of("0\n"), looked(facts(), &[]).unprivileged()), (None, None));
    }

    #[test]
    fn what_preparation_sets_right_blocks_nothing() {
        let swap = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        let facts = facts().with_file("/proc/swaps", swap).with_file("/proc/sys/net/ipv4/ip_forward", "0\n");
        assert_eq!(ids(&looked(facts.clone(), &[]).blockers()), ["machine.swap"]);
        assert_eq!(ids(&looked(facts, &["Swap"]).blockers()), [""; 0]);
    }

    /// What a check is set right for, and what is begun in spite of it, holds of a failure that can be set right, or of one
    /// whose file says why.
    #[test]
    fn what_preparation_cannot_set_right_blocks() {
        let crashed = kubelet_state("activating", "auto-restart").replace("NRestarts=0", "NRestarts=9");
        for (facts, expected) in [
            (facts().with_dir("/etc/cni", &[("drwxr-xr-x", "net.d")]), &[][..]),
            (facts().with_dir("/etc/cni", &[("-rw-r--r--", "net.d")]), &["cni.directory"]),
            (modules(""), &["kernel.modules"]),
            (modules("/lib/modules/6/modules.dep:kernel/fs/overlayfs/overlay.ko:\n"), &[]),
            (
                modules("/lib/modules/6/modules.dep:kernel/fs/overlayfs/overlay.ko:\n")
                    .with_api("daemon-sets", FLANNEL),
                &["kernel.modules"],
            ),
            (modules("/lib/modules/6/modules.dep:kernel/net/bridge/br_netfilter.ko:\n"), &["kernel.modules"]),
            (modules(BOTH), &[]),
        ] {
            assert_eq!(ids(&looked(facts, &[]).blockers()), expected);
        }
        let looked_at = looked(facts().with_query(&unit::SHOW, &crashed).with_file(kubelet_config::FILE, ""), &[]);
        let finding = looked_at.checked.findings.iter().find(|finding| finding.id == "kubelet.restart-loop").unwrap();
        assert_eq!((finding.verdict, ids(&looked_at.blockers())), (Outcome::Fail, vec![]), "{}", finding.title);
    }

    const FLANNEL: &str = r#"{"items":[{"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel"}}]}"#;
    const BOTH: &str = "\
/lib/modules/6/modules.dep:kernel/net/bridge/br_netfilter.ko:
/lib/modules/6/modules.dep:kernel/fs/overlayfs/overlay.ko:
";

    /// A kernel without br_netfilter and overlay at work, and with these modules at hand.
    fn modules(at_hand: &str) -> Facts {
        facts()
            .with_file(kernel::FILESYSTEMS, "")
            .with_file(modules::LOADED, "")
            .with_query(&modules::AT_HAND, at_hand)
            .without_file("/proc/sys/net/bridge/bridge-nf-call-iptables")
    }

    #[test]
    fn what_was_not_fixed_is_the_first_of_the_worst() {
        let swap = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        let facts = facts().with_file("/proc/swaps", swap).with_file("/proc/sys/net/ipv4/ip_forward", "0\n");
        let unfixed = looked(facts, &[]).unfixed("no".into());
        assert_eq!((unfixed.id.as_str(), unfixed.class()), ("kernel.ip-forward", Class::Configuration));
    }
}
