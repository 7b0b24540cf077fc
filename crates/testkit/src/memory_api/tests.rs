//! The server by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use proptest::prelude::*;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tower::Service as _;

use super::rows::{self, RowServer as _};
use super::*;

fn clock() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

async fn prepared() -> MemoryApi {
    let api = MemoryApi::new(clock);
    for ask in rows::prelude() {
        api.send(ask.who, ask.request(&[]).unwrap()).await.unwrap();
    }
    api
}

#[tokio::test(start_paused = true)]
async fn every_row_is_answered_and_nothing_is_left_out() {
    let api = prepared().await;
    for row in rows::all() {
        let answers = rows::play(&api, &row).await.unwrap();
        for (ask, answer) in row.asks.iter().zip(&answers) {
            assert_ne!(answer.status, 501, "{}: {} {}: {}", row.name, ask.method, ask.path, answer.body);
        }
    }
    assert_eq!(api.take_unknown(), [""; 0]);
}

/// Holds the table against a real kube-apiserver: `KUBEBUILDER_ASSETS=… cargo test -p carrick-testkit -- --ignored rows`. The
/// lab plays the same rows to a cluster of kubeadm's.
#[tokio::test]
#[ignore = "needs etcd and kube-apiserver"]
async fn rows_are_answered_as_by_a_real_server() {
    let real = crate::Api::start().unwrap();
    let address = real.url().trim_start_matches("https://").parse().unwrap();
    let etcd = real.etcd();
    let compaction =
        Box::new(move |revision: &str| crate::Api::compact(etcd, revision).map_err(|error| error.to_string()));
    let stage = tls::Https::real(address, real.authority(), compaction).unwrap();
    let found = rows::compare(&prepared().await, &stage).await.unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A request as somebody, and what came of it.
async fn ask(api: &MemoryApi, user: Option<User>, method: &str, path: &str, body: Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, kind);
    let request = request.header(http::header::ACCEPT, "application/json").body(Full::new(Bytes::from(body))).unwrap();
    let response = api.service_for(user).call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&body).as_ref())))
}

async fn admin(api: &MemoryApi, method: &str, path: &str, body: Value) -> (u16, Value) {
    ask(api, Some(User::admin()), method, path, body).await
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"row": "nodes"}}})
}

#[tokio::test]
async fn a_request_that_no_row_has_fails_the_test() {
    let api = MemoryApi::new(clock);
    let (status, said) = admin(&api, "GET", "/api/v1/nodes?resourceVersion=0", Value::Null).await;
    assert_eq!((status, said["reason"].as_str()), (501, Some("NotModelled")), "{said}");
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(api)));
    let panic = dropped.unwrap_err();
    let words = panic.downcast_ref::<String>().unwrap();
    assert!(words.contains("list nodes ?resourceVersion"), "{words}");
}

#[tokio::test]
async fn a_value_that_is_not_modelled_fails_the_test_too() {
    let api = MemoryApi::new(clock);
    api.put(&node("w1"));
    let patch = json!({"$patch": "replace"});
    let request = Request::builder().method("PATCH").uri("/api/v1/nodes/w1");
    let request = request.header(CONTENT_TYPE, "application/strategic-merge-patch+json");
    let body = Full::new(Bytes::from(json!({"spec": {"$retainKeys": [patch]}}).to_string()));
    let response = api.service_for(Some(User::admin())).call(request.body(body).unwrap()).await.unwrap();
    assert_eq!((response.status().as_u16(), api.take_unknown().len()), (501, 1));
}

#[tokio::test]
async fn no_fault_hides_a_request_that_no_row_has() {
    for fault in [Fault::Refuse, Fault::TooManyRequests, Fault::Status(503), Fault::Cut] {
        let api = MemoryApi::new(clock);
        api.fail("list nodes", None, fault);
        let (status, _) = admin(&api, "GET", "/api/v1/nodes?resourceVersion=0", Value::Null).await;
        assert_eq!((status, api.take_unknown().len()), (501, 1), "{fault:?}");
    }
}

