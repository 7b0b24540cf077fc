//! No package manager is at work.
//!
//! While apt, dpkg, dnf or rpm holds its lock, packages are being changed: unattended upgrades in the first minutes
//! after a boot, most often. They may restart containerd or replace the kubelet in the middle of a join, and whatever
//! Carrick would have to install fails.
//!
//! See it yourself: `lslocks | grep -E 'dpkg|apt|rpm'`
//! Mend it: wait until it has finished. Do not delete the lock: the file is always there, it is the holder that counts.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.package-lock",
    title: "no package manager is at work",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it ends by itself"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let held = facts.package_locks()?;
    let Some(first) = held.first() else {
        return Ok(pass("no package lock is held"));
    };
    let wait = match first.pid {
        Some(pid) => format!("tail --pid={pid} -f /dev/null    # ends when it has finished"),
        None => format!("fuser -v {}    # then wait for it", first.path),
    };
    Ok(warn(format!("{} is changing packages", first.holder()))
        .seen(held.iter().map(|lock| Evidence::of(lock.path.as_str(), format!("held by {}", lock.holder()))))
        .fix(wait))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::locks::HOLDERS;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const FREE: &str =
        "inode 398608 /var/lib/dpkg/lock-frontend\n1: FLOCK  ADVISORY  WRITE 812 fe:00:99 0 EOF\ncomm 812 sshd\n";
    const BUSY: &str = "inode 398608 /var/lib/dpkg/lock-frontend\n\
                        1: POSIX  ADVISORY  WRITE 4711 fe:00:398608 0 EOF\ncomm 4711 apt-get\n";
    const HIDDEN: &str = "inode 5 /var/lib/rpm/.rpm.lock\n1: POSIX  ADVISORY  WRITE -1 fe:00:5 0 EOF\n";

    #[test]
    fn judges() {
        let with = |text: &str| facts().with_query(&HOLDERS, text);
        table(
            &CHECK,
            [
                ("free", with(FREE), Pass),
                ("no package manager", with(""), Pass),
                ("apt is at work", with(BUSY), Warn),
                ("rpm, from another namespace", with(HIDDEN), Warn),
                ("timed out", facts().without(Source::Query(&HOLDERS), Why::TimedOut), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_holder() {
        let verdict = CHECK.verdict(&facts().with_query(&HOLDERS, BUSY), &CheckPolicy::default());
        assert_eq!(verdict.says, "apt-get (pid 4711) is changing packages");
        assert_eq!(verdict.remedy, ["tail --pid=4711 -f /dev/null    # ends when it has finished"]);
    }
}
