//! The one client: who is let in, what each failure is called, how lists are read, and how connections are kept.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carrick_cluster::{
    ApiError, ApiProblem, ClusterClient, DialedStream, Dialer, ServerMessage, bootstrap_tokens, certificate_requests,
    config_maps, daemon_sets, leases, nodes, pods,
};
use carrick_core::discovery::{Discovery, Token};
use carrick_core::fact::api_path::{ApiPath, PathStep, StepOutcome};
use carrick_core::fact::{Capture, Why};
use carrick_core::reset::pods::Pod;
use hyper::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

mod support;

use support::{Asked, Authority, Dial, Reply, Server, Setting, TOKEN};

const LIST: &str = r#"{"items":[{"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel","annotations":{"a":"s3cret"}},
    "spec":{"template":{"spec":{"containers":[{"env":"s3cret"}],"nodeSelector":{"kubernetes.io/os":"linux"}}}},"status":{"desiredNumberScheduled":3,"numberReady":2}}]}"#;
const KEPT: &str = r#"{"kind":"DaemonSetList","items":[{"metadata":{"namespace":"kube-flannel","name":"kube-flannel-ds"},"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/os":"linux"}}}},"status":{"desiredNumberScheduled":3,"numberReady":2}}]}"#;
const SETS: &str = "GET /apis/apps/v1/daemonsets?limit=100";

fn node() -> Value {
    json!({ "metadata": { "name": "w1" } })
}

async fn problem(client: &ClusterClient) -> ApiProblem {
    let error = nodes::get(client, "w1").await.unwrap_err();
    assert_eq!(error.server.to_string(), "10.0.0.11:6443");
    assert!(!format!("{error} {error:?}").contains(TOKEN), "{error}");
    error.problem
}

