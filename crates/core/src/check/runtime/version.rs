//! The container runtime is new enough for this kubelet.
//!
//! A kubelet from 1.26 on needs CRI v1, which containerd has from 1.6 on. containerd 1.x cannot tell the kubelet its
//! cgroup driver; kubeadm 1.35 warns of that, 1.35 is the last release tested with containerd 1.x, and 1.38 refuses it.
//!
//! See it yourself: `containerd --version`, `kubelet --version`
//! Mend it: `apt-get install containerd.io` (Docker's repository has 2.x), or a newer release of the distribution

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::runtime_sockets::Runtime;
use crate::fact::version::{CONTAINERD, KUBELET};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "runtime.version",
    title: "the container runtime is new enough",
    subsystem: Subsystem::Runtime,
    kubeadm: &["ContainerRuntimeVersion"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: nothing,
    judge,
};

/// The first containerd with CRI v1.
const WITH_CRI_V1: (u32, u32) = (1, 6);
/// The first containerd that answers RuntimeConfig.
const WITH_RUNTIME_CONFIG: (u32, u32) = (2, 0);
/// kubeadm warns from here on where RuntimeConfig has no answer.
const WARNED_FROM: (u32, u32) = (1, 35);
/// The kubelet no longer goes on without it.
const REFUSED_FROM: (u32, u32) = (1, 38);

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let runtime = facts.runtime();
    if runtime != Runtime::Containerd {
        facts.runtime_driver()?;
        return Ok(pass(format!("{} answers RuntimeConfig", runtime.name())));
    }
    let containerd = facts.containerd_version()?;
    let seen = Evidence::of(CONTAINERD.name, containerd.to_string());
    let has = (containerd.major, containerd.minor);
    if has < WITH_CRI_V1 {
        return Ok(mend(fail(format!("containerd {containerd} is too old: it has no CRI v1")), facts).seen(seen));
    }
    if has >= WITH_RUNTIME_CONFIG {
        return Ok(pass(format!("containerd {containerd}")).seen(seen));
    }
    let kubelet = facts.kubelet_version()?;
    let seen = [seen, Evidence::of(KUBELET.name, kubelet.to_string())];
    let needs = (kubelet.major, kubelet.minor);
    Ok(if needs >= REFUSED_FROM {
        mend(fail(format!("kubelet {kubelet} needs containerd 2.0 or later, not {containerd}")), facts).seen(seen)
    } else if needs >= WARNED_FROM {
        mend(warn(format!("containerd {containerd} is old for kubelet {kubelet}: 1.38 needs 2.0")), facts).seen(seen)
    } else {
        pass(format!("containerd {containerd} goes with kubelet {kubelet}")).seen(seen)
    })
}

fn mend(verdict: Verdict, facts: &Facts) -> Verdict {
    verdict.fix(format!("{}    # 2.0 or later, from Docker's repository", facts.install("containerd.io")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    fn containerd(version: &str) -> Facts {
        facts().with_query(&CONTAINERD, &format!("containerd github.com/containerd/containerd {version} abc\n"))
    }

    fn with(version: &str, kubelet: &str) -> Facts {
        containerd(version).with_query(&KUBELET, &format!("Kubernetes v{kubelet}\n"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("1.5", with("1.5.18", "1.25.0"), Fail),
                ("1.6", with("1.6.20~ds1", "1.34.4"), Pass),
                ("1.7 with 1.35", with("1.7.27", "1.35.0"), Warn),
                ("1.7 with 1.37", with("1.7.27", "1.37.9"), Warn),
                ("1.7 with 1.38", with("1.7.27", "1.38.0"), Fail),
                ("2.0", with("2.0.0", "1.38.0"), Pass),
                ("2.0, kubelet unknown", containerd("2.0.0"), Pass),
                ("1.7, kubelet unknown", containerd("1.7.27"), Unknown),
                ("no containerd", facts().without(Source::Query(&CONTAINERD), Why::NoTool), Unknown),
            ],
        );
        let crio =
            || facts().with_cri("status", r#"{"endpoint":"unix:///run/crio/crio.sock","status":{"conditions":[]}}"#);
        judge_row(
            &CHECK,
            &CheckPolicy::default(),
            "CRI-O",
            &crio().with_cri("runtime-config", r#"{"linux":{"cgroupDriver":"SYSTEMD"}}"#),
            Pass,
        );
        judge_row(
            &CHECK,
            &CheckPolicy::default(),
            "an old CRI-O",
            &crio().without(Source::Cri("runtime-config"), Why::TimedOut),
            Unknown,
        );
    }
}
