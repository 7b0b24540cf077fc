//! The one client of a cluster: kube's, over a service of ours that dials through the machine.
//!
//! kube builds the requests and will follow watches; that it never reads an answer is on purpose. Where an answer cannot be
//! parsed, `kube::Client::request` logs all of it, a Secret as well. So only `kube::Client::send` is used, which logs nothing,
//! and the JSON is read here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use carrick_core::discovery::Endpoint;
use hyper::body::{Body as HttpBody, Bytes};
use hyper::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Resource;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::Request as Path;
use kube::core::request::Error as Unbuilt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use tower::{BoxError, Service};

use crate::connections::Connections;
use crate::credentials::ClusterCredentials;
use crate::dialer::Dialer;
use crate::error::{ApiError, ApiProblem};
use crate::service::{ApiService, AsItComes, DEADLINE, Shared};

/// How many objects a list gives at a time: of the largest, pods and DaemonSets, 1 MB.
const PAGE: u32 = 100;
/// Nothing that Carrick asks for has as many objects.
const MOST_OBJECTS: usize = 10_000;
/// A list as a whole, whatever its pages take: ten times what one request may. Of a healthy cluster it is over in a second.
const LIST_DEADLINE: Duration = Duration::from_secs(30);

/// An API server, who asks it, and the machine it is asked from.
#[derive(Clone)]
pub struct ClusterClient {
    kube: kube::Client,
    dialer: Arc<dyn Dialer>,
    server: Endpoint,
    ca: String,
    shared: Arc<Shared>,
}

impl fmt::Debug for ClusterClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<redacted> at {}", self.server)
    }
}

impl ClusterClient {
    /// Dials when first asked. Needs tokio: kube spawns a task for what is asked at once.
    pub fn new(credentials: &ClusterCredentials, dialer: Arc<dyn Dialer>) -> Self {
        Self::over(credentials, dialer.clone(), Connections::new(credentials, dialer))
    }

    /// For one who asks all day: an API server with much to do may take longer than a person waits.
    pub fn patient(credentials: &ClusterCredentials, dialer: Arc<dyn Dialer>, deadline: Duration) -> Self {
        Self::within(credentials, dialer.clone(), Connections::new(credentials, dialer), deadline)
    }

    /// Over another carrier than connections of its own: an API server in memory, for tests. `dialer` is its clock.
    pub fn over<S, B>(credentials: &ClusterCredentials, dialer: Arc<dyn Dialer>, carrier: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::within(credentials, dialer, carrier, DEADLINE)
    }

