//! The kubelet is installed.
//!
//! The kubelet is what makes a machine a node. A package manager may say "installed" of a program that somebody has
//! deleted.
//!
//! See it yourself: `kubelet --version`
//! Mend it: `apt-get install kubelet` from the repository of your minor version (pkgs.k8s.io)

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, program};
use crate::fact::version::KUBELET;
use crate::fact::{Facts, Known, Why};

pub const CHECK: Check = Check {
    id: "kubelet.installed",
    title: "the kubelet is installed",
    subsystem: Subsystem::Kubelet,
    kubeadm: &["KubeletVersion"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: |missing| missing.why == Why::NoTool && missing.source_name == KUBELET.name,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    program::judge(facts, &KUBELET, facts.kubelet_version(), "the kubelet", "kubelet")
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
                ("there", facts().with_query(&KUBELET, "Kubernetes v1.34.4\n"), Pass),
                ("deleted", facts().without(Source::Query(&KUBELET), Why::NoTool), Fail),
                (
                    "of another architecture",
                    facts().with_exit(&KUBELET, 126, "", "sh: /usr/bin/kubelet: Exec format error\n"),
                    Fail,
                ),
                ("says something else", facts().with_query(&KUBELET, "hello\n"), Unknown),
                ("hangs", facts().without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
            ],
        );
        let failed = facts().with_exit(&KUBELET, 126, "", "Exec format error\n");
        assert_eq!(
            CHECK.verdict(&failed, &CheckPolicy::default()).evidence[0].to_string(),
            "kubelet --version: Exec format error"
        );
    }
}
