//! The way to the server in memory as it is to a real one: TLS and HTTP/1.1, on a stream that is no socket. And the other
//! end of it, for who plays rows.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tower::Service as _;

use super::rows::{NODE, RowResponse, RowServer, TOKEN, UNKNOWN_TOKEN, Who, removal};
use super::{ApiService, MemoryApi, User};
use crate::credentials::{Authority, Issued};

/// Enough for a TLS record and what is under way.
const BUFFER: usize = 64 << 10;

/// Where a machine finds the server: every dial is a connection of its own.
#[derive(Clone)]
pub struct Gate {
    acceptor: TlsAcceptor,
    service: ApiService,
    dials: Arc<AtomicUsize>,
}

impl Gate {
    /// With a certificate of this authority for these names; clients may show one of the same authority.
    pub fn new(api: &MemoryApi, authority: &Authority, names: &[&str]) -> io::Result<Self> {
        let serving = authority.server(names)?;
        let (chain, key) = read(&serving)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authority.pem())?), provider.clone());
        let verifier = verifier.allow_unauthenticated().build().map_err(io::Error::other)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(io::Error::other)?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), service: api.service(), dials: Arc::default() })
    }

    /// One end of a new connection; the server has the other.
    pub fn dial(&self) -> io::Result<DuplexStream> {
        if self.service.refuses() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(BUFFER);
        self.dials.fetch_add(1, Ordering::Relaxed);
        let (acceptor, service) = (self.acceptor.clone(), self.service.clone());
        // It ends with the connection. What goes wrong on it, the other end sees.
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(far).await else { return };
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let peer = shown.and_then(|certificate| User::of_certificate(certificate));
            let service = ApiService { peer, ..service };
            let answer = service_fn(move |request: Request<hyper::body::Incoming>| service.clone().call(request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
        Ok(near)
    }

    /// How many connections were made.
    pub fn dials(&self) -> usize {
        self.dials.load(Ordering::Relaxed)
    }
}

/// A kubeconfig for a server, with a client certificate where there is one.
pub fn kubeconfig(server: &str, ca: &str, client: Option<&Issued>) -> String {
    let mut cluster = json!({"server": server});
    cluster["certificate-authority-data"] = STANDARD.encode(ca).into();
    let mut user = json!({});
    if let Some(client) = client {
        user["client-certificate-data"] = STANDARD.encode(&client.certificate).into();
        user["client-key-data"] = STANDARD.encode(&client.key).into();
    }
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "testkit",
        "clusters": [{"name": "testkit", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "testkit", "context": {"cluster": "testkit", "user": "user"}}],
    })
    .to_string()
}

fn read(issued: &Issued) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).map_err(io::Error::other)?;
    Ok((chain.map_err(io::Error::other)?, key))
}

fn roots(pem: &str) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    Ok(roots)
}

/// A server that rows are played to through TLS: a real one, or the one in memory behind its [`Gate`].
pub struct Https {
    to: To,
    name: ServerName<'static>,
    admin: Arc<ClientConfig>,
    node: Arc<ClientConfig>,
    nobody: Arc<ClientConfig>,
    /// What has a real server forget: by etcd's own word.
    compaction: Option<Box<Compaction>>,
    /// Whether controllers run there, which have to be waited for.
    busy: bool,
}

/// Has etcd forget what was before a revision.
pub type Compaction = dyn Fn(&str) -> Result<(), String> + Send + Sync;

enum To {
    Socket(SocketAddr),
    Gate(Gate),
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Https {
    /// A real server without controllers. Its authority signs for the admin and the node.
    pub fn real(address: SocketAddr, authority: &Authority, compaction: Box<Compaction>) -> io::Result<Self> {
        let stage = Self::new(To::Socket(address), &address.ip().to_string(), authority)?;
        Ok(Self { compaction: Some(compaction), ..stage })
    }

    /// Its controllers have to be waited for.
    pub fn busy(self) -> Self {
        Self { busy: true, ..self }
    }

    pub fn in_memory(gate: &Gate, name: &str, authority: &Authority) -> io::Result<Self> {
        Self::new(To::Gate(gate.clone()), name, authority)
    }

    fn new(to: To, name: &str, authority: &Authority) -> io::Result<Self> {
        let admin = authority.client("kubernetes-super-admin", &["system:masters"])?;
        let node = authority.client(&format!("system:node:{NODE}"), &["system:nodes"])?;
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let config = |client: Option<&Issued>| -> io::Result<Arc<ClientConfig>> {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(io::Error::other)?
                .with_root_certificates(roots(authority.pem())?);
            Ok(Arc::new(match client {
                None => config.with_no_client_auth(),
                Some(client) => {
                    let (chain, key) = read(client)?;
                    config.with_client_auth_cert(chain, key).map_err(io::Error::other)?
                }
            }))
        };
        let (admin, node, nobody) = (config(Some(&admin))?, config(Some(&node))?, config(None)?);
        Ok(Self { to, name, admin, node, nobody, compaction: None, busy: false })
    }

    async fn ask(&self, who: Who, mut request: Request<Bytes>) -> io::Result<RowResponse> {
        let (config, token) = match who {
            Who::Admin => (&self.admin, None),
            Who::Node => (&self.node, None),
            Who::Anonymous => (&self.nobody, None),
            Who::Token => (&self.nobody, Some(TOKEN)),
            Who::Stranger => (&self.nobody, Some(UNKNOWN_TOKEN)),
        };
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_static("api"));
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).map_err(io::Error::other)?);
        }
        let stream: Box<dyn Stream> = match &self.to {
            To::Socket(address) => Box::new(TcpStream::connect(address).await?),
            To::Gate(gate) => Box::new(gate.dial()?),
        };
        let stream = TlsConnector::from(Arc::clone(config)).connect(self.name.clone(), stream).await?;
        let opened = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = opened.map_err(io::Error::other)?;
        // Ends with the sender; its error comes out of the request.
        tokio::spawn(connection);
        let response = sender.send_request(request.map(Full::new)).await.map_err(io::Error::other)?;
        let header =
            |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::to_owned);
        let (retry_after, content_type) = (header(RETRY_AFTER), header(CONTENT_TYPE).unwrap_or_default());
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(RowResponse { status, retry_after, content_type, body: String::from_utf8_lossy(&body).into_owned() })
    }
}

impl RowServer for Https {
    async fn send(&self, who: Who, request: Request<Bytes>) -> Result<RowResponse, String> {
        self.ask(who, request).await.map_err(|error| error.to_string())
    }

    async fn settle(&self, path: &str) {
        // Controllers answer a new object of these within some tens of milliseconds.
        const WATCHED: [&str; 4] = ["/nodes", "/namespaces", "/daemonsets", "/poddisruptionbudgets"];
        // A real server's own Node authorizer learns of a new pod as late as that, with or without controllers.
        let authorizer = matches!(self.to, To::Socket(_)) && path.ends_with("/pods");
        if authorizer || self.busy && WATCHED.iter().any(|kind| path.ends_with(kind)) {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
    }

    async fn compact(&self, version: &str) -> Result<(), String> {
        let compaction = self.compaction.as_ref().ok_or("nobody can have this server forget")?;
        compaction(version)
    }

    async fn remove(&self, path: &str) -> Result<(), String> {
        for request in removal(path)? {
            self.send(Who::Admin, request).await?;
        }
        Ok(())
    }
}
