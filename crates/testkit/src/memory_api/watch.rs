//! The answer's body: whole, cut off on the way, or a watch that goes on.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Interval, Sleep, interval, sleep};

use super::object::partial;
use super::resource::Resource;
use super::selector::Selector;
use super::store::{Change, Notice};

/// How often a watch that wants them gets a bookmark.
const BOOKMARKS: Duration = Duration::from_mins(1);

/// The annotation of the bookmark after the last of the initial events.
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub struct Body(State);

enum State {
    Whole(Bytes),
    /// What still comes, and then the connection breaks.
    Cut(Bytes),
    Watch(Box<Watch>),
    Over,
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Body(State::Whole(bytes.into()))
    }

    pub(crate) fn watch(watch: Watch) -> Self {
        Body(State::Watch(Box::new(watch)))
    }

    /// The first half of it.
    pub(crate) fn cut(self) -> Self {
        match self.0 {
            State::Whole(bytes) => Body(State::Cut(bytes.slice(..bytes.len() / 2))),
            _ => Body(State::Cut(Bytes::new())),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let state = &mut self.get_mut().0;
        let (frame, next) = match std::mem::replace(state, State::Over) {
            State::Over => (None, State::Over),
            State::Whole(bytes) => (Some(Ok(Frame::data(bytes))), State::Over),
            State::Cut(bytes) if bytes.is_empty() => {
                (Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))), State::Over)
            }
            State::Cut(bytes) => (Some(Ok(Frame::data(bytes))), State::Cut(Bytes::new())),
            State::Watch(mut watch) => match watch.poll_next(context) {
                Poll::Pending => {
                    *state = State::Watch(watch);
                    return Poll::Pending;
                }
                Poll::Ready(None) => (None, State::Over),
                Poll::Ready(Some(Err(error))) => (Some(Err(error)), State::Over),
                Poll::Ready(Some(Ok(bytes))) => (Some(Ok(Frame::data(bytes))), State::Watch(watch)),
            },
        };
        *state = next;
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, State::Over)
    }
}

/// What a watch is of.
pub(crate) struct View {
    pub resource: &'static Resource,
    pub namespace: String,
    pub selector: Selector,
    pub partial: bool,
}

pub(crate) struct Watch {
    view: View,
    ready: VecDeque<Bytes>,
    changes: UnboundedReceiver<Notice>,
    /// The version of the last change that was heard of.
    version: u64,
    bookmarks: Option<Interval>,
    until: Pin<Box<Sleep>>,
}

impl Watch {
    pub(crate) fn new(view: View, changes: UnboundedReceiver<Notice>, version: u64, lasts: Duration) -> Self {
        Self { view, ready: VecDeque::new(), changes, version, bookmarks: None, until: Box::pin(sleep(lasts)) }
    }

    pub(crate) fn with_bookmarks(mut self) -> Self {
        let mut bookmarks = interval(BOOKMARKS);
        bookmarks.reset();
        self.bookmarks = Some(bookmarks);
        self
    }

    /// An object that was there before.
    pub(crate) fn add(&mut self, object: &Value) {
        if self.view.selector.selects(object) {
            let event = self.view.event("ADDED", object);
            self.ready.push_back(event);
        }
    }

    pub(crate) fn hear(&mut self, change: &Change) {
        self.version = change.version;
        self.ready.extend(self.view.of(change));
    }

    pub(crate) fn end_initial_events(&mut self) {
        let bookmark = self.view.bookmark(self.version, &json!({INITIAL_EVENTS_END: "true"}));
        self.ready.push_back(bookmark);
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            match self.changes.poll_recv(context) {
                Poll::Ready(Some(Notice::Change(change))) => self.hear(&change),
                Poll::Ready(Some(Notice::Expired(status))) => {
                    self.ready.push_back(line(&json!({"type": "ERROR", "object": status})));
                    self.changes.close();
                }
                Poll::Ready(Some(Notice::Cut)) => {
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        if self.until.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let due = self.bookmarks.as_mut().is_some_and(|bookmarks| bookmarks.poll_tick(context).is_ready());
        if due { Poll::Ready(Some(Ok(self.view.bookmark(self.version, &Value::Null)))) } else { Poll::Pending }
    }
}

impl View {
    /// What the change looks like to who watches a part of all objects.
    fn of(&self, change: &Change) -> Option<Bytes> {
        if !change.key.is_of(self.resource, &self.namespace) {
            return None;
        }
        let selected = |object: &Option<Value>| object.clone().filter(|object| self.selector.selects(object));
        match (selected(&change.before), selected(&change.after)) {
            (None, None) => None,
            (None, Some(after)) => Some(self.event("ADDED", &after)),
            (Some(_), Some(after)) => Some(self.event("MODIFIED", &after)),
            (Some(mut before), None) => {
                before["metadata"]["resourceVersion"] = change.version.to_string().into();
                Some(self.event("DELETED", &before))
            }
        }
    }

    fn event(&self, kind: &str, object: &Value) -> Bytes {
        let object = if self.partial { partial(object) } else { object.clone() };
        line(&json!({"type": kind, "object": object}))
    }

    fn bookmark(&self, version: u64, annotations: &Value) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if !annotations.is_null() {
            metadata["annotations"] = annotations.clone();
        }
        let resource = self.resource;
        let object = json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata});
        let object = if self.partial { partial(&object) } else { object };
        line(&json!({"type": "BOOKMARK", "object": object}))
    }
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}
