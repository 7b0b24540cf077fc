//! An admin's questions, to servers on loopback that ask for a client certificate or a token.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::sync::Arc;

use carrick_cluster::client::{Client, is_of_another_ca};
use carrick_cluster::node;
use carrick_core::fact::{Capture, Why};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

mod support;

use support::{Here, LOOPBACK, read_request};

const TOKEN: &str = "s3cret";
const LIST: &str = r#"{"items":[{"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel"},
    "spec":{"template":{"env":"s3cret"}},"status":{"desiredNumberScheduled":3,"numberReady":2}}]}"#;
const KEPT: &str = r#"{"kind":"DaemonSetList","items":[{"metadata":{"namespace":"kube-flannel","name":"kube-flannel-ds"},"status":{"desiredNumberScheduled":3,"numberReady":2}}]}"#;

/// What a server wants to see.
#[derive(Clone, Copy)]
enum Wants {
    Certificate,
    Token,
}

/// Certificate and key, as PEM.
type Pair = (String, String);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// A server that gives `answer` to whoever shows what it wants.
    async fn serve(&self, name: &str, wants: Wants, answer: (&'static str, &'static str)) -> u16 {
        self.serve_at("/apis/apps/v1/daemonsets", name, wants, answer).await
    }

    async fn serve_at(
        &self,
        path: &'static str,
        name: &str,
        wants: Wants,
        answer: (&'static str, &'static str),
    ) -> u16 {
        let (certificate, key) = self.issue(name);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = match wants {
            Wants::Certificate => config.with_client_cert_verifier(clients),
            Wants::Token => config.with_no_client_auth(),
        };
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
        let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let Some(request) = read_request(&mut stream).await else { continue };
                assert!(request.starts_with(&format!("GET {path} HTTP/1.1")), "{request}");
                let sent = request.contains("authorization: Bearer s3cret");
                let (status, body) = match wants {
                    Wants::Token if !sent => ("401 Unauthorized", "{}"),
                    _ => answer,
                };
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + body).as_bytes()).await;
            }
        });
        port
    }
}

fn kubeconfig(server: &str, user: &serde_json::Value) -> String {
    json!({
        "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "k", "user": "u" } }],
        "clusters": [{ "name": "k", "cluster": { "server": server, "certificate-authority": "ca" } }],
        "users": [{ "name": "u", "user": user }],
    })
    .to_string()
}

async fn asks(server: &str, ca: &Authority, own: Option<&Pair>) -> Result<Capture, Why> {
    let user = match own {
        Some(_) => json!({ "client-certificate": "certificate", "client-key": "key" }),
        None => json!({ "token": TOKEN }),
    };
    let read = |name: &str| match (name, own) {
        ("certificate", Some((certificate, _))) => Ok(certificate.clone()),
        ("key", Some((_, key))) => Ok(key.clone()),
        _ => Ok(ca.0.pem()),
    };
    let admin = Client::parse(&kubeconfig(server, &user), read).unwrap();
    let way = Here { names: if server.contains("nowhere") { Vec::new() } else { vec![LOOPBACK] } };
    let found = admin.daemon_sets(&way).await;
    assert!(!format!("{found:?} {admin:?}").contains(TOKEN));
    found
}

#[track_caller]
fn assert_broken(found: &Result<Capture, Why>, part: &str) {
    let Err(Why::Broken(detail)) = found else { panic!("{found:?}") };
    assert!(detail.contains(part), "{detail}");
}

#[tokio::test]
async fn a_client_certificate_or_a_token_opens_the_door() {
    let ca = Authority::new();
    let own = ca.issue("admin");
    let port = ca.serve("127.0.0.1", Wants::Certificate, ("200 OK", LIST)).await;
    assert_eq!(asks(&format!("https://127.0.0.1:{port}"), &ca, Some(&own)).await, Ok(Capture::text(KEPT)));
    let port = ca.serve("cp.example", Wants::Token, ("200 OK", LIST)).await;
    assert_eq!(asks(&format!("https://cp.example:{port}"), &ca, None).await, Ok(Capture::text(KEPT)));
}

#[tokio::test]
async fn who_is_not_let_in_is_denied() {
    let ca = Authority::new();
    let own = ca.issue("admin");
    let port = ca.serve("127.0.0.1", Wants::Token, ("200 OK", LIST)).await;
    assert_eq!(asks(&format!("https://127.0.0.1:{port}"), &ca, Some(&own)).await, Err(Why::Denied), "401");
    let port = ca.serve("127.0.0.1", Wants::Token, ("403 Forbidden", "{}")).await;
    assert_eq!(asks(&format!("https://127.0.0.1:{port}"), &ca, None).await, Err(Why::Denied), "403");
}

