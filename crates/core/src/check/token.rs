//! The verdict on one thing that may be wrong with a bootstrap token, and on one right that it needs.
//!
//! Shared: the checks of the family `api`.

use super::{Evidence, Outcome, Verdict, fail, pass, skip};
use crate::fact::bootstrap_token::{JOINING, TokenFault, TokenSeen, TokenSignature, TokenState};
use crate::fact::{Facts, Known, Missing, Why};
use crate::id;

/// What a check says of its fault; `{token_id}` is put in.
pub(super) struct TokenCheck {
    pub fault: TokenFault,
    /// Where it is this, and nothing else.
    pub says: &'static str,
    /// What tells it from the others that fit as well: a command.
    pub tells: &'static str,
    pub fixes: &'static [&'static str],
}

impl TokenCheck {
    pub(super) fn judge(&self, facts: &Facts) -> Known<Verdict> {
        Ok(match facts.token_state()? {
            TokenState::NotGiven => skip("no token was given"),
            TokenState::NotReached => skip("not reached: an earlier step failed"),
            TokenState::Sound(seen) => pass(format!("token {} is signed for, and accepted", seen.id)),
            TokenState::Is(fault, seen) if fault == self.fault => {
                let verdict = fail(self.says(&seen)).seen(evidence(&seen)).seen(secret(facts));
                let explains = [id!("kubeadm.token-not-signed"), id!("kubeadm.discovery-timeout")];
                self.fixes.iter().copied().fold(verdict, Verdict::fix).explains(explains)
            }
            TokenState::Is(fault, _) => skip(format!("not judged: see {}", fault.check())),
            TokenState::OneOf(faults, seen) if faults.contains(&self.fault) => {
                let shown = if seen.signature == TokenSignature::Fits { id!("api.auth") } else { id!("api.token") };
                possible(format!("possible: {}", self.says(&seen)))
                    .seen(evidence(&seen))
                    .fix(self.tells)
                    .explains([shown])
            }
            TokenState::OneOf(..) => skip("does not fit what is seen of the token"),
        })
    }

    fn says(&self, seen: &TokenSeen) -> String {
        self.says.replace("{token_id}", &seen.id)
    }
}

/// It fits what was seen, and so does something else: no fact tells them apart.
pub(super) fn possible(says: String) -> Verdict {
    Verdict { outcome: Outcome::Unknown, ..skip(says) }
}

/// What the cluster shows a token.
pub(super) fn evidence(seen: &TokenSeen) -> [Evidence; 2] {
    let TokenSeen { id, others, .. } = seen;
    let signed = match seen.signature {
        TokenSignature::Fits => format!("jws-kubeconfig-{id} fits"),
        TokenSignature::Missing => format!("no jws-kubeconfig-{id}; signed for {others} other tokens"),
        TokenSignature::Wrong => format!("jws-kubeconfig-{id} does not fit"),
        TokenSignature::Unreadable => format!("jws-kubeconfig-{id} cannot be read"),
    };
    let answer = match seen.accepted {
        Some(true) => "the API server accepts it",
        Some(false) => "the API server does not accept it (401)",
        None => "not sent: without --ca-hash nothing proves whose API server this is",
    };
    [Evidence::of("kube-public/cluster-info", signed), Evidence::of(format!("token {id}"), answer)]
}

/// What an admin sees of it.
fn secret(facts: &Facts) -> Option<Evidence> {
    let of = |text: String| Evidence::of("kube-system/bootstrap-token-…", text);
    match facts.token_secret() {
        Ok(secret) => {
            let usage = |is: bool, name: &'static str| is.then_some(name);
            let usages = [usage(secret.signing, "signing"), usage(secret.authentication, "authentication")];
            let usages: Vec<&str> = usages.into_iter().flatten().collect();
            let expires = secret.expires.map_or_else(|| "never".to_owned(), |at| at.to_string());
            Some(of(format!(
                "expires {expires}; usages {}",
                if usages.is_empty() { "none".into() } else { usages.join(", ") }
            )))
        }
        Err(Missing { why: Why::Absent, .. }) => Some(of("there is no such Secret".to_owned())),
        Err(_) => None,
    }
}

/// Something a joining machine has to read or do with its token.
pub(super) struct TokenRight {
    /// `ConfigMap kube-system/kubelet-config`, as sentences name it.
    pub what: &'static str,
    /// The API server's answer.
    pub answer: fn(&TokenSeen) -> Option<u16>,
    /// What it may be that is not there; `None`: that it is not there is fine.
    pub missing: Option<&'static [&'static str]>,
    /// What lets joining machines do it: `RoleBinding kube-system/kubeadm:kubelet-config`.
    pub binding: &'static str,
    /// What brings that back.
    pub denied: &'static [&'static str],
}