    fn within<S, B>(credentials: &ClusterCredentials, dialer: Arc<dyn Dialer>, carrier: S, deadline: Duration) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let shared = Shared::new(credentials, deadline);
        let service = ApiService::new(credentials, carrier, shared.clone());
        let (server, ca) = (credentials.server.clone(), credentials.ca.clone());
        ClusterClient { kube: kube::Client::new(service, "default"), dialer, server, ca, shared }
    }

    /// Asks with another token from now on: those of service accounts are replaced every hour. Whether it can be one.
    pub fn set_token(&self, token: &str) -> bool {
        let bearer = crate::http::bearer(token.trim()).filter(|_| !token.trim().is_empty());
        let fits = bearer.is_some();
        if fits {
            *self.shared.bearer.lock().unwrap_or_else(PoisonError::into_inner) = bearer;
        }
        fits
    }

    /// How many requests there were, by method and status; 0 where there was no answer.
    pub fn request_counts(&self) -> BTreeMap<(String, u16), u64> {
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn server(&self) -> &Endpoint {
        &self.server
    }

    /// The CA it trusts, as PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// By the machine's clock.
    pub fn now(&self) -> Timestamp {
        self.dialer.now()
    }

    /// By the API server's own clock, as far as its last answer showed one.
    pub fn server_now(&self) -> Option<Timestamp> {
        let (date, heard) = (*self.shared.date.lock().unwrap_or_else(PoisonError::into_inner))?;
        date.checked_add(heard.elapsed()).ok()
    }

    pub(crate) fn error(&self, problem: ApiProblem) -> ApiError {
        ApiError { server: self.server.clone(), problem }
    }

    /// A name as Kubernetes allows it: nothing that leads to another path, or adds to a selector.
    pub(crate) fn checked<'n>(&self, name: &'n str) -> Result<&'n str, ApiError> {
        let bad = || self.error(ApiProblem::BadRequest(format!("{name:?} is not a name in Kubernetes")));
        if is_name(name) { Ok(name) } else { Err(bad()) }
    }

    /// Where objects of a kind are served, once their names are known to be names.
    fn path<K: Kind>(&self, namespace: Option<&str>, name: &str) -> Result<Path, ApiError> {
        for name in namespace.into_iter().chain([name]) {
            self.checked(name)?;
        }
        Ok(Path::new(K::url_path(&(), namespace)))
    }

    pub(crate) async fn get<K: Kind>(&self, namespace: Option<&str>, name: &str) -> Result<Value, ApiError> {
        self.send(self.path::<K>(namespace, name)?.get(name, &GetParams::default())).await
    }

    /// Every object of a kind that a field selector leaves, page by page; `keep` says what is kept of each.
    pub(crate) async fn list<K: Kind, T>(
        &self,
        fields: Option<&str>,
        keep: impl Fn(Value) -> Option<T>,
    ) -> Result<Vec<T>, ApiError> {
        let whole = timeout(LIST_DEADLINE, self.pages::<K, T>(fields, keep)).await;
        whole.unwrap_or_else(|_| Err(self.error(ApiProblem::TimedOut(LIST_DEADLINE))))
    }

    async fn pages<K: Kind, T>(
        &self,
        fields: Option<&str>,
        keep: impl Fn(Value) -> Option<T>,
    ) -> Result<Vec<T>, ApiError> {
        let path = Path::new(K::url_path(&(), None));
        let first = ListParams { field_selector: fields.map(str::to_owned), ..ListParams::default().limit(PAGE) };
        let (mut kept, mut next, mut begun_anew, mut seen) = (Vec::new(), first.clone(), false, 0);
        while seen < MOST_OBJECTS {
            let page = self.send(path.list(&next)).await;
            let mut page = match page.map_err(|error| error.problem) {
                // The next page is kept for five minutes. Whoever was slower begins anew, once.
                Err(ApiProblem::Gone(_)) if next.continue_token.is_some() && !begun_anew => {
                    (kept, next, begun_anew, seen) = (Vec::new(), first.clone(), true, 0);
                    continue;
                }
                Err(ApiProblem::TooLarge(_)) if next.limit > Some(1) => {
                    next.limit = next.limit.map(|limit| (limit / 10).max(1));
                    continue;
                }
                // A list is there even where it is empty: who has none is no API server.
                Err(ApiProblem::NotFound(said)) => {
                    return Err(self.error(ApiProblem::Status(StatusCode::NOT_FOUND, said)));
                }
                page => page.map_err(|problem| self.error(problem))?,
            };
            let token = page.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty());
            next.continue_token = token.map(str::to_owned);
            let items = match page.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => items,
                Some(Value::Null) => Vec::new(),
                _ => return Err(self.error(ApiProblem::Unexpected("it is no list"))),
            };
            // A page with nothing on it counts, too: it may promise another for ever.
            seen += items.len().max(1);
            kept.extend(items.into_iter().filter_map(&keep));
            if next.continue_token.is_none() {
                return Ok(kept);
            }
        }
        Err(self.error(ApiProblem::Unexpected("the list has no end")))
    }

    /// The first page of what selectors leave: for who wants a few, and not all.
    pub(crate) async fn first_page<K: Kind>(
        &self,
        namespace: Option<&str>,
        fields: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Vec<Value>, ApiError> {
        let path = Path::new(K::url_path(&(), namespace.map(|namespace| self.checked(namespace)).transpose()?));
        let (field_selector, label_selector) = (fields.map(str::to_owned), labels.map(str::to_owned));
        let asked = ListParams { field_selector, label_selector, ..ListParams::default().limit(PAGE) };
        match self.send(path.list(&asked)).await?.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            Some(Value::Null) => Ok(Vec::new()),
            _ => Err(self.error(ApiProblem::Unexpected("it is no list"))),
        }
    }

    /// An answer as it came, whatever its status: it may be somebody else's than the API server's own.
    pub(crate) async fn proxied(&self, path: &str) -> Result<(StatusCode, Bytes), ApiError> {
        let request = Request::get(path).extension(AsItComes).body(Body::empty());
        let request = request.map_err(|error| self.error(ApiProblem::BadRequest(error.to_string())))?;
        let response = self.kube.send(request).await.map_err(|error| self.of_kube(error))?;
        let status = response.status();
        Ok((status, response.into_body().collect_bytes().await.map_err(|error| self.of_kube(error))?))
    }

    pub(crate) async fn create<K: Kind>(&self, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let path = self.path::<K>(Some(namespace), name)?;
        self.send(path.create(&PostParams::default(), object.to_string().into_bytes())).await
    }

    /// What would come of creating it: admission and all, and nothing is stored.
    pub(crate) async fn would_create<K: Kind>(&self, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let how = PostParams { dry_run: true, ..PostParams::default() };
        self.send(self.path::<K>(Some(namespace), name)?.create(&how, object.to_string().into_bytes())).await
    }

    /// What would come of replacing it: as [`Self::would_create`].
    pub(crate) async fn would_replace<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let how = PostParams { dry_run: true, ..PostParams::default() };
        let path = self.path::<K>(Some(namespace), name)?;
        self.send(path.replace(name, &how, object.to_string().into_bytes())).await
    }

    /// Asks by creating an object that is never stored.
    pub(crate) async fn review<K: Kind>(&self, object: &Value) -> Result<Value, ApiError> {
        let path = Path::new(K::url_path(&(), None));
        self.send(path.create(&PostParams::default(), object.to_string().into_bytes())).await
    }

    pub(crate) async fn create_subresource<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let path = self.path::<K>(Some(namespace), name)?;
        let object = object.to_string().into_bytes();
        self.send(path.create_subresource(subresource, name, &PostParams::default(), object)).await
    }

    pub(crate) async fn patch<K: Kind, T: DeserializeOwned>(
        &self,
        name: &str,
        patch: &Patch<impl Serialize + fmt::Debug>,
    ) -> Result<T, ApiError> {
        self.send_for(self.path::<K>(None, name)?.patch(name, &PatchParams::default(), patch)).await
    }

    pub(crate) async fn patch_status<K: Kind, T: DeserializeOwned>(
        &self,
        name: &str,
        patch: &Patch<impl Serialize + fmt::Debug>,
    ) -> Result<T, ApiError> {
        let (served, how) = (self.path::<K>(None, name)?, PatchParams::default());
        self.send_for(served.patch_subresource("status", name, &how, patch)).await
    }

    /// That there is none any more is fine.
    pub(crate) async fn delete<K: Kind>(
        &self,
        namespace: Option<&str>,
        name: &str,
        how: &DeleteParams,
    ) -> Result<(), ApiError> {
        match self.send(self.path::<K>(namespace, name)?.delete(name, how)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn send(&self, request: Result<Request<Vec<u8>>, Unbuilt>) -> Result<Value, ApiError> {
        self.send_for(request).await
    }

    /// Of the answer only what is asked for is built.
    async fn send_for<T: DeserializeOwned>(&self, request: Result<Request<Vec<u8>>, Unbuilt>) -> Result<T, ApiError> {
        let unbuilt = |error: Unbuilt| self.error(ApiProblem::BadRequest(error.to_string()));
        self.answer(request.map_err(unbuilt)?).await
    }

    /// A merge patch of an object without a namespace, answered with its metadata alone.
    pub(crate) async fn patch_for_metadata<K: Kind, T: DeserializeOwned>(
        &self,
        name: &str,
        change: &Value,
    ) -> Result<T, ApiError> {
        let path = self.path::<K>(None, name)?;
        self.send_for(path.patch_metadata(name, &PatchParams::default(), &Patch::Merge(change))).await
    }

    /// A page of a list, or whatever else a path and a query give, read as what is asked for and no more.
    pub(crate) async fn get_path<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.answer(self.request_of(path)?).await
    }

    /// A body that is read as it comes.
    pub(crate) async fn stream(&self, path: &str) -> Result<Body, ApiError> {
        let request = self.request_of(path)?.map(Body::from);
        let response = self.kube.send(request).await.map_err(|error| self.of_kube(error))?;
        Ok(response.into_body())
    }

    fn request_of(&self, path: &str) -> Result<Request<Vec<u8>>, ApiError> {
        let request = Request::get(path).body(Vec::new());
        request.map_err(|error| self.error(ApiProblem::BadRequest(error.to_string())))
    }

    pub(crate) async fn replace<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let path = self.path::<K>(Some(namespace), name)?;
        self.send(path.replace(name, &PostParams::default(), object.to_string().into_bytes())).await
    }

    async fn answer<T: DeserializeOwned>(&self, request: Request<Vec<u8>>) -> Result<T, ApiError> {
        let request = request.map(Body::from);
        let response = self.kube.send(request).await.map_err(|error| self.of_kube(error))?;
        let body = response.into_body().collect_bytes().await.map_err(|error| self.of_kube(error))?;
        serde_json::from_slice(&body).map_err(|error| {
            // Not the parser's own words: they may quote the answer.
            self.error(ApiProblem::NotJson { line: error.line(), column: error.column() })
        })
    }

    /// Our service's own errors, as they went in.
    pub(crate) fn of_kube(&self, error: kube::Error) -> ApiError {
        match error {
            kube::Error::Service(error) => match error.downcast::<ApiError>() {
                Ok(error) => *error,
                Err(error) => self.error(ApiProblem::of(error.as_ref())),
            },
            other => self.error(ApiProblem::BadRequest(other.to_string())),
        }
    }
}

/// A kind of object that is known when this is compiled.
pub(crate) trait Kind: Resource<DynamicType = ()> {}
impl<K: Resource<DynamicType = ()>> Kind for K {}

/// Whether Kubernetes would take it for the name of an object.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.bytes().all(fits) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for name in ["w1", "kube-flannel", "node-1.example.com"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", "a/b", "W1", "a b", "a?b", "a%2fb"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
