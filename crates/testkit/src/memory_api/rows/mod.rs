//! The table of requests. A row is a few requests, one after the other; every answer is compared between the server in
//! memory and a real one. What is in no row is not known to be answered alike, and is refused.
//!
//! Every object of a row has a name that begins with `row`, so that it can be told from what is there besides.

use std::collections::BTreeSet;
use std::future::Future;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use serde_json::{Value, json};

use super::request::Asked;

mod configuration;
mod kubeadm;
mod leases;
mod nodes;
mod normal;
mod pods;
mod requests;
mod rights;
mod rules;
mod watches;

use normal::{comings, normal};

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// In system:masters.
    Admin,
    /// A bootstrap token, as kubeadm makes it: [`TOKEN`].
    Token,
    /// The node [`NODE`], by its certificate.
    Node,
    Anonymous,
    /// With a token that nobody knows.
    Stranger,
}

/// The node whose certificate [`Who::Node`] has.
pub const NODE: &str = "row-n1";
/// The bootstrap token of [`Who::Token`].
pub const TOKEN: &str = "rowrow.0123456789abcdef";
/// The token of [`Who::Stranger`].
pub const UNKNOWN_TOKEN: &str = "strang.0123456789abcdef";
/// Where objects of rows are that need a namespace.
pub const NAMESPACE: &str = "row";

const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// What of an answer must be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    Whole,
    /// The object is the cluster's own, and differs.
    Status,
    /// Of a watch: who comes and who goes. What changes in between is the controllers' doing.
    Comings,
    /// Nothing: it only brings about what the next requests need.
    Nothing,
}

/// One request. In its path and body `${N/json/pointer}` stands for a part of the row's N-th answer, counted from 0.
#[derive(Clone, Debug)]
pub struct Ask {
    pub who: Who,
    pub method: Method,
    pub path: String,
    pub content_type: &'static str,
    pub accept: &'static str,
    pub body: Option<Value>,
    pub compared: Compared,
    /// Every state before the row's last answer is forgotten first.
    pub compacted: bool,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub name: &'static str,
    pub asks: Vec<Ask>,
}

impl Row {
    /// It says itself which range of pod addresses a Node has: then no controller gives it one.
    fn names_ranges(&self) -> bool {
        self.asks.iter().filter_map(|ask| ask.body.as_ref()).any(|body| body.pointer("/spec/podCIDR").is_some())
    }
}

fn row(name: &'static str, asks: impl IntoIterator<Item = Ask>) -> Row {
    Row { name, asks: asks.into_iter().collect() }
}

fn ask(method: Method, path: impl Into<String>, content_type: &'static str, body: Option<Value>) -> Ask {
    let (who, accept, compared) = (Who::Admin, "application/json", Compared::Whole);
    Ask { who, method, path: path.into(), content_type, accept, body, compared, compacted: false }
}

fn get(path: impl Into<String>) -> Ask {
    ask(Method::GET, path, "", None)
}

fn create(path: impl Into<String>, object: Value) -> Ask {
    ask(Method::POST, path, "application/json", Some(object))
}

fn update(path: impl Into<String>, object: Value) -> Ask {
    ask(Method::PUT, path, "application/json", Some(object))
}

fn merge(path: impl Into<String>, part: Value) -> Ask {
    ask(Method::PATCH, path, MERGE, Some(part))
}

fn strategic(path: impl Into<String>, part: Value) -> Ask {
    ask(Method::PATCH, path, STRATEGIC, Some(part))
}

fn delete(path: impl Into<String>) -> Ask {
    ask(Method::DELETE, path, "", None)
}

/// With DeleteOptions.
fn delete_with(path: impl Into<String>, options: Value) -> Ask {
    ask(Method::DELETE, path, "application/json", Some(options))
}

impl Ask {
    fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    fn after_compaction(mut self) -> Self {
        self.compacted = true;
        self
    }

    fn only_status(mut self) -> Self {
        self.compared = Compared::Status;
        self
    }

    fn only_comings(mut self) -> Self {
        self.compared = Compared::Comings;
        self
    }

    fn uncompared(mut self) -> Self {
        self.compared = Compared::Nothing;
        self
    }

    /// As it goes over the wire, once the answers before it are known.
    pub fn request(&self, answers: &[RowResponse]) -> Result<Request<Bytes>, String> {
        let path = filled(&self.path, answers, encoded)?;
        let body = self.body.as_ref().map(|body| filled(&body.to_string(), answers, str::to_owned)).transpose()?;
        let mut request = Request::builder().method(self.method.clone()).uri(path).header(ACCEPT, self.accept);
        if !self.content_type.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        request.body(Bytes::from(body.unwrap_or_default())).map_err(|error| error.to_string())
    }

    fn shape(&self) -> Option<String> {
        // A placeholder is no character of a path; for the shape it may be anything.
        let request = Ask { path: self.path.replace(['$', '{', '}'], "x"), ..self.clone() };
        let (parts, _) = request.request(&[]).ok()?.into_parts();
        let body = if self.body.is_some() { Bytes::from("{}") } else { Bytes::new() };
        Some(Asked::of(&parts, body).shape())
    }

    fn is_watch(&self) -> bool {
        self.path.contains("watch=true")
    }
}

/// All rows.
pub fn all() -> Vec<Row> {
    let rooms = [
        configuration::rows(),
        leases::rows(),
        nodes::rows(),
        pods::rows(),
        requests::rows(),
        rights::rows(),
        rules::rows(),
        watches::rows(),
    ];
    rooms.into_iter().flatten().collect()
}

