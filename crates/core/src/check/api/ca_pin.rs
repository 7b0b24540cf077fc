//! The cluster's CA is the one given with --ca-hash.
//!
//! The hash is the SHA-256 of the CA's public key. Another one means another cluster behind this address, a control plane
//! that was set up anew, or somebody in between. Carrick never goes past this, and sends no token there.
//!
//! See it yourself, on the control plane:
//!   openssl x509 -pubkey -noout -in /etc/kubernetes/pki/ca.crt | openssl pkey -pubin -outform der | sha256sum
//! Mend it: take the hash from `kubeadm token create --print-join-command`, run on the control plane that is meant.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, step};
use crate::fact::api_path::PathStep;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.ca-pin",
    title: "the cluster is the one that was meant",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Fatal,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("another CA may be another cluster, or somebody in between"),
    accounts_for: step::is_behind,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    step::judge(
        facts,
        PathStep::CaPin,
        &["kubeadm token create --print-join-command      # on the control plane that is meant"],
        &[id!("kubeadm.ca-hash-mismatch")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::CaPin);
    }
}
