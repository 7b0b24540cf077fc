//! The machine uses control groups version 2.
//!
//! From 1.35 on the kubelet refuses to start on version 1, unless its configuration says `failCgroupV1: false`; earlier
//! ones run, with a warning and without newer features. systemd's hybrid mode counts as version 1.
//!
//! See it yourself: `stat -fc %T /sys/fs/cgroup` prints cgroup2fs for version 2, tmpfs for version 1.
//! Fix: boot with `systemd.unified_cgroup_hierarchy=1`: on RHEL 8
//! `grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1`, on Debian in /etc/default/grub; then reboot.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::cgroup::{CgroupVersion, ROOT};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "kernel.cgroup-version",
    title: "the machine uses control groups version 2",
    subsystem: Subsystem::Kernel,
    kubeadm: &["SystemVerification"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("the kernel's command line is changed where the machine boots from"),
    accounts_for: nothing,
    judge,
};

/// The first kubelet 1.x whose `failCgroupV1` is true by default.
const REFUSES_V1: u32 = 35;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let (name, kind) = match facts.cgroup_version()? {
        CgroupVersion::V2 => return Ok(pass("control groups version 2")),
        CgroupVersion::V1 => ("version 1", "tmpfs, with cgroup (version 1) below it"),
        CgroupVersion::Hybrid => ("version 1 (hybrid)", "tmpfs, with cgroup (version 1) and an empty cgroup2 below it"),
    };
    // What may be laid over it, and cannot be read, may say so.
    facts.kubelet_drop_ins()?;
    let config = facts.coming_kubelet_config().ok().flatten();
    let tolerated = config.is_some_and(|config| config.fail_cgroup_v1 == Some(false));
    let verdict = match facts.kubelet_version() {
        Ok(version) if version.minor >= REFUSES_V1 && !tolerated => {
            fail(format!("control groups are {name}: kubelet 1.{} would refuse to start", version.minor))
                .explains([id!("kubelet.crash-loop")])
        }
        _ if tolerated => {
            warn(format!("control groups are {name}: the kubelet is told to live with it (failCgroupV1: false)"))
        }
        _ => warn(format!("control groups are {name}: kubelets from 1.{REFUSES_V1} on refuse to start")),
    };
    Ok(verdict
        .seen(Evidence::of(ROOT, kind))
        .fix("grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1    # RHEL; then reboot")
        .fix("edit /etc/default/grub: GRUB_CMDLINE_LINUX=systemd.unified_cgroup_hierarchy=1; update-grub    # Debian"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::cgroup::tests::{BESIDE, V1, V2};
    use crate::fact::mounts::MOUNTINFO;
    use crate::fact::version::KUBELET;
    use crate::fact::{kubeconfig, kubelet_config};
    use crate::testing::{facts, table};

    fn told(fail: &str, facts: Facts) -> Facts {
        let config = kubelet_config::sample::with(&format!("failCgroupV1: {fail}"));
        facts.without_file(kubeconfig::KUBELET).with_api("kubelet-config", &config)
    }

    #[test]
    fn judges() {
        let with = |mounts: &str, kubelet: &str| {
            facts().with_file(MOUNTINFO, mounts).with_query(&KUBELET, &format!("Kubernetes {kubelet}\n"))
        };
        let hybrid = format!("{V1}{BESIDE}");
        table(
            &CHECK,
            [
                ("version 2", with(V2, "v1.35.0"), Pass),
                ("version 1, kubelet 1.34", with(V1, "v1.34.4"), Warn),
                ("version 1, kubelet 1.35", with(V1, "v1.35.0"), Fail),
                ("version 1, kubelet 1.35, tolerated", told("false", with(V1, "v1.35.0")), Warn),
                ("version 1, kubelet 1.35, not tolerated", told("true", with(V1, "v1.35.0")), Fail),
                ("hybrid, kubelet 1.36", with(&hybrid, "v1.36.1"), Fail),
                ("hybrid, kubelet not known", facts().with_file(MOUNTINFO, &hybrid), Warn),
                ("mounts not read", facts(), Unknown),
            ],
        );
    }

    #[test]
    fn says_which_kubelet_and_what_it_is_told() {
        let with =
            |kubelet: &str| facts().with_file(MOUNTINFO, V1).with_query(&KUBELET, &format!("Kubernetes {kubelet}\n"));
        for (facts, says) in [
            (with("v1.36.1"), "kubelet 1.36 would refuse to start"),
            (with("v1.34.4"), "kubelets from 1.35 on refuse to start"),
            (told("false", with("v1.35.0")), "the kubelet is told to live with it (failCgroupV1: false)"),
        ] {
            assert_eq!(
                CHECK.verdict(&facts, &CheckPolicy::default()).says,
                format!("control groups are version 1: {says}")
            );
        }
    }
}
