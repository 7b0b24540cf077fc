//! Carrick looks as root.
//!
//! kubeadm joins as root only, and so does Carrick. Looking works for anyone, but not everything can be seen: keys and
//! kubeconfigs, the firewall, the runtime's socket. What could not be seen is reported as unknown, not as well.
//!
//! See it yourself: `id -u` prints 0 for root.
//! Mend it: `sudo carrick check`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::identity::USER;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.privileges",
    title: "carrick runs as root",
    subsystem: Subsystem::Machine,
    kubeadm: &["IsPrivilegedUser"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("only root may change anything"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let uid = facts.uid()?;
    if uid == 0 {
        return Ok(pass("runs as root"));
    }
    Ok(warn(format!("runs as user {uid}, not as root: part of the machine cannot be seen"))
        .seen(Evidence::of(USER.name, uid.to_string()))
        .fix("sudo carrick check"))
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
                ("root", facts().with_query(&USER, "0\n"), Pass),
                ("a user", facts().with_query(&USER, "1000\n"), Warn),
                ("id prints nothing", facts().with_exit(&USER, 1, "", "id: cannot find name"), Unknown),
                ("not asked", facts(), Unknown),
            ],
        );
    }
}
