//! cluster-info is signed with the bootstrap token.
//!
//! The control plane signs kube-public/cluster-info for every token it knows, and kubeadm believes what it reads there only with that
//! signature: it waits five minutes for it, without a word. One that is there and does not fit means that the half of the token behind the
//! dot is wrong. Why there is none has a check of its own each: api.token-unknown, api.token-expired, api.token-signing, api.token-unsigned. With `--kubeconfig` Carrick reads the token's Secret and
//! names the one; with `--ca-hash` it asks the API server whether it accepts the token, which leaves two; without either, the
//! alternatives are told as possible, each with the command that tells it from the others.
//!
//! See it yourself: on the control plane `kubeadm token list`
//! Fix: on the control plane `kubeadm token create --print-join-command`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, skip, step, token};
use crate::fact::api_path::PathStep;
use crate::fact::bootstrap_token::{TokenFault, TokenSignature, TokenState};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.token",
    title: "cluster-info is signed with the token",
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
    let judged = step::judge(
        facts,
        PathStep::Token,
        &["kubeadm token create --print-join-command    # on the control plane: join with the line it prints"],
        &[id!("kubeadm.token-not-signed"), id!("kubeadm.discovery-timeout")],
    )?;
    Ok(match facts.token_state()? {
        TokenState::Is(TokenFault::Secret, seen) if judged.outcome == Outcome::Fail => {
            let says = format!("the secret half of token {} is not the one that the cluster knows", seen.id);
            Verdict { says, ..judged.seen(token::evidence(&seen)) }
        }
        TokenState::Is(fault, _) if judged.outcome == Outcome::Fail => {
            skip(format!("not judged: see {}", fault.check()))
        }
        TokenState::OneOf(_, seen) if judged.outcome == Outcome::Fail => {
            // It is alive: the signature may come.
            let may_come = seen.accepted == Some(true) && seen.signature == TokenSignature::Missing;
            judged.seen(token::evidence(&seen)).may_pass(may_come)
        }
        _ => judged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::bootstrap_token::sample::{shown, walked};

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Token);
    }

    #[test]
    fn it_speaks_where_no_other_knows_why() {
        let verdict = |signature, accepted| CHECK.verdict(&walked(shown(signature, accepted)), &CheckPolicy::default());
        for (signature, accepted, outcome, may_pass) in [
            (TokenSignature::Missing, Some(true), Outcome::Fail, true),
            (TokenSignature::Missing, Some(false), Outcome::Fail, false),
            (TokenSignature::Missing, None, Outcome::Fail, false),
            (TokenSignature::Unreadable, None, Outcome::Fail, false),
            (TokenSignature::Wrong, Some(false), Outcome::Fail, false),
            (TokenSignature::Wrong, Some(true), Outcome::Skip, false),
        ] {
            let verdict = verdict(signature, accepted);
            assert_eq!((verdict.outcome, verdict.may_pass), (outcome, may_pass), "{signature:?}, {accepted:?}");
        }
    }
}