impl TokenRight {
    pub(super) fn judge(&self, facts: &Facts) -> Known<Verdict> {
        let TokenRight { what, binding, .. } = self;
        let seen = match facts.token_state()? {
            TokenState::Sound(seen) => seen,
            TokenState::NotGiven => return Ok(skip("no token was given")),
            TokenState::NotReached => return Ok(skip("not reached: an earlier step failed")),
            TokenState::Is(..) | TokenState::OneOf(..) => return Ok(skip("not asked: the token itself is refused")),
        };
        let answer = (self.answer)(&seen);
        let said = || Evidence::of(format!("token {}", seen.id), format!("{what}: {}", in_words(answer)));
        let with_fixes = |verdict: Verdict, fixes: &[&'static str]| fixes.iter().copied().fold(verdict, Verdict::fix);
        Ok(match (answer, self.missing, seen.is_in_group()) {
            (Some(200 | 201), ..) | (Some(404), None, _) => pass(format!("token {} may: {what}", seen.id)),
            (Some(404), Some(fixes), _) => with_fixes(fail(format!("the cluster has no {what}")).seen(said()), fixes)
                .explains([id!("kubeadm.preflight-failed")]),
            (Some(403), _, Some(false)) => skip("not judged: see api.token-group"),
            (Some(403), _, Some(true)) => {
                let says = format!("{what}: refused (403) to joining machines: the {binding} is gone, or not for them");
                let group = Evidence::of(format!("token {}", seen.id), format!("is in {JOINING}"));
                with_fixes(fail(says).seen([said(), group]), self.denied).explains([id!("kubeadm.preflight-failed")])
            }
            (Some(403), _, None) => {
                let says = format!("possible: the {binding} is gone, or not for joining machines");
                with_fixes(possible(says).seen(said()), self.denied).explains([id!("api.auth")])
            }
            _ => return Err(Missing::broken("api path", format!("{what}: {}", in_words(answer)))),
        })
    }
}

fn in_words(answer: Option<u16>) -> String {
    match answer {
        Some(200 | 201) => "allowed".to_owned(),
        Some(403) => "403 Forbidden".to_owned(),
        Some(404) => "404 Not Found".to_owned(),
        Some(status) => format!("the API server answered {status}"),
        None => "no answer in time".to_owned(),
    }
}

/// What checks cannot know because the token may not read it, or because it is not there.
pub(super) fn is_refused(missing: &Missing) -> bool {
    missing.is_answer_of_cluster() && matches!(missing.why, Why::Denied | Why::Absent)
}

#[cfg(test)]
pub(super) mod testing {
    use crate::check::{Check, CheckPolicy, Outcome};
    use crate::fact::bootstrap_token::sample::{secret, seen, shown, walked, walked_by_admin};
    use crate::fact::bootstrap_token::{
        JOINING, SECRET, TokenFault, TokenRights, TokenSecret, TokenSeen, TokenSignature,
    };
    use crate::fact::{Facts, Source, Why};
    use crate::testing::{facts, table};

    /// What an admin sees of each fault.
    fn certain(fault: TokenFault) -> Facts {
        let unsigned = || shown(TokenSignature::Missing, Some(true));
        let refused = || shown(TokenSignature::Missing, Some(false));
        match fault {
            TokenFault::Unknown => walked(refused()).without(Source::Api(SECRET), Why::Absent),
            TokenFault::Expired => {
                walked_by_admin(refused(), &TokenSecret { expires: Some(secret().read), ..secret() })
            }
            TokenFault::Secret => walked(shown(TokenSignature::Wrong, Some(false))),
            TokenFault::Signing => walked_by_admin(unsigned(), &TokenSecret { signing: false, ..secret() }),
            TokenFault::Unsigned => walked_by_admin(unsigned(), &secret()),
            TokenFault::Authentication => walked_by_admin(
                shown(TokenSignature::Fits, Some(false)),
                &TokenSecret { authentication: false, ..secret() },
            ),
        }
    }

    /// What every check of a fault has to do.
    pub(crate) fn judges_fault(check: &Check, fault: TokenFault) {
        assert_eq!(fault.check(), check.id);
        let doubtful = match fault {
            TokenFault::Authentication => shown(TokenSignature::Fits, Some(false)),
            _ => shown(TokenSignature::Missing, None),
        };
        table(
            check,
            [
                ("sound", walked(seen()), Outcome::Pass),
                ("it is this", certain(fault), Outcome::Fail),
                ("it is another", certain(TokenFault::Secret), Outcome::Skip),
                ("it may be this", walked(doubtful.clone()), Outcome::Unknown),
                ("the walk hung", facts().without(Source::Api("path"), Why::TimedOut), Outcome::Unknown),
                ("nobody asked", facts(), Outcome::Skip),
            ],
        );
        let verdict = check.verdict(&certain(fault), &CheckPolicy::default());
        assert!(verdict.says.contains("token abcdef"), "{}", verdict.says);
        let doubt = check.verdict(&walked(doubtful), &CheckPolicy::default());
        assert!(!doubt.remedy.is_empty() && !doubt.explains.is_empty() && doubt.missing.is_none(), "{doubt:?}");
        for text in verdict.remedy.iter().chain(&doubt.remedy).chain([&doubt.says]) {
            assert!(!text.contains("{token_id}") && !text.contains("TOKEN-ID"), "{text}");
        }
    }

    /// A token whose requests are answered so.
    pub(crate) fn answered(rights: TokenRights, groups: Option<&[&str]>) -> Facts {
        let groups = groups.map(|groups| groups.iter().map(|&group| group.to_owned()).collect());
        walked(TokenSeen { groups, rights, ..seen() })
    }

    /// What every check of a right has to do. `with` puts an answer into the rights.
    pub(crate) fn judges_right(check: &Check, with: fn(Option<u16>) -> TokenRights, on_404: Outcome) {
        let (joining, other) = (Some(&[JOINING][..]), Some(&["system:bootstrappers"][..]));
        table(
            check,
            [
                ("allowed", answered(with(Some(200)), None), Outcome::Pass),
                ("not there", answered(with(Some(404)), None), on_404),
                ("the binding is gone", answered(with(Some(403)), joining), Outcome::Fail),
                ("the token is in another group", answered(with(Some(403)), other), Outcome::Skip),
                ("nobody says which group", answered(with(Some(403)), None), Outcome::Unknown),
                ("too busy", answered(with(Some(503)), None), Outcome::Unknown),
                ("no answer", answered(with(None), None), Outcome::Unknown),
                ("the token is refused", walked(shown(TokenSignature::Fits, Some(false))), Outcome::Skip),
                ("nobody asked", facts(), Outcome::Skip),
            ],
        );
    }
}
