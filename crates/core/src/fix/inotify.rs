//! The limits of inotify that are below the kernel's own defaults are raised, and where a file lowers them at boot,
//! /etc/sysctl.d/zzz-carrick-inotify.conf raises them again. `carrick undo` sets the old values and removes the file.

use super::{Fix, sysctl};
use crate::check::kernel::inotify::{INSTANCES, WATCHES};
use crate::fact::sysctl::{INOTIFY_INSTANCES, INOTIFY_WATCHES};
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["kernel.inotify"], does: "raises the limits, now and after a reboot", plan };

const FILE: &str = "zzz-carrick-inotify.conf";

/// What a node with many pods gets along with.
const WANTED: [sysctl::RequiredSysctl; 2] = [
    sysctl::RequiredSysctl {
        path: INOTIFY_INSTANCES,
        value: "8192",
        fits: |value| is_at_least(value, INSTANCES),
        by_default: true,
    },
    sysctl::RequiredSysctl {
        path: INOTIFY_WATCHES,
        value: "524288",
        fits: |value| is_at_least(value, WATCHES),
        by_default: true,
    },
];

/// What is not a number is not for us to correct.
fn is_at_least(value: &str, least: u64) -> bool {
    value.parse::<u64>().map_or(true, |value| value >= least)
}

#[allow(clippy::unnecessary_wraps)] // As every fix is called.
fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let mut effects = sysctl::now(facts, &WANTED);
    effects.extend(sysctl::at_boot(facts, FILE, &WANTED).unwrap_or_default());
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{facts, plans};

    #[test]
    fn only_the_limit_that_is_low_is_raised() {
        let with = |instances: &str, watches: &str| {
            ["/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"]
                .into_iter()
                .fold(facts().with_dir("/etc/sysctl.d", &[]).without_file("/etc/sysctl.conf"), Facts::without_dir)
                .with_file("/proc/sys/fs/inotify/max_user_instances", instances)
                .with_file("/proc/sys/fs/inotify/max_user_watches", watches)
        };
        let lowered = with("16\n", "65536\n")
            .with_dir("/etc/sysctl.d", &[("-rw-r--r--", "a.conf")])
            .with_file("/etc/sysctl.d/a.conf", "fs.inotify.max_user_instances = 16\n");
        plans(
            &FIX,
            [
                ("as the kernel has it", with("128\n", "8192\n"), &[]),
                ("by hand", with("16\n", "8192\n"), &["set fs.inotify.max_user_instances to 8192"]),
                ("watches", with("128\n", "100\n"), &["set fs.inotify.max_user_watches to 524288"]),
                (
                    "at boot",
                    lowered,
                    &["set fs.inotify.max_user_instances to 8192", "write /etc/sysctl.d/zzz-carrick-inotify.conf"],
                ),
                ("no number", with("many\n", "8192\n"), &[]),
            ],
        );
    }
}
