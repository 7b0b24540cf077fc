//! The bootstrap token is known to the cluster.
//!
//! The cluster signs cluster-info with every token it knows. No signature for this token's id: it was never made here, or
//! it has expired (24 hours by default); without admin rights the two look alike. A signature that does not fit: the second
//! half of the token is wrong. kubeadm retries the first case for five minutes without a word. A token made seconds ago may
//! not be signed yet.
//!
//! See it yourself: on the control plane `kubeadm token list`
//! Mend it: on the control plane `kubeadm token create --print-join-command`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.token",
    title: "the token is known to the cluster",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a token is made on the control plane"),
    accounts_for: step::is_behind,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    step::judge(
        facts,
        PathStep::Token,
        &["kubeadm token create --print-join-command      # on the control plane"],
        &[id!("kubeadm.token-not-signed"), id!("kubeadm.discovery-timeout")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Token);
    }
}
