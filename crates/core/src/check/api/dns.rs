//! The API endpoint's name resolves on this machine.
//!
//! kubeadm and the kubelet look the control plane up by this name, for as long as the node lives. A name that only the
//! control plane knows (its own /etc/hosts) makes discovery wait five silent minutes.
//!
//! See it yourself: `getent ahosts NAME`
//! Fix: put the name into DNS, or a line `ADDRESS NAME` into /etc/hosts of this machine.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.dns",
    title: "the API endpoint's name resolves here",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: step::is_behind,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    step::judge(
        facts,
        PathStep::Dns,
        &["getent ahosts {server_host}      # what this machine takes the name for"],
        &[id!("kubeadm.discovery-timeout")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Dns);
    }
}
