//! The machine has an id of its own.
//!
//! `/etc/machine-id` becomes the Node's `machineID`. Carrick tells by it, and by the firmware's UUID, whether a Node of
//! this name is this machine or another one. Images that were cloned with the file in place give every clone the same
//! id; an empty one is filled at the next boot, from `/var/lib/dbus/machine-id` where the image still carries that.
//!
//! See it yourself: `cat /etc/machine-id /var/lib/dbus/machine-id`
//! Mend it: `rm -f /etc/machine-id /var/lib/dbus/machine-id && systemd-machine-id-setup`, before the join.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::identity::{DBUS_MACHINE_ID, MACHINE_ID, is_machine_id};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.machine-id",
    title: "the machine has an id of its own",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("an id that others know the machine by is not made anew unasked"),
    accounts_for: nothing,
    judge,
};

const MAKE: &str = "rm -f /etc/machine-id /var/lib/dbus/machine-id && systemd-machine-id-setup";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(id) = facts.machine_id()? else {
        return Ok(warn("there is no machine id: the node could not be told from another")
            .seen(Evidence::of(MACHINE_ID, "not there"))
            .fix("systemd-machine-id-setup"));
    };
    if !is_machine_id(&id) {
        return Ok(warn(format!("the machine id is not one: {id:?}")).seen(Evidence::at(MACHINE_ID, 1, id)).fix(MAKE));
    }
    Ok(match facts.dbus_machine_id()? {
        Some(other) if other != id => warn("the machine has two ids: a clone whose id was renewed in one place only")
            .seen(Evidence::at(MACHINE_ID, 1, id))
            .seen(Evidence::at(DBUS_MACHINE_ID, 1, other))
            .fix("ln -sf /etc/machine-id /var/lib/dbus/machine-id"),
        _ => pass(format!("machine id {id}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const ID: &str = "3d1219c7c4c5404aaa1f6d2a48adfda4\n";

    fn with(id: &str) -> Facts {
        facts().with_file(MACHINE_ID, id).without_file(DBUS_MACHINE_ID)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("as installed", with(ID).with_file(DBUS_MACHINE_ID, ID), Pass),
                ("without D-Bus", with(ID), Pass),
                ("no file", facts().without_file(MACHINE_ID), Warn),
                ("empty, as in an image", with(""), Warn),
                ("before first boot", with("uninitialized\n"), Warn),
                ("all zero", with(&"0".repeat(32)), Warn),
                ("one digit short", with("3d1219c7c4c5404aaa1f6d2a48adfda"), Warn),
                ("not hexadecimal", with("3d1219c7c4c5404aaa1f6d2a48adfdaz"), Warn),
                ("two ids", with(ID).with_file(DBUS_MACHINE_ID, "8c1f19c7c4c5404aaa1f6d2a48adfda4\n"), Warn),
                ("second not looked at", facts().with_file(MACHINE_ID, ID), Unknown),
                ("hangs", facts().without(Source::File(MACHINE_ID), Why::TimedOut), Unknown),
            ],
        );
    }
}
