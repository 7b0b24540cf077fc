//! For tests: a CA, and an API server behind TLS in memory, which is its own way there. No socket, so time can stand still.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.
#![allow(dead_code)] // Not every test needs all of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carrick_cluster::{ClusterClient, ClusterCredentials, DialFuture, DialedStream, Dialer};
use carrick_core::fact::Why;
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const TOKEN: &str = "s3cret";
pub(crate) const NOW: &str = "2026-11-15T12:00:00Z";

/// This machine, with a resolver that knows what a test says.
pub(crate) struct Here {
    pub(crate) names: Vec<IpAddr>,
    pub(crate) now: &'static str,
}

impl Dialer for Here {
    fn resolve<'a>(&'a self, _: &'a str) -> DialFuture<'a, Result<Vec<IpAddr>, Why>> {
        Box::pin(async { if self.names.is_empty() { Err(Why::Absent) } else { Ok(self.names.clone()) } })
    }

    fn dial(&self, address: IpAddr, port: u16) -> DialFuture<'_, io::Result<Box<dyn DialedStream>>> {
        Box::pin(async move { Ok(Box::new(TcpStream::connect((address, port)).await?) as Box<dyn DialedStream>) })
    }

    fn now(&self) -> Timestamp {
        self.now.parse().unwrap()
    }
}

/// Certificate and key, as PEM.
pub(crate) type Pair = (String, String);

pub(crate) struct Authority(pub CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("rcgen")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Valid in 2026.
    pub(crate) fn issue(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2026, 1, 1), rcgen::date_time_ymd(2027, 1, 1));
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn acceptor(&self, name: &str, wants_certificate: bool) -> TlsAcceptor {
        let (certificate, key) = self.issue(name);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config =
            if wants_certificate { config.with_client_cert_verifier(clients) } else { config.with_no_client_auth() };
        TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()))
    }
}

/// What a server does with a request.
pub(crate) enum Reply {
    Answer {
        status: &'static str,
        headers: Vec<&'static str>,
        body: String,
    },
    /// Answers, and closes the connection without having said so.
    Last(&'static str, String),
    Silence,
    Close,
}

impl Reply {
    pub(crate) fn json(status: &'static str, body: &Value) -> Self {
        Self::text(status, body.to_string())
    }

    pub(crate) fn text(status: &'static str, body: impl Into<String>) -> Self {
        Reply::Answer { status, headers: Vec::new(), body: body.into() }
    }

    pub(crate) fn with(self, header: &'static str) -> Self {
        match self {
            Reply::Answer { status, mut headers, body } => {
                headers.push(header);
                Reply::Answer { status, headers, body }
            }
            other => other,
        }
    }
}

/// What was asked: `METHOD PATH`, the head whole, the body.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// How a connection to the server begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dial {
    Tls,
    Fails(io::ErrorKind),
    /// Connects, and not a byte comes.
    Hangs,
    /// Says this, and nothing else.
    Plain(&'static str),
}

type Answers = Box<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// Every clone is the same server.
#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>);

struct Inner {
    acceptor: TlsAcceptor,
    answers: Answers,
    dial: Dial,
    now: Timestamp,
    has_name: bool,
    delay: Duration,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
}

pub(crate) struct Setting<'a> {
    /// Of the server's certificate.
    pub(crate) name: &'a str,
    pub(crate) wants_certificate: bool,
    pub(crate) dial: Dial,
    /// By the clock of the machine that asks.
    pub(crate) now: &'a str,
    /// The machine's resolver knows the server.
    pub(crate) has_name: bool,
    /// What every answer takes.
    pub(crate) delay: Duration,
}

impl Default for Setting<'_> {
    fn default() -> Self {
        Setting {
            name: "10.0.0.11",
            wants_certificate: false,
            dial: Dial::Tls,
            now: NOW,
            has_name: true,
            delay: Duration::ZERO,
        }
    }
}

impl Server {
    pub(crate) fn new(ca: &Authority, answers: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(ca, &Setting::default(), answers)
    }

