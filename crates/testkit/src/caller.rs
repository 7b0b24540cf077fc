//! One connection to a real API server, as bare as can be: what kubectl would take seconds for, and what any client can at most get.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::api::Api;

/// Who is slower has hung up.
const DEADLINE: Duration = Duration::from_mins(1);

pub struct Caller {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    bearer: String,
}

impl Caller {
    /// As whoever has this token.
    pub async fn dial(api: &Api, token: &str) -> io::Result<Self> {
        let host = api.url().trim_start_matches("https://").to_owned();
        let port = host.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default();
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(api.authority().pem().as_bytes()).map_err(io::Error::other)?;
        roots.add(ca).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let stream = TlsConnector::from(Arc::new(settings)).connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // Ends with the sender; its error comes out of the request that is under way.
        tokio::spawn(connection);
        Ok(Self { sender, host, bearer: format!("Bearer {token}") })
    }

    /// The status, and the whole answer.
    pub async fn send(&mut self, method: Method, path: &str, kind: &str, body: String) -> io::Result<(u16, Bytes)> {
        self.ask(method, path, kind, "application/json", body).await
    }

    /// A merge patch, answered with the metadata alone.
    pub async fn patch_for_metadata(&mut self, path: &str, change: &Value) -> io::Result<(u16, Bytes)> {
        let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        self.ask(Method::PATCH, path, "application/merge-patch+json", accept, change.to_string()).await
    }

    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        kind: &str,
        accept: &str,
        body: String,
    ) -> io::Result<(u16, Bytes)> {
        let request = self.request(method, path, kind, accept, body)?;
        let asked = async {
            self.sender.ready().await.map_err(io::Error::other)?;
            let response = self.sender.send_request(request).await.map_err(io::Error::other)?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.map_err(io::Error::other)?;
            Ok((status, body.to_bytes()))
        };
        timeout(DEADLINE, asked).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// A body that has no end: a watch.
    pub async fn stream(mut self, path: &str) -> io::Result<Incoming> {
        let request = self.request(Method::GET, path, "application/json", "application/json", String::new())?;
        self.sender.ready().await.map_err(io::Error::other)?;
        let response = self.sender.send_request(request).await.map_err(io::Error::other)?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(io::Error::other(format!("{path} was answered {}", response.status())))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        accept: &str,
        body: String,
    ) -> io::Result<Request<Full<Bytes>>> {
        Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.bearer)
            .header(CONTENT_TYPE, kind)
            .header(ACCEPT, accept)
            .body(Full::from(body))
            .map_err(io::Error::other)
    }
}
