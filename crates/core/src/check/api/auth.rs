//! The API server accepts the token, and lets it do what a joining machine has to do.
//!
//! Discovery works with a token that the API server then refuses. Why has a check of its own each: api.token-authentication (401:
//! made for signing alone), api.token-expired, api.token-group (403: not in the group of joining machines), api.kubeadm-config,
//! api.kubelet-config, api.get-node and api.certificate-requests (403: a binding is gone). This one speaks where the API server
//! does not say which of them it is.
//!
//! See it yourself: on the control plane `kubeadm token list` (USAGES and EXTRA GROUPS)
//! Fix: on the control plane `kubeadm token create --print-join-command`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, skip, step, token,
};
use crate::fact::api_path::PathStep;
use crate::fact::bootstrap_token::TokenState;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "api.auth",
    title: "the API server accepts the token",
    subsystem: Subsystem::ControlPlane,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::CLUSTER,
    accounts_for: |missing| step::is_behind(missing) || token::is_refused(missing),
    judge,
};

const FIX: &str = "kubeadm token create --print-join-command    # on the control plane: join with the line it prints";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let judged = step::judge(facts, PathStep::Auth, &[FIX], &[id!("kubeadm.preflight-failed")])?;
    Ok(match facts.token_state()? {
        TokenState::Is(fault, _) if judged.outcome == Outcome::Fail => {
            skip(format!("not judged: see {}", fault.check()))
        }
        TokenState::OneOf(_, seen) if judged.outcome == Outcome::Fail => judged.seen(token::evidence(&seen)),
        TokenState::Sound(seen) if seen.rights.is_refused_any() && seen.groups.is_none() => {
            let refused = seen.rights.refused();
            fail(format!("token {} {refused}", seen.id))
                .seen([Evidence::of(format!("token {}", seen.id), refused)])
                .fix(FIX)
                .explains([id!("kubeadm.preflight-failed")])
        }
        _ => judged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::token::testing::answered;
    use crate::fact::api_path::{ApiPath, StepOutcome, Walked};
    use crate::fact::bootstrap_token::sample::{seen, shown, walked};
    use crate::fact::bootstrap_token::{TokenRights, TokenSignature};
    use crate::testing::judge_row;

    #[test]
    fn judges() {
        step::testing::judges_step(&CHECK, PathStep::Auth);
    }

    #[test]
    fn it_speaks_where_no_other_knows_why() {
        let denied = TokenRights { node: Some(403), ..seen().rights };
        for (name, facts, outcome) in [
            ("401, and no admin", walked(shown(TokenSignature::Fits, Some(false))), Outcome::Fail),
            ("403, and no word of the groups", answered(denied.clone(), None), Outcome::Fail),
            ("403, and the groups are known", answered(denied, Some(&[])), Outcome::Pass),
        ] {
            let with_auth = |mut path: ApiPath| {
                let walked = Walked::new(PathStep::Auth, StepOutcome::Ok("accepted".into()));
                path.steps.extend(path.steps.is_empty().then_some(walked));
                serde_json::to_string(&path).unwrap()
            };
            let facts = facts.clone().with_api("path", &with_auth(facts.api_path().unwrap()));
            judge_row(&CHECK, &CheckPolicy::default(), name, &facts, outcome);
        }
    }
}
