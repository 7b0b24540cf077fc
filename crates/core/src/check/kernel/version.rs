//! The kernel is one Kubernetes supports.
//!
//! kubeadm knows the long-term kernels 5.4, 5.10 and 5.15 and everything from 6.0 on; of others it only warns, among
//! them those of RHEL 8 (4.18) and RHEL 9 (5.14), whose maker puts newer parts into them. containerd wants 4.0 or
//! later.
//!
//! See it yourself: `uname -r`
//! Mend it: run the newest kernel the distribution has, and reboot.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::kernel::RELEASE;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "kernel.version",
    title: "the kernel is one Kubernetes supports",
    subsystem: Subsystem::Kernel,
    kubeadm: &["SystemVerification"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it takes another kernel"),
    accounts_for: nothing,
    judge,
};

/// The first major version containerd's documentation asks for: the overlay snapshotter needs what came with it.
const CONTAINERD_NEEDS: u32 = 4;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let version = facts.kernel_version()?;
    let release = facts.kernel_release()?;
    // As in kubeadm's system-validators.
    if version.major >= 6 || matches!((version.major, version.minor), (5, 4 | 10 | 15)) {
        return Ok(pass(format!("kernel {release}")));
    }
    let seen = Evidence::at(RELEASE, 1, &release);
    let newer = "uname -r    # install the distribution's newest kernel, and reboot";
    if version.major < CONTAINERD_NEEDS {
        return Ok(fail(format!("kernel {release} is too old for containerd")).seen(seen).fix(newer));
    }
    // RHEL's kernels are not what their number says.
    if release.contains(".el8") || release.contains(".el9") {
        return Ok(pass(format!("kernel {release}, kept up by its distribution (kubeadm warns of it)")));
    }
    Ok(warn(format!("kernel {release} is none of those kubeadm supports")).seen(seen).fix(newer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        let with = |release: &str| facts().with_file(RELEASE, &format!("{release}\n"));
        table(
            &CHECK,
            [
                ("Debian 12", with("6.1.0-28-amd64"), Pass),
                ("Debian 13", with("6.12.41+deb13-amd64"), Pass),
                ("Ubuntu 22.04", with("5.15.0-91-generic"), Pass),
                ("Debian 11", with("5.10.0-33-amd64"), Pass),
                ("Ubuntu 20.04", with("5.4.0-216-generic"), Pass),
                ("Rocky 9", with("5.14.0-427.13.1.el9_4.x86_64"), Pass),
                ("Rocky 8", with("4.18.0-553.el8_10.x86_64"), Pass),
                ("between long-term kernels", with("5.14.21"), Warn),
                ("Debian 10", with("4.19.0-27-amd64"), Warn),
                ("CentOS 7", with("3.10.0-1160.el7.x86_64"), Fail),
                ("not a version", with("next"), Unknown),
                ("not read", facts(), Unknown),
            ],
        );
    }
}
