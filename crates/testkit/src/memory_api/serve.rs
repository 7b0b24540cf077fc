//! What each verb does with the store.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::authorization::{admit, authorize};
use super::object::{self, partial, text};
use super::patch;
use super::request::{Accept, Asked};
use super::resource::{ACCESS_REVIEWS, NODES, PODS, REQUESTS, Resource, SELF_REVIEWS};
use super::selector::Selector;
use super::status::{StatusError, success};
use super::store::{Key, Store};
use super::user::User;
use super::watch::{View, Watch};

/// A real server ends a watch that names no time after half an hour to an hour.
const LONGEST_WATCH: u64 = 1800;

pub(crate) enum Reply {
    Object(StatusCode, Value),
    Text(&'static str),
    Watch(Watch),
}

/// Who asks for what, when; and where it is looked for.
pub(crate) struct Turn<'a> {
    pub store: &'a mut Store,
    pub asked: &'a Asked,
    pub user: &'a User,
    pub now: Timestamp,
}

type Answer = Result<Reply, StatusError>;

impl Turn<'_> {
    pub(super) fn answer(&mut self) -> Answer {
        let asked = self.asked;
        let (labels, fields) = (asked.param("labelSelector"), asked.param("fieldSelector"));
        let Some(resource) = asked.resource else {
            authorize(self.user, asked, &Selector::default(), self.store)?;
            return plain_path(asked);
        };
        // Rights are looked at before the selector is: where it cannot be read, there is none.
        let selector = Selector::parse(labels, fields, resource);
        let known = selector.clone().unwrap_or_default();
        authorize(self.user, asked, &known, self.store)?;
        let selector = selector.map_err(StatusError::bad_request)?;
        if asked.accept == Accept::Other {
            return Err(StatusError::not_modelled("an answer that is not JSON"));
        }
        match (asked.verb, asked.subresource.as_str()) {
            ("get", "" | "status" | "approval") => self.get(resource),
            ("list", "") => self.list(resource, &selector),
            ("watch", "") => self.watch(resource, selector),
            ("create", "") if resource.plural == SELF_REVIEWS => Ok(self.review_self(resource)),
            ("create", "") if resource.plural == ACCESS_REVIEWS => self.review_access(resource),
            ("create", "") => self.create(resource),
            ("create", "eviction") if resource.plural == PODS => self.evict(resource),
            ("get", "proxy") if resource.plural == NODES => self.reach_kubelet(resource),
            ("update", "" | "status" | "approval") => self.update(resource),
            ("patch", "" | "status" | "approval") => self.patch(resource),
            ("delete", "") => self.delete(resource),
            _ => Err(StatusError::not_modelled(&asked.shape())),
        }
    }

    fn key(&self, resource: &Resource) -> Key {
        Key::new(resource, &self.asked.namespace, &self.asked.name)
    }

    fn current(&self, resource: &Resource) -> Result<Value, StatusError> {
        let there = self.store.get(&self.key(resource)).cloned();
        there.ok_or_else(|| StatusError::not_found(resource, &self.asked.name))
    }

    fn shown(&self, object: Value) -> Reply {
        self.shown_as(StatusCode::OK, object)
    }

    fn shown_as(&self, code: StatusCode, object: Value) -> Reply {
        Reply::Object(code, if self.asked.accept == Accept::Partial { partial(&object) } else { object })
    }

    fn get(&self, resource: &Resource) -> Answer {
        Ok(self.shown(self.current(resource)?))
    }

    /// What a kubelet says comes as it is; where it is not reached, the API server says so.
    fn reach_kubelet(&self, resource: &Resource) -> Answer {
        let node = self.current(resource)?;
        if node["status"]["addresses"].as_array().is_none_or(Vec::is_empty) {
            return Err(StatusError::unknown("no preferred addresses found; known addresses: []"));
        }
        match self.store.kubelets.get(&self.asked.name) {
            Some(None) => Ok(Reply::Text("ok")),
            Some(Some(says)) => Err(StatusError::unavailable(&format!("error trying to reach service: {says}"))),
            None => Err(StatusError::not_modelled("a kubelet that no test speaks for")),
        }
    }

    fn list(&self, resource: &Resource, selector: &Selector) -> Answer {
        let limit = self.asked.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or_default();
        let (version, start) = match self.asked.param("continue") {
            "" => (self.store.version(), String::new()),
            token => {
                let page = Page::parse(token)?;
                match page.version {
                    None => (self.store.version(), page.start),
                    Some(version) if version >= self.store.oldest() => (version, page.start),
                    Some(_) => {
                        let fresh = Page { version: None, start: page.start };
                        return Err(StatusError::expired_continue(&fresh.token()));
                    }
                }
            }
        };
        let all = self.store.all_at(version, resource, &self.asked.namespace);
        // Keys in a token are those below what is listed.
        let within = format!("{}/", self.asked.namespace);
        let below = |place: &str| format!("/{}", place.strip_prefix(&within).unwrap_or(place));
        let all = all.into_iter().map(|(place, object)| (below(&place), object));
        let mut left = all.filter(|(place, _)| *place >= start);
        let page = if limit == 0 { usize::MAX } else { limit };
        let items: Vec<(String, Value)> =
            left.by_ref().filter(|(_, object)| selector.selects(object)).take(page).collect();
        let mut metadata = json!({"resourceVersion": version.to_string()});
        // Whether a selector leaves any of them is not known before they are read: the next page may be empty.
        let rest = left.count();
        if let Some((last, _)) = items.last().filter(|_| rest > 0) {
            // The key right after the last one.
            let next = Page { version: Some(version), start: format!("{last}\0") };
            metadata["continue"] = next.token().into();
            if selector.is_empty() {
                metadata["remainingItemCount"] = rest.into();
            }
        } else if resource.custom && self.asked.accept == Accept::Json {
            metadata["continue"] = "".into();
        }
        let items: Vec<Value> = items.into_iter().map(|(_, object)| self.item(object, resource)).collect();
        let (kind, version) = match self.asked.accept {
            Accept::Partial => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            _ => (resource.kind, resource.api_version()),
        };
        let list = json!({"kind": format!("{kind}List"), "apiVersion": version, "metadata": metadata, "items": items});
        Ok(Reply::Object(StatusCode::OK, list))
    }

    /// In a list, only custom resources and partial objects say again what they are.
    fn item(&self, mut object: Value, resource: &Resource) -> Value {
        if self.asked.accept == Accept::Partial {
            return partial(&object);
        }
        if let Some(map) = object.as_object_mut().filter(|_| !resource.custom) {
            map.shift_remove("kind");
            map.shift_remove("apiVersion");
        }
        object
    }

    fn watch(&mut self, resource: &'static Resource, selector: Selector) -> Answer {
        let asked = self.asked;
        let lasts = asked.number("timeoutSeconds")?.unwrap_or(LONGEST_WATCH);
        let bookmarks = asked.flag("allowWatchBookmarks")?;
        let (sender, changes) = unbounded_channel();
        let view =
            View { resource, namespace: asked.namespace.clone(), selector, partial: asked.accept == Accept::Partial };
        let mut watch = Watch::new(view, changes, self.store.version(), Duration::from_secs(lasts));
        if bookmarks {
            watch = watch.with_bookmarks();
        }
        let from = asked.number("resourceVersion")?.unwrap_or_default();
        let initial = asked.query.get("sendInitialEvents").map(|_| asked.flag("sendInitialEvents")).transpose()?;
        if initial == Some(true) && asked.param("resourceVersionMatch") != "NotOlderThan" {
            return Err(StatusError::not_modelled("sendInitialEvents without resourceVersionMatch=NotOlderThan"));
        }
        // Who names no version, and does not say what comes first, gets what is there.
        if initial == Some(true) || from == 0 && initial.is_none() {
            self.store.all(resource, &asked.namespace).into_iter().for_each(|object| watch.add(object));
            if bookmarks {
                watch.end_initial_events();
            }
        } else if from > 0 && from < self.store.oldest() {
            // The stream begins, and its first event is the refusal.
            let status = StatusError::too_old(from, self.store.oldest()).body;
            let _ = sender.send(super::store::Notice::Expired(status));
        } else if from > 0 {
            self.store.since(from).iter().for_each(|change| watch.hear(change));
        }
        self.store.listen(sender);
        Ok(Reply::Watch(watch))
    }

    /// Who asks.
    fn review_self(&self, resource: &Resource) -> Reply {
        let User { name, groups } = self.user;
        let review = json!({
            "kind": resource.kind, "apiVersion": resource.api_version(),
            "metadata": {"creationTimestamp": object::time(self.now)},
            "status": {"userInfo": {"username": name, "groups": groups}},
        });
        Reply::Object(StatusCode::CREATED, review)
    }

    /// What who asks may do.
    fn review_access(&self, resource: &Resource) -> Answer {
        let review = object::parse(self.asked, resource)?;
        let of = |key: &str| text(&review, &format!("/spec/resourceAttributes/{key}")).to_owned();
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
        let verb = verbs.into_iter().find(|verb| *verb == of("verb"));
        let (Some(verb), Some(about)) = (verb, Resource::find(&of("group"), "v1", &of("resource"))) else {
            return Err(StatusError::not_modelled("a review of what is not served"));
        };
        let asked = Asked {
            verb,
            resource: Some(about),
            path: String::new(),
            namespace: of("namespace"),
            name: of("name"),
            subresource: of("subresource"),
            query: BTreeMap::new(),
            content_type: String::new(),
            accept: Accept::Json,
            body: Bytes::new(),
        };
        let allowed = authorize(self.user, &asked, &Selector::default(), self.store).is_ok();
        let review = json!({
            "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": {"creationTimestamp": null},
            "spec": review["spec"], "status": {"allowed": allowed},
        });
        Ok(Reply::Object(StatusCode::CREATED, review))
    }

    fn create(&mut self, resource: &Resource) -> Answer {
        if !self.asked.name.is_empty() {
            return Err(StatusError::method_not_allowed());
        }
        let mut object = object::parse(self.asked, resource)?;
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(StatusError::not_modelled("a create that names a resourceVersion"));
        }
        let named = text(&object, "/metadata/name").to_owned();
        if named.is_empty() && text(&object, "/metadata/generateName").is_empty() {
            object::validate(&object, resource)?;
        }
        admit(self.user, self.asked, resource, &named, None, Some(&object))?;
        let number = self.store.number();
        object::begin(&mut object, resource, self.user, self.now, number);
        self.namespace_is_there(resource)?;
        object::validate(&object, resource)?;
        let key = Key::new(resource, &self.asked.namespace, text(&object, "/metadata/name"));
        if self.store.get(&key).is_some() {
            return Err(StatusError::already_exists(resource, &named));
        }
        let made = match self.asked.param("dryRun") {
            "" => self.store.commit(key, Some(object)).unwrap_or_default(),
            _ => object,
        };
        Ok(self.shown_as(StatusCode::CREATED, made))
    }

    fn namespace_is_there(&self, resource: &Resource) -> Result<(), StatusError> {
        let Some(namespaces) = Resource::find("", "v1", "namespaces").filter(|_| resource.namespaced) else {
            return Ok(());
        };
        match self.store.get(&Key::new(namespaces, "", &self.asked.namespace)) {
            Some(_) => Ok(()),
            None => Err(StatusError::not_found(namespaces, &self.asked.namespace)),
        }
    }

    fn update(&mut self, resource: &Resource) -> Answer {
        let new = object::parse(self.asked, resource)?;
        let (name, url) = (text(&new, "/metadata/name"), self.asked.name.as_str());
        if name != url {
            let why = format!("the name of the object ({name}) does not match the name on the URL ({url})");
            return Err(StatusError::bad_request(why));
        }
        let old = self.current(resource)?;
        if text(&new, "/metadata/resourceVersion").is_empty() && !resource.unconditional {
            return Err(StatusError::unversioned(resource, url));
        }
        self.replace(resource, &old, new)
    }

    fn patch(&mut self, resource: &Resource) -> Answer {
        let old = self.current(resource)?;
        let patch: Value = serde_json::from_slice(&self.asked.body)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| StatusError::not_modelled("a patch that is no JSON object"))?;
        let mut new = old.clone();
        match self.asked.content_type.as_str() {
            "application/merge-patch+json" => patch::merge(&mut new, &patch),
            "application/strategic-merge-patch+json" if !resource.custom => {
                patch::strategic(&mut new, &patch, resource.lists).map_err(|what| StatusError::not_modelled(&what))?;
            }
            "application/strategic-merge-patch+json" => {
                let accepted =
                    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
                return Err(StatusError::unsupported_media_type(accepted));
            }
            other => return Err(StatusError::not_modelled(&format!("a patch as {other}"))),
        }
        self.replace(resource, &old, new)
    }

    /// What an update and a patch end in.
    fn replace(&mut self, resource: &Resource, old: &Value, mut new: Value) -> Answer {
        let name = self.asked.name.as_str();
        let (given, is) = (text(&new, "/metadata/uid"), text(old, "/metadata/uid"));
        if !given.is_empty() && given != is {
            if self.asked.verb == "patch" {
                return Err(object::immutable(resource, name, "metadata.uid", given));
            }
            let key = self.key(resource).in_etcd(resource);
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {is}"
            );
            return Err(StatusError::conflict(resource, name, &why));
        }
        let given = text(&new, "/metadata/resourceVersion");
        if !given.is_empty() && given != text(old, "/metadata/resourceVersion") {
            return Err(StatusError::modified(resource, name));
        }
        object::settle(&mut new, old, resource, &self.asked.subresource, self.now);
        admit(self.user, self.asked, resource, name, Some(old), Some(&new))?;
        object::validate_change(&new, old, resource)?;
        let validated = object::validate(&new, resource);
        validated.map_err(|refused| if resource.plural == NODES { refused.twice() } else { refused })?;
        if new == *old {
            return Ok(self.shown(new));
        }
        let finished = new["metadata"]["deletionTimestamp"].is_string()
            && new["metadata"]["deletionGracePeriodSeconds"] == 0
            && !has_finalizers(&new);
        if !self.asked.param("dryRun").is_empty() {
            return Ok(self.shown(new));
        }
        let written = self.store.commit(self.key(resource), Some(new)).unwrap_or_default();
        if finished {
            self.store.commit(self.key(resource), None);
        }
        Ok(self.shown(written))
    }

    fn delete(&mut self, resource: &Resource) -> Answer {
        let options = if self.asked.body.is_empty() {
            json!({})
        } else {
            serde_json::from_slice(&self.asked.body)
                .map_err(|_| StatusError::not_modelled("DeleteOptions that are no JSON"))?
        };
        let old = self.current(resource)?;
        admit(self.user, self.asked, resource, &self.asked.name, Some(&old), None)?;
        self.remove(resource, &old, &options)
    }

    /// By these DeleteOptions: at once, or in time.
    fn remove(&mut self, resource: &Resource, old: &Value, options: &Value) -> Answer {
        self.check_preconditions(resource, old, options)?;
        let name = self.asked.name.as_str();
        let grace = grace(resource, old, options)?;
        let deleting = old["metadata"]["deletionTimestamp"].is_string();
        if grace == 0 && !has_finalizers(old) {
            self.store.commit(self.key(resource), None);
            let uid = text(old, "/metadata/uid");
            let gone = old.clone();
            return Ok(if resource.plural == PODS {
                self.shown(ended(gone, self.now))
            } else {
                Reply::Object(StatusCode::OK, success(resource, name, uid))
            });
        }
        if deleting && old["metadata"]["deletionGracePeriodSeconds"].as_i64() <= Some(grace) {
            return Ok(self.shown(old.clone()));
        }
        let mut new = old.clone();
        let at = self.now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(self.now);
        new["metadata"]["deletionTimestamp"] = object::time(at).into();
        new["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        if let Some(generation) = new["metadata"]["generation"].as_i64() {
            new["metadata"]["generation"] = (generation + 1).into();
        }
        let marked = self.store.commit(self.key(resource), Some(new)).unwrap_or_default();
        Ok(self.shown(marked))
    }

    /// That it is the very object that was meant.
    fn check_preconditions(&self, resource: &Resource, old: &Value, options: &Value) -> Result<(), StatusError> {
        let name = self.asked.name.as_str();
        for (key, field, says, might) in [
            ("uid", "/metadata/uid", "UID", "deleted and then recreated"),
            ("resourceVersion", "/metadata/resourceVersion", "ResourceVersion", "modified"),
        ] {
            let wanted = options.pointer(&format!("/preconditions/{key}")).and_then(Value::as_str);
            let is = text(old, field);
            if let Some(wanted) = wanted.filter(|wanted| *wanted != is) {
                let why = format!(
                    "the {says} in the precondition ({wanted}) does not match the {says} in record ({is}). The object might have been {might}"
                );
                return Err(StatusError::precondition(resource, name, &why));
            }
        }
        Ok(())
    }

    fn evict(&mut self, resource: &Resource) -> Answer {
        let eviction: Value = serde_json::from_slice(&self.asked.body)
            .map_err(|_| StatusError::not_modelled("an Eviction that is no JSON"))?;
        let pod = self.current(resource)?;
        admit(self.user, self.asked, resource, &self.asked.name, Some(&pod), None)?;
        self.spend_budget(&pod)?;
        let options = eviction.get("deleteOptions").cloned().unwrap_or_default();
        let pod = self.mark_evicted(resource, pod, &options)?;
        self.remove(resource, &pod, &options)?;
        let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(Reply::Object(StatusCode::CREATED, done))
    }

    /// The pod says why it goes, where it does not go at once.
    fn mark_evicted(&mut self, resource: &Resource, mut pod: Value, options: &Value) -> Result<Value, StatusError> {
        self.check_preconditions(resource, &pod, options)?;
        let mut conditions = pod.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        conditions.push(json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": object::time(self.now), "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }));
        pod["status"]["conditions"] = conditions.into();
        Ok(self.store.commit(self.key(resource), Some(pod)).unwrap_or_default())
    }

    /// Takes one disruption off the budget that covers a running pod, or refuses.
    fn spend_budget(&mut self, pod: &Value) -> Result<(), StatusError> {
        let budgets = Resource::find("policy", "v1", "poddisruptionbudgets");
        let ends = pod["metadata"]["deletionTimestamp"].is_string()
            || ["Pending", "Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
        let Some(budgets) = budgets.filter(|_| !ends) else { return Ok(()) };
        let covers = |budget: &&Value| {
            let labels = budget.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
            labels.is_some_and(|labels| labels.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value))
        };
        let all = self.store.all(budgets, &self.asked.namespace);
        let Some(mut budget) = all.into_iter().find(covers).cloned() else { return Ok(()) };
        let count = |budget: &Value, key: &str| budget["status"][key].as_i64().unwrap_or_default();
        let (needs, has) = (count(&budget, "desiredHealthy"), count(&budget, "currentHealthy"));
        if !is_ready(pod) && has >= needs && needs > 0 {
            return Ok(());
        }
        let name = text(&budget, "/metadata/name").to_owned();
        let allowed = count(&budget, "disruptionsAllowed");
        if allowed <= 0 {
            return Err(StatusError::disruption_budget(&name, needs, has));
        }
        budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
        let evicted = text(pod, "/metadata/name").to_owned();
        budget["status"]["disruptedPods"][evicted] = object::time(self.now).into();
        self.store.commit(Key::new(budgets, &self.asked.namespace, &name), Some(budget));
        Ok(())
    }
}

