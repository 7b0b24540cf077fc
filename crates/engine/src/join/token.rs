//! A bootstrap token of our own, for who comes with an admin's kubeconfig: made for one join, revoked after it.

use std::time::Duration;

use carrick_cluster::client::Client;
use carrick_cluster::way::Way;
use carrick_core::aim::Token;
use carrick_core::fact::Why;
use jiff::{SignedDuration, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
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

/// Makes a token and waits until the cluster vouches for it. What was made is given even where that does not come.
pub async fn mint(client: &Client, way: &dyn Way, now: Timestamp) -> Result<Token, Why> {
    let token = || -> Result<Token, String> { format!("{}.{}", draw(6)?, draw(16)?).parse() };
    let token = token().map_err(Why::Broken)?;
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": name(&token), "namespace": "kube-system"},
        "stringData": {
            "token-id": token.id,
            "token-secret": token.secret(),
            "description": "made by carrick join, for one machine",
            "expiration": now.checked_add(LIFE).unwrap_or(now).to_string(),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    });
    let made = client.create(way, "/api/v1/namespaces/kube-system/secrets", &secret).await;
    let usable = match made {
        Ok(_) => signed(client, way, &token).await,
        Err(why) => Err(why),
    };
    if usable.is_err() {
        // It may have been made all the same. Where it cannot be taken away now, it ends by itself.
        let _ = revoke(client, way, &token).await;
    }
    usable.map(|()| token)
}

async fn signed(client: &Client, way: &dyn Way, token: &Token) -> Result<(), Why> {
    let (begun, key) = (Instant::now(), format!("/data/jws-kubeconfig-{}", token.id));
    loop {
        let info = client.get(way, "/api/v1/namespaces/kube-public/configmaps/cluster-info").await?;
        if info.pointer(&key).is_some() {
            return Ok(());
        }
        if begun.elapsed() > SIGNED {
            let says = format!("cluster-info is not signed for the new token after {} s", SIGNED.as_secs());
            return Err(Why::Broken(says));
        }
        sleep(Duration::from_millis(300)).await;
    }
}

pub async fn revoke(client: &Client, way: &dyn Way, token: &Token) -> Result<(), Why> {
    client.delete(way, &format!("/api/v1/namespaces/kube-system/secrets/{}", name(token))).await
}

fn name(token: &Token) -> String {
    format!("bootstrap-token-{}", token.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_token_is_one() {
        let text = format!("{}.{}", draw(6).unwrap(), draw(16).unwrap());
        assert!(text.parse::<Token>().is_ok(), "{text}");
        assert_ne!(draw(16), draw(16));
    }
}
