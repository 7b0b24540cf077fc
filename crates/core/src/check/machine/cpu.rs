//! The machine has two processors.
//!
//! kubeadm demands two of a control plane and none of a worker. A worker with one joins, but the kubelet, the container
//! runtime and the pod network's daemons already ask for about half of it: little is left to schedule.
//!
//! See it yourself: `nproc --all`
//! Mend it: give the virtual machine a second processor, or keep it for very small loads.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::cpu::ONLINE;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.cpu",
    title: "the machine has two processors",
    subsystem: Subsystem::Machine,
    kubeadm: &["NumCPU"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it takes another machine"),
    accounts_for: nothing,
    judge,
};

/// What kubeadm demands of a control plane.
const ENOUGH: u32 = 2;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let cpus = facts.cpus()?;
    if cpus >= ENOUGH {
        return Ok(pass(format!("{cpus} processors")));
    }
    Ok(warn(format!("only {cpus} processor: little will be left for pods"))
        .seen(facts.file(ONLINE).ok().map(|capture| Evidence::at(ONLINE, 1, capture.text.trim())))
        .fix("nproc --all    # add a processor to the virtual machine, or keep it for small loads"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("four", facts().with_file(ONLINE, "0-3\n"), Pass),
                ("two", facts().with_file(ONLINE, "0-1\n"), Pass),
                ("one", facts().with_file(ONLINE, "0\n"), Warn),
                ("not a list", facts().with_file(ONLINE, "many\n"), Unknown),
            ],
        );
    }
}
