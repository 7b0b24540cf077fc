//! The kernel was built with what Kubernetes needs.
//!
//! Namespaces, control groups and a few netfilter targets are options of the kernel's build. Distributions' kernels
//! have them all; kernels of boards and of one's own making may not. kubeadm stops where one is missing
//! (`SystemVerification`), and also where it cannot find the kernel's configuration at all.
//!
//! See it yourself: `grep -E 'CONFIG_(NAMESPACES|CGROUPS|MEMCG)=' /boot/config-$(uname -r)`
//! Mend it: another kernel. Where only the configuration is missing: put it at /boot/config-$(uname -r), or join with
//! `--ignore-preflight-errors=SystemVerification` once you know that the options are there.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::cgroup::CgroupVersion;
use crate::fact::kernel::{CONFIG, ConfigFound};
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "kernel.config",
    title: "the kernel was built with what Kubernetes needs",
    subsystem: Subsystem::Kernel,
    kubeadm: &["SystemVerification"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it takes another kernel"),
    accounts_for: nothing,
    judge,
};

/// Required by kubeadm's system-validators.
const REQUIRED: [&str; 12] = [
    "NAMESPACES",
    "NET_NS",
    "PID_NS",
    "IPC_NS",
    "UTS_NS",
    "CGROUPS",
    "CPUSETS",
    "MEMCG",
    "INET",
    "EXT4_FS",
    "PROC_FS",
    "FAIR_GROUP_SCHED",
];
/// Required under either of two names.
const REQUIRED_EITHER: [(&str, &str); 2] = [
    ("NETFILTER_XT_TARGET_REDIRECT", "IP_NF_TARGET_REDIRECT"),
    ("NETFILTER_XT_MATCH_COMMENT", "NETFILTER_XT_MATCH_COMMENT"),
];
/// Required with either version of control groups by kubeadm 1.35 and later, and by runc always.
const CGROUP: [&str; 2] = ["CGROUP_PIDS", "CGROUP_SCHED"];
/// In version 2 a BPF program stands in for the devices controller.
const CGROUP_V2: [&str; 1] = ["CGROUP_BPF"];
const CGROUP_V1: [&str; 3] = ["CGROUP_CPUACCT", "CGROUP_DEVICE", "CGROUP_FREEZER"];
/// Pods start without these, until one asks for a CPU limit or a seccomp profile.
const OPTIONAL: [&str; 3] = ["CFS_BANDWIDTH", "SECCOMP", "SECCOMP_FILTER"];

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let config = match facts.kernel_config()? {
        ConfigFound::Here(config) => config,
        ConfigFound::InModule => {
            return Err(Missing::broken("/proc/config.gz", "comes only with `modprobe configs`"));
        }
        ConfigFound::Nowhere => {
            return Ok(fail("the kernel's configuration is nowhere to be found: kubeadm stops there")
                .seen(Evidence::of("/boot/config-$(uname -r)", "not there, nor anywhere else kubeadm looks"))
                .fix("kubeadm join --ignore-preflight-errors=SystemVerification …"));
        }
    };
    let of_version: &[&str] = match facts.cgroup_version() {
        Ok(CgroupVersion::V2) => &CGROUP_V2,
        Ok(CgroupVersion::V1 | CgroupVersion::Hybrid) => &CGROUP_V1,
        // kernel.cgroup-version says so.
        Err(_) => &[],
    };
    let either = REQUIRED_EITHER.iter().filter(|(one, other)| !config.has(one) && !config.has(other));
    let plain = REQUIRED.iter().chain(&CGROUP).chain(of_version).filter(|option| !config.has(option));
    let missing: Vec<&str> = plain.copied().chain(either.map(|(one, _)| *one)).collect();
    let wanted: Vec<&str> = OPTIONAL.into_iter().filter(|option| !config.has(option)).collect();
    let (options, verdict) = if !missing.is_empty() {
        let says = format!("the kernel was built without {}", missing.join(", "));
        (missing, fail(says).explains([id!("kubelet.crash-loop")]))
    } else if !wanted.is_empty() {
        let says = format!("the kernel was built without {}: some pods will fail", wanted.join(", "));
        (wanted, warn(says))
    } else {
        return Ok(pass(format!("every option kubeadm asks for is in {}", config.path)));
    };
    Ok(verdict
        .seen(options.iter().map(|option| Evidence::of(config.path.as_str(), format!("no CONFIG_{option}=y or =m"))))
        .fix(format!("{}    # use the distribution's kernel, or build one with these options", CONFIG.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::cgroup::tests::{V1, V2};
    use crate::fact::mounts::MOUNTINFO;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn without(missing: &[&str], mounts: &str) -> Facts {
        let either = REQUIRED_EITHER.iter().map(|(one, _)| one);
        let all = REQUIRED.iter().chain(either).chain(&CGROUP).chain(&CGROUP_V1).chain(&CGROUP_V2).chain(&OPTIONAL);
        let lines: String = all
            .map(|option| {
                if missing.contains(option) {
                    format!("# CONFIG_{option} is not set\n")
                } else {
                    format!("CONFIG_{option}=y\n")
                }
            })
            .collect();
        facts().with_query(&CONFIG, &format!("# /boot/config-6.1.0-28-amd64\n{lines}")).with_file(MOUNTINFO, mounts)
    }

    #[test]
    fn judges() {
        let redirect = "# /boot/config\nCONFIG_IP_NF_TARGET_REDIRECT=m\n";
        let old_name = without(&["NETFILTER_XT_TARGET_REDIRECT"], V2);
        let text = old_name.query(&CONFIG).unwrap().text.clone();
        table(
            &CHECK,
            [
                ("all there", without(&[], V2), Pass),
                ("all there, version 1", without(&[], V1), Pass),
                ("no memory controller", without(&["MEMCG"], V2), Fail),
                ("no pids controller", without(&["CGROUP_PIDS"], V2), Fail),
                ("no redirect", without(&["NETFILTER_XT_TARGET_REDIRECT"], V2), Fail),
                ("redirect by its old name", old_name.with_query(&CONFIG, &format!("{text}{redirect}")), Pass),
                ("no comment", without(&["NETFILTER_XT_MATCH_COMMENT"], V2), Fail),
                ("no BPF on version 2", without(&["CGROUP_BPF"], V2), Fail),
                ("no BPF on version 1", without(&["CGROUP_BPF"], V1), Pass),
                ("no devices on version 1", without(&["CGROUP_DEVICE"], V1), Fail),
                ("no devices on version 2", without(&["CGROUP_DEVICE"], V2), Pass),
                ("no CPU quota", without(&["CFS_BANDWIDTH"], V2), Warn),
                ("nowhere", facts().with_exit(&CONFIG, 3, "", ""), Fail),
                ("in a module", facts().with_exit(&CONFIG, 4, "/lib/modules/6.1/configs.ko\n", ""), Unknown),
                ("closed", facts().with_exit(&CONFIG, 1, "# /boot/config\n", "cat: Permission denied"), Unknown),
                ("timed out", facts().without(Source::Query(&CONFIG), Why::TimedOut), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_options() {
        let verdict = CHECK.verdict(&without(&["MEMCG", "CPUSETS"], V2), &CheckPolicy::default());
        assert_eq!(verdict.says, "the kernel was built without CPUSETS, MEMCG");
        assert_eq!(verdict.evidence.len(), 2);
    }
}
