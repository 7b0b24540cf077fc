//! What the API server says where it refuses: Status objects, in its own words.

use http::StatusCode;
use serde_json::{Value, json};

use super::resource::Resource;

/// A refusal, and for how many seconds to wait before the next try.
#[derive(Clone, Debug)]
pub(crate) struct StatusError {
    pub code: StatusCode,
    pub body: Value,
    pub retry_after: Option<u32>,
}

impl StatusError {
    fn new(code: StatusCode, reason: &str, message: impl Into<String>, details: &Value) -> Self {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message.into(), "reason": reason, "details": details, "code": code.as_u16(),
        });
        if let Some(map) = body.as_object_mut().filter(|_| details.is_null()) {
            map.shift_remove("details");
        }
        Self { code, body, retry_after: None }
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", &Value::Null)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message, &Value::Null)
    }

    /// `why`: who may not do what.
    pub(super) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let what = if name.is_empty() { resource.qualified() } else { format!("{} {name:?}", resource.qualified()) };
        let details = details(resource, name);
        Self::new(StatusCode::FORBIDDEN, "Forbidden", format!("{what} is forbidden: {why}"), &details)
    }

    /// Of a path that is no resource.
    pub(super) fn forbidden_path(why: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", format!("forbidden: {why}"), &json!({}))
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, &details(resource, name))
    }

    /// What went wrong inside, in no reason's words.
    pub(super) fn unknown(message: &str) -> Self {
        let mut refused = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, &Value::Null);
        if let Some(body) = refused.body.as_object_mut() {
            body.shift_remove("reason");
        }
        refused
    }

    pub(super) fn unavailable(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message, &Value::Null)
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message, &details(resource, name))
    }

    pub(super) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message, &details(resource, name))
    }

    /// Somebody else was quicker.
    pub(super) fn modified(resource: &Resource, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, WHY)
    }

    /// An update that must name the version it was made for, and does not.
    pub(super) fn unversioned(resource: &Resource, name: &str) -> Self {
        let (field, what) = ("metadata.resourceVersion", "Invalid value: 0: must be specified for an update");
        let mut details = details(resource, name);
        details["causes"] = json!([{"reason": "FieldValueInvalid", "message": what, "field": field}]);
        let message = format!("{} {name:?} is invalid: {field}: {what}", resource.qualified());
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, &details)
    }

    /// A delete of another object than the one that is there: `why` names both.
    pub(super) fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        let mut details = details(resource, name);
        details["kind"] = resource.kind.into();
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified_kind());
        Self::new(StatusCode::CONFLICT, "Conflict", message, &details)
    }

    /// The same complaint twice: a Node's update is looked at twice.
    pub(super) fn twice(mut self) -> Self {
        if let Some(causes) = self.body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
            causes.extend(causes.clone());
        }
        self
    }

    /// `field: kind of error: what`, as in `spec.taints[0].effect`, `FieldValueNotSupported`.
    pub(super) fn invalid(resource: &Resource, name: &str, field: &str, kind: &str, what: &str) -> Self {
        let message = format!("{} {name:?} is invalid: {field}: {what}", resource.qualified_kind());
        let mut details = details(resource, name);
        if let Some(details) = details.as_object_mut() {
            details.insert("kind".to_owned(), resource.kind.into());
            details.insert("causes".to_owned(), json!([{"reason": kind, "message": what, "field": field}]));
        }
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, &details)
    }

    pub(super) fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message, &Value::Null)
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, &json!({}))
    }

    /// A `continue` that is too old; `fresh` goes on with the list as it is now.
    pub(super) fn expired_continue(fresh: &str) -> Self {
        const MESSAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
        let mut refused = Self::new(StatusCode::GONE, "Expired", MESSAGE, &Value::Null);
        refused.body["metadata"] = json!({"continue": fresh});
        refused
    }

    /// A version to list or watch from that is not known any more.
    pub(super) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::new(StatusCode::GONE, "Expired", format!("too old resource version: {asked} ({oldest})"), &Value::Null)
    }

    /// An eviction that a disruption budget forbids.
    pub(super) fn disruption_budget(budget: &str, needs: i64, has: i64) -> Self {
        let says = format!("The disruption budget {budget} needs {needs} healthy pods and has {has} currently");
        let details = json!({"causes": [{"reason": "DisruptionBudget", "message": says}]});
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message, &details)
    }

    pub(super) fn internal(code: StatusCode) -> Self {
        let (reason, message) = match code {
            StatusCode::SERVICE_UNAVAILABLE => {
                ("ServiceUnavailable", "the server is currently unable to handle the request")
            }
            StatusCode::GATEWAY_TIMEOUT => {
                ("Timeout", "the server was unable to return a response in the time allotted")
            }
            _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
        };
        Self::new(code, reason, message, &json!({}))
    }

    /// What this server does not model: no test may build on it.
    pub(super) fn not_modelled(what: &str) -> Self {
        let message = format!("testkit's API server in memory does not model this: {what}");
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotModelled", message, &Value::Null)
    }
}

fn details(resource: &Resource, name: &str) -> Value {
    let mut details = json!({});
    for (key, value) in [("name", name), ("group", resource.group), ("kind", resource.plural)] {
        if !value.is_empty() {
            details[key] = value.into();
        }
    }
    details
}

/// That it is done, where nothing else is given back.
pub(crate) fn success(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = details(resource, name);
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
