//! The kubelet is installed.
//!
//! The kubelet is what makes a machine a node. A package manager may say "installed" of a program that somebody has
//! deleted.
//!
//! See it yourself: `kubelet --version`
//! Mend it: `apt-get install kubelet` from the repository of your minor version (pkgs.k8s.io)

use crate::check::{Check, Evidence, Policy, Subsystem, Verdict, fail, pass, unknown};
use crate::fact::version::KUBELET;
use crate::fact::{Facts, Why};

pub const CHECK: Check = Check {
    id: "kubelet.installed",
    title: "the kubelet is installed",
    subsystem: Subsystem::Kubelet,
    kubeadm: &["KubeletVersion"],
    judge,
};

fn judge(facts: &Facts, _: &Policy) -> Verdict {
    match facts.kubelet_version() {
        Ok(version) => pass(format!("kubelet {version}")),
        Err(missing) if missing.why == Why::NoTool => fail("the kubelet is not installed")
            .seen(Evidence::of(KUBELET.name, missing.why.to_string()))
            .fix(facts.install_command("kubelet"))
            .fix(facts.reinstall_command("kubelet")),
        Err(missing) => match facts.query(&KUBELET) {
            Ok(said) if said.exit.is_some_and(|exit| exit != 0) => {
                let error = said.errors.lines().next().unwrap_or("it fails without a word");
                fail("the kubelet does not run")
                    .seen(Evidence::of(KUBELET.name, error))
                    .fix(facts.reinstall_command("kubelet"))
            }
            _ => unknown(&missing),
        },
    }
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
        assert_eq!(judge(&failed, &Policy::default()).evidence[0].to_string(), "kubelet --version: Exec format error");
    }
}
