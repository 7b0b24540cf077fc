//! systemd runs the machine.
//!
//! The kubelet's package brings a systemd unit, kubeadm starts the kubelet through it, and Carrick runs kubeadm under
//! systemd so that a lost connection does not end a join. Where another program is the first process (a container, WSL
//! without systemd, OpenRC) nothing would start the kubelet, or start it again.
//!
//! See it yourself: `cat /proc/1/comm`
//! Mend it: boot with systemd; in WSL, `[boot] systemd=true` in /etc/wsl.conf.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, pass};
use crate::fact::identity::FIRST_PROCESS;
use crate::fact::{Facts, Known, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "machine.systemd",
    title: "systemd runs the machine",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it takes another boot"),
    accounts_for: |missing| missing.why == Why::NoSystemd,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let first = facts.first_process()?;
    if first == "systemd" {
        return Ok(pass("systemd is the first process"));
    }
    Ok(fail(format!("the first process is {first}, not systemd: nothing would start the kubelet"))
        .seen(Evidence::at(FIRST_PROCESS, 1, first))
        .fix("readlink -f /sbin/init    # boot with systemd")
        .explains([id!("node.never-registered")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Source;
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("systemd", facts().with_file(FIRST_PROCESS, "systemd\n"), Pass),
                ("a container", facts().with_file(FIRST_PROCESS, "bash\n"), Fail),
                ("OpenRC", facts().with_file(FIRST_PROCESS, "init\n"), Fail),
                ("/proc is closed", facts().without(Source::File(FIRST_PROCESS), Why::Denied), Unknown),
            ],
        );
    }
}
