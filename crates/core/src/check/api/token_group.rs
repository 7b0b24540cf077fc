//! The bootstrap token is in the group of joining machines.
//!
//! A token's groups say what it may do. kubeadm makes tokens of `system:bootstrappers:kubeadm:default-node-token`, and binds its
//! roles to that group: one that was made with other `--groups`, or with none, is accepted and may do nothing (403), unless somebody has
//! bound the roles to its group, too.
//!
//! See it yourself: on the control plane `kubeadm token list` (EXTRA GROUPS)
//! Fix: on the control plane `kubeadm token create --print-join-command` (its tokens are in the group)

use crate::catalogue::{Class, Role, Stops};
use crate::check::token::{self, possible};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, pass, skip};
use crate::fact::bootstrap_token::{JOINING, TokenState};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.token-group",
    title: "the token is in the group of joining machines",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a token is made on the control plane"),
    accounts_for: token::is_refused,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let seen = match facts.token_state()? {
        TokenState::Sound(seen) => seen,
        TokenState::NotGiven => return Ok(skip("no token was given")),
        TokenState::NotReached => return Ok(skip("not reached: an earlier step failed")),
        TokenState::Is(..) | TokenState::OneOf(..) => return Ok(skip("not asked: the token itself is refused")),
    };
    let id = &seen.id;
    if !seen.rights.is_refused_any() {
        return Ok(pass(format!("token {id} may do what a join needs")));
    }
    let refused = Evidence::of(format!("token {id}"), seen.rights.refused());
    Ok(match &seen.groups {
        Some(_) if seen.is_in_group() == Some(true) => pass(format!("token {id} is in {JOINING}")),
        Some(groups) => fail(format!("token {id} is not in {JOINING}: it may not join machines"))
            .seen([refused, Evidence::of(format!("token {id}"), format!("is in {}", groups.join(", ")))])
            .fix("kubeadm token create --print-join-command    # on the control plane: join with the line it prints")
            .explains([id!("kubeadm.preflight-failed"), id!("csr.forbidden"), id!("csr.pending")]),
        None => possible(format!("possible: token {id} is not in {JOINING}"))
            .seen([refused])
            .fix("kubeadm token list    # on the control plane: EXTRA GROUPS of {token_id} without kubeadm:default-node-token")
            .explains([id!("api.auth")]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::check::token::testing::answered;
    use crate::fact::bootstrap_token::sample::{seen, shown, walked};
    use crate::fact::bootstrap_token::{TokenRights, TokenSignature};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        let denied = || TokenRights { kubeadm_config: Some(403), ..seen().rights };
        let other = ["system:bootstrappers", "system:bootstrappers:unapproved"];
        table(
            &CHECK,
            [
                ("sound", walked(seen()), Pass),
                ("another group, with the rights", answered(seen().rights, Some(&other)), Pass),
                ("another group, without", answered(denied(), Some(&other)), Fail),
                (
                    "may not ask for a certificate",
                    answered(TokenRights { requests: Some(false), ..seen().rights }, Some(&other)),
                    Fail,
                ),
                ("no group but the one of all tokens", answered(denied(), Some(&other[..1])), Fail),
                ("the group, and a binding is gone", answered(denied(), Some(&[JOINING])), Pass),
                ("nobody says which", answered(denied(), None), Unknown),
                ("refused as a whole", walked(shown(TokenSignature::Fits, Some(false))), Skip),
                ("the walk hung", facts().without(Source::Api("path"), Why::TimedOut), Unknown),
                ("nobody asked", facts(), Skip),
            ],
        );
        let verdict = CHECK.verdict(&answered(denied(), Some(&other)), &CheckPolicy::default());
        assert_eq!(verdict.says, format!("token abcdef is not in {JOINING}: it may not join machines"));
        assert_eq!(verdict.evidence[0].text, "may not read kubeadm-config");
    }
}
