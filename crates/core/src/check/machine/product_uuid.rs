//! The firmware's UUID is this machine's alone.
//!
//! The UUID in the firmware's tables becomes the Node's `systemUUID`. Carrick never takes over a Node whose UUID is
//! another's; that only works where machines do not share one. Boards whose maker never filled it in all carry the same
//! well-known value, and clones of a virtual machine may carry their original's.
//!
//! See it yourself: `cat /sys/class/dmi/id/product_uuid` (as root)
//! Mend it: a virtual machine gets a new one from its hypervisor; a board cannot be mended: give it its own machine-id.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::identity::{PRODUCT_UUID, is_shared_uuid};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.product-uuid",
    title: "the firmware's UUID is this machine's alone",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it comes from the firmware or the hypervisor"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(uuid) = facts.product_uuid()? else {
        return Ok(skip("the machine has no firmware tables: its machine id stands for it"));
    };
    if is_shared_uuid(&uuid) {
        return Ok(warn(format!("the firmware's UUID, {uuid:?}, is one that many machines share"))
            .seen(Evidence::at(PRODUCT_UUID, 1, uuid))
            .fix("cat /etc/machine-id    # must differ from every other node's: it is the only identity left"));
    }
    Ok(pass(format!("system UUID {}", uuid.to_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        let with = |uuid: &str| facts().with_file(PRODUCT_UUID, uuid);
        table(
            &CHECK,
            [
                ("its own", with("4c4c4544-0038-3610-8052-b3c04f4e4d32\n"), Pass),
                ("its own, upper case", with("EC2A7B0F-1F6B-4E6E-9C8A-000000000000\n"), Pass),
                ("AMI's default", with("03000200-0400-0500-0006-000700080009\n"), Warn),
                ("a vendor's default in upper case", with("12345678-1234-5678-90AB-CDDEEFAABBCC\n"), Warn),
                ("all zero", with("00000000-0000-0000-0000-000000000000\n"), Warn),
                ("all ones", with("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n"), Warn),
                ("empty", with("\n"), Warn),
                ("no firmware tables", facts().without_file(PRODUCT_UUID), Skip),
                ("not root", facts().without(Source::File(PRODUCT_UUID), Why::Denied), Unknown),
            ],
        );
    }
}
