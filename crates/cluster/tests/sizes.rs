//! Lists as long as a large cluster has them: all of it is seen, a page at a time.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use carrick_cluster::{certificate_requests, pods};
use carrick_core::join::observed::KUBELET_SIGNER;
use serde_json::{Value, json};

mod support;

use support::{Asked, Authority, Reply, Server};

/// The number behind a key of the query.
fn asked_for(asked: &Asked, key: &str) -> Option<usize> {
    let (_, behind) = asked.line.split_once(&format!("{key}="))?;
    behind.split(['&', ' ']).next()?.parse().ok()
}

/// One page of so many objects, as an API server cuts them.
fn page(asked: &Asked, all: usize, object: impl Fn(usize) -> Value) -> Reply {
    let (from, limit) = (asked_for(asked, "continue").unwrap_or(0), asked_for(asked, "limit").unwrap());
    let to = (from + limit).min(all);
    let next = if to < all { to.to_string() } else { String::new() };
    let items: Vec<Value> = (from..to).map(object).collect();
    Reply::json("200 OK", &json!({ "metadata": { "continue": next }, "items": items }))
}

/// A request for a certificate of this name, as the API server has it.
fn encoded(common_name: &str) -> String {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
    let key = rcgen::KeyPair::generate().unwrap();
    BASE64_STANDARD.encode(params.serialize_request(&key).unwrap().pem().unwrap())
}

#[tokio::test]
async fn the_request_of_one_node_is_found_among_two_thousand() {
    let ca = Authority::new();
    let (of_another, own) = (encoded("system:node:w1"), encoded("system:node:w1999"));
    let request = move |n: usize| {
        let request = if n == 1999 { &own } else { &of_another };
        json!({ "metadata": { "name": format!("csr-{n}") }, "spec": { "request": request, "signerName": KUBELET_SIGNER } })
    };
    let server = Server::new(&ca, move |asked| page(asked, 2_000, &request));
    let found = certificate_requests::of_node(&server.client(&ca), "w1999").await.unwrap();
    assert_eq!(found.pointer("/items/0/metadata/name"), Some(&json!("csr-1999")), "{found}");
    assert_eq!((found["items"].as_array().unwrap().len(), server.asked().len()), (1, 20));
}

#[tokio::test]
async fn five_hundred_pods_of_a_node_are_all_seen() {
    let ca = Authority::new();
    let pod = |n: usize| json!({ "metadata": { "namespace": "a", "name": format!("web-{n}"), "managedFields": ["x".repeat(10_000)] } });
    let server = Server::new(&ca, move |asked| page(asked, 500, pod));
    let known = pods::known_on_node(&server.client(&ca), "w1").await.unwrap();
    assert_eq!((known.len(), known.last().unwrap().name.as_str()), (500, "web-499"));
    assert_eq!(server.asked().len(), 5);
}
