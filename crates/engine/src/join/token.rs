//! A bootstrap token of our own, for who comes with an admin's kubeconfig: made for one join, revoked after it.

use std::time::Duration;

use carrick_cluster::{ApiError, ClusterClient, bootstrap_tokens};
use carrick_core::discovery::Token;
use carrick_core::join::causes;
use carrick_core::join::failure::JoinCause;
use jiff::{SignedDuration, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::{Instant, sleep, sleep_until};

/// Longer than any join; were we killed, the cluster itself takes it away.
const LIFE: SignedDuration = SignedDuration::from_mins(30);
/// The controller that signs cluster-info for a new token takes a second or two; a busy API server is asked again.
const SIGNED: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(300);

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
        match self {
            Unminted::Api(error) => causes::of_unminted(&self.to_string(), error.may_pass()),
            Unminted::Undrawn(_) => causes::of_unminted(&self.to_string(), false),
            Unminted::Unsigned(after) => causes::of_unsigned(after.as_secs()),
        }
    }
}

/// One that nobody has; nothing is made yet.
pub(super) fn drawn() -> Result<Token, Unminted> {
    let token = || -> Result<Token, String> { format!("{}.{}", draw(6)?, draw(16)?).parse() };
    token().map_err(Unminted::Undrawn)
}

/// Makes a token and waits until the cluster vouches for it.
pub(super) async fn mint(client: &ClusterClient, token: &Token) -> Result<(), Unminted> {
    create(client, token, Instant::now() + SIGNED).await?;
    signed(client, token, Instant::now() + SIGNED).await
}

async fn create(client: &ClusterClient, token: &Token, until: Instant) -> Result<(), Unminted> {
    let mut tried = false;
    loop {
        let now = cluster_time(client, token, until).await?;
        match bootstrap_tokens::create(client, token, now.checked_add(LIFE).unwrap_or(now)).await {
            Ok(()) => return Ok(()),
            // Nobody else draws the same: it was made, and only the answer was lost.
            Err(error) if tried && error.is_conflict() => return Ok(()),
            Err(error) => pause(error, until).await?,
        }
        tried = true;
    }
}

/// The API server ends a token by its own clock: by that of a machine which is behind, it would be born expired.
async fn cluster_time(client: &ClusterClient, token: &Token, until: Instant) -> Result<Timestamp, Unminted> {
    while client.server_now().is_none() {
        // Any answer shows its clock, also a refusal.
        match bootstrap_tokens::is_signed(client, token).await {
            Err(error) if client.server_now().is_none() => pause(error, until).await?,
            _ => break,
        }
    }
    // Who stands in between may have taken the Date off: then only the machine's clock is left.
    Ok(client.server_now().unwrap_or_else(|| client.now()))
}

async fn signed(client: &ClusterClient, token: &Token, until: Instant) -> Result<(), Unminted> {
    loop {
        match bootstrap_tokens::is_signed(client, token).await {
            Ok(true) => return Ok(()),
            Ok(false) if Instant::now() >= until => return Err(Unminted::Unsigned(SIGNED)),
            Ok(false) => sleep(AGAIN).await,
            Err(error) => pause(error, until).await?,
        }
    }
}

/// Until the same may be asked again; the error itself where that would bring nothing, or comes too late.
async fn pause(error: ApiError, until: Instant) -> Result<(), Unminted> {
    let next = Instant::now() + error.retry_after().unwrap_or(AGAIN);
    if !error.may_pass() || next > until {
        return Err(error.into());
    }
    sleep_until(next).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use carrick_core::catalogue::Class;
    use carrick_testkit::MemoryCluster;
    use carrick_testkit::memory_api::Fault;

    use super::*;
    use crate::dialer::stub::{asking, saying};

    const BEGAN: &str = "2026-11-16T12:00:00Z";

    fn began() -> Timestamp {
        BEGAN.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_asked_for_again_where_the_api_server_was_only_slow_or_busy() {
        for (said, id, class, part) in [
            (None, "api.token", Class::Transient, "API server 10.0.0.11:6443 did not answer within 3 s"),
            (
                Some((429, "Too many requests, please try again later.")),
                "api.token",
                Class::Transient,
                "429 Too Many Requests",
            ),
            (Some((503, "")), "api.token", Class::Transient, "503 Service Unavailable"),
            (Some((403, "{}")), "api.token", Class::Configuration, "403 Forbidden"),
            (
                Some((200, "{}")),
                "api.token-unsigned",
                Class::Transient,
                "is not signed for the token of this join after 20 s",
            ),
        ] {
            let client = saying(said.map(|(status, body)| Ok((status, body))));
            let cause = mint(&client, &drawn().unwrap()).await.unwrap_err().cause();
            assert_eq!((cause.id.as_str(), cause.class()), (id, class), "{}", cause.says);
            assert!(cause.says.contains(part), "{part}: {}", cause.says);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_that_does_not_come_ends_no_minting() {
        for (on, fault, waits) in [
            ("create secrets", Fault::TooManyRequests, 1000),
            ("get configmaps", Fault::TooManyRequests, 1000),
            ("get configmaps", Fault::Delay(Duration::from_secs(4)), 3300),
            ("create secrets", Fault::Refuse, 300),
            // It was made, and the answer was lost on the way.
            ("create secrets", Fault::Cut, 300),
        ] {
            let cluster = MemoryCluster::start(began()).unwrap();
            let client = asking(&cluster.api, began());
            bootstrap_tokens::is_signed(&client, &"abcdef.0123456789abcdef".parse().unwrap()).await.unwrap();
            cluster.api.fail(on, Some(1), fault);
            let begun = Instant::now();
            assert!(mint(&client, &drawn().unwrap()).await.is_ok(), "{on}: {fault:?}");
            assert_eq!(begun.elapsed().as_millis(), waits, "{on}: {fault:?}");
            assert_eq!(cluster.api.count("delete secrets"), 0, "{on}: {fault:?}");
        }
    }

    /// What is already there is somebody else's: it is neither used nor counted as ours.
    #[tokio::test(start_paused = true)]
    async fn a_token_of_another_is_not_taken_for_ours() {
        let cluster = MemoryCluster::start(began()).unwrap();
        cluster.api.fail("create secrets", None, Fault::Conflict);
        assert!(
            matches!(mint(&asking(&cluster.api, began()), &drawn().unwrap()).await, Err(Unminted::Api(error)) if error.is_conflict())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_ends_by_the_clock_of_the_cluster() {
        for minutes in [-120, -31, 0, 31] {
            let cluster = MemoryCluster::start(began()).unwrap();
            let client = asking(&cluster.api, began().checked_add(SignedDuration::from_mins(minutes)).unwrap());
            // Whether or not the server was asked before.
            for _ in 0..2 {
                assert!(mint(&client, &drawn().unwrap()).await.is_ok(), "{minutes} min off");
            }
            for made in cluster.api.sent("create secrets") {
                let ends: Timestamp = made["stringData"]["expiration"].as_str().unwrap().parse().unwrap();
                assert_eq!(ends.duration_since(began()), LIFE, "{minutes} min off");
            }
        }
    }

    #[test]
    fn a_drawn_token_is_one() {
        let text = format!("{}.{}", draw(6).unwrap(), draw(16).unwrap());
        assert!(text.parse::<Token>().is_ok(), "{text}");
        assert_ne!(draw(16), draw(16));
    }
}
