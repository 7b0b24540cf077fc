//! Following a kind of object: everything that is there first, as a stream where the server has that, page by page where not; then
//! every change. What is read of an object is up to the caller's type: nothing else of it is built.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Bytes;
use kube::Resource;
use kube::client::Body;
use memchr::memchr;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::client::ClusterClient;
use crate::error::{ApiError, ApiProblem, ServerMessage};

/// The server ends a watch after this; another goes on where it ended.
const LASTS: u32 = 290;
/// A bookmark comes every minute: where nothing does, the connection is dead.
const DEAD: Duration = Duration::from_secs(150);
/// A watch that ends sooner, with nothing told, is no watch: who asks again at once would ask for ever.
const TOO_SOON: Duration = Duration::from_secs(1);
/// Of a page where the server cannot stream: it is in memory as a whole, and 100 Nodes have 2 MB at most.
const PAGE: u32 = 100;
/// The largest object that etcd takes has 1.5 MiB.
const LONGEST_LINE: usize = 8 << 20;
/// How many pages a list may have: far more nodes than Kubernetes supports.
const MOST_PAGES: u32 = 2000;

/// What a watch tells.
#[derive(Debug)]
pub enum Watched<T> {
    /// All that is there comes now: what does not is gone.
    Begin,
    Applied(T),
    Deleted(T),
    /// An object that cannot be read as one: its name.
    Unreadable {
        name: String,
        why: String,
    },
    /// All that was there has come.
    Synced,
}

/// Follows every object of a kind. One that fails is asked again: it goes on where it was, as long as the server knows that state.
pub struct Watch<K, T> {
    client: ClusterClient,
    /// The last version that was seen; `None`: everything is to come.
    version: Option<String>,
    /// The server streams what is there; `false` once it has refused.
    streams: bool,
    open: Option<Lines>,
    /// In the middle of what is there.
    listing: bool,
    /// What a page brought and was not told yet.
    pending: VecDeque<Watched<T>>,
    /// The next page of a list, and how many there were.
    page: Option<(String, u32)>,
    kind: PhantomData<fn() -> K>,
}

/// What of an object is read: its version besides, to go on behind it.
pub trait WatchedObject: DeserializeOwned {
    /// Empty: it names none.
    fn version(&self) -> &str;
}

/// A line of a watch. The server writes the type first: so the object is read as what it is in one go, and the 8 to 19 kB of a
/// Node are walked through once.
#[derive(Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
enum Line<T> {
    Added(T),
    Modified(T),
    Deleted(T),
    Bookmark(Value),
    Error(Value),
}

/// What a line says.
enum Change<T> {
    Object { version: String, watched: Watched<T> },
    Bookmark(Value),
    Error(Value),
}

/// A line whose object is not what it should be.
#[derive(Deserialize)]
struct OddLine {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<Item<T>>>,
}

