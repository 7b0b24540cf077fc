//! Bootstrap tokens: Secrets in kube-system, and the signature on cluster-info that the control plane makes for each.

use carrick_core::discovery::Token;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::json;

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

/// By its id. That there is none is fine.
pub async fn revoke(client: &ClusterClient, id: &str) -> Result<(), ApiError> {
    client.delete::<Secret>(Some(NAMESPACE), &name(id), &DeleteParams::default()).await
}

fn name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}