/// A real server guesses at some of these, and refuses others; no row says which.
#[tokio::test(start_paused = true)]
async fn a_parameter_that_cannot_be_read_fails_the_test() {
    let api = MemoryApi::new(clock);
    let watch = "watch=true&timeoutSeconds=1";
    for query in [
        "limit=abc",
        "limit=-1",
        "limit=",
        "watch=yes&timeoutSeconds=1",
        "watch=true&timeoutSeconds=soon",
        &format!("{watch}&allowWatchBookmarks=true&resourceVersion=abc"),
        &format!("{watch}&allowWatchBookmarks=perhaps&resourceVersion=0"),
        &format!("{watch}&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=perhaps"),
    ] {
        let (status, said) = admin(&api, "GET", &format!("/api/v1/nodes?{query}"), Value::Null).await;
        assert_eq!((status, api.take_unknown().len()), (501, 1), "{query}: {said}");
    }
}

#[tokio::test]
async fn a_connection_is_refused_through_tls_too() {
    let authority = crate::Authority::new().unwrap();
    let api = MemoryApi::new(clock);
    let gate = tls::Gate::new(&api, &authority, &["10.0.0.11"]).unwrap();
    api.fail("get nodes", Some(1), Fault::Refuse);
    assert_eq!(gate.dial().map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionRefused));
    assert_eq!((gate.dial().is_ok(), gate.dials()), (true, 1), "once only");
    api.fail("get nodes", None, Fault::Refuse);
    assert!(gate.dial().is_err() && gate.dial().is_err());
}

