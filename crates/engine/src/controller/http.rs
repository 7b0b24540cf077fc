//! `/healthz`, `/readyz` and `/metrics`: a few paths over HTTP, with bounds on everything.

use std::convert::Infallible;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use carrick_cluster::{ApiError, ClusterClient, reviews};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::tls::{self, Certificate};
use super::{ControllerHandle, NoticeSink};

/// A client that does not say what it wants within this is let go.
const HEADERS: Duration = Duration::from_secs(10);
/// More at once is no scraper.
const AT_ONCE: usize = 32;
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

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
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let stream = accept(&listener).await;
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let handle = handle.clone();
        tokio::spawn(async move {
            answer(stream, served, handle).await;
            drop(slot);
        });
    }
}

/// The next connection. That one could not be taken passes: a client that has hung up, too many files that are open.
pub(super) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => sleep(ACCEPT_AGAIN).await,
        }
    }
}

/// An address as Go takes it: `:8081` is every address of this machine, of both families where it has both.
pub async fn bind(address: &str) -> std::io::Result<TcpListener> {
    let wrong = || std::io::Error::other("not HOST:PORT or :PORT");
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if host.is_empty() {
        let every = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
        return TcpListener::bind(&every.map(|it| SocketAddr::from((it, port)))[..]).await;
    }
    TcpListener::bind(address).await
}

/// `/metrics` over TLS, for those whom the API server lets read it: whose token it knows and who may `get` that path, as
/// controller-runtime asks it. Serves until it is dropped.
pub async fn listen_securely(
    listener: TcpListener,
    certificate: Arc<Certificate>,
    client: ClusterClient,
    handle: ControllerHandle,
    notices: NoticeSink,
) -> std::io::Result<()> {
    let acceptor = tls::acceptor(&certificate)?;
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let answering = async {
        loop {
            let stream = accept(&listener).await;
            let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
            let (acceptor, asks) = (acceptor.clone(), (client.clone(), handle.clone()));
            tokio::spawn(async move {
                if let Ok(Ok(stream)) = timeout(HEADERS, acceptor.accept(stream)).await {
                    serve(stream, move |request| {
                        let (client, handle) = asks.clone();
                        async move {
                            match refusal(&request, &client).await {
                                Some(refused) => refused,
                                None => respond(&request, Served::Metrics, &handle).await,
                            }
                        }
                    })
                    .await;
                }
                drop(slot);
            });
        }
    };
    tokio::select! {
        () = answering => Ok(()),
        () = tls::keep_fresh(&certificate, "metrics", &notices) => Ok(()),
    }
}

/// What is said to who may not read this path; `None`: they may.
async fn refusal(request: &Request<Incoming>, client: &ClusterClient) -> Option<Response<Full<Bytes>>> {
    let unauthorized = || Some(text(StatusCode::UNAUTHORIZED, "Unauthorized\n".to_owned()));
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = header.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim) else {
        return unauthorized();
    };
    let may = async {
        let Some(user) = reviews::user_of(client, token).await? else { return Ok(None) };
        reviews::may_get(client, &user, request.uri().path()).await.map(Some)
    };
    match may.await {
        Ok(Some(true)) => None,
        Ok(Some(false)) => Some(text(StatusCode::FORBIDDEN, "Forbidden\n".to_owned())),
        Ok(None) => unauthorized(),
        // Its own words may be about the token.
        Err::<_, ApiError>(_) => {
            Some(text(StatusCode::INTERNAL_SERVER_ERROR, "the API server was not asked\n".to_owned()))
        }
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, served: Served, handle: ControllerHandle) {
    serve(stream, move |request| {
        let handle = handle.clone();
        async move { respond(&request, served, &handle).await }
    })
    .await;
}

/// One connection, request by request.
async fn serve<S, F>(stream: S, respond: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
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

#[cfg(test)]
mod tests {
    use carrick_core::StopSignal;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;

    use super::super::Controller;
    use super::super::tests::options;
    use super::super::tls::testing::issue;
    use super::*;
    use crate::StopTeller;
    use crate::dialer::stub;

    async fn scrape(port: u16, trusted: &str, header: &str) -> String {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
        let settings = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(settings)).connect(name, stream).await.unwrap();
        let head = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    /// The API server knows two tokens; the holder of one may read.
    fn says(path: &str, body: &str) -> String {
        let user = ["reader", "stranger"].into_iter().find(|user| body.contains(user));
        match (path, user) {
            ("/apis/authentication.k8s.io/v1/tokenreviews", Some(user)) => {
                format!(r#"{{"status":{{"authenticated":true,"user":{{"username":"{user}"}}}}}}"#)
            }
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews", Some("reader")) if body.contains("/metrics") => {
                r#"{"status":{"allowed":true}}"#.to_owned()
            }
            _ => r#"{"status":{"allowed":false}}"#.to_owned(),
        }
    }

    #[tokio::test]
    async fn metrics_are_for_those_whom_the_api_server_lets_read_them() {
        let directory = tempfile::tempdir().unwrap();
        let trusted = issue(directory.path());
        let certificate = Certificate::read(directory.path()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let quiet: NoticeSink = Arc::new(|_| {});
        let (controller, handle) = Controller::new(stub::saying(None), options("a", false), quiet.clone());
        let (teller, stop) = StopTeller::new();
        let running = tokio::spawn(controller.run(stop));
        let serving = tokio::spawn(listen_securely(listener, certificate, stub::answering(says), handle, quiet));
        for (header, status, says) in [
            ("", "401", "Unauthorized"),
            ("Authorization: Bearer nobody\r\n", "401", "Unauthorized"),
            ("Authorization: Bearer stranger\r\n", "403", "Forbidden"),
            ("Authorization: Bearer reader\r\n", "200", "node_readiness_rules_total 0"),
        ] {
            let answer = scrape(port, &trusted, header).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(says), "{header}: {answer}");
        }
        serving.abort();
        teller.tell(StopSignal::Terminate);
        let _ = running.await;
    }

    #[tokio::test]
    async fn an_address_is_taken_as_go_takes_it() {
        for (address, asked) in [(":0", "127.0.0.1"), ("127.0.0.1:0", "127.0.0.1"), ("localhost:0", "localhost")] {
            let listener = bind(address).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(TcpStream::connect((asked, port)).await.is_ok(), "{address}");
        }
        for address in ["8081", "", "localhost", "localhost:", ":many", "::"] {
            assert!(bind(address).await.is_err(), "{address}");
        }
    }

    /// Without a directory there is one all the same.
    #[test]
    fn a_certificate_of_our_own_can_be_served_with() {
        assert!(tls::acceptor(&Certificate::self_signed().unwrap()).is_ok());
    }
}
