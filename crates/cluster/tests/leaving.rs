//! A Node whose machine leaves, on a server on loopback that notes what it is asked and answers as an API server does.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::sync::{Arc, Mutex};

use carrick_cluster::client::Client;
use carrick_cluster::leaving::{self, Evicted, Leaving, NotSaid};
use carrick_core::fact::Why;
use carrick_core::fact::identity::Identity;
use carrick_core::reset::CORDONED;
use carrick_core::reset::pods::Pod;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

mod support;

use support::{Here, LOOPBACK, read_request};

/// What is answered to `METHOD PATH`: a status and a body.
type Answers = fn(&str) -> (&'static str, Value);

struct Server {
    client: Client,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn that(answers: Answers) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(own.pem().as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
        let (acceptor, asked) = (TlsAcceptor::from(Arc::new(config)), Arc::new(Mutex::new(Vec::new())));
        let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let server = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let noted = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let Some(head) = read_request(&mut stream).await else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or_default()];
                stream.read_exact(&mut body).await.unwrap();
                let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
                let (status, answer) = answers(&line);
                noted.lock().unwrap().push(format!("{line} {}", String::from_utf8(body).unwrap()).trim().to_owned());
                let (answer, size) = (answer.to_string(), answer.to_string().len());
                let head =
                    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n");
                let _ = stream.write_all((head + &answer).as_bytes()).await;
            }
        });
        let kubeconfig = json!({
            "current-context": "c", "contexts": [{ "name": "c", "context": { "cluster": "k", "user": "u" } }],
            "clusters": [{ "name": "k", "cluster": { "server": server, "certificate-authority": "ca" } }],
            "users": [{ "name": "u", "user": { "token": "t" } }],
        });
        let client = Client::parse(&kubeconfig.to_string(), |_| Ok(ca.pem())).unwrap();
        Server { client, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

const HERE: Here = Here { names: Vec::new() };
const ID: &str = "0123456789abcdef0123456789abcdef";
const NODE: &str = "GET /api/v1/nodes/w1";

fn own() -> Identity {
    Identity { uuid: None, machine_id: Some(ID.to_owned()) }
}

fn object(machine_id: &str, spec: &Value, annotations: &Value) -> Value {
    let info = json!({ "nodeInfo": { "machineID": machine_id, "systemUUID": "" } });
    json!({ "metadata": { "name": "w1", "annotations": annotations }, "spec": spec, "status": info })
}

#[tokio::test]
async fn a_node_is_marked_and_cordoned_with_a_note() {
    let server = Server::that(|_| ("200 OK", object(ID, &json!({}), &json!({})))).await;
    assert_eq!(leaving::leave(&server.client, &HERE, "w1", &own()).await, Ok(Leaving::Said));
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].as_str()), (3, NODE));
    assert!(asked[1].starts_with("PATCH /api/v1/nodes/w1/status {\"status\":{\"conditions\":[{"), "{}", asked[1]);
    assert!(asked[1].contains(r#""status":"False""#) && asked[1].contains(r#""type":"Ready""#), "{}", asked[1]);
    let cordoned: Value = serde_json::from_str(asked[2].strip_prefix("PATCH /api/v1/nodes/w1 ").unwrap()).unwrap();
    let note = json!({ "annotations": { CORDONED: "2026-11-15T12:00:00Z" } });
    assert_eq!(cordoned, json!({ "metadata": note, "spec": { "unschedulable": true } }));
}

#[tokio::test]
async fn what_is_not_this_machines_to_say_is_not_said() {
    let another: Answers = |_| ("200 OK", object(&ID.replace('0', "f"), &json!({}), &json!({})));
    let plane: Answers = |_| {
        let mut node = object(ID, &json!({}), &json!({}));
        node["metadata"]["labels"] = json!({ "node-role.kubernetes.io/control-plane": "" });
        ("200 OK", node)
    };
    let denied: Answers = |_| ("403 Forbidden", json!({}));
    let rows = [
        (another, NotSaid::AnotherMachine("w1".into())),
        (plane, NotSaid::ControlPlane("w1".into())),
        (denied, NotSaid::Why(Why::Denied)),
    ];
    for (answers, expected) in rows {
        let server = Server::that(answers).await;
        assert_eq!(leaving::leave(&server.client, &HERE, "w1", &own()).await, Err(expected));
        assert_eq!(server.asked(), [NODE], "nothing was changed");
    }
    let none = Server::that(|_| ("404 Not Found", json!({}))).await;
    assert_eq!(leaving::leave(&none.client, &HERE, "w1", &own()).await, Ok(Leaving::NoNode));
}

#[tokio::test]
async fn only_what_a_reset_cordoned_is_opened_again() {
    let theirs = Server::that(|_| ("200 OK", object(ID, &json!({ "unschedulable": true }), &json!({})))).await;
    assert_eq!(leaving::leave(&theirs.client, &HERE, "w1", &own()).await, Ok(Leaving::CordonedBefore));
    assert_eq!(theirs.asked().len(), 2, "marked, and no note left");
    leaving::close(&theirs.client, &HERE, "w1").await.unwrap();
    assert_eq!(leaving::open(&theirs.client, &HERE, "w1").await, Ok(false));
    assert!(theirs.asked().iter().skip(2).all(|asked| asked == NODE));

    let ours: Answers = |_| ("200 OK", object(ID, &json!({ "unschedulable": true }), &json!({ CORDONED: "x" })));
    let ours = Server::that(ours).await;
    assert_eq!(leaving::open(&ours.client, &HERE, "w1").await, Ok(true));
    let opened: Value = serde_json::from_str(ours.asked()[1].strip_prefix("PATCH /api/v1/nodes/w1 ").unwrap()).unwrap();
    let note = json!({ "annotations": { CORDONED: null } });
    assert_eq!(opened, json!({ "metadata": note, "spec": { "unschedulable": null } }));
}

#[tokio::test]
async fn pods_come_page_by_page_and_go_as_their_budget_lets_them() {
    const FIRST: &str = "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dw1&limit=100";
    let pod = |name: &str| Pod { namespace: "default".into(), name: name.into(), uid: "u".into(), ..Pod::default() };
    let server = Server::that(|line| {
        let pod = |name: &str| json!({ "metadata": { "namespace": "default", "name": name, "uid": "u" } });
        match line {
            FIRST => ("200 OK", json!({ "metadata": { "continue": "a/b=" }, "items": [pod("web")] })),
            "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dw1&limit=100&continue=a%2Fb%3D" => {
                ("200 OK", json!({ "metadata": {}, "items": [pod("db")] }))
            }
            "POST /api/v1/namespaces/default/pods/web/eviction" => ("201 Created", json!({})),
            "POST /api/v1/namespaces/default/pods/db/eviction" => {
                ("429 Too Many Requests", json!({ "message": "would violate the pod's disruption budget" }))
            }
            _ => ("404 Not Found", json!({})),
        }
    })
    .await;
    assert_eq!(leaving::pods(&server.client, &HERE, "w1").await, Ok(vec![pod("web"), pod("db")]));
    let budget = "would violate the pod's disruption budget".to_owned();
    for (name, expected) in [("web", Evicted::Going), ("db", Evicted::NotNow(budget)), ("old", Evicted::Gone)] {
        assert_eq!(leaving::evict(&server.client, &HERE, &pod(name)).await, Ok(expected));
    }
    assert!(server.asked().last().unwrap().contains(r#""preconditions":{"uid":"u"}"#));
}

#[tokio::test]
async fn a_node_is_deleted_only_as_it_was_seen() {
    let server = Server::that(|_| ("200 OK", json!({}))).await;
    let delete = |seen: Value| {
        let client = &server.client;
        async move { client.delete_as_seen(&HERE, "/api/v1/nodes/w1", &seen).await }
    };
    assert_eq!(delete(json!({ "metadata": { "uid": "u", "resourceVersion": "7" } })).await, Ok(()));
    let asked = server.asked();
    let options: Value = serde_json::from_str(asked[0].strip_prefix("DELETE /api/v1/nodes/w1 ").unwrap()).unwrap();
    assert_eq!(options["preconditions"], json!({ "uid": "u", "resourceVersion": "7" }));
    assert!(delete(json!({ "metadata": { "uid": "u" } })).await.is_err());
    assert_eq!(server.asked().len(), 1, "what cannot be told apart is not deleted");
}
