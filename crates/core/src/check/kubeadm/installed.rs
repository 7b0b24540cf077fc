//! kubeadm is installed.
//!
//! kubeadm does the join. A package manager may say "installed" of a program that somebody has deleted.
//!
//! See it yourself: `kubeadm version -o short`
//! Mend it: `apt-get install kubeadm` from the repository of your minor version (pkgs.k8s.io)

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, program};
use crate::fact::version::KUBEADM;
use crate::fact::{Facts, Known, Why};

pub const CHECK: Check = Check {
    id: "kubeadm.installed",
    title: "kubeadm is installed",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: |missing| missing.why == Why::NoTool && missing.source_name == KUBEADM.name,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    program::judge(facts, &KUBEADM, facts.kubeadm_version(), "kubeadm", "kubeadm")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Source;
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("there", facts().with_query(&KUBEADM, "v1.34.4\n"), Pass),
                ("deleted", facts().without(Source::Query(&KUBEADM), Why::NoTool), Fail),
                (
                    "of another architecture",
                    facts().with_exit(&KUBEADM, 126, "", "sh: /usr/bin/kubeadm: Exec format error\n"),
                    Fail,
                ),
                ("says something else", facts().with_query(&KUBEADM, "hello\n"), Unknown),
                ("hangs", facts().without(Source::Query(&KUBEADM), Why::TimedOut), Unknown),
            ],
        );
        let failed = facts().with_exit(&KUBEADM, 126, "", "Exec format error\n");
        assert_eq!(
            CHECK.verdict(&failed, &CheckPolicy::default()).evidence[0].to_string(),
            "kubeadm version -o short: Exec format error"
        );
    }
}
