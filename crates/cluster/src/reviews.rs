//! Whom the API server knows by a token, and what they may.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenReview};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use serde_json::{Value, json};

use crate::client::ClusterClient;
use crate::error::{ApiError, ApiProblem};

/// The user whose token it is, as the API server says; `None`: nobody's.
pub async fn user_of(client: &ClusterClient, token: &str) -> Result<Option<Value>, ApiError> {
    let asked = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token } });
    let mut review = client.review::<TokenReview>(&asked).await?;
    let known = review.pointer("/status/authenticated").and_then(Value::as_bool) == Some(true);
    Ok(review.pointer_mut("/status/user").map(Value::take).filter(|user| known && user.is_object()))
}

/// Whether the API server knows who asks: an anonymous request may not even ask that.
pub async fn knows_us(client: &ClusterClient) -> Result<bool, ApiError> {
    let asked = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    match client.review::<SelfSubjectReview>(&asked).await {
        Ok(review) => {
            let groups = review.pointer("/status/userInfo/groups").and_then(Value::as_array);
            Ok(groups.is_some_and(|groups| !groups.iter().any(|group| group == "system:unauthenticated")))
        }
        Err(error) if matches!(error.problem, ApiProblem::Unauthorized(_) | ApiProblem::Forbidden(_)) => Ok(false),
        Err(error) => Err(error),
    }
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