#[tokio::test(start_paused = true)]
async fn a_client_certificate_or_a_token_opens_the_door() {
    let ca = Authority::new();
    let own = ca.issue("admin");
    let setting = Setting { wants_certificate: true, ..Setting::default() };
    let server = Server::with(&ca, &setting, |_| Reply::text("200 OK", LIST));
    let client = server.client_at("https://10.0.0.11:6443", &ca, Some(&own));
    assert_eq!(daemon_sets::statuses(&client).await, Ok(Capture::text(KEPT)));
    assert!(!server.asked()[0].head.contains("authorization"), "{:?}", server.asked());

    let named = Setting { name: "cp.example", ..Setting::default() };
    let server = Server::with(&ca, &named, |_| Reply::text("200 OK", LIST));
    let client = server.client_at("https://cp.example/k8s/c-1/", &ca, None);
    assert_eq!(daemon_sets::statuses(&client).await, Ok(Capture::text(KEPT)));
    let asked = &server.asked()[0];
    assert_eq!(asked.line, SETS.replace("/apis", "/k8s/c-1/apis"), "the prefix stands before the path");
    for header in
        ["host: cp.example:443", "authorization: Bearer s3cret", "accept: application/json", "user-agent: carrick/"]
    {
        assert!(asked.head.contains(header), "{header}: {}", asked.head);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_another_certificate_lets_nobody_in() {
    let ca = Authority::new();
    let setting = Setting { wants_certificate: true, ..Setting::default() };
    let server = Server::with(&ca, &setting, |_| Reply::json("200 OK", &node()));
    for own in [None, Some(Authority::new().issue("admin"))] {
        let client = server.client_at("https://10.0.0.11:6443", &ca, own.as_ref());
        // The alert comes after the handshake; it may be lost to the end of the connection.
        let problem = problem(&client).await;
        assert!(matches!(problem, ApiProblem::Tls(_) | ApiProblem::Closed), "{problem:?}");
    }
    assert!(server.asked().is_empty());
}

/// On the way there.
#[tokio::test(start_paused = true)]
async fn each_failure_on_the_way_has_a_name_of_its_own() {
    let (ca, namesake, stranger) = (Authority::new(), Authority::new(), Authority::named("stranger"));
    let dial = |dial| Setting { dial, ..Setting::default() };
    let at = |now| Setting { now, ..Setting::default() };
    let time = |text: &str| text.parse().unwrap();
    let rows: [(&Authority, Setting, ApiProblem); 10] = [
        (&ca, dial(Dial::Hangs), ApiProblem::TimedOut(Duration::from_secs(3))),
        (&ca, dial(Dial::Fails(ErrorKind::ConnectionRefused)), ApiProblem::Refused),
        (&ca, dial(Dial::Fails(ErrorKind::HostUnreachable)), ApiProblem::Unreachable("no route to host".into())),
        (&ca, dial(Dial::Plain("HTTP/1.0 400 Bad Request\r\n\r\n")), ApiProblem::NotTls),
        (&ca, dial(Dial::Plain("")), ApiProblem::Closed),
        (&namesake, Setting::default(), ApiProblem::UntrustedCa),
        (&stranger, Setting::default(), ApiProblem::UntrustedCa),
        (
            &ca,
            Setting { name: "10.0.0.12", ..Setting::default() },
            ApiProblem::OtherName(
                "certificate not valid for name \"10.0.0.11\"; certificate is only valid for IpAddress(10.0.0.12)"
                    .into(),
            ),
        ),
        // The real clock says something else: what counts is the machine's.
        (
            &ca,
            at("2025-06-01T00:00:00Z"),
            ApiProblem::NotYetValid { from: time("2026-01-01T00:00:00Z"), now: time("2025-06-01T00:00:00Z") },
        ),
        (
            &ca,
            at("2027-06-01T00:00:00Z"),
            ApiProblem::Expired { until: time("2027-01-01T00:00:00Z"), now: time("2027-06-01T00:00:00Z") },
        ),
    ];
    for (trusted, setting, expected) in rows {
        let server = Server::with(&ca, &setting, |_| Reply::json("200 OK", &node()));
        assert_eq!(problem(&server.client(trusted)).await, expected);
        assert!(server.asked().is_empty(), "{expected:?}: nothing was sent");
    }
    let nowhere = Server::with(&ca, &Setting { has_name: false, ..Setting::default() }, |_| Reply::Close);
    let error = nodes::get(&nowhere.client_at("https://cp.example:6443", &ca, None), "w1").await.unwrap_err();
    assert_eq!(error.problem, ApiProblem::Unresolved(Why::Absent));
    assert_eq!(
        error.to_string(),
        "API server cp.example:6443 has a name that does not resolve on this machine: not there"
    );
}

type Answer = fn() -> Reply;

/// By its answer.
#[tokio::test(start_paused = true)]
async fn each_answer_that_is_none_has_a_name_of_its_own() {
    let said = |text: &str| ServerMessage(Some(text.to_owned()));
    let none = ServerMessage::default;
    let rows: [(Answer, ApiProblem, Why, bool); 14] = [
        (|| Reply::text("401 Unauthorized", "{}"), ApiProblem::Unauthorized(none()), Why::Denied, false),
        (
            || Reply::json("403 Forbidden", &json!({ "message": "nodes \"w1\" is forbidden" })),
            ApiProblem::Forbidden(said("nodes \"w1\" is forbidden")),
            Why::Denied,
            false,
        ),
        (|| Reply::text("404 Not Found", "{}"), ApiProblem::NotFound(none()), Why::Absent, false),
        (
            || Reply::json("409 Conflict", &json!({ "message": "the object has been modified" })),
            ApiProblem::Conflict(said("the object has been modified")),
            broken("refused the change (409 Conflict: the object has been modified)"),
            false,
        ),
        (
            || Reply::text("410 Gone", "{}"),
            ApiProblem::Gone(none()),
            broken("has dropped what was asked for (410 Gone)"),
            false,
        ),
        (
            || Reply::json("422 Unprocessable Entity", &json!({ "message": "spec is immutable" })),
            ApiProblem::Invalid(said("spec is immutable")),
            broken("rejected the object (422 Unprocessable Entity: spec is immutable)"),
            false,
        ),
        (
            || {
                Reply::text("429 Too Many Requests", "Too many requests, please try again later.")
                    .with("Retry-After: 7")
            },
            ApiProblem::TooManyRequests {
                retry_after: Some(Duration::from_secs(7)),
                said: said("Too many requests, please try again later."),
            },
            busy("refused the request for now (429 Too Many Requests: Too many requests, please try again later.)"),
            true,
        ),
        (
            || Reply::text("503 Service Unavailable", ""),
            ApiProblem::Status(StatusCode::SERVICE_UNAVAILABLE, none()),
            busy("answered 503 Service Unavailable"),
            true,
        ),
        (
            || Reply::text("400 Bad Request", ""),
            ApiProblem::Status(StatusCode::BAD_REQUEST, none()),
            broken("answered 400 Bad Request"),
            false,
        ),
        (
            || Reply::text("200 OK", "<html>s3cret"),
            ApiProblem::NotJson { line: 1, column: 1 },
            broken("sent an answer that is not JSON, by line 1 column 1"),
            false,
        ),
        (
            || Reply::text("200 OK", r#"{"data": "s3cret" "s3cret"}"#),
            ApiProblem::NotJson { line: 1, column: 19 },
            broken("sent an answer that is not JSON, by line 1 column 19"),
            false,
        ),
        (
            || Reply::text("200 OK", " ".repeat(17 << 20)),
            ApiProblem::TooLarge(16 << 20),
            broken("sent an answer of more than 16777216 bytes"),
            false,
        ),
        (|| Reply::Silence, ApiProblem::TimedOut(Duration::from_secs(3)), Why::TimedOut, true),
        (|| Reply::Close, ApiProblem::Closed, unreachable("closed the connection before it had answered"), true),
    ];
    let ca = Authority::new();
    for (answer, expected, why, may_pass) in rows {
        let server = Server::new(&ca, move |_| answer());
        let problem = problem(&server.client(&ca)).await;
        assert_eq!(problem, expected);
        let error = ApiError { server: "10.0.0.11:6443".parse().unwrap(), problem };
        let known = Why::from(error.clone());
        assert_eq!((error.may_pass(), known.may_pass(), known), (may_pass, may_pass, why));
    }
}

/// What may pass by itself may do so as a fact, too.
#[test]
fn a_failure_on_the_way_may_pass_or_not_as_a_fact_too() {
    for (problem, may_pass) in [
        (ApiProblem::Refused, true),
        (ApiProblem::Unreachable("no route to host".into()), true),
        (ApiProblem::Unresolved(Why::TimedOut), true),
        (ApiProblem::Unresolved(Why::Absent), false),
        (ApiProblem::UntrustedCa, false),
        (ApiProblem::NotTls, false),
    ] {
        let error = ApiError { server: "10.0.0.11:6443".parse().unwrap(), problem };
        assert_eq!((error.may_pass(), Why::from(error.clone()).may_pass()), (may_pass, may_pass), "{error}");
    }
}

#[test]
fn a_server_is_left_alone_for_as_long_as_it_asks_within_reason() {
    let asked = |seconds| ApiProblem::TooManyRequests { retry_after: seconds, said: ServerMessage::default() };
    let second = Duration::from_secs;
    for (problem, expected) in [
        (asked(Some(second(7))), Some(second(7))),
        (asked(Some(second(3600))), Some(second(10))),
        (asked(None), None),
        (ApiProblem::Refused, None),
    ] {
        let error = ApiError { server: "10.0.0.11:6443".parse().unwrap(), problem };
        assert_eq!(error.retry_after(), expected, "{error}");
    }
}

/// Keeps every line that any crate would log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        attributes.record(&mut self.clone());
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

impl tracing::field::Visit for Log {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

/// kube would log the whole of an answer that it cannot read.
#[tokio::test(start_paused = true)]
async fn no_answer_is_ever_logged() {
    let log = Log::default();
    let _kept = tracing::subscriber::set_default(log.clone());
    tracing::warn!("the log works");
    let ca = Authority::new();
    let token: Token = "abcdef.s3cret0123456789".parse().unwrap();
    for reply in [
        || Reply::text("200 OK", "<html>s3cret"),
        || Reply::text("200 OK", r#"{"kind":"Secret","data":"s3cret","items":"s3cret"}"#),
        || Reply::text("201 Created", r#"{"kind":"Secret","data":{"a":"s3cret"}"#),
        || Reply::text("409 Conflict", r#"{"message":"s3cret"}"#),
        || Reply::text("500 Internal Server Error", "s3cret"),
    ] {
        let server = Server::new(&ca, move |_| reply());
        let client = server.client(&ca);
        // What comes of each does not matter here.
        let _ = nodes::get(&client, "w1").await;
        let _ = daemon_sets::statuses(&client).await;
        let _ = bootstrap_tokens::create(&client, &token, support::NOW.parse().unwrap()).await;
        let _ = bootstrap_tokens::revoke(&client, &token.id).await;
        assert!(server.asked().len() >= 4, "{:?}", server.lines());
    }
    let logged = log.0.lock().unwrap().clone();
    assert!(logged.contains("the log works") && !logged.contains("s3cret"), "{logged}");
}

/// What carries a request may be anything: testkit's API server needs no connection.
#[tokio::test]
async fn any_service_can_stand_for_the_server() {
    let carrier = tower::service_fn(|request: hyper::Request<kube::client::Body>| async move {
        assert_eq!(request.headers()["authorization"], "Bearer s3cret");
        let status = if request.uri().path() == "/api/v1/nodes/w1" { 200 } else { 404 };
        hyper::Response::builder().status(status).body(http_body_util::Full::from(node().to_string()))
    });
    let (ca, credentials) = (Authority::new(), support::credentials("https://10.0.0.11:6443", &Authority::new(), None));
    let clock = Server::new(&ca, |_| Reply::Close);
    let client = ClusterClient::over(&credentials, Arc::new(clock), carrier);
    assert_eq!(nodes::get(&client, "w1").await, Ok(node()));
    assert_eq!(nodes::get(&client, "w2").await.map_err(Why::from), Err(Why::Absent));
    assert_eq!(client.now(), support::NOW.parse().unwrap());
}

fn broken(says: &str) -> Why {
    Why::Broken(format!("API server 10.0.0.11:6443 {says}"))
}

fn busy(says: &str) -> Why {
    Why::Busy(format!("API server 10.0.0.11:6443 {says}"))
}

fn unreachable(says: &str) -> Why {
    Why::Unreachable(format!("API server 10.0.0.11:6443 {says}"))
}

#[tokio::test(start_paused = true)]
async fn one_connection_is_used_again_and_a_closed_one_is_made_anew() {
    let ca = Authority::new();
    let server = Server::new(&ca, |_| Reply::json("200 OK", &node()).with("Date: Sun, 15 Nov 2026 12:00:07 GMT"));
    let client = server.client(&ca);
    assert_eq!(client.server_now(), None);
    for _ in 0..5 {
        assert_eq!(nodes::get(&client, "w1").await, Ok(node()));
    }
    assert_eq!(server.connections(), 1);
    assert_eq!(client.server_now(), "2026-11-15T12:00:07Z".parse().ok());
    let (first, second) = tokio::join!(nodes::get(&client, "w1"), leases::of_node(&client, "w1"));
    assert_eq!((first.is_ok(), second.is_ok(), server.connections()), (true, true, 2), "two at once need two");
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(client.server_now(), "2026-11-15T12:00:38Z".parse().ok(), "its clock goes on");
    assert!(nodes::get(&client, "w1").await.is_ok());
    assert_eq!(server.connections(), 3, "who knows what is left of an idle one");

    for reply in
        [|| Reply::Last("200 OK", node().to_string()), || Reply::json("200 OK", &node()).with("Connection: close")]
    {
        let closing = Server::new(&ca, move |_| reply());
        let client = closing.client(&ca);
        for _ in 0..3 {
            assert_eq!(nodes::get(&client, "w1").await, Ok(node()));
        }
        assert_eq!((closing.connections(), closing.asked().len()), (3, 3));
    }
}

/// A service account's is replaced every hour, while connections are kept.
#[tokio::test(start_paused = true)]
async fn a_token_that_was_replaced_is_asked_with_from_then_on() {
    let ca = Authority::new();
    let server = Server::new(&ca, |_| Reply::json("200 OK", &node()));
    let client = server.client(&ca);
    for (token, taken, says) in [
        ("n3xt\n", true, "authorization: Bearer n3xt\r\n"),
        // A file that is empty, or was read while it was written.
        ("\n", false, "authorization: Bearer n3xt\r\n"),
        ("two\nlines", false, "authorization: Bearer n3xt\r\n"),
        ("l4st", true, "authorization: Bearer l4st\r\n"),
    ] {
        assert_eq!(client.set_token(token), taken, "{token:?}");
        assert!(nodes::get(&client, "w1").await.is_ok());
        let head = server.asked().last().unwrap().head.clone();
        assert!(head.contains(says), "{token:?}: {head}");
    }
    assert_eq!(server.connections(), 1);
}

/// A server may close in the moment it is asked again: only what changes nothing is sent twice.
#[tokio::test(start_paused = true)]
async fn what_changes_something_is_never_sent_twice() {
    let ca = Authority::new();
    let server = Server::new(&ca, |asked| {
        let is_first = asked.line == "GET /api/v1/nodes/first";
        if is_first { Reply::json("200 OK", &node()) } else { Reply::Close }
    });
    let client = server.client(&ca);
    nodes::get(&client, "first").await.unwrap();
    assert_eq!(nodes::get(&client, "w1").await.unwrap_err().problem, ApiProblem::Closed);
    assert_eq!((server.asked().len(), server.connections()), (3, 2), "asked once more, on a new connection");
    nodes::get(&client, "first").await.unwrap();
    let seen = json!({ "metadata": { "uid": "u", "resourceVersion": "7" } });
    assert_eq!(nodes::delete_as_seen(&client, "w1", &seen).await.unwrap_err().problem, ApiProblem::Closed);
    assert_eq!(server.asked().iter().filter(|asked| asked.line.starts_with("DELETE")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn lists_come_page_by_page() {
    const FIRST: &str = "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dw1&limit=100";
    let ca = Authority::new();
    let page = |name: &str, token: &str| json!({ "metadata": { "continue": token }, "items": [{ "metadata": { "namespace": "a", "name": name } }] });
    let names = |list: &Value| -> Vec<String> {
        let name = |item: &Value| item.pointer("/metadata/name").unwrap().as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    };
    let server = Server::new(&ca, move |asked| match asked.line.strip_prefix(FIRST) {
        Some("") => Reply::json("200 OK", &page("web", "a/b=")),
        Some("&continue=a%2Fb%3D") => Reply::json("200 OK", &page("db", "")),
        _ => Reply::text("501 Not Implemented", "{}"),
    });
    assert_eq!(names(&pods::on_node(&server.client(&ca), "w1").await.unwrap()), ["web", "db"]);
    let known = pods::known_on_node(&server.client(&ca), "w1").await.unwrap();
    assert_eq!(known.iter().map(Pod::full_name).collect::<Vec<_>>(), ["a/web", "a/db"]);

    // The second page expires once: the list begins anew, and nothing is there twice.
    let count = |server: &Server| server.asked().len();
    let expired = std::sync::atomic::AtomicBool::new(false);
    let server = Server::new(&ca, move |asked| match asked.line.contains("continue=") {
        false => Reply::json("200 OK", &page("web", "next")),
        true if !expired.swap(true, std::sync::atomic::Ordering::Relaxed) => Reply::text("410 Gone", "{}"),
        true => Reply::json("200 OK", &page("db", "")),
    });
    assert_eq!(names(&pods::on_node(&server.client(&ca), "w1").await.unwrap()), ["web", "db"]);
    assert_eq!(count(&server), 4);
    let always = Server::new(&ca, move |asked| {
        let is_next = asked.line.contains("continue=");
        if is_next { Reply::text("410 Gone", "{}") } else { Reply::json("200 OK", &page("web", "next")) }
    });
    let error = pods::on_node(&always.client(&ca), "w1").await.unwrap_err();
    assert_eq!((error.problem, count(&always)), (ApiProblem::Gone(ServerMessage::default()), 4), "once");

    // A hundred objects on each page.
    let full = move |asked: &Asked| {
        let mut page = page("web", "next");
        page["items"] = vec![page["items"][0].clone(); 100].into();
        assert!(asked.line.contains("limit=100"));
        Reply::json("200 OK", &page)
    };
    let endless = Server::new(&ca, full);
    let error = pods::on_node(&endless.client(&ca), "w1").await.unwrap_err();
    assert_eq!((error.problem, count(&endless)), (ApiProblem::Unexpected("the list has no end"), 100));
}

#[tokio::test(start_paused = true)]
async fn what_is_bounded_of_a_list_is_its_objects_and_its_time_not_its_pages() {
    const LAST: usize = 150;
    let ca = Authority::new();
    // Objects so large that each needs a page of its own, and more of them than pages of a hundred would ever be.
    let server = Server::new(&ca, |asked| {
        if !asked.line.contains("limit=1&") && !asked.line.ends_with("limit=1") {
            return Reply::text("200 OK", " ".repeat(17 << 20));
        }
        let at: usize = asked.line.split_once("continue=").map_or(0, |(_, at)| at.parse().unwrap());
        let next = if at + 1 < LAST { (at + 1).to_string() } else { String::new() };
        let item = json!({ "metadata": { "namespace": "a", "name": format!("web-{at}") } });
        Reply::json("200 OK", &json!({ "metadata": { "continue": next }, "items": [item] }))
    });
    assert_eq!(pods::known_on_node(&server.client(&ca), "w1").await.map(|pods| pods.len()), Ok(LAST));

    // Each page comes in time, and the list never does.
    let setting = Setting { delay: Duration::from_millis(2900), ..Setting::default() };
    let slow = Server::with(&ca, &setting, |_| {
        Reply::json("200 OK", &json!({ "metadata": { "continue": "next" }, "items": [] }))
    });
    let begun = tokio::time::Instant::now();
    let error = pods::on_node(&slow.client(&ca), "w1").await.unwrap_err();
    assert_eq!((error.problem, begun.elapsed().as_secs()), (ApiProblem::TimedOut(Duration::from_secs(30)), 30));
}

/// Of several addresses the first swallows whatever is sent to it.
#[derive(Clone)]
struct Swallowing(Server, usize);

impl Dialer for Swallowing {
    fn resolve<'a>(&'a self, _: &'a str) -> carrick_cluster::DialFuture<'a, Result<Vec<IpAddr>, Why>> {
        let holes = (1..=self.1).map(|last| IpAddr::from([10, 9, 9, u8::try_from(last).unwrap()]));
        Box::pin(async move { Ok(holes.chain([support::LOOPBACK]).collect()) })
    }

    fn dial(&self, address: IpAddr, port: u16) -> carrick_cluster::DialFuture<'_, io::Result<Box<dyn DialedStream>>> {
        if address == support::LOOPBACK { self.0.dial(address, port) } else { Box::pin(std::future::pending()) }
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_swallows_everything_does_not_take_all_the_time() {
    let ca = Authority::new();
    let setting = Setting { name: "cp.example", ..Setting::default() };
    for holes in [1, 2] {
        let server = Server::with(&ca, &setting, |_| Reply::json("200 OK", &node()));
        let dialer = Swallowing(server, holes);
        let credentials = support::credentials("https://cp.example:6443", &ca, None);
        let client = ClusterClient::new(&credentials, Arc::new(dialer.clone()));
        assert_eq!(nodes::get(&client, "w1").await, Ok(node()), "{holes}");
        let target = Discovery { endpoint: "cp.example:6443".parse().unwrap(), token: None, pins: Vec::new() };
        let walked = carrick_cluster::path::walk(&dialer, &target, None).await;
        let path: ApiPath = serde_json::from_str(&walked[0].1.as_ref().unwrap().text).unwrap();
        assert!(matches!(path.at(PathStep::Tls), Some(StepOutcome::Ok(_))), "{holes}: {path:?}");
    }
    // More than are tried: nobody answers, and that is told when the time is over.
    let dialer = Swallowing(Server::new(&ca, |_| Reply::Close), 3);
    let client = ClusterClient::new(&support::credentials("https://cp.example:6443", &ca, None), Arc::new(dialer));
    let error = nodes::get(&client, "w1").await.unwrap_err();
    assert_eq!(error.problem, ApiProblem::TimedOut(Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_large_is_asked_for_in_smaller_ones() {
    let ca = Authority::new();
    let server = Server::new(&ca, |asked| {
        let large = asked.line.contains("limit=100");
        Reply::text("200 OK", if large { " ".repeat(17 << 20) } else { LIST.to_owned() })
    });
    assert_eq!(daemon_sets::statuses(&server.client(&ca)).await, Ok(Capture::text(KEPT)));
    let lines = server.lines();
    assert_eq!(lines, [SETS.to_owned(), SETS.replace("100", "10")]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_is_told() {
    let ca = Authority::new();
    for (reply, part) in [
        (Reply::text("404 Not Found", "{}"), "answered 404 Not Found"),
        (Reply::text("200 OK", "{}"), "it is no list"),
        (Reply::text("200 OK", "[]"), "it is no list"),
        (Reply::text("200 OK", r#"{"items":1}"#), "it is no list"),
    ] {
        let reply = Mutex::new(Some(reply));
        let server = Server::new(&ca, move |_| reply.lock().unwrap().take().unwrap());
        let why = Why::from(daemon_sets::statuses(&server.client(&ca)).await.unwrap_err());
        assert!(matches!(&why, Why::Broken(says) if says.contains(part)), "{part}: {why:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_for_certificates_are_listed_by_their_signer_or_got_by_name() {
    const CSRS: &str = "GET /apis/certificates.k8s.io/v1/certificatesigningrequests";
    let ca = Authority::new();
    let server = Server::new(&ca, |asked| {
        let (list, one) = (
            json!({ "items": [{ "metadata": { "name": "of-another" } }] }),
            json!({ "metadata": { "name": "csr-1" } }),
        );
        Reply::json("200 OK", if asked.line.contains('?') { &list } else { &one })
    });
    let client = server.client(&ca);
    assert_eq!(certificate_requests::of_node(&client, "w1").await, Ok(json!({ "items": [] })));
    let named = certificate_requests::named(&client, "csr-1").await;
    assert_eq!(named, Ok(json!({ "items": [{ "metadata": { "name": "csr-1" } }] })));
    let selector = "fieldSelector=spec.signerName%3Dkubernetes.io%2Fkube-apiserver-client-kubelet";
    assert_eq!(server.lines(), [format!("{CSRS}?{selector}&limit=100"), format!("{CSRS}/csr-1")]);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_shown_its_node_and_the_config_maps_of_its_pods() {
    let ca = Authority::new();
    let server = Server::new(&ca, |asked| match asked.line.as_str() {
        "GET /api/v1/nodes/w1" => Reply::text(
            "200 OK",
            r#"{"metadata":{"name":"w1","annotations":{"a":"s3cret"}},"spec":{"podCIDR":"10.244.1.0/24"},
                "status":{"conditions":[{"type":"Ready","status":"True"}],"images":[]}}"#,
        ),
        "GET /api/v1/namespaces/kube-flannel/configmaps/kube-flannel-cfg" => {
            Reply::text("200 OK", r#"{"data":{"cni-conf.json":"{}\n"}}"#)
        }
        _ => Reply::text("403 Forbidden", "{}"),
    });
    let client = server.client(&ca);
    let seen = nodes::summary(&client, "w1").await.unwrap().text;
    assert!(seen.contains("10.244.1.0/24") && seen.contains("Ready") && !seen.contains("s3cret"), "{seen}");
    assert_eq!(nodes::summary(&client, "w2").await.map_err(Why::from), Err(Why::Denied));
    let value = async |key: &str| config_maps::value(&client, "kube-flannel", "kube-flannel-cfg", key).await.unwrap();
    assert_eq!(value("cni-conf.json").await.as_deref(), Some("{}\n"));
    assert_eq!(value("net-conf.json").await, None);
    let before = server.asked().len();
    assert!(nodes::get(&client, "../secrets").await.is_err());
    assert!(config_maps::value(&client, "a/b", "c", "d").await.is_err());
    assert!(pods::on_node(&client, "w1,metadata.name=x").await.is_err());
    assert_eq!(server.asked().len(), before, "what is no name is not asked for");
}
