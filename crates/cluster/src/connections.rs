//! Connections from the machine to the API server: dialled there, TLS with the cluster's CA alone, kept while they are used.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use carrick_core::discovery::Endpoint;
use carrick_core::fact::Why;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::Instant;
use tower::Service;

use crate::credentials::ClusterCredentials;
use crate::dialer::{DialedStream, Dialer, dial_any};
use crate::error::ApiProblem;
use crate::service::{DEADLINE, is_watch};
use crate::tls;

/// What lies between may forget a connection without a word: load balancers do after a minute. A request would wait for its
/// whole deadline then.
const KEPT: Duration = Duration::from_secs(30);

/// What a connection reads before anybody asks for it. hyper's own 400 kB would be kept by each that once had a large answer, and by
/// every watch.
const READ_AHEAD: usize = 64 << 10;

/// As many as requests are made at once. What is spawned for each lives as long as its connection, and holds no machine.
pub(crate) struct Connections(Arc<Pool>);

struct Pool {
    dialer: Arc<dyn Dialer>,
    server: Endpoint,
    /// Whom the server's certificate must be for.
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    idle: Mutex<Vec<(Instant, SendRequest<Body>)>>,
}

impl Connections {
    pub(crate) fn new(credentials: &ClusterCredentials, dialer: Arc<dyn Dialer>) -> Self {
        let ClusterCredentials { server, name, tls, .. } = credentials;
        let (server, name, tls) = (server.clone(), name.clone(), tls.clone());
        Connections(Arc::new(Pool { dialer, server, name, tls, idle: Mutex::default() }))
    }
}

impl Service<Request<Body>> for Connections {
    type Response = Response<Incoming>;
    type Error = ApiProblem;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, ApiProblem>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ApiProblem>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let pool = self.0.clone();
        Box::pin(async move { pool.exchange(request).await })
    }
}

impl Pool {
    async fn exchange(&self, mut request: Request<Body>) -> Result<Response<Incoming>, ApiProblem> {
        let until = Instant::now() + DEADLINE;
        let watches = is_watch(request.uri());
        while let Some(mut sender) = self.take() {
            // Whose answer is still being read by another is waited for; who is closed says so.
            if sender.ready().await.is_err() {
                continue;
            }
            let again = repeatable(&request);
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(sender, watches);
                    return Ok(response);
                }
                // The server may close a connection in the moment it is used again. What was not sent is sent anew; what was
                // sent, only where that changes nothing.
                Err(mut error) => match error.take_message().or(again) {
                    Some(unsent) => request = unsent,
                    None => return Err(ApiProblem::of(error.error())),
                },
            }
        }
        let mut sender = self.open(until).await?;
        let response = sender.send_request(request).await.map_err(|error| ApiProblem::of(&error))?;
        self.keep(sender, watches);
        Ok(response)
    }

    fn take(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, sender)| since.elapsed() < KEPT && !sender.is_closed());
        idle.pop().map(|(_, sender)| sender)
    }

    /// A watch has its connection to itself: who took it up would wait for the watch's end.
    fn keep(&self, sender: SendRequest<Body>, watches: bool) {
        if watches {
            return;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), sender));
    }

    async fn open(&self, until: Instant) -> Result<SendRequest<Body>, ApiProblem> {
        let stream = self.dial(until).await?;
        let stream = tls::connect(stream, self.name.clone(), &self.tls, self.dialer.now()).await;
        let stream = stream.map_err(|error| ApiProblem::of_io(&error))?;
        let opened = http1::Builder::new().max_buf_size(READ_AHEAD).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| ApiProblem::of(&error))?;
        // Ends with the sender; its error comes out of the request that is under way.
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn dial(&self, until: Instant) -> Result<Box<dyn DialedStream>, ApiProblem> {
        let addresses = match self.server.address() {
            Some(address) => vec![address],
            None => self.dialer.resolve(&self.server.host).await.map_err(ApiProblem::Unresolved)?,
        };
        let dialled = dial_any(self.dialer.as_ref(), &addresses, self.server.port, until).await;
        dialled.map(|(stream, _)| stream).map_err(|errors| match errors.last() {
            None => ApiProblem::Unresolved(Why::Absent),
            Some(_) if Instant::now() >= until => ApiProblem::TimedOut(DEADLINE),
            Some((_, error)) => ApiProblem::of_io(error),
        })
    }
}

/// The same request once more, where asking twice is as good as once.
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    if request.method() != Method::GET {
        return None;
    }
    let mut again = Request::new(Body::empty());
    request.uri().clone_into(again.uri_mut());
    request.headers().clone_into(again.headers_mut());
    Some(again)
}