    pub(crate) fn with(
        ca: &Authority,
        setting: &Setting,
        answers: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Server(Arc::new(Inner {
            acceptor: ca.acceptor(setting.name, setting.wants_certificate),
            answers: Box::new(answers),
            dial: setting.dial,
            now: setting.now.parse().unwrap(),
            has_name: setting.has_name,
            delay: setting.delay,
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
        }))
    }

    /// A client that asks with a token, trusting this CA.
    pub(crate) fn client(&self, trusted: &Authority) -> ClusterClient {
        self.client_at("https://10.0.0.11:6443", trusted, None)
    }

    pub(crate) fn client_at(&self, server: &str, trusted: &Authority, own: Option<&Pair>) -> ClusterClient {
        ClusterClient::new(&credentials(server, trusted, own), Arc::new(self.clone()))
    }

    /// What was asked, a line each: `METHOD PATH BODY`.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().iter().map(|asked| format!("{} {}", asked.line, asked.body).trim().to_owned()).collect()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.0.asked.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.0.connections.load(Ordering::Relaxed)
    }
}

pub(crate) fn credentials(server: &str, trusted: &Authority, own: Option<&Pair>) -> ClusterCredentials {
    let user = match own {
        Some(_) => json!({ "client-certificate": "own", "client-key": "own" }),
        None => json!({ "token": TOKEN }),
    };
    let kubeconfig = json!({
        "current-context": "c", "contexts": [{ "name": "c", "context": { "cluster": "k", "user": "u" } }],
        "clusters": [{ "name": "k", "cluster": { "server": server, "certificate-authority": "ca" } }],
        "users": [{ "name": "u", "user": user }],
    });
    let read = |name: &str| match (name, own) {
        // As the kubelet keeps them: both in one file.
        ("own", Some((certificate, key))) => Ok(format!("{certificate}{key}")),
        _ => Ok(trusted.0.pem()),
    };
    ClusterCredentials::parse(&kubeconfig.to_string(), read).unwrap()
}

impl Dialer for Server {
    fn resolve<'a>(&'a self, _: &'a str) -> DialFuture<'a, Result<Vec<IpAddr>, Why>> {
        Box::pin(async { if self.0.has_name { Ok(vec![LOOPBACK]) } else { Err(Why::Absent) } })
    }

    fn dial(&self, _: IpAddr, _: u16) -> DialFuture<'_, io::Result<Box<dyn DialedStream>>> {
        Box::pin(async move {
            if let Dial::Fails(kind) = self.0.dial {
                return Err(kind.into());
            }
            self.0.connections.fetch_add(1, Ordering::Relaxed);
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            tokio::spawn(serve(self.0.clone(), theirs));
            Ok(Box::new(ours) as Box<dyn DialedStream>)
        })
    }

    fn now(&self) -> Timestamp {
        self.0.now
    }
}

async fn serve(server: Arc<Inner>, mut stream: tokio::io::DuplexStream) {
    match server.dial {
        Dial::Hangs => return std::future::pending().await,
        Dial::Plain(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            return;
        }
        Dial::Tls | Dial::Fails(_) => {}
    }
    let Ok(mut stream) = server.acceptor.accept(stream).await else { return };
    while let Some(head) = read_request(&mut stream).await {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or_default()];
        stream.read_exact(&mut body).await.unwrap();
        let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        let asked = Asked { line, head, body: String::from_utf8(body).unwrap() };
        server.asked.lock().unwrap().push(asked.clone());
        tokio::time::sleep(server.delay).await;
        let (status, headers, body, is_last) = match (server.answers)(&asked) {
            Reply::Answer { status, headers, body } => (status, headers, body, false),
            Reply::Last(status, body) => (status, Vec::new(), body, true),
            Reply::Silence => std::future::pending().await,
            Reply::Close => return,
        };
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        let written = stream.write_all((head + &body).as_bytes()).await;
        // What a long answer leaves in the buffers of TLS.
        let _ = stream.flush().await;
        if written.is_err() || is_last {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

pub(crate) async fn read_request(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(request).ok()
}