/// Of a page. One that cannot be read as what it should be must not hide the others.
struct Item<T>(Watched<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(from)?;
        Ok(Item(match T::deserialize(&object) {
            Ok(object) => Watched::Applied(object),
            Err(error) => Watched::Unreadable { name: name_of(&object), why: error.to_string() },
        }))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl<K: Resource<DynamicType = ()>, T: WatchedObject> Watch<K, T> {
    pub fn new(client: ClusterClient) -> Self {
        let (pending, page) = (VecDeque::new(), None);
        Watch { client, version: None, streams: true, open: None, listing: false, pending, page, kind: PhantomData }
    }

    /// What happens next. After an error the caller waits as long as it likes and asks again.
    pub async fn next(&mut self) -> Result<Watched<T>, ApiError> {
        loop {
            if let Some(told) = self.pending.pop_front() {
                return Ok(told);
            }
            if let Some((token, pages)) = self.page.take() {
                self.list(&token, pages).await?;
                continue;
            }
            let Some(open) = &mut self.open else {
                if let Some(told) = self.begin().await? {
                    return Ok(told);
                }
                continue;
            };
            match open.next(&self.client).await {
                Ok(Some(line)) => {
                    let change = read(line).map_err(|error| {
                        self.client.error(ApiProblem::NotJson { line: error.line(), column: error.column() })
                    });
                    match change.and_then(|change| self.told(change)) {
                        Ok(None) => {}
                        Ok(Some(told)) => return Ok(told),
                        // What the line was about comes again: the next watch begins before it.
                        Err(error) => {
                            self.close();
                            return Err(error);
                        }
                    }
                }
                // Ended as it should: another goes on.
                Ok(None) => {
                    let too_soon = open.is_empty() && open.since.elapsed() < TOO_SOON;
                    self.close();
                    if too_soon {
                        return Err(self.client.error(ApiProblem::Closed));
                    }
                }
                Err(error) => {
                    self.close();
                    return Err(error);
                }
            }
        }
    }

    fn close(&mut self) {
        self.open = None;
        if std::mem::take(&mut self.listing) {
            self.version = None;
        }
    }

    async fn begin(&mut self) -> Result<Option<Watched<T>>, ApiError> {
        let path = K::url_path(&(), None);
        let watch = format!("{path}?watch=true&timeoutSeconds={LASTS}&allowWatchBookmarks=true");
        if let Some(version) = &self.version {
            let opened = self.client.stream(&format!("{watch}&resourceVersion={version}")).await;
            return match opened {
                Ok(body) => {
                    self.open = Some(Lines::new(body));
                    Ok(None)
                }
                Err(error) => {
                    if is_unknown_version(&error.problem) {
                        self.version = None;
                    }
                    Err(error)
                }
            };
        }
        if self.streams {
            let initial = format!("{watch}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
            match self.client.stream(&initial).await {
                Ok(body) => {
                    (self.open, self.listing) = (Some(Lines::new(body)), true);
                    return Ok(Some(Watched::Begin));
                }
                // Kubernetes before 1.34, or with the feature off.
                Err(error) if matches!(error.problem, ApiProblem::Invalid(_)) => self.streams = false,
                Err(error) => return Err(error),
            }
        }
        self.page = Some((String::new(), 0));
        Ok(Some(Watched::Begin))
    }

    /// One page; a state that the server has forgotten meanwhile is an error, and begins anew.
    async fn list(&mut self, token: &str, pages: u32) -> Result<(), ApiError> {
        let path = K::url_path(&(), None);
        let next = if token.is_empty() { String::new() } else { format!("&continue={}", encoded(token)) };
        let page: Page<T> = self.client.get_path(&format!("{path}?limit={PAGE}{next}")).await?;
        self.pending.extend(page.items.into_iter().flatten().map(|Item(told)| told));
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(_) if pages >= MOST_PAGES => Err(self.client.error(ApiProblem::Unexpected("the list has no end"))),
            Some(token) => {
                self.page = Some((token, pages + 1));
                Ok(())
            }
            None => {
                self.pending.push_back(Watched::Synced);
                self.version = Some(page.metadata.resource_version);
                Ok(())
            }
        }
    }

    fn told(&mut self, change: Change<T>) -> Result<Option<Watched<T>>, ApiError> {
        match change {
            Change::Object { version, watched } => {
                // What is there comes in no order of versions: only its end says where to go on.
                if !self.listing && !version.is_empty() {
                    self.version = Some(version);
                }
                Ok(Some(watched))
            }
            Change::Bookmark(bookmark) => {
                let metadata = &bookmark["metadata"];
                self.version = metadata["resourceVersion"].as_str().map(str::to_owned).or(self.version.take());
                let ends = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
                Ok((ends && std::mem::take(&mut self.listing)).then_some(Watched::Synced))
            }
            // The state it is at is not known any more, or something went wrong there: everything comes anew.
            Change::Error(status) => {
                self.version = None;
                let said = status["message"].as_str().map(str::to_owned);
                Err(self.client.error(ApiProblem::Gone(ServerMessage(said))))
            }
        }
    }
}

/// Reads a line; an error where it is no JSON.
fn read<T: WatchedObject>(line: &[u8]) -> serde_json::Result<Change<T>> {
    let error = match serde_json::from_slice(line) {
        Ok(Line::Added(object) | Line::Modified(object)) => return Ok(Change::of(object, Watched::Applied)),
        Ok(Line::Deleted(object)) => return Ok(Change::of(object, Watched::Deleted)),
        Ok(Line::Bookmark(bookmark)) => return Ok(Change::Bookmark(bookmark)),
        Ok(Line::Error(status)) => return Ok(Change::Error(status)),
        Err(error) => error,
    };
    let OddLine { kind, object } = serde_json::from_slice(line)?;
    if !matches!(kind.as_str(), "ADDED" | "MODIFIED" | "DELETED") {
        return Ok(Change::Error(object));
    }
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let watched = Watched::Unreadable { name: name_of(&object), why: error.to_string() };
    Ok(Change::Object { version, watched })
}

impl<T: WatchedObject> Change<T> {
    fn of(object: T, watched: impl FnOnce(T) -> Watched<T>) -> Self {
        Change::Object { version: object.version().to_owned(), watched: watched(object) }
    }
}

fn name_of(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The server has forgotten that state, or, put back from a backup, not come to it yet: it says 504 then.
fn is_unknown_version(problem: &ApiProblem) -> bool {
    match problem {
        ApiProblem::Gone(_) | ApiProblem::Invalid(_) => true,
        ApiProblem::Status(status, _) => matches!(*status, StatusCode::GATEWAY_TIMEOUT | StatusCode::BAD_REQUEST),
        _ => false,
    }
}

/// A body, line by line; a line stands until the next one is asked for.
struct Lines {
    body: Body,
    since: Instant,
    read: Vec<u8>,
    /// Where the next line begins in what was read.
    at: usize,
}

impl Lines {
    fn new(body: Body) -> Self {
        Lines { body, since: Instant::now(), read: Vec::new(), at: 0 }
    }

    /// Nothing ever came.
    fn is_empty(&self) -> bool {
        self.read.capacity() == 0
    }

    async fn next(&mut self, client: &ClusterClient) -> Result<Option<&[u8]>, ApiError> {
        if self.at > self.read.len() / 2 {
            self.read.drain(..self.at);
            self.at = 0;
        }
        let mut searched = self.at;
        loop {
            let rest = self.read.get(searched..).unwrap_or_default();
            if let Some(end) = memchr(b'\n', rest) {
                let line = self.at..searched + end;
                self.at = line.end + 1;
                if line.is_empty() {
                    searched = self.at;
                    continue;
                }
                return Ok(self.read.get(line));
            }
            searched = self.read.len();
            if searched - self.at > LONGEST_LINE {
                return Err(client.error(ApiProblem::TooLarge(LONGEST_LINE)));
            }
            match timeout(DEAD, self.body.frame()).await {
                Err(_) => return Err(client.error(ApiProblem::TimedOut(DEAD))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(client.of_kube(error)),
                Ok(Some(Ok(frame))) => {
                    let data: Bytes = frame.into_data().unwrap_or_default();
                    self.read.extend_from_slice(&data);
                }
            }
        }
    }
}

fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use carrick_core::rule::NodeReadinessRule;
    use carrick_core::rule::testing::rule;
    use serde_json::json;

    use super::*;

    /// What a line says, in few words.
    fn told(line: &str) -> String {
        match read::<NodeReadinessRule>(line.as_bytes()) {
            Ok(Change::Object { version, watched }) => match watched {
                Watched::Applied(rule) => format!("{} applied at {version}", rule.metadata.name),
                Watched::Deleted(rule) => format!("{} deleted at {version}", rule.metadata.name),
                Watched::Unreadable { name, why } => format!("{name} unreadable at {version}: {why}"),
                other => format!("{other:?}"),
            },
            Ok(Change::Bookmark(at)) => format!("bookmark {}", at["metadata"]["resourceVersion"]),
            Ok(Change::Error(status)) => format!("error {}", status["code"]),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_line_is_read_in_one_go_and_an_odd_one_hides_no_other() {
        let object = json!(rule("r").0);
        let mut odd = object.clone();
        odd["spec"]["enforcementMode"] = "sometimes".into();
        let of = |kind: &str, object: &Value| json!({ "type": kind, "object": object }).to_string();
        for (line, says) in [
            (of("ADDED", &object), "r applied at 1"),
            (of("MODIFIED", &object), "r applied at 1"),
            (of("DELETED", &object), "r deleted at 1"),
            (json!({ "object": object, "type": "ADDED" }).to_string(), "r applied at 1"),
            (of("BOOKMARK", &json!({"metadata": {"resourceVersion": "9"}})), "bookmark \"9\""),
            (of("ERROR", &json!({"kind": "Status", "code": 410})), "error 410"),
            (of("MODIFIED", &odd), "r unreadable at 1: unknown variant `sometimes`"),
            (of("DELETED", &json!({"metadata": {"name": "bare"}})), "bare unreadable at : missing field `spec`"),
            // Of a kind that is still to be invented: everything is asked for anew.
            (of("RESET", &json!({"code": 1})), "error 1"),
            ("{\"type\":\"ADDED\",".to_owned(), "EOF while parsing"),
        ] {
            let told = told(&line);
            assert!(told.starts_with(says), "{line}: {told}");
        }
    }
}
