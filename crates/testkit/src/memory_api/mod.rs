//! An API server in memory: a tower service that answers as kube-apiserver does, and fails a test that asks what nobody has
//! held against a real one.
//!
//! * [`rows`]: the table of requests. Each row is played to this server and, in the lab, to a real one; **a request whose
//!   shape is in no row is answered 501 and fails the test**
//! * `store`, `resource`, `object`: what is there, how kinds differ, what becomes of an object that is written
//! * `serve`, `watch`, `patch`, `selector`: the verbs
//! * `user`, `authorization`: who asks, and what they may: kubeadm's roles, the Node authorizer, NodeRestriction
//! * [`controller`]: token signer, approver, signer, podCIDR; none runs unless a test starts it
//! * [`Fault`]: what goes wrong on demand
//! * [`tls`]: the way to it through TLS on a stream in memory
//!
//! No client's types: only `http` bodies and JSON. What is not modelled is said so, with 501, and never answered at a guess.

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::sleep;

mod authorization;
pub mod controller;
mod fault;
mod object;
mod patch;
mod request;
mod resource;
pub mod rows;
mod selector;
mod serve;
mod status;
mod store;
#[cfg(test)]
mod tests;
pub mod tls;
mod user;
mod watch;

pub use fault::Fault;
pub use user::User;
pub use watch::Body;

use controller::Controller;
use fault::{Faults, is_of};
use request::Asked;
use resource::Resource;
use serve::{Reply, Turn, has_subresource};
use status::StatusError;
use store::{Key, Notice, Store};

/// As a real one: what is larger is refused.
const LARGEST_BODY: usize = 3 << 20;

/// Shapes of requests that are held against a real API server.
static KNOWN: LazyLock<BTreeSet<String>> = LazyLock::new(rows::shapes);

/// A version, and an object before and after it.
pub type StoredChange = (u64, Option<Value>, Option<Value>);

type Clock = dyn Fn() -> Timestamp + Send + Sync;

/// The server. It lives as long as this is held, and when it is dropped, the test fails if a request was in no row.
pub struct MemoryApi(Arc<Shared>);

/// Where requests go: a tower service, as often as it is cloned.
#[derive(Clone)]
pub struct ApiService {
    shared: Arc<Shared>,
    /// Who asks by a client certificate that was verified.
    peer: Option<User>,
}

struct Shared {
    clock: Box<Clock>,
    inner: Mutex<Inner>,
}

struct Inner {
    store: Store,
    faults: Faults,
    controllers: Vec<Controller>,
    /// The shape of every request, in order, and what was sent along.
    asked: Vec<(String, Bytes)>,
    unknown: Vec<String>,
}

impl MemoryApi {
    /// As kubeadm leaves one: the namespaces of the system, and nothing else.
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let (store, faults) = (Store::new(), Faults::default());
        let (controllers, asked, unknown) = (Vec::new(), Vec::new(), Vec::new());
        let inner = Mutex::new(Inner { store, faults, controllers, asked, unknown });
        let api = Self(Arc::new(Shared { clock: Box::new(clock), inner }));
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            api.put(&serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        api
    }

    /// For whoever says in a header who they are, or does not.
    pub fn service(&self) -> ApiService {
        ApiService { shared: Arc::clone(&self.0), peer: None }
    }

    /// For one who was known before the first request: by a client certificate.
    pub fn service_for(&self, peer: Option<User>) -> ApiService {
        ApiService { shared: Arc::clone(&self.0), peer }
    }

    /// An object comes to be, or is replaced, status and all, without anybody asking; as it is then.
    ///
    /// # Panics
    /// Where it is of no resource that is served.
    pub fn put(&self, object: &Value) -> Value {
        let (mut inner, now) = (self.0.inner(), self.0.now());
        let written = inner.put(object, now);
        inner.run_controllers(now);
        written
    }

