//! SELinux lets containers work.
//!
//! Where SELinux enforces, it is the policy of the package container-selinux that allows containerd, the kubelet and
//! pods what they do. Without it pods start and are denied their own files: `permission denied` with every file mode
//! right. A mode set with `setenforce` ends with the next boot. Whether the policy fits everything you run cannot be
//! told here.
//!
//! See it yourself: `getenforce; rpm -q container-selinux; ausearch -m avc -ts recent`
//! Mend it: `dnf install -y container-selinux`; to find out whether SELinux is the cause, `setenforce 0` for a while.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::security::{SELINUX_CONFIG, SELINUX_ENFORCE, SELINUX_PACKAGES, Selinux};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "permissions.selinux",
    title: "SELinux lets containers work",
    subsystem: Subsystem::Permissions,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let now = facts.selinux()?;
    let at_boot = facts.selinux_at_boot()?;
    let (says, seen) = match (now, at_boot) {
        (Selinux::Enforcing, _) => ("SELinux enforces", Evidence::at(SELINUX_ENFORCE, 1, "1")),
        (_, Some(Selinux::Enforcing)) => (
            "SELinux will enforce after the next boot",
            facts
                .file(SELINUX_CONFIG)
                .ok()
                .and_then(|capture| Evidence::line_with(SELINUX_CONFIG, capture, "SELINUX=enforcing"))
                .unwrap_or_else(|| Evidence::of(SELINUX_CONFIG, "enforcing")),
        ),
        (Selinux::Permissive, _) => return Ok(pass("SELinux is permissive: it denies nothing")),
        (Selinux::Disabled, _) => return Ok(pass("SELinux is off")),
    };
    if facts.container_selinux()? {
        return Ok(pass(format!("{says}, with the policy for containers")).seen(seen));
    }
    Ok(warn(format!("{says}, and the policy for containers was not found"))
        .seen(seen)
        .seen(Evidence::of(SELINUX_PACKAGES, "no container.pp"))
        .fix(facts.install("container-selinux")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const ROCKY: &str =
        "# This file controls the state of SELinux on the system.\nSELINUX=enforcing\nSELINUXTYPE=targeted\n";

    fn enforcing() -> Facts {
        facts()
            .with_file(SELINUX_ENFORCE, "1")
            .with_file(SELINUX_CONFIG, ROCKY)
            .with_dir(SELINUX_PACKAGES, &[("-rw-r--r--", "container.pp.bz2"), ("drwxr-xr-x", "targeted")])
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("Debian", facts().without_file(SELINUX_ENFORCE).without_file(SELINUX_CONFIG), Pass),
                ("enforcing, with the policy", enforcing(), Pass),
                ("enforcing, without", enforcing().with_dir(SELINUX_PACKAGES, &[("drwxr-xr-x", "targeted")]), Warn),
                (
                    "setenforce 0, without",
                    enforcing().with_file(SELINUX_ENFORCE, "0").without_dir(SELINUX_PACKAGES),
                    Warn,
                ),
                ("setenforce 0, with", enforcing().with_file(SELINUX_ENFORCE, "0"), Pass),
                (
                    "permissive for good",
                    enforcing()
                        .with_file(SELINUX_ENFORCE, "0")
                        .with_file(SELINUX_CONFIG, "SELINUX=permissive\n")
                        .without_dir(SELINUX_PACKAGES),
                    Pass,
                ),
                ("packages not listed", facts().with_file(SELINUX_ENFORCE, "1").without_file(SELINUX_CONFIG), Unknown),
                ("not read", facts().without(Source::File(SELINUX_ENFORCE), Why::Denied), Unknown),
            ],
        );
    }

    #[test]
    fn tells_now_from_the_next_boot() {
        let policy = CheckPolicy::default();
        let bare = enforcing().without_dir(SELINUX_PACKAGES);
        assert_eq!(CHECK.verdict(&bare, &policy).says, "SELinux enforces, and the policy for containers was not found");
        let later = CHECK.verdict(&bare.with_file(SELINUX_ENFORCE, "0"), &policy);
        assert_eq!(later.says, "SELinux will enforce after the next boot, and the policy for containers was not found");
        assert_eq!(later.evidence[0], Evidence::at(SELINUX_CONFIG, 2, "SELINUX=enforcing"));
    }
}
