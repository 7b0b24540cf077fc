//! A bootstrap token of our own, for who comes with an admin's kubeconfig: made for one join, revoked after it.

use std::time::Duration;

use carrick_cluster::{ApiError, ClusterClient, bootstrap_tokens};
use carrick_core::discovery::Token;
use carrick_core::join::causes;
use carrick_core::join::failure::JoinCause;
use jiff::SignedDuration;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::{Instant, sleep};

/// Longer than any join; were we killed, the cluster itself takes it away.
const LIFE: SignedDuration = SignedDuration::from_mins(30);
/// The controller that signs cluster-info for a new token takes a second or two.
const SIGNED: Duration = Duration::from_secs(20);

const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

fn draw(length: usize) -> Result<String, String> {
    let random = SystemRandom::new();
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut byte = [0u8];
        random.fill(&mut byte).map_err(|_| "no random numbers".to_owned())?;
        // 252 is the largest multiple of 36 in a byte: no letter is likelier than another.
        if byte[0] < 252 {
            text.push(char::from(LETTERS[usize::from(byte[0]) % LETTERS.len()]));
        }
    }
    Ok(text)
}

/// Why no token could be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unminted {
    #[error("{0}")]
    Undrawn(String),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("cluster-info is not signed for the new token after {} s", .0.as_secs())]
    Unsigned(Duration),
}

impl Unminted {
    /// Of a failed attempt; the next may well get one from an API server that was only too slow, or too busy.
    pub(super) fn cause(&self) -> JoinCause {
        let may_pass = match self {
            Unminted::Api(error) => error.may_pass(),
            Unminted::Undrawn(_) | Unminted::Unsigned(_) => false,
        };
        causes::of_unminted(&self.to_string(), may_pass)
    }
}

/// Makes a token and waits until the cluster vouches for it. What was made is taken away where that does not come.
pub(super) async fn mint(client: &ClusterClient) -> Result<Token, Unminted> {
    let token = || -> Result<Token, String> { format!("{}.{}", draw(6)?, draw(16)?).parse() };
    let token = token().map_err(Unminted::Undrawn)?;
    let now = client.now();
    let usable = match bootstrap_tokens::create(client, &token, now.checked_add(LIFE).unwrap_or(now)).await {
        Ok(()) => signed(client, &token).await,
        Err(error) => Err(error.into()),
    };
    if usable.is_err() {
        // It may have been made all the same. Where it cannot be taken away now, it ends by itself.
        let _ = revoke(client, &token).await;
    }
    usable.map(|()| token)
}

async fn signed(client: &ClusterClient, token: &Token) -> Result<(), Unminted> {
    let begun = Instant::now();
    loop {
        if bootstrap_tokens::is_signed(client, token).await? {
            return Ok(());
        }
        if begun.elapsed() > SIGNED {
            return Err(Unminted::Unsigned(SIGNED));
        }
        sleep(Duration::from_millis(300)).await;
    }
}

pub(super) async fn revoke(client: &ClusterClient, token: &Token) -> Result<(), ApiError> {
    bootstrap_tokens::revoke(client, token).await
}

#[cfg(test)]
mod tests {
    use carrick_core::catalogue::Class;

    use super::*;
    use crate::dialer::stub::saying;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_asked_for_again_where_the_api_server_was_only_slow_or_busy() {
        for (said, class, part) in [
            (None, Class::Transient, "API server 10.0.0.11:6443 did not answer within 3 s"),
            (Some((429, "Too many requests, please try again later.")), Class::Transient, "429 Too Many Requests"),
            (Some((503, "")), Class::Transient, "503 Service Unavailable"),
            (Some((403, "{}")), Class::Configuration, "403 Forbidden"),
            (Some((200, "{}")), Class::Configuration, "cluster-info is not signed for the new token after 20 s"),
        ] {
            let client = saying(said.map(|(status, body)| Ok((status, body))));
            let cause = mint(&client).await.unwrap_err().cause();
            assert_eq!((cause.id.as_str(), cause.class()), ("api.token", class), "{}", cause.says);
            assert!(cause.says.contains(part), "{part}: {}", cause.says);
        }
    }

    #[test]
    fn a_drawn_token_is_one() {
        let text = format!("{}.{}", draw(6).unwrap(), draw(16).unwrap());
        assert!(text.parse::<Token>().is_ok(), "{text}");
        assert_ne!(draw(16), draw(16));
    }
}