#[tokio::test(start_paused = true)]
async fn faults_happen_on_demand_and_are_counted() {
    let api = MemoryApi::new(clock);
    api.put(&node("w1"));
    let get = "/api/v1/nodes/w1";
    let patch = json!({"spec": {"unschedulable": true}});
    for (fault, method, body, status, says) in [
        (Fault::Status(503), "GET", Value::Null, 503, "ServiceUnavailable"),
        (Fault::Status(500), "GET", Value::Null, 500, "InternalError"),
        (Fault::TooManyRequests, "GET", Value::Null, 429, "Too many requests, please try again later."),
        (Fault::Conflict, "PATCH", patch.clone(), 409, "the object has been modified"),
        (Fault::Gone, "GET", Value::Null, 410, "Expired"),
        (Fault::Delay(Duration::from_secs(5)), "GET", Value::Null, 200, "w1"),
    ] {
        let verb = if method == "GET" { "get nodes" } else { "patch nodes" };
        api.fail(verb, Some(1), fault);
        let begun = tokio::time::Instant::now();
        let (seen, said) = admin(&api, method, get, body.clone()).await;
        assert_eq!(seen, status, "{fault:?}: {said}");
        assert!(said.to_string().contains(says), "{fault:?}: {said}");
        assert_eq!(begun.elapsed().as_secs(), if matches!(fault, Fault::Delay(_)) { 5 } else { 0 });
        // Once only.
        assert_eq!(admin(&api, method, get, body).await.0, 200, "{fault:?}");
    }
    assert_eq!((api.count("get nodes"), api.count("patch nodes"), api.count("list nodes")), (10, 2, 0));
    let request = || Request::builder().uri(get).body(Full::new(Bytes::new())).unwrap();
    api.fail("get nodes", Some(1), Fault::Refuse);
    let refused = api.service_for(Some(User::admin())).call(request()).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    api.fail("get nodes", Some(1), Fault::Cut);
    let cut = api.service_for(Some(User::admin())).call(request()).await.unwrap();
    assert_eq!(cut.into_body().collect().await.map(|_| ()).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn a_watch_hears_bookmarks_and_is_told_when_it_is_too_old() {
    let api = MemoryApi::new(clock);
    let uri = "/api/v1/nodes?watch=true&timeoutSeconds=600&allowWatchBookmarks=true&resourceVersion=0";
    let request = Request::builder().uri(uri).body(Full::new(Bytes::new())).unwrap();
    let response = api.service_for(Some(User::admin())).call(request).await.unwrap();
    let mut body = response.into_body();
    let mut next = async || -> Option<Value> {
        let frame = body.frame().await?.unwrap();
        Some(serde_json::from_slice(&frame.into_data().unwrap()).unwrap())
    };
    let first = next().await.unwrap();
    assert_eq!(first["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let made = api.put(&node("w1"));
    assert_eq!(next().await.unwrap(), json!({"type": "ADDED", "object": made}));
    let bookmark = next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    api.expire_watches();
    let last = next().await.unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(next().await, None);
}

/// A watch of the Nodes there are; none is there.
async fn watch(api: &MemoryApi) -> Response<Body> {
    let uri = "/api/v1/nodes?watch=true&timeoutSeconds=600&allowWatchBookmarks=true&resourceVersion=0";
    let request = Request::builder().uri(uri).body(Full::new(Bytes::new())).unwrap();
    api.service_for(Some(User::admin())).call(request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_too_long_ago_is_refused_before_it_begins() {
    let api = MemoryApi::new(clock);
    api.fail("watch nodes", Some(1), Fault::Gone);
    let refused = watch(&api).await;
    assert_eq!(refused.status(), 410);
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("Expired")), "{status}");
    assert_eq!(watch(&api).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_well_or_is_cut_in_the_middle() {
    for cut in [false, true] {
        let api = MemoryApi::new(clock);
        let mut body = watch(&api).await.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(String::from_utf8_lossy(&first).contains("BOOKMARK"));
        let made = api.put(&node("w1"));
        if cut {
            api.cut_watches();
        } else {
            api.end_watches();
        }
        // What was told before still comes.
        let told: Value = serde_json::from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap()).unwrap();
        assert_eq!(told, json!({"type": "ADDED", "object": made}));
        let end = body.frame().await.map(|frame| frame.map(drop).map_err(|error| error.kind()));
        assert_eq!(end, cut.then_some(Err(io::ErrorKind::ConnectionReset)), "cut: {cut}");
        assert!(body.frame().await.is_none());
    }
    // Or before the first word.
    let api = MemoryApi::new(clock);
    api.fail("watch nodes", Some(1), Fault::Cut);
    let broken = watch(&api).await.into_body().collect().await.map(drop).unwrap_err();
    assert_eq!(broken.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn controllers_act_only_where_they_are_started() {
    let authority = Arc::new(crate::Authority::new().unwrap());
    let api = MemoryApi::new(clock);
    let (request, _) = controller::certificate_request("w1");
    let csr = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "csr-1"},
        "spec": {"request": request, "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": ["client auth"]},
    });
    let joining = User::new("system:bootstrap:abcdef", &["system:bootstrappers:kubeadm:default-node-token"]);
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    assert_eq!(ask(&api, Some(joining), "POST", path, csr).await.0, 201);
    let certificate = || {
        let request = api.object(&format!("{path}/csr-1")).unwrap();
        request.pointer("/status/certificate").and_then(Value::as_str).map(str::to_owned)
    };
    assert_eq!(certificate(), None);
    api.start(Controller::Signer(Arc::clone(&authority)));
    assert_eq!(certificate(), None, "nobody has approved it");
    api.start(Controller::Approver);
    let pem = STANDARD.decode(certificate().unwrap()).unwrap();
    let der = CertificateDer::from_pem_slice(&pem).unwrap();
    assert_eq!(User::of_certificate(&der), Some(User::new("system:node:w1", &["system:nodes"])));
    api.put(&node("w1"));
    assert_eq!(api.object("/api/v1/nodes/w1").unwrap()["spec"]["podCIDR"], Value::Null);
    api.start(Controller::PodCidr);
    api.put(&node("w2"));
    let ranges =
        ["w1", "w2"].map(|name| api.object(&format!("/api/v1/nodes/{name}")).unwrap()["spec"]["podCIDR"].clone());
    assert_eq!(ranges, ["10.244.0.0/24", "10.244.1.0/24"]);
}

#[tokio::test]
async fn cluster_info_is_signed_for_tokens_that_live() {
    let api = MemoryApi::new(clock);
    let kubeconfig = tls::kubeconfig("https://10.0.0.11:6443", crate::Authority::new().unwrap().pem(), None);
    api.put(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": kubeconfig},
    }));
    for (id, expiration) in [("abcdef", "2026-11-16T13:00:00Z"), ("expire", "2026-11-16T11:00:00Z")] {
        api.put(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
            "stringData": {
                "token-id": id, "token-secret": "0123456789abcdef", "expiration": expiration,
                "usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
            },
        }));
    }
    let verified = |token: &str| {
        let map = api.object("/api/v1/namespaces/kube-public/configmaps/cluster-info").unwrap();
        let info = carrick_core::discovery::ClusterInfo::parse(&map.to_string()).unwrap();
        info.verify(&token.parse().unwrap()).is_ok()
    };
    assert!(!verified("abcdef.0123456789abcdef"));
    api.start(Controller::TokenSigner);
    assert!(verified("abcdef.0123456789abcdef"));
    assert!(!verified("abcdef.0123456789abcdeX".to_lowercase().as_str()));
    assert!(!verified("expire.0123456789abcdef"));
    // And it authenticates as long as it lives.
    for (token, status) in [("abcdef.0123456789abcdef", 404), ("expire.0123456789abcdef", 401)] {
        let request = Request::builder().uri("/api/v1/nodes/w1").header("authorization", format!("Bearer {token}"));
        let response = api.service().call(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
        let expected = if status == 404 { 403 } else { 401 };
        // Without kubeadm's group it may not read Nodes.
        assert_eq!(response.status().as_u16(), expected, "{token}");
    }
}

#[tokio::test]
async fn the_same_is_answered_through_tls() {
    let authority = crate::Authority::new().unwrap();
    let (direct, behind) = (prepared().await, prepared().await);
    let gate = tls::Gate::new(&behind, &authority, &["10.0.0.11"]).unwrap();
    let stage = tls::Https::in_memory(&gate, "10.0.0.11", &authority).unwrap();
    let named = ["a Node is made once, and read", "a kubelet has its own lease, and no other", "nobody and strangers"];
    for row in rows::all().into_iter().filter(|row| named.contains(&row.name)) {
        let (one, other) = (rows::play(&direct, &row).await.unwrap(), rows::play(&stage, &row).await);
        let found = rows::differences(&row, &one, &other.unwrap());
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
    assert!(gate.dials() > 10);
    assert_eq!(behind.take_unknown(), [""; 0]);
}

#[derive(Clone, Debug)]
enum Act {
    Make(u8),
    Label(u8, bool),
    Remove(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0..5u8).prop_map(Act::Make),
        (0..5u8, any::<bool>()).prop_map(|(which, on)| Act::Label(which, on)),
        (0..5u8).prop_map(Act::Remove),
    ];
    prop::collection::vec(act, 0..20)
}

async fn perform(api: &MemoryApi, acts: &[Act]) {
    for act in acts {
        let path = |which: &u8| format!("/api/v1/nodes/w{which}");
        match act {
            Act::Make(which) => admin(api, "POST", "/api/v1/nodes", node(&format!("w{which}"))).await,
            Act::Label(which, on) => {
                let label = if *on { "nodes" } else { "other" };
                admin(api, "PATCH", &path(which), json!({"metadata": {"labels": {"row": label}}})).await
            }
            Act::Remove(which) => admin(api, "DELETE", &path(which), Value::Null).await,
        };
    }
}

proptest! {
    /// What a list says, and what a watch from its version tells after it, is what the next list says.
    #[test]
    fn a_list_and_the_watch_after_it_make_the_next_list(before in acts(), after in acts(), selected in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let api = MemoryApi::new(clock);
            let (list, more) =
                if selected { ("/api/v1/nodes?labelSelector=row%3Dnodes", "&") } else { ("/api/v1/nodes", "?") };
            let by_name = |list: &Value| -> BTreeMap<String, String> {
                let items = list["items"].as_array().unwrap().iter();
                items.map(|it| (object::text(it, "/metadata/name").into(), object::text(it, "/metadata/resourceVersion").into())).collect()
            };
            perform(&api, &before).await;
            let (_, first) = admin(&api, "GET", list, Value::Null).await;
            let mut known = by_name(&first);
            perform(&api, &after).await;
            let version = object::text(&first, "/metadata/resourceVersion");
            let watch = format!("{list}{more}watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={version}");
            let request = Request::builder().uri(watch).body(Full::new(Bytes::new())).unwrap();
            let response = api.service_for(Some(User::admin())).call(request).await.unwrap();
            let events = response.into_body().collect().await.unwrap().to_bytes();
            for event in String::from_utf8(events.to_vec()).unwrap().lines() {
                let event: Value = serde_json::from_str(event).unwrap();
                let name = object::text(&event, "/object/metadata/name").to_owned();
                let version = object::text(&event, "/object/metadata/resourceVersion").to_owned();
                match event["type"].as_str() {
                    Some("DELETED") => assert!(known.remove(&name).is_some(), "{event}"),
                    Some("ADDED") => assert!(known.insert(name, version).is_none(), "{event}"),
                    _ => assert!(known.insert(name, version).is_some(), "{event}"),
                }
            }
            let (_, last) = admin(&api, "GET", list, Value::Null).await;
            assert_eq!(known, by_name(&last));
        });
    }
}