#[tokio::test]
async fn a_server_that_takes_its_own_certificates_only_gives_no_answer_to_others() {
    let ca = Authority::new();
    let port = ca.serve("127.0.0.1", Wants::Certificate, ("200 OK", LIST)).await;
    let server = format!("https://127.0.0.1:{port}");
    // The reason is an alert that comes after the handshake; it may be lost to the end of the connection.
    let address = server.trim_start_matches("https://");
    assert_broken(&asks(&server, &ca, None).await, address);
    let stranger = Authority::new().issue("admin");
    assert_broken(&asks(&server, &ca, Some(&stranger)).await, address);
}

#[tokio::test]
async fn a_server_of_another_ca_or_name_gets_no_token() {
    let (ca, other) = (Authority::new(), Authority::new());
    let port = ca.serve("127.0.0.1", Wants::Token, ("200 OK", LIST)).await;
    let of_another = |found: &Result<Capture, Why>| matches!(found, Err(Why::Broken(it)) if is_of_another_ca(it));
    let found = asks(&format!("https://127.0.0.1:{port}"), &other, None).await;
    assert_broken(&found, "invalid peer certificate");
    assert!(of_another(&found));
    let port = ca.serve("cp.example", Wants::Token, ("200 OK", LIST)).await;
    let found = asks(&format!("https://127.0.0.1:{port}"), &ca, None).await;
    assert_broken(&found, "not valid for");
    assert!(!of_another(&found));
}

#[tokio::test]
async fn what_is_no_answer_is_told_with_the_address() {
    let ca = Authority::new();
    let unbound = { TcpListener::bind((LOOPBACK, 0)).await.unwrap().local_addr().unwrap().port() };
    let refused = asks(&format!("https://127.0.0.1:{unbound}"), &ca, None).await;
    assert_broken(&refused, &format!("127.0.0.1:{unbound}: connection refused"));
    assert_broken(&asks("https://nowhere.example:6443", &ca, None).await, "nowhere.example:6443: cannot be resolved");
    for (answer, part) in [
        (("200 OK", "<html>"), "not JSON"),
        (("404 Not Found", "{}"), "answers 404 Not Found"),
        (("503 Service Unavailable", ""), "answers 503"),
    ] {
        let port = ca.serve("127.0.0.1", Wants::Token, answer).await;
        assert_broken(&asks(&format!("https://127.0.0.1:{port}"), &ca, None).await, part);
    }
}

#[tokio::test]
async fn a_kubelet_is_shown_its_node_and_the_config_maps_of_its_pods() {
    const NODE: &str = r#"{"metadata":{"name":"w1","annotations":{"a":"s3cret"}},"spec":{"podCIDR":"10.244.1.0/24"},
        "status":{"conditions":[{"type":"Ready","status":"True"}],"images":[]}}"#;
    const MAP: &str = r#"{"data":{"cni-conf.json":"{}\n"}}"#;
    let (node_path, map_path) = ("/api/v1/nodes/w1", "/api/v1/namespaces/kube-flannel/configmaps/kube-flannel-cfg");
    let ca = Authority::new();
    let own = ca.issue("system:node:w1");
    let way = Here { names: vec![LOOPBACK] };
    let client = |port: u16| {
        let user = json!({ "client-certificate": "own", "client-key": "own" });
        let read = |name: &str| match name {
            // As the kubelet keeps them: both in one file.
            "own" => Ok(format!("{}{}", own.0, own.1)),
            _ => Ok(ca.0.pem()),
        };
        Client::parse(&kubeconfig(&format!("https://127.0.0.1:{port}"), &user), read).unwrap()
    };
    let port = ca.serve_at(node_path, "127.0.0.1", Wants::Certificate, ("200 OK", NODE)).await;
    let seen = node::node(&client(port), &way, "w1").await.unwrap().text;
    assert!(seen.contains("10.244.1.0/24") && seen.contains("Ready") && !seen.contains("s3cret"), "{seen}");
    for (answer, why) in [("404 Not Found", Why::Absent), ("403 Forbidden", Why::Denied)] {
        let port = ca.serve_at(node_path, "127.0.0.1", Wants::Certificate, (answer, "{}")).await;
        assert_eq!(node::node(&client(port), &way, "w1").await, Err(why));
    }
    let port = ca.serve_at(map_path, "127.0.0.1", Wants::Certificate, ("200 OK", MAP)).await;
    let asks =
        async |key: &str| node::config_map(&client(port), &way, "kube-flannel", "kube-flannel-cfg", key).await.unwrap();
    assert_eq!(asks("cni-conf.json").await.as_deref(), Some("{}\n"));
    assert_eq!(asks("net-conf.json").await, None);
    assert!(node::node(&client(port), &way, "../secrets").await.is_err());
}
