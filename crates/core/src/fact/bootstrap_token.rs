//! What the cluster says of the bootstrap token that was given: to the token itself, on the way along the path, and to an
//! admin, who may look at its Secret. Nothing here holds its secret half.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::api_path::ApiPath;
use super::{Facts, Known, Missing, Source, Why};

/// What an admin sees of the token's Secret.
pub const SECRET: &str = "token-secret";

pub const SOURCES: &[Source] = &[Source::Api(SECRET)];

/// The group of joining machines, as kubeadm makes its tokens and binds its roles.
pub const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";

/// A signature comes within a second or two of its token; a control plane that takes longer than this makes none.
const SIGNED_BY: SignedDuration = SignedDuration::from_secs(10);

/// What was seen of a token on the way to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSeen {
    pub id: String,
    pub signature: TokenSignature,
    /// How many other tokens cluster-info is signed for.
    #[serde(default)]
    pub others: usize,
    /// Whether the API server knows it for who it is. It is sent only to a cluster that has proven itself.
    #[serde(default)]
    pub accepted: Option<bool>,
    /// The groups it is in, by the API server's word; asked for only where something is refused.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
    /// What it may do of what a join needs.
    #[serde(default)]
    pub rights: TokenRights,
}

/// The API server's answers to a token, by what a join needs: the status, or its word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRights {
    #[serde(default)]
    pub kubeadm_config: Option<u16>,
    #[serde(default)]
    pub kubelet_config: Option<u16>,
    /// To look at the Node of this machine's name, whether it is there or not.
    #[serde(default)]
    pub node: Option<u16>,
    /// To ask for a certificate.
    #[serde(default)]
    pub requests: Option<bool>,
    /// To have that request approved by itself.
    #[serde(default)]
    pub approval: Option<bool>,
}

/// How cluster-info is signed for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenSignature {
    Fits,
    Missing,
    /// Not made with this secret, or of another cluster-info.
    Wrong,
    Unreadable,
}

impl TokenSeen {
    pub fn new(id: &str, signature: TokenSignature, others: usize) -> Self {
        let (accepted, groups, rights) = (None, None, TokenRights::default());
        TokenSeen { id: id.to_owned(), signature, others, accepted, groups, rights }
    }

    /// Whether it is in the group of joining machines; `None`: the API server did not say.
    pub fn is_in_group(&self) -> Option<bool> {
        self.groups.as_ref().map(|groups| groups.iter().any(|group| group == JOINING))
    }
}

impl TokenRights {
    /// Whether something of it is refused.
    pub fn is_refused_any(&self) -> bool {
        let denied = [self.kubeadm_config, self.kubelet_config, self.node].contains(&Some(403));
        denied || self.requests == Some(false)
    }

    /// What is refused, in a sentence.
    pub fn refused(&self) -> String {
        let denied = |answer: Option<u16>, what: &'static str| (answer == Some(403)).then_some(what);
        let all = [
            denied(self.kubeadm_config, "read kubeadm-config"),
            denied(self.kubelet_config, "read kubelet-config"),
            denied(self.node, "get Nodes"),
            (self.requests == Some(false)).then_some("create CertificateSigningRequests"),
        ];
        format!("may not {}", all.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// A token's Secret, without what is secret in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSecret {
    pub made: Option<Timestamp>,
    /// `None`: never.
    pub expires: Option<Timestamp>,
    pub signing: bool,
    pub authentication: bool,
    pub groups: Vec<String>,
    /// Its secret half is the one that was given.
    pub fits: bool,
    /// The API server's clock when it was read.
    pub read: Timestamp,
}

impl TokenSecret {
    fn has_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= self.read)
    }

    /// It is long since it should have been signed for.
    fn is_settled(&self) -> bool {
        self.made.is_none_or(|made| self.read.duration_since(made) >= SIGNED_BY)
    }
}

/// What keeps a token from joining a machine. Each has a check, in `check/api/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// The cluster has none of this id.
    Unknown,
    Expired,
    /// Its second half is another: what [`super::api_path::PathStep::Token`] shows first.
    Secret,
    /// It was made without the usage signing.
    Signing,
    /// Nobody signs cluster-info for tokens.
    Unsigned,
    /// It was made without the usage authentication.
    Authentication,
}

impl TokenFault {
    /// The check that tells of it.
    pub fn check(self) -> &'static str {
        match self {
            TokenFault::Unknown => "api.token-unknown",
            TokenFault::Expired => "api.token-expired",
            TokenFault::Secret => "api.token",
            TokenFault::Signing => "api.token-signing",
            TokenFault::Unsigned => "api.token-unsigned",
            TokenFault::Authentication => "api.token-authentication",
        }
    }
}

/// What follows of it all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenState {
    NotGiven,
    /// The way to the cluster ended before anything was seen of it.
    NotReached,
    /// Signed for, and accepted.
    Sound(TokenSeen),
    /// This, and nothing else fits.
    Is(TokenFault, TokenSeen),
    /// One of these fits, and from here nobody can tell which; none: something else.
    OneOf(&'static [TokenFault], TokenSeen),
}