    /// The object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        let key = place(path)?;
        self.0.inner().store.get(&key).cloned()
    }

    /// The version of the last change.
    pub fn version(&self) -> u64 {
        self.0.inner().store.version()
    }

    /// Every change so far, in order: its version, and the object before and after it; `None` where there was none.
    pub fn changes(&self) -> Vec<StoredChange> {
        let changes = self.0.inner().store.since(0);
        changes.into_iter().map(|change| (change.version, change.before, change.after)).collect()
    }

    /// Every watch hears of the object at a path once more, as it is.
    pub fn repeat(&self, path: &str) {
        if let Some(key) = place(path) {
            self.0.inner().store.repeat(key);
        }
    }

    /// The object at a path goes, without anybody asking.
    pub fn take(&self, path: &str) {
        let Some(key) = place(path) else { return };
        let mut inner = self.0.inner();
        if inner.store.get(&key).is_some() {
            inner.store.commit(key, None);
        }
    }

    /// From now on the kubelet of a node answers the API server, or is not reached: in the words of Go's network.
    pub fn set_kubelet(&self, node: &str, unreached: Option<&str>) {
        self.0.inner().store.kubelets.insert(node.to_owned(), unreached.map(str::to_owned));
    }

    /// A RoleBinding or ClusterRoleBinding of kubeadm's goes: what it gave is refused from now on.
    pub fn unbind(&self, binding: &'static str) {
        self.0.inner().store.set_unbound(binding, true);
    }

    /// It comes back.
    pub fn bind(&self, binding: &'static str) {
        self.0.inner().store.set_unbound(binding, false);
    }

    /// Starts a controller: it acts now, and after every change.
    pub fn start(&self, controller: Controller) {
        let (mut inner, now) = (self.0.inner(), self.0.now());
        inner.controllers.push(controller);
        inner.run_controllers(now);
    }

    /// The next so many requests whose shape begins with these words meet a fault; `None`: all of them.
    pub fn fail(&self, on: &str, times: Option<u32>, fault: Fault) {
        self.0.inner().faults.plan(on, times, fault);
    }

    /// Forgets every state but this: a `continue` and a watch from before are too old.
    pub fn compact(&self) {
        self.0.inner().store.compact();
    }

    /// Every watch hears that it is too old.
    pub fn expire_watches(&self) {
        self.0.inner().store.expire_watches();
    }

    /// Every watch ends well, as those of a server that is stopped.
    pub fn end_watches(&self) {
        self.0.inner().store.hang_up();
    }

    /// The connection of every watch breaks.
    pub fn cut_watches(&self) {
        self.0.inner().store.end_watches(&Notice::Cut);
    }

    /// The shapes of all requests so far, in order.
    pub fn asked(&self) -> Vec<String> {
        self.0.inner().asked.iter().map(|(shape, _)| shape.clone()).collect()
    }

    /// How many requests there were whose shape begins with these words.
    pub fn count(&self, shape: &str) -> usize {
        self.0.inner().asked.iter().filter(|(asked, _)| is_of(asked, shape)).count()
    }

    /// What was sent along with those requests.
    pub fn sent(&self, shape: &str) -> Vec<Value> {
        let inner = self.0.inner();
        let bodies = inner.asked.iter().filter(|(asked, _)| is_of(asked, shape)).map(|(_, body)| body);
        bodies.map(|body| serde_json::from_slice(body).unwrap_or_default()).collect()
    }

    /// Requests that no row has; whoever takes them answers for them.
    pub fn take_unknown(&self) -> Vec<String> {
        std::mem::take(&mut self.0.inner().unknown)
    }
}

impl Drop for MemoryApi {
    fn drop(&mut self) {
        let unknown = self.take_unknown();
        // A test that fails already says why.
        assert!(
            unknown.is_empty() || thread::panicking(),
            "no row of testkit::memory_api::rows has these requests: {}; add one (CONTRIBUTING.md)",
            unknown.join("; ")
        );
    }
}