/// The shapes that are known: those of every request of every row.
pub(super) fn shapes() -> BTreeSet<String> {
    let asks = all().into_iter().chain([Row { name: "", asks: prelude() }]).flat_map(|row| row.asks);
    asks.filter_map(|ask| Ask { body: ask.body.clone().map(|_| json!({})), ..ask }.shape()).collect()
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct RowResponse {
    pub status: u16,
    pub retry_after: Option<String>,
    pub content_type: String,
    pub body: String,
}

impl RowResponse {
    /// The object; of a watch, its events.
    pub fn value(&self, watch: bool) -> Value {
        if !watch {
            return serde_json::from_str(&self.body).unwrap_or_else(|_| self.body.clone().into());
        }
        let event = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| Value::from(line));
        self.body.lines().map(event).collect()
    }
}

/// Where rows are played: the server in memory, or a real one.
pub trait RowServer {
    /// Sends one request as somebody, and reads the answer to its end.
    fn send(&self, who: Who, request: Request<Bytes>) -> impl Future<Output = Result<RowResponse, String>>;

    /// Until what was created there is left alone by the cluster's controllers.
    fn settle(&self, path: &str) -> impl Future<Output = ()>;

    /// Has every state before a version forgotten.
    fn compact(&self, version: &str) -> impl Future<Output = Result<(), String>>;

    /// Takes an object of a row away for good, whatever holds it.
    fn remove(&self, path: &str) -> impl Future<Output = Result<(), String>>;
}

/// What has to be there before the first row: whatever is there already stays.
pub fn prelude() -> Vec<Ask> {
    let config_map = |namespace: &str, name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
        create(format!("/api/v1/namespaces/{namespace}/configmaps"), object).uncompared()
    };
    let (id, secret) = TOKEN.split_once('.').unwrap_or_default();
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{id}")},
        "stringData": {
            "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    vec![
        create("/api/v1/namespaces", namespace).uncompared(),
        create("/api/v1/namespaces/kube-system/secrets", token).uncompared(),
        config_map("kube-public", "cluster-info"),
        config_map("kube-system", "kubelet-config"),
        config_map("kube-system", "kubeadm-config"),
    ]
}

/// Plays every row to both; where they differ. What a real server needs beside is made there first.
pub async fn compare(memory: &impl RowServer, real: &impl RowServer) -> Result<Vec<String>, String> {
    for ask in prelude().into_iter().chain(kubeadm::objects()) {
        real.send(ask.who, ask.request(&[])?).await?;
    }
    kubeadm::wait_for_rules(real).await?;
    let mut found = Vec::new();
    for row in all() {
        // Side by side: most of the time is waits.
        let (one, other) = tokio::join!(play(memory, &row), play(real, &row));
        found.extend(differences(&row, &one?, &other?));
    }
    for path in kubeadm::made_here() {
        real.remove(&path).await?;
    }
    Ok(found)
}

/// Plays one row; each answer, and at the end what it made is removed.
pub async fn play(stage: &impl RowServer, row: &Row) -> Result<Vec<RowResponse>, String> {
    let mut answers: Vec<RowResponse> = Vec::new();
    let mut made = Vec::new();
    for ask in &row.asks {
        if let Some(last) = answers.last().filter(|_| ask.compacted) {
            let last = last.value(false);
            stage
                .compact(last.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default())
                .await?;
        }
        let request = ask.request(&answers)?;
        let path = request.uri().path().to_owned();
        let answer = stage.send(ask.who, request).await.map_err(|error| format!("{}: {error}", row.name))?;
        let object = answer.value(false);
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        if let Some(name) = name.filter(|_| ask.method == Method::POST && answer.status == 201) {
            made.push(format!("{path}/{name}"));
            stage.settle(&path).await;
        }
        answers.push(answer);
    }
    for path in made.iter().rev() {
        stage.remove(path).await?;
    }
    Ok(answers)
}

/// What a real server is told so that an object goes at once.
pub(super) fn removal(path: &str) -> Result<[Request<Bytes>; 2], String> {
    let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let release = merge(path, json!({"metadata": {"finalizers": null}}));
    Ok([release.request(&[])?, delete_with(path, at_once).request(&[])?])
}

/// Where the answers of one server are not those of the other.
pub fn differences(row: &Row, one: &[RowResponse], other: &[RowResponse]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, (ask, (one, other))) in row.asks.iter().zip(one.iter().zip(other)).enumerate() {
        let place = format!("{}: {at}: {} {}", row.name, ask.method, ask.path);
        if ask.compared == Compared::Nothing {
            continue;
        }
        let heads = [one, other].map(|it| (it.status, it.retry_after.clone(), it.content_type.clone()));
        if heads[0] != heads[1] {
            found.push(format!("{place}: {:?} and {:?}\n  {}\n  {}", heads[0], heads[1], one.body, other.body));
            continue;
        }
        if ask.compared == Compared::Status {
            continue;
        }
        let [one, other] = [one, other].map(|it| {
            let value = it.value(ask.is_watch());
            if ask.compared == Compared::Comings { comings(&value) } else { normal(&value, ask, row.names_ranges()) }
        });
        if one != other {
            found.push(format!("{place}:\n  {one}\n  {other}"));
        }
    }
    found
}

/// Puts parts of answers where the text names them.
fn filled(text: &str, answers: &[RowResponse], as_text: impl Fn(&str) -> String) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or("a placeholder has no end")?;
        let (at, pointer) = name.split_once('/').ok_or("a placeholder has no pointer")?;
        let answer = at.parse().ok().and_then(|at: usize| answers.get(at)).ok_or("a placeholder has no answer")?;
        let value = answer.value(false);
        let value = value.pointer(&format!("/{pointer}")).ok_or_else(|| format!("{name}: {}", answer.body))?;
        out.push_str(&as_text(value.as_str().unwrap_or(&value.to_string())));
        out.push_str(rest);
    }
    Ok(out)
}

fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}
