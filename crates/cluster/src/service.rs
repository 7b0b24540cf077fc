//! The one way a request goes: what every request has in common is added here, and what came back becomes an answer or a
//! typed error.
//!
//! kube reads neither Retry-After nor Date, bounds no body and no wait: so all of that is here, below it.

use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use carrick_core::discovery::Endpoint;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Bytes};
use hyper::header::{ACCEPT, AUTHORIZATION, DATE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use jiff::Timestamp;
use kube::client::Body;
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service};

use crate::credentials::ClusterCredentials;
use crate::error::{ApiError, ApiProblem};
use crate::http::{AGENT, parse_date};

/// A person waits for this; a healthy cluster takes 50 ms.
pub(crate) const DEADLINE: Duration = Duration::from_secs(3);

/// A page of 100 pods is 1 MB, a busy Node 60 kB.
const LARGEST_ANSWER: usize = 16 << 20;

/// What the service shares with its client.
pub(crate) struct Shared {
    /// The API server's clock, as it was with its last answer, and when that was.
    pub date: Mutex<Option<(Timestamp, Instant)>>,
    /// Who asks; it may be replaced while others ask.
    pub bearer: Mutex<Option<HeaderValue>>,
    /// How many requests were answered how: by method and status, 0 where there was no answer.
    pub counts: Mutex<BTreeMap<(String, u16), u64>>,
    /// How long a request may take, from dialling to the last byte.
    pub deadline: Duration,
}

impl Shared {
    pub(crate) fn new(credentials: &ClusterCredentials, deadline: Duration) -> Arc<Self> {
        let (date, bearer, counts) = (Mutex::default(), Mutex::new(credentials.bearer.clone()), Mutex::default());
        Arc::new(Shared { date, bearer, counts, deadline })
    }
}

/// Marks a request whose answer is not to be judged by its status: another than the API server may have given it.
#[derive(Clone, Copy)]
pub(crate) struct AsItComes;

/// Over whatever carries a request to the server and its answer back.
pub(crate) struct ApiService<S> {
    carrier: S,
    server: Endpoint,
    /// What stands before every path where a gateway serves several clusters: `/k8s/clusters/c-1`.
    prefix: String,
    shared: Arc<Shared>,
}

impl<S> ApiService<S> {
    pub(crate) fn new(credentials: &ClusterCredentials, carrier: S, shared: Arc<Shared>) -> Self {
        let ClusterCredentials { server, prefix, .. } = credentials;
        ApiService { carrier, server: server.clone(), prefix: prefix.clone(), shared }
    }

    fn complete(&self, request: &mut Request<Body>) -> Result<(), ApiProblem> {
        let bad = |error: &dyn Error| ApiProblem::BadRequest(error.to_string());
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        // kube writes `?` where nothing follows, and `?&` where something does: an audit log is read by people.
        let query = query.trim_start_matches('&');
        let mark = if query.is_empty() { "" } else { "?" };
        let uri = Uri::try_from(format!("{}{path}{mark}{query}", self.prefix)).map_err(|error| bad(&error))?;
        *request.uri_mut() = uri;
        let host = HeaderValue::try_from(self.server.to_string()).map_err(|error| bad(&error))?;
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        if let Some(bearer) = self.shared.bearer.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(())
    }
}

impl<S, B> Service<Request<Body>> for ApiService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<Full<Bytes>, B>>;
    type Error = ApiError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ApiError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        let of = |error: S::Error| ApiError { server: self.server.clone(), problem: problem(&error.into()) };
        self.carrier.poll_ready(cx).map_err(of)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (server, shared) = (self.server.clone(), self.shared.clone());
        let (method, watches) = (request.method().clone(), is_watch(request.uri()));
        let as_it_comes = request.extensions().get::<AsItComes>().is_some();
        let sent = self.complete(&mut request).map(|()| self.carrier.call(request));
        Box::pin(async move {
            let answered = async {
                let response = sent?.await.map_err(|error| problem(&error.into()))?;
                let said = response.headers().get(DATE).and_then(|date| parse_date(date.to_str().ok()?));
                *shared.date.lock().unwrap_or_else(PoisonError::into_inner) = said.map(|said| (said, Instant::now()));
                count(&shared, &method, response.status().as_u16());
                // A watch has no end to wait for: whoever reads it bounds it.
                if watches && response.status().is_success() {
                    return Ok(response.map(Either::Right));
                }
                Ok(answer(response, as_it_comes).await?.map(Either::Left))
            };
            let answered = timeout(shared.deadline, answered).await;
            let answered = answered.unwrap_or(Err(ApiProblem::TimedOut(shared.deadline)));
            if matches!(&answered, Err(problem) if !problem.is_answer()) {
                count(&shared, &method, 0);
            }
            answered.map_err(|problem| ApiError { server, problem })
        })
    }
}

fn count(shared: &Shared, method: &Method, status: u16) {
    let mut counts = shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
    *counts.entry((method.to_string(), status)).or_default() += 1;
}

/// Whether its answer has no end.
pub(crate) fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

async fn answer<B>(response: Response<B>, as_it_comes: bool) -> Result<Response<Full<Bytes>>, ApiProblem>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (head, body) = response.into_parts();
    let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|error| problem(&error))?.to_bytes();
    if head.status.is_success() || as_it_comes {
        return Ok(Response::from_parts(head, Full::new(body)));
    }
    Err(ApiProblem::of_status(head.status, &head.headers, &body))
}

fn problem(error: &BoxError) -> ApiProblem {
    if error.is::<LengthLimitError>() {
        return ApiProblem::TooLarge(LARGEST_ANSWER);
    }
    ApiProblem::of(error.as_ref())
}