/// Of one object, by its path.
fn place(path: &str) -> Option<Key> {
    let request = Request::builder().uri(path).body(()).ok()?;
    let asked = Asked::of(&request.into_parts().0, Bytes::new());
    Some(Key::new(asked.resource?, &asked.namespace, &asked.name))
}

impl Inner {
    #[allow(clippy::panic, reason = "a test put an object that is not served")]
    fn put(&mut self, object: &Value, now: Timestamp) -> Value {
        let (version, kind) = (object::text(object, "/apiVersion"), object::text(object, "/kind"));
        let Some(resource) = Resource::of_kind(version, kind) else { panic!("{version} {kind} is not served") };
        let mut object = object.clone();
        let namespace = object::text(&object, "/metadata/namespace").to_owned();
        let key = Key::new(resource, &namespace, object::text(&object, "/metadata/name"));
        if let Some(old) = self.store.get(&key) {
            object["metadata"] = merged(&old["metadata"], &object["metadata"]);
        } else {
            let (number, status) = (self.store.number(), object.get("status").cloned());
            object::begin(&mut object, resource, &User::admin(), now, number);
            if let Some(status) = status {
                object["status"] = status;
            }
        }
        self.store.commit(key, Some(object)).unwrap_or_default()
    }

    /// Until none of them has anything left to do.
    fn run_controllers(&mut self, now: Timestamp) {
        // Each answers a change with at most a few of its own; more is a controller that chases itself.
        for _ in 0..100 {
            let before = self.store.version();
            for controller in self.controllers.clone() {
                for object in controller.act(&self.store, now) {
                    self.put(&object, now);
                }
            }
            if self.store.version() == before {
                return;
            }
        }
    }
}

fn merged(old: &Value, new: &Value) -> Value {
    let mut merged = old.clone();
    patch::merge(&mut merged, new);
    merged
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    async fn answer(&self, request: Request<Bytes>, peer: Option<User>) -> io::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let asked = Asked::of(&parts, body);
        let shape = asked.shape();
        let fits = asked.resource.is_none_or(|resource| has_subresource(resource, &asked.subresource));
        let known = fits && KNOWN.contains(&shape);
        let fault = {
            let mut inner = self.inner();
            inner.asked.push((shape.clone(), asked.body.clone()));
            if !known {
                inner.unknown.push(shape.clone());
            }
            // No fault hides that nobody has held this request against a real server.
            if known { inner.faults.strike(&shape) } else { None }
        };
        if !known {
            return Ok(self.refusal(&StatusError::not_modelled(&shape)));
        }
        match fault {
            Some(Fault::Delay(time)) => sleep(time).await,
            Some(Fault::Refuse) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Fault::TooManyRequests) => return Ok(self.too_many_requests()),
            Some(Fault::Panic) => panic!("as if by a mistake of who asked"),
            _ => {}
        }
        let peer = peer.or_else(|| parts.extensions.get::<User>().cloned());
        let answer = self.decide(&asked, &shape, &parts.headers, peer.as_ref(), fault);
        let response = match answer {
            Ok(Reply::Object(code, object)) => self.json(code, &object),
            Ok(Reply::Text(text)) => self.text(StatusCode::OK, text),
            Ok(Reply::Watch(watch)) => {
                let mut response = self.json(StatusCode::OK, &Value::Null);
                *response.body_mut() = Body::watch(watch);
                response
            }
            Err(refused) => self.refusal(&refused),
        };
        Ok(if fault == Some(Fault::Cut) { response.map(Body::cut) } else { response })
    }

    /// Everything that needs the store, at one moment.
    fn decide(
        &self,
        asked: &Asked,
        shape: &str,
        headers: &http::HeaderMap,
        peer: Option<&User>,
        fault: Option<Fault>,
    ) -> Result<Reply, StatusError> {
        let (mut inner, now) = (self.inner(), self.now());
        let inner = &mut *inner;
        let user = user::authenticate(headers, peer, &inner.store, now)?;
        match (fault, asked.resource) {
            (Some(Fault::Status(code)), _) => {
                return Err(StatusError::internal(StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY)));
            }
            (Some(Fault::Conflict), Some(resource)) => return Err(StatusError::modified(resource, &asked.name)),
            (Some(Fault::Gone), _) => {
                return Err(StatusError::too_old(inner.store.oldest(), inner.store.version()));
            }
            _ => {}
        }
        let answer = Turn { store: &mut inner.store, asked, user: &user, now }.answer();
        if let Err(refused) = &answer
            && refused.code == StatusCode::NOT_IMPLEMENTED
        {
            inner.unknown.push(format!("{shape}: {}", object::text(&refused.body, "/message")));
        }
        inner.run_controllers(now);
        answer
    }

    fn respond(&self, code: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
        let date = self.now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(date) = date.parse() {
            headers.insert(DATE, date);
        }
        response
    }

    fn json(&self, code: StatusCode, object: &Value) -> Response<Body> {
        self.respond(code, "application/json", Body::whole(object.to_string()))
    }

    fn text(&self, code: StatusCode, text: &'static str) -> Response<Body> {
        self.respond(code, "text/plain; charset=utf-8", Body::whole(text))
    }

    fn refusal(&self, refused: &StatusError) -> Response<Body> {
        let mut response = self.json(refused.code, &refused.body);
        if let Some(seconds) = refused.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    /// In the words of priority and fairness, which makes no Status.
    fn too_many_requests(&self) -> Response<Body> {
        let text = "Too many requests, please try again later.\n";
        let mut response = self.text(StatusCode::TOO_MANY_REQUESTS, text);
        response.headers_mut().insert(RETRY_AFTER, 1.into());
        response
    }
}

