//! The control groups offer what the kubelet limits pods with.
//!
//! The kubelet does not start where the controllers for CPU, CPU sets, memory or processes are missing. Raspberry Pi OS
//! leaves memory off by default. In version 1 they must also be mounted, and devices and freezer are needed too; in
//! version 2 those two are no controllers.
//!
//! See it yourself: `cat /sys/fs/cgroup/cgroup.controllers` (version 2), `cat /proc/cgroups` (version 1)
//! Fix: add `cgroup_enable=cpuset cgroup_enable=memory` to the kernel's command line (on a Raspberry Pi in
//! /boot/firmware/cmdline.txt, on its one line), and reboot.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::cgroup::{CgroupVersion, V1_CONTROLLERS, V2_CONTROLLERS};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "kernel.cgroup-controllers",
    title: "the control groups offer what the kubelet limits pods with",
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

/// As in kubeadm's system-validators.
const V2: &[&str] = &["cpu", "cpuset", "memory", "pids"];
const V1: &[&str] = &["cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"];

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let (needed, source) = match facts.cgroup_version()? {
        CgroupVersion::V2 => (V2, V2_CONTROLLERS),
        CgroupVersion::V1 | CgroupVersion::Hybrid => (V1, V1_CONTROLLERS),
    };
    let offered = facts.cgroup_controllers()?;
    let missing: Vec<&str> = needed.iter().copied().filter(|name| !offered.contains(*name)).collect();
    if missing.is_empty() {
        return Ok(pass(format!("{} are there", needed.join(", "))));
    }
    let shown: Vec<&str> = offered.iter().map(String::as_str).collect();
    let verdict = fail(format!("control groups lack {}: the kubelet would not start", missing.join(", ")))
        .seen(Evidence::of(source, format!("offered: {}", shown.join(" "))))
        .explains([id!("kubelet.crash-loop"), id!("kubelet.kubepods-missing")]);
    if missing.contains(&"memory") {
        return Ok(verdict
            .fix("sed -i '1s/$/ cgroup_enable=memory/' /boot/firmware/cmdline.txt    # Raspberry Pi; then reboot"));
    }
    Ok(verdict.fix("cat /proc/cmdline    # take cgroup_disable= and cgroup_no_v1= out, and reboot"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::cgroup::tests::{PROC_CGROUPS, V1 as MOUNTS_V1, V2 as MOUNTS_V2};
    use crate::fact::mounts::MOUNTINFO;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn two(controllers: &str) -> Facts {
        facts().with_file(MOUNTINFO, MOUNTS_V2).with_file(V2_CONTROLLERS, controllers)
    }

    fn one(mounts: &str, table: &str) -> Facts {
        facts().with_file(MOUNTINFO, mounts).with_file(V1_CONTROLLERS, table)
    }

    #[test]
    fn judges() {
        let kept: Vec<&str> = MOUNTS_V1.lines().filter(|line| !line.contains("freezer")).collect();
        let no_freezer = kept.join("\n");
        table(
            &CHECK,
            [
                ("Debian 12", two("cpuset cpu io memory hugetlb pids rdma misc\n"), Pass),
                ("just enough", two("cpuset cpu memory pids\n"), Pass),
                ("Raspberry Pi OS", two("cpuset cpu io pids\n"), Fail),
                ("no pids", two("cpuset cpu memory\n"), Fail),
                ("version 1", one(MOUNTS_V1, PROC_CGROUPS), Pass),
                (
                    "version 1, memory off",
                    one(MOUNTS_V1, &PROC_CGROUPS.replace("memory\t4\t13\t1", "memory\t0\t1\t0")),
                    Fail,
                ),
                ("version 1, freezer not mounted", one(&no_freezer, PROC_CGROUPS), Fail),
                ("closed", two("").without(Source::File(V2_CONTROLLERS), Why::Denied), Unknown),
                ("nothing read", facts(), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_controller_and_the_right_fix() {
        let pi = CHECK.verdict(&two("cpuset cpu io pids\n"), &CheckPolicy::default());
        assert_eq!(pi.says, "control groups lack memory: the kubelet would not start");
        assert!(pi.remedy[0].contains("cgroup_enable=memory"));
        let pids = CHECK.verdict(&two("cpuset cpu memory\n"), &CheckPolicy::default());
        assert!(pids.remedy[0].contains("/proc/cmdline"));
    }
}
