//! The objects, and every change of them: what a list sees, what a watch hears, and both at any version that is still known.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::resource::Resource;
use super::status::StatusError;

/// `GROUP/PLURAL`, and `NAMESPACE/NAME`: sorted as etcd sorts its keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    kind: String,
    pub place: String,
}

impl Key {
    pub(crate) fn new(resource: &Resource, namespace: &str, name: &str) -> Self {
        let place = if resource.namespaced { format!("{namespace}/{name}") } else { name.to_owned() };
        Self { kind: resource.qualified(), place }
    }

    /// As etcd has it, and messages about a conflict show it.
    pub(crate) fn in_etcd(&self, resource: &Resource) -> String {
        let kind = match resource.plural {
            "nodes" => "minions".to_owned(),
            plural if resource.custom => format!("{}/{plural}", resource.group),
            plural => plural.to_owned(),
        };
        format!("/registry/{kind}/{}", self.place)
    }

    pub(crate) fn is_of(&self, resource: &Resource, namespace: &str) -> bool {
        let within = |namespace: &str| self.place.split_once('/').is_some_and(|(of, _)| of == namespace);
        self.kind == resource.qualified() && (namespace.is_empty() || within(namespace))
    }
}

/// From one state to the next. Either is `None` where there was, or is, no such object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub version: u64,
    pub key: Key,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// What who watches is told.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    Change(Change),
    /// With the Status that says so: the watch has to begin anew.
    Expired(Value),
    /// The connection breaks.
    Cut,
}

#[derive(Debug)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Value>,
    history: Vec<Change>,
    version: u64,
    /// What came before is not known any more.
    oldest: u64,
    listeners: Vec<UnboundedSender<Notice>>,
    made: u64,
    /// The kubelets a test speaks for: they answer, or the API server says why it does not reach them.
    pub kubelets: BTreeMap<String, Option<String>>,
    /// Bindings of kubeadm's that somebody removed.
    unbound: BTreeSet<&'static str>,
}

/// A real server has been through as much before anybody asks it; and a test may name a version that is long gone.
const FIRST: u64 = 100;

impl Store {
    pub(super) fn new() -> Self {
        let (objects, history, listeners, kubelets) = (BTreeMap::new(), Vec::new(), Vec::new(), BTreeMap::new());
        Self { objects, history, version: FIRST, oldest: FIRST, listeners, made: 0, kubelets, unbound: BTreeSet::new() }
    }

    pub(super) fn set_unbound(&mut self, binding: &'static str, unbound: bool) {
        if unbound {
            self.unbound.insert(binding);
        } else {
            self.unbound.remove(binding);
        }
    }

    pub(super) fn is_unbound(&self, binding: &str) -> bool {
        self.unbound.contains(binding)
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The next number for whatever has to differ: uids, generated names.
    pub(super) fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key)
    }

    /// All of a kind, in a namespace or in all.
    pub(super) fn all(&self, resource: &Resource, namespace: &str) -> Vec<&Value> {
        let of_kind = self.objects.iter().filter(|(key, _)| key.is_of(resource, namespace));
        of_kind.map(|(_, object)| object).collect()
    }

    /// The same with their places, as they were at a version.
    pub(super) fn all_at(&self, version: u64, resource: &Resource, namespace: &str) -> Vec<(String, Value)> {
        let mut objects: BTreeMap<&Key, &Value> =
            self.objects.iter().filter(|(key, _)| key.is_of(resource, namespace)).collect();
        for change in self.history.iter().rev().take_while(|change| change.version > version) {
            if change.key.is_of(resource, namespace) {
                match &change.before {
                    Some(before) => objects.insert(&change.key, before),
                    None => objects.remove(&change.key),
                };
            }
        }
        objects.into_iter().map(|(key, object)| (key.place.clone(), object.clone())).collect()
    }

    pub(super) fn since(&self, version: u64) -> Vec<Change> {
        self.history.iter().filter(|change| change.version > version).cloned().collect()
    }

    /// Writes, takes away, and tells everybody; the object with its new version.
    pub(super) fn commit(&mut self, key: Key, after: Option<Value>) -> Option<Value> {
        self.version += 1;
        let version = self.version;
        let stamped = after.map(|mut object| {
            object["metadata"]["resourceVersion"] = version.to_string().into();
            object
        });
        let before = match &stamped {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(&key),
        };
        let change = Change { version, key, before, after: stamped.clone() };
        self.listeners.retain(|listener| listener.send(Notice::Change(change.clone())).is_ok());
        self.history.push(change);
        stamped
    }

    pub(super) fn listen(&mut self, listener: UnboundedSender<Notice>) {
        self.listeners.push(listener);
    }

    /// Forgets what was, as etcd does every five minutes: who watches or pages from there is too late.
    pub(super) fn compact(&mut self) {
        self.oldest = self.version;
    }

    /// Tells every watch that it is too old.
    pub(super) fn expire_watches(&mut self) {
        let status = StatusError::too_old(self.oldest, self.version).body;
        self.end_watches(&Notice::Expired(status));
    }

    /// Tells everybody of an object that did not change.
    pub(super) fn repeat(&mut self, key: Key) {
        let Some(object) = self.objects.get(&key).cloned() else { return };
        let change = Change { version: self.version, key, before: Some(object.clone()), after: Some(object) };
        self.listeners.retain(|listener| listener.send(Notice::Change(change.clone())).is_ok());
    }

    pub(super) fn end_watches(&mut self, notice: &Notice) {
        for listener in self.listeners.drain(..) {
            // Who does not listen any more need not be told.
            let _ = listener.send(notice.clone());
        }
    }

    /// Ends every watch, as an API server does that is stopped.
    pub(super) fn hang_up(&mut self) {
        self.listeners.clear();
    }
}
