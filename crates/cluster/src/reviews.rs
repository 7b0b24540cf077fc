//! Whom the API server knows by a token, and what they may.

use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::ApiError;

/// The user whose token it is, as the API server says; `None`: nobody's.
pub async fn user_of(client: &ClusterClient, token: &str) -> Result<Option<Value>, ApiError> {
    let asked = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token } });
    let mut review = client.review::<TokenReview>(&asked).await?;
    let known = review.pointer("/status/authenticated").and_then(Value::as_bool) == Some(true);
    Ok(review.pointer_mut("/status/user").map(Value::take).filter(|user| known && user.is_object()))
}

/// Whether this user may read a path that is no object's.
pub async fn may_get(client: &ClusterClient, user: &Value, path: &str) -> Result<bool, ApiError> {
    let asked = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": user["username"], "uid": user["uid"], "groups": user["groups"], "extra": user["extra"],
            "nonResourceAttributes": { "path": path, "verb": "get" },
        },
    });
    let review = client.review::<SubjectAccessReview>(&asked).await?;
    Ok(review.pointer("/status/allowed").and_then(Value::as_bool) == Some(true))
}
