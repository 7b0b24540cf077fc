//! `/healthz`, `/readyz` and `/metrics`: a few paths over HTTP, with bounds on everything.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use super::ControllerHandle;

/// A client that does not say what it wants within this is let go.
const HEADERS: Duration = Duration::from_secs(10);
/// More at once is no scraper.
const AT_ONCE: usize = 32;

/// What is served on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// `/healthz`, `/readyz`.
    Health,
    /// `/metrics`.
    Metrics,
}

/// Serves until it is dropped.
pub async fn listen(listener: TcpListener, served: Served, handle: ControllerHandle) -> std::io::Result<()> {
    let slots = std::sync::Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    loop {
        let (stream, _) = listener.accept().await?;
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let handle = handle.clone();
        tokio::spawn(async move {
            answer(stream, served, handle).await;
            drop(slot);
        });
    }
}

/// An address as Go takes it: `:8081` is every address of this machine.
pub fn parse_address(address: &str) -> std::io::Result<SocketAddr> {
    let whole = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() };
    whole.parse().map_err(|_| std::io::Error::other(format!("{address:?} is not HOST:PORT or :PORT")))
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, served: Served, handle: ControllerHandle) {
    let service = service_fn(move |request: Request<Incoming>| {
        let handle = handle.clone();
        async move { Ok::<_, Infallible>(respond(&request, served, &handle).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    // Whoever hangs up in the middle is no news.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: &Request<Incoming>, served: Served, handle: &ControllerHandle) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n".to_owned());
    }
    match (served, request.uri().path()) {
        (Served::Health, "/healthz") if handle.health().broken => {
            text(StatusCode::INTERNAL_SERVER_ERROR, "a task has ended: the process is about to\n".to_owned())
        }
        (Served::Health, "/healthz") => text(StatusCode::OK, "ok".to_owned()),
        (Served::Health, "/readyz") if handle.health().is_ready() => text(StatusCode::OK, "ok".to_owned()),
        (Served::Health, "/readyz") => {
            text(StatusCode::INTERNAL_SERVER_ERROR, "not all nodes and rules are known yet\n".to_owned())
        }
        (Served::Metrics, "/metrics") => match handle.metrics().await {
            Some(metrics) => {
                let mut response = text(StatusCode::OK, metrics.render());
                let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            None => text(StatusCode::SERVICE_UNAVAILABLE, "the controller does not answer\n".to_owned()),
        },
        _ => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// CPU seconds and resident bytes of this process, as the kernel counts them.
pub(super) fn process() -> (f64, u64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name before it may hold anything, also a parenthesis.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    // In hundredths of a second wherever Linux runs.
    let cpu = (ticks(11) + ticks(12)) / 100.0;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: u64 =
        resident.and_then(|it| it.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or_default();
    (cpu, kilobytes * 1024)
}
