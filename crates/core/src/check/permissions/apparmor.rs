//! AppArmor's tools are there where the kernel has it on.
//!
//! containerd loads a profile for its containers with `apparmor_parser`. Where the kernel has AppArmor on and the tool
//! is missing, containerd 1.6.0 to 1.6.17 starts no container at all (`get apparmor_parser version: executable file not
//! found`); other versions run them without a profile. A minimal Debian is such a machine.
//!
//! See it yourself: `cat /sys/module/apparmor/parameters/enabled; command -v apparmor_parser`
//! Mend it: `apt-get install -y apparmor && systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::security::APPARMOR_ENABLED;
use crate::fact::tools::INSTALLED;
use crate::fact::version::Version;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "permissions.apparmor",
    title: "AppArmor's tools are there where the kernel has it on",
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

/// containerd no longer looked for the tool before using it from 1.6.0 on, until that was taken back (containerd#8087).
const NEEDS_TOOL: std::ops::Range<Version> =
    Version { major: 1, minor: 6, patch: 0 }..Version { major: 1, minor: 6, patch: 18 };

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if !facts.apparmor()? {
        return Ok(pass("AppArmor is off"));
    }
    if let Some(path) = facts.tool("apparmor_parser")? {
        return Ok(pass(format!("AppArmor is on, with {path}")));
    }
    let verdict = match facts.containerd_version() {
        Ok(version) if NEEDS_TOOL.contains(&version) => {
            fail(format!("no apparmor_parser: containerd {version} would start no container"))
                .explains([id!("node.not-ready")])
        }
        _ => warn("AppArmor is on without apparmor_parser: containers run without its profile"),
    };
    Ok(verdict
        .seen(Evidence::at(APPARMOR_ENABLED, 1, "Y"))
        .seen(Evidence::of(INSTALLED.name, "apparmor_parser: not found"))
        .fix(format!("{} && systemctl restart containerd", facts.install("apparmor"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::version::CONTAINERD;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn on(parser: &str, containerd: &str) -> Facts {
        facts()
            .with_file(APPARMOR_ENABLED, "Y\n")
            .with_query(&INSTALLED, &format!("apparmor_parser {parser}\n"))
            .with_query(&CONTAINERD, &format!("containerd github.com/containerd/containerd {containerd}\n"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("on, with its tools", on("/usr/sbin/apparmor_parser", "1.6.20"), Pass),
                ("RHEL", facts().without_file(APPARMOR_ENABLED), Pass),
                ("off", facts().with_file(APPARMOR_ENABLED, "N\n"), Pass),
                ("before the change", on("", "1.5.13"), Warn),
                ("first that needs it", on("", "1.6.0"), Fail),
                ("last that needs it", on("", "1.6.17"), Fail),
                ("first that does not", on("", "1.6.18"), Warn),
                ("containerd 2", on("", "2.1.4"), Warn),
                ("containerd not known", on("", "").without(Source::Query(&CONTAINERD), Why::NoTool), Warn),
                ("tools not looked for", facts().with_file(APPARMOR_ENABLED, "Y\n"), Unknown),
                ("not read", facts(), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_version() {
        let verdict = CHECK.verdict(&on("", "1.6.8"), &CheckPolicy::default());
        assert_eq!(verdict.says, "no apparmor_parser: containerd 1.6.8 would start no container");
        assert_eq!(verdict.remedy, ["apt-get install -y apparmor && systemctl restart containerd"]);
    }
}
