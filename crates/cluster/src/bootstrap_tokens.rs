//! Bootstrap tokens: Secrets in kube-system, and the signature on cluster-info that the control plane makes for each.

use carrick_core::discovery::Token;
use carrick_core::fact::bootstrap_token::TokenSecret;
use carrick_core::fact::{Capture, kubeconfig};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::config_maps;
use crate::error::ApiError;

const NAMESPACE: &str = "kube-system";

/// Makes a token for a join, which ends by itself.
pub async fn create(client: &ClusterClient, token: &Token, expires: Timestamp) -> Result<(), ApiError> {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": name(&token.id), "namespace": NAMESPACE},
        "stringData": {
            "token-id": token.id,
            "token-secret": token.secret(),
            "description": "made by carrick join, for one machine",
            "expiration": expires.to_string(),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    });
    client.create::<Secret>(NAMESPACE, &secret).await.map(drop)
}

/// Whether cluster-info is signed for it: only then does kubeadm believe what it reads there.
pub async fn is_signed(client: &ClusterClient, token: &Token) -> Result<bool, ApiError> {
    let key = format!("jws-kubeconfig-{}", token.id);
    config_maps::value(client, "kube-public", "cluster-info", &key).await.map(|signature| signature.is_some())
}

/// What its Secret says of it, as a fact: all but the secret itself, of which only whether it is this one.
pub async fn state(client: &ClusterClient, token: &Token) -> Result<Capture, ApiError> {
    let secret = client.get::<Secret>(Some(NAMESPACE), &name(&token.id)).await?;
    let entry = |key: &str| kubeconfig::decode(secret.get("data")?.get(key)?.as_str()?);
    let is_true = |key: &str| entry(key).as_deref() == Some("true");
    let state = TokenSecret {
        made: secret.pointer("/metadata/creationTimestamp").and_then(Value::as_str).and_then(|at| at.parse().ok()),
        expires: entry("expiration").and_then(|at| at.parse().ok()),
        signing: is_true("usage-bootstrap-signing"),
        authentication: is_true("usage-bootstrap-authentication"),
        groups: entry("auth-extra-groups").unwrap_or_default().split(',').map(str::to_owned).collect(),
        fits: entry("token-secret").as_deref() == Some(token.secret()),
        read: client.server_now().unwrap_or_else(|| client.now()),
    };
    Ok(Capture::text(json!(state).to_string()))
}

/// By its id. That there is none is fine.
pub async fn revoke(client: &ClusterClient, id: &str) -> Result<(), ApiError> {
    client.delete::<Secret>(Some(NAMESPACE), &name(id), &DeleteParams::default()).await
}

fn name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}
