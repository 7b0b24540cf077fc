//! kubeadm is installed.
//!
//! kubeadm does the join. A package manager may say "installed" of a program that somebody has deleted.
//!
//! See it yourself: `kubeadm version -o short`
//! Mend it: `apt-get install kubeadm` from the repository of your minor version (pkgs.k8s.io)

use crate::check::{Check, Evidence, Policy, Subsystem, Verdict, fail, pass, unknown};
use crate::fact::version::KUBEADM;
use crate::fact::{Facts, Why};

pub const CHECK: Check = Check {
    id: "kubeadm.installed",
    title: "kubeadm is installed",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    judge,
};

fn judge(facts: &Facts, _: &Policy) -> Verdict {
    match facts.kubeadm_version() {
        Ok(version) => pass(format!("kubeadm {version}")),
        Err(missing) if missing.why == Why::NoTool => fail("kubeadm is not installed")
            .seen(Evidence::of(KUBEADM.name, missing.why.to_string()))
            .fix(facts.install_command("kubeadm"))
            .fix(facts.reinstall_command("kubeadm")),
        Err(missing) => match facts.query(&KUBEADM) {
            Ok(said) if said.exit.is_some_and(|exit| exit != 0) => {
                let error = said.errors.lines().next().unwrap_or("it fails without a word");
                fail("kubeadm does not run")
                    .seen(Evidence::of(KUBEADM.name, error))
                    .fix(facts.reinstall_command("kubeadm"))
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
            judge(&failed, &Policy::default()).evidence[0].to_string(),
            "kubeadm version -o short: Exec format error"
        );
    }
}
