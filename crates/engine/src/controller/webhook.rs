//! The admission webhook: what the definition's own rules cannot say, because it takes other rules to know. It is off until there
//! is a certificate; then the definition and the controller's `Conflicting` condition do. Nodes never wait for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use carrick_core::rule::NodeReadinessRule;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::http::accept;
use super::tls::{self, Certificate};
use super::{ControllerHandle, NoticeSink};

/// Upstream's path.
pub const PATH: &str = "/validate-readiness-node-x-k8s-io-v1alpha1-nodereadinessrule";
/// A request has the object twice; an API server sends 3 MiB at most.
const LARGEST: usize = 7 << 20;
/// An API server waits for 10 s.
const PATIENCE: Duration = Duration::from_secs(9);
const AT_ONCE: usize = 64;

/// Serves until it is dropped.
pub async fn serve(
    listener: TcpListener,
    certificate: Arc<Certificate>,
    handle: ControllerHandle,
    notices: NoticeSink,
) -> std::io::Result<()> {
    let acceptor = tls::acceptor(&certificate)?;
    let slots = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let answering = async {
        loop {
            let stream = accept(&listener).await;
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
    };
    tokio::select! {
        () = answering => Ok(()),
        () = tls::keep_fresh(&certificate, "webhook", &notices) => Ok(()),
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
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    use super::super::tls::testing::issue;
    use super::*;
    use crate::controller::Controller;
    use crate::controller::tests::options;

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
        // An API server that never answers: the webhook does all the same.
        let client = crate::dialer::stub::saying(None);
        let (controller, handle) = Controller::new(client, options("a", false), quiet.clone());
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
