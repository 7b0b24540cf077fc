//! The walk to an API server, against servers on loopback that are right, or wrong in one layer.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use carrick_cluster::path::{PathFacts, walk};
use carrick_core::discovery::{Discovery, Endpoint};
use carrick_core::fact::Why;
use carrick_core::fact::api_path::{ApiPath, PathReason, PathStep, StepOutcome};
use carrick_core::fact::bootstrap_token::{TokenRights, TokenSignature};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

mod support;

use support::{Here, LOOPBACK, NOW, read_request};

const TOKEN: &str = "abcdef.0123456789abcdef";

/// A cluster: its CA, the certificate of its API server, and what it answers.
struct Cluster {
    ca: String,
    acceptor: TlsAcceptor,
    /// What it signs cluster-info with for the token abcdef.
    signs_with: Option<&'static str>,
    /// Who may read cluster-info.
    info_status: &'static str,
    /// What a token is told, by the end of the path.
    answers: Vec<(&'static str, &'static str)>,
    /// The groups it is in.
    groups: Option<&'static str>,
    /// The server in cluster-info; else where it listens.
    names: Option<String>,
    port: AtomicU16,
    saw_token: Arc<AtomicBool>,
}

impl Cluster {
    fn new(names: &[&str]) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let server_key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2026, 1, 1), rcgen::date_time_ymd(2027, 1, 1));
        let server = params.signed_by(&server_key, &issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(server.der().to_vec())], key)
            .unwrap();
        Cluster {
            ca: ca.pem(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            signs_with: None,
            info_status: "200 OK",
            answers: Vec::new(),
            groups: None,
            names: None,
            port: AtomicU16::default(),
            saw_token: Arc::default(),
        }
    }

    fn pin(&self) -> String {
        carrick_core::discovery::pins(&self.ca).unwrap().remove(0)
    }

    fn kubeconfig(&self) -> String {
        let listens = || format!("https://127.0.0.1:{}", self.port.load(Ordering::Relaxed));
        format!(
            "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: {}\n  name: \"\"\nkind: Config\n",
            STANDARD.encode(&self.ca),
            self.names.clone().unwrap_or_else(listens)
        )
    }

    /// Signed with a token's secret, as the bootstrap signer does.
    fn signed_with(self, secret: &'static str) -> Self {
        Cluster { signs_with: Some(secret), ..self }
    }

    fn signature(&self, secret: &str) -> String {
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","kid":"abcdef"}"#);
        let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(self.kubeconfig()));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        format!("{header}..{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes())))
    }

    fn answer(&self, request: &str) -> (String, String) {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let with_token = request.to_lowercase().contains("authorization: bearer");
        if with_token {
            self.saw_token.store(true, Ordering::Relaxed);
        }
        let status = self.answers.iter().find(|(end, _)| path.ends_with(end)).map_or("200 OK", |(_, status)| status);
        let config_map = |key: &str, value: &str| serde_json::json!({"data": {key: value}}).to_string();
        match path {
            "/api/v1/namespaces/kube-public/configmaps/cluster-info" => {
                let mut data = serde_json::json!({"kubeconfig": self.kubeconfig(), "jws-kubeconfig-yyyyyy": "x"});
                if let Some(secret) = &self.signs_with {
                    data["jws-kubeconfig-abcdef"] = self.signature(secret).into();
                }
                (self.info_status.into(), serde_json::json!({"data": data}).to_string())
            }
            _ if !with_token => ("401 Unauthorized".into(), "{}".into()),
            "/api/v1/namespaces/kube-system/configmaps/kubelet-config" => {
                (status.into(), config_map("kubelet", "cgroupDriver: systemd\n"))
            }
            "/api/v1/namespaces/kube-system/configmaps/kubeadm-config" => {
                (status.into(), config_map("ClusterConfiguration", "networking: {}\n"))
            }
            "/version" => ("200 OK".into(), r#"{"gitVersion":"v1.34.4"}"#.into()),
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                let allowed = status == "200 OK";
                ("201 Created".into(), serde_json::json!({"status": {"allowed": allowed}}).to_string())
            }
            "/apis/authentication.k8s.io/v1/selfsubjectreviews" => match (status, self.groups) {
                ("200 OK", Some(group)) => {
                    let groups = serde_json::json!({"status": {"userInfo": {"groups": [group]}}});
                    ("201 Created".into(), groups.to_string())
                }
                ("200 OK", None) => ("404 Not Found".into(), "{}".into()),
                (status, _) => (status.into(), "{}".into()),
            },
            _ if status != "200 OK" => (status.into(), "{}".into()),
            _ => ("404 Not Found".into(), r#"{"kind":"Status"}"#.into()),
        }
    }

    async fn serve(self: Arc<Self>) -> u16 {
        self.serve_on(TcpListener::bind((LOOPBACK, 0)).await.unwrap())
    }

    fn serve_on(self: Arc<Self>, listener: TcpListener) -> u16 {
        let port = listener.local_addr().unwrap().port();
        self.port.store(port, Ordering::Relaxed);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let cluster = self.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = cluster.acceptor.accept(stream).await else { return };
                    while let Some(request) = read_request(&mut stream).await {
                        let length =
                            request.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                        stream.read_exact(&mut vec![0; length.unwrap_or_default()]).await.unwrap();
                        let (status, body) = cluster.answer(&request);
                        let head = format!(
                            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nDate: Sun, 15 Nov 2026 12:00:07 GMT\r\nContent-Length: {}\r\n\r\n",
                            body.len()
                        );
                        if stream.write_all((head + &body).as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        port
    }
}

/// A server that says one thing to everybody.
async fn saying(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(bytes).await;
            let _ = stream.read(&mut [0; 1024]).await;
        }
    });
    port
}

