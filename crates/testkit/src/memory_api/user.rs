//! Who asks: by a bearer token, by a client certificate, or nobody.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use serde_json::Value;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::resource::Resource;
use super::status::StatusError;
use super::store::{Key, Store};

/// A name and its groups, as the API server knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

impl User {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
    }

    pub fn anonymous() -> Self {
        Self::new("system:anonymous", &["system:unauthenticated"])
    }

    /// As kubeadm's super-admin.conf.
    pub fn admin() -> Self {
        Self::new("kubernetes-super-admin", &["system:masters"])
    }

    /// By the subject of a client certificate that was verified: common name and organisations.
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = subject.iter_organization().filter_map(|part| part.as_str().ok()).map(str::to_owned).collect();
        Some(Self { name, groups })
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|of| of == group)
    }

    /// The name of the node that asks.
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix("system:node:").filter(|_| self.is_in("system:nodes"))
    }

    fn authenticated(mut self) -> Self {
        self.groups.push("system:authenticated".to_owned());
        self
    }
}

/// A certificate goes before a token, and a token that nobody knows is refused.
pub(crate) fn authenticate(
    headers: &HeaderMap,
    peer: Option<&User>,
    store: &Store,
    now: Timestamp,
) -> Result<User, StatusError> {
    if let Some(peer) = peer {
        return Ok(peer.clone().authenticated());
    }
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(User::anonymous()) };
    let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let token = token.ok_or_else(StatusError::unauthorized)?;
    let user = bootstrap(token, store, now).ok_or_else(StatusError::unauthorized)?;
    Ok(user.authenticated())
}

/// By the Secret of a bootstrap token that may authenticate and has not expired.
fn bootstrap(token: &str, store: &Store, now: Timestamp) -> Option<User> {
    let (id, secret) = token.split_once('.')?;
    let secrets = Resource::find("", "v1", "secrets")?;
    let object = store.get(&Key::new(secrets, "kube-system", &format!("bootstrap-token-{id}")))?;
    let field = |key: &str| entry(object, key);
    let usable = object.get("type").and_then(Value::as_str) == Some("bootstrap.kubernetes.io/token")
        && object.pointer("/metadata/deletionTimestamp").is_none()
        && field("token-id").as_deref() == Some(id)
        && field("token-secret").as_deref() == Some(secret)
        && field("usage-bootstrap-authentication").as_deref() == Some("true")
        && field("expiration").is_none_or(|at| at.parse::<Timestamp>().is_ok_and(|at| at > now));
    let mut user = User::new(&format!("system:bootstrap:{id}"), &["system:bootstrappers"]);
    let groups = field("auth-extra-groups").unwrap_or_default();
    user.groups.extend(groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned));
    usable.then_some(user)
}

/// An entry of a Secret, decoded.
pub(crate) fn entry(secret: &Value, key: &str) -> Option<String> {
    use base64::Engine as _;
    let text = secret.get("data")?.get(key)?.as_str()?;
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).ok()?).ok()
}
