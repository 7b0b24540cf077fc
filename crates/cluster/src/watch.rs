//! Following a kind of object: everything that is there first, as a stream where the server has that, page by page where not; then
//! every change. What is read of an object is up to the caller's type: nothing else of it is built.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use kube::Resource;
use kube::client::Body;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::time::timeout;

use crate::client::ClusterClient;
use crate::error::{ApiError, ApiProblem};

/// The server ends a watch after this; another goes on where it ended.
const LASTS: u32 = 290;
/// Longer than a watch lasts: nothing comes because the connection is dead.
const DEAD: Duration = Duration::from_mins(5);
/// Of a page where the server cannot stream: 250 Nodes have 5 MB at most.
const PAGE: u32 = 250;
/// The largest object that etcd takes has 1.5 MiB.
const LONGEST_LINE: usize = 8 << 20;
/// How many pages a list may have: far more nodes than Kubernetes supports.
const MOST_PAGES: usize = 1000;

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
    kind: PhantomData<fn() -> K>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    #[allow(dead_code, reason = "it is only skipped")]
    object: IgnoredAny,
}

#[derive(Deserialize)]
struct Of<T> {
    object: T,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl<K: Resource<DynamicType = ()>, T: DeserializeOwned> Watch<K, T> {
    pub fn new(client: ClusterClient) -> Self {
        let pending = VecDeque::new();
        Watch { client, version: None, streams: true, open: None, listing: false, pending, kind: PhantomData }
    }

    /// What happens next. After an error the caller waits as long as it likes and asks again.
    pub async fn next(&mut self) -> Result<Watched<T>, ApiError> {
        loop {
            if let Some(told) = self.pending.pop_front() {
                return Ok(told);
            }
            let Some(open) = &mut self.open else {
                if let Some(told) = self.begin().await? {
                    return Ok(told);
                }
                continue;
            };
            match open.next(&self.client).await {
                Ok(Some(line)) => {
                    if let Some(told) = self.told(&line)? {
                        return Ok(told);
                    }
                }
                // Ended as it should: another goes on.
                Ok(None) => self.close(),
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
                    if matches!(error.problem, ApiProblem::Gone(_)) {
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
        self.list(&path).await?;
        Ok(Some(Watched::Begin))
    }

    /// All pages; a state that the server has forgotten meanwhile is an error, and begins anew.
    async fn list(&mut self, path: &str) -> Result<(), ApiError> {
        let mut told = VecDeque::new();
        let mut next = String::new();
        for _ in 0..MOST_PAGES {
            let page: Page<T> = self.client.get_path(&format!("{path}?limit={PAGE}{next}")).await?;
            told.extend(page.items.into_iter().flatten().map(Watched::Applied));
            let Some(token) = page.metadata.next.filter(|token| !token.is_empty()) else {
                told.push_back(Watched::Synced);
                (self.pending, self.version) = (told, Some(page.metadata.resource_version));
                return Ok(());
            };
            next = format!("&continue={}", encoded(&token));
        }
        Err(self.client.error(ApiProblem::Unexpected("the list has no end")))
    }

    fn told(&mut self, line: &[u8]) -> Result<Option<Watched<T>>, ApiError> {
        let broken = |client: &ClusterClient, error: &serde_json::Error| {
            client.error(ApiProblem::NotJson { line: error.line(), column: error.column() })
        };
        let head: Head = serde_json::from_slice(line).map_err(|error| broken(&self.client, &error))?;
        match head.kind.as_str() {
            kind @ ("ADDED" | "MODIFIED" | "DELETED") => Ok(Some(match serde_json::from_slice::<Of<T>>(line) {
                Ok(Of { object }) if kind == "DELETED" => Watched::Deleted(object),
                Ok(Of { object }) => Watched::Applied(object),
                Err(error) => Watched::Unreadable { name: name_of(line), why: error.to_string() },
            })),
            "BOOKMARK" => {
                let bookmark: Of<Value> = serde_json::from_slice(line).map_err(|error| broken(&self.client, &error))?;
                let metadata = &bookmark.object["metadata"];
                self.version = metadata["resourceVersion"].as_str().map(str::to_owned).or(self.version.take());
                let ends = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
                if ends && self.listing {
                    self.listing = false;
                    return Ok(Some(Watched::Synced));
                }
                Ok(None)
            }
            // The state it is at is not known any more, or something went wrong there: everything comes anew.
            _ => {
                let status: Of<Value> = serde_json::from_slice(line).map_err(|error| broken(&self.client, &error))?;
                self.open = None;
                self.version = None;
                self.listing = false;
                let said = status.object["message"].as_str().map(str::to_owned);
                Err(self.client.error(ApiProblem::Gone(crate::error::ServerMessage(said))))
            }
        }
    }

    /// The version of an object that was told: a watch that breaks off goes on behind it.
    pub fn seen(&mut self, version: &str) {
        if !self.listing && !version.is_empty() {
            self.version = Some(version.to_owned());
        }
    }
}

fn name_of(line: &[u8]) -> String {
    let object: Option<Of<Value>> = serde_json::from_slice(line).ok();
    let name = object.and_then(|of| of.object.pointer("/metadata/name")?.as_str().map(str::to_owned));
    name.unwrap_or_default()
}

/// A body, line by line.
struct Lines {
    body: Body,
    read: Vec<u8>,
    /// Where the next line begins in what was read.
    at: usize,
}

impl Lines {
    fn new(body: Body) -> Self {
        Lines { body, read: Vec::new(), at: 0 }
    }

    async fn next(&mut self, client: &ClusterClient) -> Result<Option<Vec<u8>>, ApiError> {
        let mut searched = self.at;
        loop {
            let rest = self.read.get(searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.read.get(self.at..searched + end).unwrap_or_default().to_vec();
                self.at = searched + end + 1;
                if self.at > self.read.len() / 2 {
                    self.read.drain(..self.at);
                    self.at = 0;
                }
                if line.is_empty() {
                    searched = self.at;
                    continue;
                }
                return Ok(Some(line));
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
