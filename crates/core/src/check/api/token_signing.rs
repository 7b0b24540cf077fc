//! The bootstrap token was made for signing.
//!
//! A token has usages. Without `signing` the control plane does not sign cluster-info for it, and kubeadm waits five minutes
//! for a signature that cannot come, though the API server accepts the token.
//!
//! See it yourself: on the control plane `kubeadm token list` (USAGES)
//! Fix: on the control plane `kubeadm token create --print-join-command` (its tokens have both usages)

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::TokenCheck;
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing};
use crate::fact::bootstrap_token::TokenFault;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "api.token-signing",
    title: "the token may sign cluster-info",
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
    fault: TokenFault::Signing,
    says: "token {token_id} was made without the usage signing: cluster-info is never signed for it",
    tells: "kubeadm token list    # on the control plane: USAGES of {token_id} without signing",
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
        testing::judges_fault(&CHECK, TokenFault::Signing);
    }
}