fn target(port: u16, token: Option<&str>, pins: &[&str]) -> Discovery {
    Discovery {
        endpoint: Endpoint { host: "127.0.0.1".into(), port },
        token: token.map(|token| token.parse().unwrap()),
        pins: pins.iter().map(|pin| pin.parse().unwrap()).collect(),
    }
}

async fn walked(target: &Discovery) -> (ApiPath, PathFacts) {
    walked_at(NOW, target).await
}

/// By the clock of the machine.
async fn walked_at(now: &'static str, target: &Discovery) -> (ApiPath, PathFacts) {
    let found = walk(&Here { names: vec![LOOPBACK], now }, target, Some("w1")).await;
    let path = found.iter().find(|(name, _)| *name == "path").unwrap().1.as_ref().unwrap();
    (serde_json::from_str(&path.text).unwrap(), found)
}

#[track_caller]
fn assert_fails_at(path: &ApiPath, step: PathStep, part: &str) {
    assert_eq!(path.failed().map(|walked| walked.step), Some(step), "{path:?}");
    let Some(StepOutcome::Failed(detail)) = path.at(step) else { panic!("{path:?}") };
    assert!(detail.contains(part), "{detail}");
}

#[tokio::test]
async fn a_healthy_path_gives_what_the_cluster_knows() {
    let cluster = Cluster::new(&["127.0.0.1"]).signed_with("0123456789abcdef");
    let (pin, ca) = (cluster.pin(), cluster.ca.clone());
    let port = Arc::new(cluster).serve().await;
    let (path, found) = walked(&target(port, Some(TOKEN), &[&pin])).await;
    assert_eq!(path.failed(), None, "{path:?}");
    assert!(matches!(path.at(PathStep::Auth), Some(StepOutcome::Ok(_))), "{path:?}");
    assert_eq!(path.ca_pins, [pin]);
    let clocks = path.clocks.unwrap();
    assert_eq!(clocks.server.as_second() - clocks.here.as_second(), 7);
    let text =
        |name: &str| found.iter().find(|(there, _)| *there == name).unwrap().1.clone().map(|capture| capture.text);
    assert_eq!(text("cluster-ca"), Ok(ca));
    assert_eq!(text("kubelet-config"), Ok("cgroupDriver: systemd\n".into()));
    assert_eq!(text("kubeadm-config"), Ok("networking: {}\n".into()));
    assert_eq!(text("version"), Ok(r#"{"gitVersion":"v1.34.4"}"#.into()));
    assert_eq!(text("node"), Err(Why::Absent));
}

#[tokio::test]
async fn what_is_no_name_is_not_asked_for() {
    let cluster = Cluster::new(&["127.0.0.1"]).signed_with("0123456789abcdef");
    let port = Arc::new(cluster).serve().await;
    let here = Here { names: vec![LOOPBACK], now: NOW };
    let found = walk(&here, &target(port, Some(TOKEN), &[]), Some("../../version")).await;
    let (_, node) = found.iter().find(|(name, _)| *name == "node").unwrap();
    assert_eq!(*node, Err(Why::Broken("\"../../version\" is not a name in Kubernetes".into())));
}

#[tokio::test]
async fn each_layer_that_fails_is_the_one_that_is_told() {
    let unbound = { TcpListener::bind((LOOPBACK, 0)).await.unwrap().local_addr().unwrap().port() };
    assert_fails_at(&walked(&target(unbound, None, &[])).await.0, PathStep::Tcp, "connection refused");
    let plain = saying(b"HTTP/1.0 400 Bad Request\r\n\r\n").await;
    assert_fails_at(&walked(&target(plain, None, &[])).await.0, PathStep::Tls, "does not speak TLS");
    let silent = saying(b"").await;
    assert_fails_at(&walked(&target(silent, None, &[])).await.0, PathStep::Tls, "closed during the handshake");
    let nobody = walk(
        &Here { names: Vec::new(), now: NOW },
        &Discovery { endpoint: "cp.example:6443".parse().unwrap(), token: None, pins: vec![] },
        None,
    )
    .await;
    assert!(nobody[0].1.as_ref().unwrap().text.contains("cp.example does not resolve on this machine"));
}

#[tokio::test]
async fn a_token_that_is_not_signed_for_goes_to_nobody_but_the_pinned_cluster() {
    const SECRET: &str = "0123456789abcdef";
    for (signs_with, token, is_pinned, review, signature, accepted) in [
        (None, TOKEN, false, "200 OK", TokenSignature::Missing, None),
        (None, TOKEN, true, "200 OK", TokenSignature::Missing, Some(true)),
        (None, TOKEN, true, "401 Unauthorized", TokenSignature::Missing, Some(false)),
        (None, TOKEN, true, "503 Service Unavailable", TokenSignature::Missing, None),
        (Some("another--secret!"), TOKEN, true, "401 Unauthorized", TokenSignature::Wrong, Some(false)),
        (Some("another--secret!"), TOKEN, false, "200 OK", TokenSignature::Wrong, None),
        (Some(SECRET), "zzzzzz.0123456789abcdef", true, "401 Unauthorized", TokenSignature::Missing, Some(false)),
    ] {
        let answers = vec![("selfsubjectreviews", review)];
        let cluster = Cluster { signs_with, answers, ..Cluster::new(&["127.0.0.1"]) };
        let (saw_token, pin) = (cluster.saw_token.clone(), cluster.pin());
        let port = Arc::new(cluster).serve().await;
        let pins = [pin.as_str()];
        let (path, found) = walked(&target(port, Some(token), if is_pinned { &pins } else { &[] })).await;
        assert_eq!(path.failed().map(|walked| walked.step), Some(PathStep::Token), "{path:?}");
        let seen = path.token.unwrap();
        assert_eq!((seen.signature, seen.accepted), (signature, accepted), "{token}, pinned: {is_pinned}");
        assert_eq!(saw_token.load(Ordering::Relaxed), is_pinned);
        assert!(found.iter().all(|(_, capture)| !format!("{capture:?}").contains(SECRET)));
    }
}

#[tokio::test]
async fn another_cluster_than_the_pinned_one_gets_no_token() {
    let cluster = Cluster::new(&["127.0.0.1"]).signed_with("0123456789abcdef");
    let (saw_token, pin) = (cluster.saw_token.clone(), cluster.pin());
    let port = Arc::new(cluster).serve().await;
    let (path, _) = walked(&target(port, Some(TOKEN), &[&format!("sha256:{}", "0".repeat(64))])).await;
    assert_fails_at(&path, PathStep::CaPin, &pin);
    assert!(!saw_token.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_told() {
    let cluster = Cluster::new(&["10.9.9.9"]).signed_with("0123456789abcdef");
    let saw_token = cluster.saw_token.clone();
    let port = Arc::new(cluster).serve().await;
    let (path, _) = walked(&target(port, Some(TOKEN), &[])).await;
    assert_fails_at(&path, PathStep::Certificate, "not valid for");
    assert!(!saw_token.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_certificate_is_judged_by_the_clock_of_the_machine_that_joins() {
    let early = ("2025-06-01T00:00:00Z", "not valid yet", Some(PathReason::NotYetValid));
    for (now, part, reason) in [early, ("2027-06-01T00:00:00Z", "expired", None)] {
        let cluster = Cluster::new(&["127.0.0.1"]).signed_with("0123456789abcdef");
        let saw_token = cluster.saw_token.clone();
        let port = Arc::new(cluster).serve().await;
        let (path, _) = walked_at(now, &target(port, Some(TOKEN), &[])).await;
        assert_fails_at(&path, PathStep::Certificate, part);
        assert_eq!(path.failed().and_then(|walked| walked.reason), reason);
        assert!(!saw_token.load(Ordering::Relaxed));
    }
}

/// The walk's time is over at once: nothing but the server is waited for.
#[tokio::test(start_paused = true)]
async fn who_takes_the_connection_and_says_nothing_gives_no_answer() {
    let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (path, _) = walked(&target(port, Some(TOKEN), &[])).await;
    assert_eq!(
        path.failed().map(|walked| (walked.step, walked.reason)),
        Some((PathStep::Tls, Some(PathReason::NoAnswer)))
    );
}

#[tokio::test]
async fn what_a_token_is_refused_is_told_by_resource() {
    const FORBIDDEN: &str = "403 Forbidden";
    let all = TokenRights {
        kubeadm_config: Some(200),
        kubelet_config: Some(200),
        node: Some(404),
        requests: Some(true),
        approval: Some(true),
    };
    let none = TokenRights::default;
    for (end, status, accepted, rights, asks_who) in [
        ("nothing", "", Some(true), all.clone(), false),
        (
            "/kubelet-config",
            "401 Unauthorized",
            Some(false),
            TokenRights { kubelet_config: Some(401), ..none() },
            false,
        ),
        ("/kubelet-config", "503 Busy", None, TokenRights { kubelet_config: Some(503), ..none() }, false),
        ("/kubelet-config", FORBIDDEN, Some(true), TokenRights { kubelet_config: Some(403), ..all.clone() }, true),
        (
            "/kubelet-config",
            "404 Not Found",
            Some(true),
            TokenRights { kubelet_config: Some(404), ..all.clone() },
            false,
        ),
        ("/kubeadm-config", FORBIDDEN, Some(true), TokenRights { kubeadm_config: Some(403), ..all.clone() }, true),
        ("/nodes/w1", FORBIDDEN, Some(true), TokenRights { node: Some(403), ..all.clone() }, true),
        (
            "/selfsubjectaccessreviews",
            FORBIDDEN,
            Some(true),
            TokenRights { requests: Some(false), approval: Some(false), ..all.clone() },
            true,
        ),
    ] {
        let (answers, groups) = (vec![(end, status)], Some("system:bootstrappers"));
        let cluster = Cluster { answers, groups, ..Cluster::new(&["127.0.0.1"]).signed_with("0123456789abcdef") };
        let port = Arc::new(cluster).serve().await;
        let path = walked(&target(port, Some(TOKEN), &[])).await.0;
        let failed = path.failed().map(|walked| walked.step);
        assert_eq!(failed, (accepted != Some(true)).then_some(PathStep::Auth), "{end} {status}");
        let seen = path.token.unwrap();
        assert_eq!((seen.accepted, seen.rights, seen.groups.is_some()), (accepted, rights, asks_who), "{end} {status}");
    }
}

#[tokio::test]
async fn why_cluster_info_cannot_be_read_is_told_apart() {
    for (status, reason, part) in [
        ("404 Not Found", None, "no ConfigMap kube-public/cluster-info"),
        ("403 Forbidden", Some(PathReason::Forbidden), "403"),
        ("401 Unauthorized", Some(PathReason::Unauthenticated), "401"),
    ] {
        let cluster = Cluster { info_status: status, ..Cluster::new(&["127.0.0.1"]) };
        let port = Arc::new(cluster).serve().await;
        let path = walked(&target(port, Some(TOKEN), &[])).await.0;
        assert_fails_at(&path, PathStep::ClusterInfo, part);
        assert_eq!(path.failed().and_then(|walked| walked.reason), reason);
    }
}

/// kubeadm goes on with the server in cluster-info, whatever it was given.
#[tokio::test]
async fn the_server_in_cluster_info_is_tried_as_well() {
    let unbound = { TcpListener::bind((LOOPBACK, 0)).await.unwrap().local_addr().unwrap().port() };
    let refused = format!("https://127.0.0.1:{unbound}");
    for (names, certified, fails, other) in [
        (None, &["127.0.0.1"][..], None, None),
        (Some(refused.as_str()), &["127.0.0.1"], Some("connection refused"), None),
        (Some("https://cp.example:PORT"), &["127.0.0.1", "cp.example"], None, None),
        (Some("https://cp.example:PORT"), &["127.0.0.1"], Some("not valid for"), None),
        (Some("https://127.0.0.2:PORT"), &["127.0.0.1", "127.0.0.2"], None, Some(PathReason::OtherAddress)),
        (Some("http://127.0.0.1:6443"), &["127.0.0.1"], Some("names no API server that can be asked"), None),
        (Some(""), &["127.0.0.1"], Some("names no API server that can be asked"), None),
    ] {
        let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let names = names.map(|names| names.replace("PORT", &port.to_string()));
        let cluster = Cluster { names: names.clone(), ..Cluster::new(certified).signed_with("0123456789abcdef") };
        let cluster = Arc::new(cluster);
        // Another address of the same machine.
        cluster.clone().serve_on(TcpListener::bind(("127.0.0.2", port)).await.unwrap());
        cluster.serve_on(listener);
        let path = walked(&target(port, Some(TOKEN), &[])).await.0;
        match fails {
            Some(says) => assert_fails_at(&path, PathStep::Advertised, says),
            None => assert_eq!(path.failed(), None, "{names:?}: {path:?}"),
        }
        assert_eq!(path.reason_at(PathStep::Advertised), other, "{names:?}");
    }
}

#[tokio::test]
async fn without_a_token_the_path_is_walked_as_far_as_anybody_may() {
    let cluster = Cluster::new(&["127.0.0.1"]);
    let pin = cluster.pin();
    let port = Arc::new(cluster).serve().await;
    let (path, found) = walked(&target(port, None, &[&pin])).await;
    assert_eq!(path.failed(), None);
    assert!(matches!(path.at(PathStep::Certificate), Some(StepOutcome::Ok(_))));
    assert!(matches!(path.at(PathStep::Auth), Some(StepOutcome::NotNeeded(_))));
    assert!(found.iter().any(|(name, capture)| *name == "version" && *capture == Err(Why::NotAsked)));
}