/// By what a token itself is shown: cluster-info's signature, and whether the API server accepts it.
fn by_itself(seen: TokenSeen) -> TokenState {
    use TokenFault::{Authentication, Expired, Secret, Signing, Unknown, Unsigned};
    match (seen.signature, seen.accepted) {
        (TokenSignature::Fits, Some(true)) => TokenState::Sound(seen),
        (TokenSignature::Fits, None) => TokenState::NotReached,
        // A token that is gone keeps its signature only where nobody signs any more.
        (TokenSignature::Fits, Some(false)) => TokenState::OneOf(&[Authentication, Expired, Unknown], seen),
        // Its secret is right: cluster-info was changed since, and not signed again.
        (TokenSignature::Wrong, Some(true)) => TokenState::Is(Unsigned, seen),
        (TokenSignature::Wrong, Some(false)) => TokenState::Is(Secret, seen),
        (TokenSignature::Wrong, None) => TokenState::OneOf(&[Unsigned], seen),
        (TokenSignature::Missing, Some(true)) => TokenState::OneOf(&[Signing, Unsigned], seen),
        (TokenSignature::Missing, Some(false)) => TokenState::OneOf(&[Unknown, Expired], seen),
        (TokenSignature::Missing, None) => TokenState::OneOf(&[Unknown, Expired, Signing, Unsigned], seen),
        (TokenSignature::Unreadable, _) => TokenState::OneOf(&[], seen),
    }
}

/// By its Secret: an admin sees them all apart.
fn by_secret(seen: TokenSeen, secret: &TokenSecret) -> TokenState {
    use TokenFault::{Authentication, Expired, Secret, Signing, Unsigned};
    match secret {
        _ if !secret.fits => TokenState::Is(Secret, seen),
        _ if secret.has_expired() => TokenState::Is(Expired, seen),
        TokenSecret { signing: false, .. } => TokenState::Is(Signing, seen),
        TokenSecret { authentication: false, .. } => TokenState::Is(Authentication, seen),
        _ => match (seen.signature, seen.accepted) {
            (TokenSignature::Missing, _) if !secret.is_settled() => TokenState::OneOf(&[Unsigned], seen),
            (TokenSignature::Missing | TokenSignature::Wrong, _) => TokenState::Is(Unsigned, seen),
            (TokenSignature::Unreadable, _) | (TokenSignature::Fits, Some(false)) => TokenState::OneOf(&[], seen),
            (TokenSignature::Fits, None) => TokenState::NotReached,
            (TokenSignature::Fits, Some(true)) => TokenState::Sound(seen),
        },
    }
}

impl Facts {
    /// What is known of the token that was given.
    pub fn token_state(&self) -> Known<TokenState> {
        let ApiPath { token, token_given, .. } = self.api_path()?;
        let Some(seen) = token else {
            return Ok(if token_given { TokenState::NotReached } else { TokenState::NotGiven });
        };
        Ok(match self.token_secret() {
            Ok(secret) => by_secret(seen, &secret),
            Err(Missing { why: Why::Absent, .. }) => TokenState::Is(TokenFault::Unknown, seen),
            // Without an admin, or where he got no answer, what was shown to the token has to do.
            Err(_) => by_itself(seen),
        })
    }

    /// The token's Secret; `Absent`: the cluster has none of this id.
    pub fn token_secret(&self) -> Known<TokenSecret> {
        let text = &self.api(SECRET)?.text;
        serde_json::from_str(text).map_err(|error| Missing::broken("the token's Secret", error))
    }
}

/// What may be seen of a token, for tests.
#[cfg(test)]
pub mod sample {
    use super::*;
    use crate::fact::api_path::{PathStep, StepOutcome, Walked};
    use crate::testing::{NOW, facts};

    pub const ID: &str = "abcdef";

    /// A sound token, on a path that was walked to its end.
    pub fn seen() -> TokenSeen {
        let rights = TokenRights {
            kubeadm_config: Some(200),
            kubelet_config: Some(200),
            node: Some(404),
            requests: Some(true),
            approval: Some(true),
        };
        let accepted = Some(true);
        TokenSeen { accepted, rights, ..TokenSeen::new(ID, TokenSignature::Fits, 2) }
    }

    pub fn shown(signature: TokenSignature, accepted: Option<bool>) -> TokenSeen {
        TokenSeen { signature, accepted, ..seen() }
    }

    pub fn secret() -> TokenSecret {
        let made = NOW.checked_sub(SignedDuration::from_mins(5)).ok();
        let expires = NOW.checked_add(SignedDuration::from_hours(23)).ok();
        let groups = vec![JOINING.to_owned()];
        TokenSecret { made, expires, signing: true, authentication: true, groups, fits: true, read: NOW }
    }

