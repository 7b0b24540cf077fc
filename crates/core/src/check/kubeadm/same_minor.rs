//! kubeadm and kubelet fit together.
//!
//! kubeadm writes the kubelet's configuration and flags, and knows those of its own minor version and of three before
//! it. It refuses an older kubelet ("is lower than kubeadm can support"), and does not look for a newer one.
//!
//! See it yourself: `kubeadm version -o short`, `kubelet --version`
//! Mend it: install both from the repository of one minor version, `apt-get install kubelet kubeadm`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::version::{KUBEADM, KUBELET};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "kubeadm.same-minor",
    title: "kubeadm and kubelet are of one minor version",
    subsystem: Subsystem::Kubelet,
    kubeadm: &["KubeletVersion"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: nothing,
    judge,
};

/// How many minor versions older than kubeadm a kubelet may be: kubeadm's own limit, and that of the version skew
/// policy.
const OLDER: u32 = 3;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let kubeadm = facts.kubeadm_version()?;
    let kubelet = facts.kubelet_version()?;
    let verdict = if (kubelet.major, kubelet.minor) == (kubeadm.major, kubeadm.minor) {
        return Ok(pass(format!("kubeadm {kubeadm}, kubelet {kubelet}")));
    } else if (kubelet.major, kubelet.minor) > (kubeadm.major, kubeadm.minor) {
        fail(format!("kubelet {kubelet} is newer than kubeadm {kubeadm}"))
    } else if kubelet.major < kubeadm.major || kubeadm.minor - kubelet.minor > OLDER {
        fail(format!("kubelet {kubelet} is too old for kubeadm {kubeadm}"))
    } else {
        warn(format!("kubelet {kubelet} is older than kubeadm {kubeadm}"))
    };
    Ok(verdict
        .seen([Evidence::of(KUBEADM.name, kubeadm.to_string()), Evidence::of(KUBELET.name, kubelet.to_string())])
        .fix(format!("{}    # both from one repository", facts.install("kubelet kubeadm"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn with(kubeadm: &str, kubelet: &str) -> Facts {
        facts().with_query(&KUBEADM, &format!("v{kubeadm}\n")).with_query(&KUBELET, &format!("Kubernetes v{kubelet}\n"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("the same", with("1.34.4", "1.34.1"), Pass),
                ("one older", with("1.34.4", "1.33.9"), Warn),
                ("three older", with("1.34.4", "1.31.0"), Warn),
                ("four older", with("1.34.4", "1.30.14"), Fail),
                ("a major older", with("2.0.0", "1.34.4"), Fail),
                ("newer", with("1.34.4", "1.35.0"), Fail),
                ("a major newer", with("1.34.4", "2.0.0"), Fail),
                ("no kubelet", with("1.34.4", "1.34.4").without(Source::Query(&KUBELET), Why::NoTool), Unknown),
                ("kubelet hangs", with("1.34.4", "1.34.4").without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
                ("no kubeadm", with("1.34.4", "1.34.4").without(Source::Query(&KUBEADM), Why::NoTool), Unknown),
            ],
        );
        assert_eq!(
            CHECK.verdict(&with("1.34.4", "1.29.15"), &CheckPolicy::default()).says,
            "kubelet 1.29.15 is too old for kubeadm 1.34.4"
        );
        assert_eq!(
            CHECK.verdict(&with("1.34.4", "1.35.0"), &CheckPolicy::default()).says,
            "kubelet 1.35.0 is newer than kubeadm 1.34.4"
        );
    }
}