/// Only a pod on a node takes its time.
fn grace(resource: &Resource, old: &Value, options: &Value) -> Result<i64, StatusError> {
    let runs =
        !text(old, "/spec/nodeName").is_empty() && !["Succeeded", "Failed"].contains(&text(old, "/status/phase"));
    if resource.plural != PODS || !runs {
        return Ok(0);
    }
    let own = old.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    match options.get("gracePeriodSeconds") {
        None | Some(Value::Null) => Ok(own),
        Some(asked) => {
            let seconds = asked.as_i64().filter(|seconds| *seconds >= 0);
            seconds.ok_or_else(|| StatusError::not_modelled(&format!("gracePeriodSeconds: {asked}")))
        }
    }
}

fn plain_path(asked: &Asked) -> Answer {
    match asked.path.as_str() {
        "/version" => Ok(Reply::Object(
            StatusCode::OK,
            json!({
                "major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "gc", "platform": "linux/amd64",
            }),
        )),
        "/healthz" | "/livez" | "/readyz" => Ok(Reply::Text("ok")),
        other => Err(StatusError::not_modelled(other)),
    }
}

fn has_finalizers(object: &Value) -> bool {
    object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// A pod in the answer that says it is gone.
fn ended(mut pod: Value, now: Timestamp) -> Value {
    pod["metadata"]["deletionTimestamp"] = object::time(now).into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    pod
}

/// Where a list goes on; without a version: in whatever is there by then.
struct Page {
    version: Option<u64>,
    start: String,
}

impl Page {
    fn token(&self) -> String {
        let version = self.version.map_or(json!(-1), Value::from);
        let page = json!({"v": "meta.k8s.io/v1", "rv": version, "start": self.start});
        URL_SAFE_NO_PAD.encode(page.to_string())
    }

    fn parse(token: &str) -> Result<Self, StatusError> {
        let page = URL_SAFE_NO_PAD.decode(token).ok();
        let page: Option<Value> = page.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let invalid = || StatusError::bad_request("continue key is not valid: illegal base64 data at input byte 0");
        let page = page.ok_or_else(invalid)?;
        let version = match (page["rv"].as_i64(), page["rv"].as_u64()) {
            (Some(-1), _) => None,
            (_, Some(version)) => Some(version),
            _ => return Err(StatusError::not_modelled("a continue of no version")),
        };
        Ok(Page { version, start: text(&page, "/start").to_owned() })
    }
}

/// Requests are the one resource with a way of its own to be approved.
pub(crate) fn has_subresource(resource: &Resource, subresource: &str) -> bool {
    match subresource {
        "" => true,
        "status" => resource.status,
        "approval" => resource.plural == REQUESTS,
        "eviction" => resource.plural == PODS,
        "proxy" => resource.plural == NODES,
        _ => false,
    }
}
