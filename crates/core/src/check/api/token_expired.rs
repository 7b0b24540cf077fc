//! The bootstrap token has not expired.
//!
//! A token lives for 24 hours unless it was made with another `--ttl`. The API server refuses one that has expired, and the
//! control plane removes it and its signature; until then it is listed as `<invalid>`.
//!
//! See it yourself: on the control plane `kubeadm token list` (TTL and EXPIRES)
//! Fix: on the control plane `kubeadm token create --print-join-command`

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::TokenCheck;
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing};
use crate::fact::bootstrap_token::TokenFault;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "api.token-expired",
    title: "the token has not expired",
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
    fault: TokenFault::Expired,
    says: "token {token_id} has expired",
    tells: "kubeadm token list    # on the control plane: <invalid>, or no {token_id} any more, means expired",
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
        testing::judges_fault(&CHECK, TokenFault::Expired);
    }
}
