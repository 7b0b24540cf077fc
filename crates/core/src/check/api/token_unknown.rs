//! The cluster has a bootstrap token of this id.
//!
//! A token is a Secret `bootstrap-token-ID` in kube-system. Where there is none, it was made in another cluster, deleted, or it
//! expired and the control plane removed it; an expired token that is still there is api.token-expired. An admin
//! (`--kubeconfig`) sees the difference; to anybody else a token that is unknown and one that has expired look alike.
//!
//! See it yourself: on the control plane `kubeadm token list`
//! Fix: on the control plane `kubeadm token create --print-join-command`

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::TokenCheck;
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing};
use crate::fact::bootstrap_token::TokenFault;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "api.token-unknown",
    title: "the cluster has the token",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a token is made on the control plane"),
    accounts_for: nothing,
    judge,
};

const TOKEN: TokenCheck = TokenCheck {
    fault: TokenFault::Unknown,
    says: "the cluster has no token {token_id}: it was never made there, was deleted, or expired and was removed",
    tells: "kubectl -n kube-system get secret bootstrap-token-{token_id}    # on the control plane: NotFound means unknown, or expired and removed",
    fixes: &["kubeadm token create --print-join-command    # on the control plane: join with the line it prints"],
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    TOKEN.judge(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::token::testing;

    #[test]
    fn judges() {
        testing::judges_fault(&CHECK, TokenFault::Unknown);
    }
}