    /// The facts of a walk on which this was seen, which ended where it had to.
    pub fn walked(token: TokenSeen) -> Facts {
        let failed = |step, says: &str| vec![Walked::new(step, StepOutcome::Failed(says.into()))];
        let steps = match (token.signature, token.accepted) {
            (TokenSignature::Fits, Some(false)) => failed(PathStep::Auth, "401"),
            (TokenSignature::Fits, _) => Vec::new(),
            _ => failed(PathStep::Token, "not signed"),
        };
        let path = ApiPath {
            endpoint: "10.0.0.11:6443".into(),
            steps,
            token_given: true,
            token: Some(token),
            ..ApiPath::default()
        };
        facts().with_api("path", &serde_json::to_string(&path).unwrap())
    }

    /// The same, with what an admin sees.
    pub fn walked_by_admin(token: TokenSeen, secret: &TokenSecret) -> Facts {
        walked(token).with_api(SECRET, &serde_json::to_string(secret).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::sample::{secret, seen, shown, walked, walked_by_admin};
    use super::*;
    use crate::testing::facts;
    use TokenFault::{Authentication, Expired, Secret, Signing, Unknown, Unsigned};
    use TokenSignature::{Fits, Missing as NotThere, Unreadable, Wrong};

    fn told(state: &TokenState) -> Vec<TokenFault> {
        match state {
            TokenState::Is(fault, _) => vec![*fault],
            TokenState::OneOf(faults, _) => faults.to_vec(),
            TokenState::NotGiven | TokenState::NotReached | TokenState::Sound(_) => Vec::new(),
        }
    }

    #[test]
    fn a_token_alone_tells_apart_what_it_is_shown() {
        for (signature, accepted, is_certain, faults) in [
            (Fits, Some(true), false, &[][..]),
            (Fits, Some(false), false, &[Authentication, Expired, Unknown]),
            (NotThere, Some(true), false, &[Signing, Unsigned]),
            (NotThere, Some(false), false, &[Unknown, Expired]),
            (NotThere, None, false, &[Unknown, Expired, Signing, Unsigned]),
            (Wrong, Some(true), true, &[Unsigned]),
            (Wrong, Some(false), true, &[Secret]),
            (Wrong, None, false, &[Unsigned]),
            (Unreadable, None, false, &[]),
        ] {
            let state = walked(shown(signature, accepted)).token_state().unwrap();
            assert_eq!(matches!(state, TokenState::Is(..)), is_certain, "{signature:?}, {accepted:?}");
            assert_eq!(told(&state), faults, "{signature:?}, {accepted:?}");
        }
    }

    #[test]
    fn an_admin_tells_all_of_them_apart() {
        let young = TokenSecret { made: Some(secret().read), ..secret() };
        for (name, secret, signature, accepted, fault) in [
            ("another secret", TokenSecret { fits: false, ..secret() }, Wrong, Some(false), Some(Secret)),
            ("over", TokenSecret { expires: Some(secret().read), ..secret() }, NotThere, Some(false), Some(Expired)),
            ("never over", TokenSecret { expires: None, ..secret() }, Fits, Some(true), None),
            ("signs nothing", TokenSecret { signing: false, ..secret() }, NotThere, Some(true), Some(Signing)),
            (
                "logs in nowhere",
                TokenSecret { authentication: false, ..secret() },
                Fits,
                Some(false),
                Some(Authentication),
            ),
            ("nobody signs", secret(), NotThere, Some(true), Some(Unsigned)),
            ("nobody signs anew", secret(), Wrong, Some(true), Some(Unsigned)),
            ("nobody knows since when", TokenSecret { made: None, ..secret() }, NotThere, None, Some(Unsigned)),
        ] {
            let state = walked_by_admin(shown(signature, accepted), &secret).token_state().unwrap();
            let is = if let TokenState::Is(fault, _) = state { Some(fault) } else { None };
            assert_eq!(is, fault, "{name}");
        }
        let fresh = walked_by_admin(shown(NotThere, Some(true)), &young).token_state().unwrap();
        assert_eq!(fresh, TokenState::OneOf(&[Unsigned], shown(NotThere, Some(true))), "it takes a moment");
        let gone = walked(shown(NotThere, Some(false))).without(Source::Api(SECRET), Why::Absent);
        assert!(matches!(gone.token_state(), Ok(TokenState::Is(Unknown, _))));
        let silent = walked(seen()).without(Source::Api(SECRET), Why::TimedOut);
        assert!(matches!(silent.token_state(), Ok(TokenState::Sound(_))));
    }

    #[test]
    fn what_was_not_walked_says_nothing_of_the_token() {
        let path = |json: &str| facts().with_api("path", json).token_state();
        assert_eq!(path(r#"{"endpoint":"e","steps":[]}"#), Ok(TokenState::NotGiven));
        assert_eq!(path(r#"{"endpoint":"e","steps":[],"token_given":true}"#), Ok(TokenState::NotReached));
        assert!(facts().token_state().is_err());
    }
}
