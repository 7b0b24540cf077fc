//! Programs may watch enough files.
//!
//! The kubelet, containerd, CNI daemons and log collectors watch files through inotify, all as root and so on one
//! account. Below the kernel's own defaults of 128 instances and 8192 watches a node with many pods runs out: `too many
//! open files`, a kubelet that no longer sees new static pods, logs that stop.
//!
//! See it yourself: `sysctl fs.inotify.max_user_instances fs.inotify.max_user_watches`
//! Mend it: `sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288`, and in /etc/sysctl.d

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::sysctl::{INOTIFY_INSTANCES, INOTIFY_WATCHES};
use crate::fact::{Facts, Known, Missing, Why};

pub const CHECK: Check = Check {
    id: "kernel.inotify",
    title: "programs may watch enough files",
    subsystem: Subsystem::Kernel,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["inotify"]),
    accounts_for: nothing,
    judge,
};

/// The kernel's defaults: enough for the node's own parts. Less was set by someone, for a machine with another purpose.
pub(crate) const INSTANCES: u64 = 128;
/// The default of kernels before 5.11, and the least of later ones, which go by the memory.
pub(crate) const WATCHES: u64 = 8192;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let instances = number(facts, INOTIFY_INSTANCES)?;
    let watches = number(facts, INOTIFY_WATCHES)?;
    let low = |what: &str, path: &str, value: u64, least: u64| {
        warn(format!("only {value} inotify {what} are allowed; the kernel's default is {least}"))
            .seen(Evidence::at(format!("/proc/sys/{path}"), 1, value.to_string()))
            .fix("sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288")
            .fix(format!("echo '{} = {}' >>/etc/sysctl.d/99-kubernetes.conf", path.replace('/', "."), least * 64))
    };
    if instances < INSTANCES {
        return Ok(low("instances", INOTIFY_INSTANCES, instances, INSTANCES));
    }
    if watches < WATCHES {
        return Ok(low("watches", INOTIFY_WATCHES, watches, WATCHES));
    }
    Ok(pass(format!("{instances} inotify instances, {watches} watches")))
}

fn number(facts: &Facts, path: &str) -> Known<u64> {
    let source = format!("/proc/sys/{path}");
    let Some(value) = facts.sysctl(path)? else { return Err(Missing { source_name: source, why: Why::Absent }) };
    value.parse().map_err(|_| Missing::broken(source, format!("{value:?} is not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::testing::{facts, table};

    fn with(instances: &str, watches: &str) -> Facts {
        facts()
            .with_file("/proc/sys/fs/inotify/max_user_instances", instances)
            .with_file("/proc/sys/fs/inotify/max_user_watches", watches)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("as the kernel has it", with("128\n", "8192\n"), Pass),
                ("generous", with("8192\n", "524288\n"), Pass),
                ("few instances", with("127\n", "524288\n"), Warn),
                ("few watches", with("128\n", "8191\n"), Warn),
                ("not a number", with("many\n", "8192\n"), Unknown),
                ("no inotify", facts().without_file("/proc/sys/fs/inotify/max_user_instances"), Unknown),
                ("watches not read", facts().with_file("/proc/sys/fs/inotify/max_user_instances", "128\n"), Unknown),
            ],
        );
    }

    #[test]
    fn says_which_is_low() {
        let verdict = CHECK.verdict(&with("64\n", "100\n"), &CheckPolicy::default());
        assert_eq!(verdict.says, "only 64 inotify instances are allowed; the kernel's default is 128");
        let verdict = CHECK.verdict(&with("128\n", "100\n"), &CheckPolicy::default());
        assert_eq!(verdict.says, "only 100 inotify watches are allowed; the kernel's default is 8192");
    }
}
