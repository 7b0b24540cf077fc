//! The token may do what a joining machine has to do.
//!
//! A token can be made for signing only, or into another group. Then discovery works, and the join fails later: at the
//! kubelet-config ConfigMap, or when the kubelet asks for its certificate.
//!
//! See it yourself: on the control plane `kubeadm token list` (USAGES and EXTRA GROUPS)
//! Mend it: on the control plane `kubeadm token create --print-join-command`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.auth",
    title: "the token may join",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: step::is_behind,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    step::judge(
        facts,
        PathStep::Auth,
        &["kubeadm token create --print-join-command      # on the control plane"],
        &[id!("kubeadm.token-not-signed")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Auth);
    }
}
