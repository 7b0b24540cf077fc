//! The admission webhook: what the definition's own rules cannot say, because it takes other rules to know. Without a certificate it
//! is off; then the definition and the controller's `Conflicting` condition do. Nodes never wait for it.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use carrick_core::rule::NodeReadinessRule;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::{ControllerHandle, NoticeLevel, NoticeSink, notice};

/// Upstream's path.
pub const PATH: &str = "/validate-readiness-node-x-k8s-io-v1alpha1-nodereadinessrule";
/// A request has the object twice; an API server sends 3 MiB at most.
const LARGEST: usize = 7 << 20;
/// An API server waits for 10 s.
const PATIENCE: Duration = Duration::from_secs(9);
/// How soon a certificate that was replaced is served. A Secret's files are swapped as a whole: no event of a file tells it.
const LOOK: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 64;

/// `tls.crt` and `tls.key` of a directory, read again when they change.
#[derive(Debug)]
pub struct Certificate {
    directory: PathBuf,
    current: RwLock<(Arc<CertifiedKey>, Vec<u8>)>,
}

impl Certificate {
    pub fn read(directory: &Path) -> Result<Arc<Self>, String> {
        let current = RwLock::new(load(directory)?);
        Ok(Arc::new(Certificate { directory: directory.to_owned(), current }))
    }

    /// Whether it is another one now.
    fn reload(&self) -> Result<bool, String> {
        let (key, text) = load(&self.directory)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let changed = current.1 != text;
        if changed {
            *current = (key, text);
        }
        Ok(changed)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone())
    }
}

fn load(directory: &Path) -> Result<(Arc<CertifiedKey>, Vec<u8>), String> {
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (certificate, key) = (read("tls.crt")?, read("tls.key")?);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("{}: it holds no certificate in PEM", directory.join("tls.crt").display()))?;
    // The reader's own words may quote a line of the key.
    let parsed = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| format!("{}: it holds no private key in PEM", directory.join("tls.key").display()))?;
    let certified = CertifiedKey::from_der(chain, parsed, &ring::default_provider())
        .map_err(|error| format!("{}: certificate and key: {error}", directory.display()))?;
    // What tells two apart: certificates are public, and another one has another.
    Ok((Arc::new(certified), certificate))
}

/// Serves until it is dropped.
pub async fn serve(
    listener: TcpListener,
    certificate: Arc<Certificate>,
    handle: ControllerHandle,
    notices: NoticeSink,
) -> std::io::Result<()> {
    let provider = Arc::new(ring::default_provider());
    let settings = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(certificate.clone());
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let slots = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let mut last = String::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sleep(LOOK) => {
                match certificate.reload() {
                    Ok(true) => notice(&notices, NoticeLevel::Info, "webhook: serving the new certificate"),
                    // The old one is served on.
                    Err(why) if why != last => {
                        notice(&notices, NoticeLevel::Warning, format!("webhook: {why}"));
                        last = why;
                    }
                    Ok(false) | Err(_) => {}
                }
                continue;
            }
        };
        let (stream, _) = accepted?;
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let (acceptor, handle) = (acceptor.clone(), handle.clone());
        tokio::spawn(async move {
            if let Ok(Ok(stream)) = timeout(PATIENCE, acceptor.accept(stream)).await {
                let service = service_fn(move |request: Request<Incoming>| {
                    let handle = handle.clone();
                    async move { Ok::<_, Infallible>(respond(request, &handle).await) }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            }
            drop(slot);
        });
    }
}