impl ApiService {
    /// Whether who dials now is refused.
    pub(super) fn refuses(&self) -> bool {
        self.shared.inner().faults.refuse()
    }

    /// The same, for one who was known before the first request.
    pub fn by(&self, peer: Option<&User>) -> Self {
        Self { peer: peer.cloned(), ..self.clone() }
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (shared, peer) = (Arc::clone(&self.shared), self.peer.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(io::Error::other)?;
            shared.answer(Request::from_parts(parts, body.to_bytes()), peer).await
        })
    }
}

/// Rows are played to the service itself; TLS has its own test.
impl rows::RowServer for MemoryApi {
    async fn send(&self, who: rows::Who, mut request: Request<Bytes>) -> Result<rows::RowResponse, String> {
        use rows::Who;
        let (peer, token) = match who {
            Who::Admin => (Some(User::admin()), None),
            Who::Node => (Some(User::new(&format!("system:node:{}", rows::NODE), &["system:nodes"])), None),
            Who::Anonymous => (None, None),
            Who::Token => (None, Some(rows::TOKEN)),
            Who::Stranger => (None, Some(rows::UNKNOWN_TOKEN)),
        };
        if let Some(token) = token {
            let bearer = http::HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| error.to_string())?;
            request.headers_mut().insert(http::header::AUTHORIZATION, bearer);
        }
        let request = request.map(http_body_util::Full::new);
        let response = tower::Service::call(&mut self.service_for(peer), request).await;
        let response = response.map_err(|error| error.to_string())?;
        let header = |name| {
            response.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok()).map(str::to_owned)
        };
        let (retry_after, content_type) = (header(RETRY_AFTER), header(CONTENT_TYPE).unwrap_or_default());
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(rows::RowResponse { status, retry_after, content_type, body: String::from_utf8_lossy(&body).into_owned() })
    }

    async fn settle(&self, _: &str) {}

    async fn compact(&self, _: &str) -> Result<(), String> {
        MemoryApi::compact(self);
        Ok(())
    }

    async fn remove(&self, path: &str) -> Result<(), String> {
        self.take(path);
        Ok(())
    }
}
