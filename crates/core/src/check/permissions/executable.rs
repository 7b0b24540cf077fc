//! The programs of Kubernetes and of the runtime may be executed.
//!
//! A program that was copied by hand, unpacked under a strict umask or restored from a backup can lack its execute permission.
//! Whoever calls it says "permission denied", and where it is looked for on a search path, "executable file not found": the file
//! is there, and to install it anew is not needed.
//!
//! See it yourself: `ls -l /usr/bin/kubelet /usr/bin/containerd /usr/sbin/runc /usr/bin/runc`
//! Fix: `chmod 755 FILE`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::tools::INSTALLED;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "permissions.executable",
    title: "the programs of Kubernetes and the runtime are executable",
    subsystem: Subsystem::Permissions,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a file that was made unusable may have been made so on purpose"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let mut barred = facts.not_executable()?;
    // Another of the same name that is found on the path is the one that is called.
    barred.retain(|path| !facts.tool(name(path)).is_ok_and(|found| found.is_some()));
    let Some(first) = barred.first() else {
        return Ok(pass("no program lacks its execute permission"));
    };
    let seen = barred.iter().map(|path| Evidence::of(INSTALLED.name, format!("{path}: not executable")));
    let failed = fail(format!("{first} has no execute permission")).seen(seen.collect::<Vec<_>>()).explains([
        id!("runtime.no-runc"),
        id!("runtime.cannot-execute"),
        id!("runtime.socket"),
        id!("kubelet.cannot-execute"),
        id!("kubelet.installed"),
        id!("kubeadm.installed"),
    ]);
    Ok(failed.fix(format!("chmod 755 {}", barred.join(" "))))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn with(lines: &str) -> Facts {
        facts().with_query(&INSTALLED, &format!("kubelet /usr/bin/kubelet\n{lines}"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("all may be", with("runc /usr/sbin/runc\n"), Pass),
                ("not installed at all", with("runc \n"), Pass),
                ("runc may not", with("runc \nnot-executable /usr/sbin/runc\n"), Fail),
                ("another is called", with("runc /usr/bin/runc\nnot-executable /usr/local/sbin/runc\n"), Pass),
                ("the shim", with("not-executable /usr/bin/containerd-shim-runc-v2\n"), Fail),
                ("nobody could look", facts().without(Source::Query(&INSTALLED), Why::TimedOut), Unknown),
            ],
        );
        let both = "runc \nnot-executable /usr/sbin/runc\nnot-executable /sbin/runc\n";
        let verdict = CHECK.verdict(&with(both), &CheckPolicy::default());
        assert_eq!((verdict.says.as_str(), verdict.evidence.len()), ("/usr/sbin/runc has no execute permission", 2));
        assert_eq!(verdict.remedy, ["chmod 755 /usr/sbin/runc /sbin/runc"]);
    }
}