async fn respond(request: Request<Incoming>, handle: &ControllerHandle) -> Response<Full<Bytes>> {
    if request.uri().path() != PATH {
        return json_response(StatusCode::NOT_FOUND, &json!({ "message": "not found" }));
    }
    if request.method() != Method::POST {
        return json_response(StatusCode::METHOD_NOT_ALLOWED, &json!({ "message": "method not allowed" }));
    }
    let body = timeout(PATIENCE, Limited::new(request.into_body(), LARGEST).collect()).await;
    let Ok(Ok(body)) = body else {
        return json_response(StatusCode::BAD_REQUEST, &json!({ "message": "the request could not be read" }));
    };
    let review: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    json_response(StatusCode::OK, &answer(&review, handle).await)
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An AdmissionReview for an AdmissionReview.
async fn answer(review: &Value, handle: &ControllerHandle) -> Value {
    let request = &review["request"];
    let response = match request["operation"].as_str() {
        Some("CREATE" | "UPDATE") => judged(request, handle).await,
        // Whoever deletes is never held up.
        _ => json!({ "allowed": true }),
    };
    let mut response = response;
    response["uid"] = request["uid"].clone();
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

async fn judged(request: &Value, handle: &ControllerHandle) -> Value {
    let denied = |code: u16, reason: &str, message: String| json!({ "allowed": false, "status": { "code": code, "reason": reason, "message": message } });
    let rule: NodeReadinessRule = match serde_json::from_value(request["object"].clone()) {
        Ok(rule) => rule,
        Err(error) => return denied(400, "BadRequest", error.to_string()),
    };
    let old = (request["operation"] == "UPDATE").then(|| serde_json::from_value(request["oldObject"].clone()).ok());
    match handle.admit(rule, old.flatten()).await {
        Some(admission) if admission.is_allowed() && admission.warnings.is_empty() => json!({ "allowed": true }),
        Some(admission) if admission.is_allowed() => json!({ "allowed": true, "warnings": admission.warnings }),
        Some(admission) => denied(403, "Forbidden", admission.message()),
        None => denied(500, "InternalError", "the controller is shutting down".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use carrick_core::rule::testing::rule;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::controller::{Controller, ControllerOptions};

    /// Writes a certificate for `localhost`; as PEM.
    fn issue(directory: &Path) -> String {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
        certificate.pem()
    }

    #[test]
    fn a_certificate_that_is_replaced_is_served_and_a_broken_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Certificate::read(directory.path()).unwrap_err().contains("tls.crt"));
        issue(directory.path());
        let certificate = Certificate::read(directory.path()).unwrap();
        assert_eq!(certificate.reload(), Ok(false));
        issue(directory.path());
        assert_eq!(certificate.reload(), Ok(true));
        // The certificate is there before its key.
        std::fs::write(directory.path().join("tls.key"), "-----BEGIN PRIVATE KEY-----\nAAAA").unwrap();
        let why = certificate.reload().unwrap_err();
        assert!(why.contains("tls.key") && !why.contains("AAAA"), "{why}");
    }

    async fn ask(port: u16, trusted: &str, review: &Value) -> Value {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let settings = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(settings)).connect(name, stream).await.unwrap();
        let body = review.to_string();
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap_or_default()).unwrap_or_default()
    }

    #[tokio::test]
    async fn reviews_are_answered_over_tls_in_upstreams_words() {
        let directory = tempfile::tempdir().unwrap();
        let trusted = issue(directory.path());
        let certificate = Certificate::read(directory.path()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let quiet: NoticeSink = Arc::new(|_| {});
        let options = ControllerOptions {
            instance: "a".to_owned(),
            election: None,
            workers: 1,
            rate: None,
            node_state_metrics: false,
            version: String::new(),
        };
        // An API server that never answers: the webhook does all the same.
        let client = crate::dialer::stub::saying(None);
        let (controller, handle) = Controller::new(client, options, quiet.clone());
        let running = tokio::spawn(controller.run(crate::Stop::never()));
        let serving = tokio::spawn(serve(listener, certificate, handle, quiet));
        let review = |operation: &str, object: Value, old: Value| {
            json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "request": {"uid": "u1", "operation": operation, "object": object, "oldObject": old},
            })
        };
        let empty = json!(rule("r").labels(&[]).0);
        let denied = ask(port, &trusted, &review("CREATE", empty.clone(), Value::Null)).await;
        assert_eq!(
            denied["response"],
            json!({
                "allowed": false, "uid": "u1",
                "status": {
                    "code": 403, "reason": "Forbidden",
                    "message": "validation failed: [spec.nodeSelector: Required value: nodeSelector must not be empty]",
                },
            })
        );
        for allowed in [
            review("CREATE", json!(rule("r").0), Value::Null),
            review("UPDATE", json!(rule("r").labels(&[]).claimed().0), empty.clone()),
            review("UPDATE", json!(rule("r").labels(&[]).deleted().dry_run().0), empty.clone()),
            review("DELETE", Value::Null, empty),
        ] {
            let answer = ask(port, &trusted, &allowed).await;
            assert_eq!(answer["response"], json!({"allowed": true, "uid": "u1"}), "{allowed}");
        }
        let nonsense = ask(port, &trusted, &review("CREATE", json!({"spec": 1}), Value::Null)).await;
        assert_eq!(nonsense["response"]["status"]["code"], 400);
        serving.abort();
        running.abort();
    }
}
