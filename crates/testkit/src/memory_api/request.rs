//! A request taken apart: which verb, on what, how it is worded.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, request};

use super::resource::Resource;
use super::status::StatusError;

#[derive(Debug)]
pub(crate) struct Asked {
    pub verb: &'static str,
    /// `None`: a path of no resource, as `/version`.
    pub resource: Option<&'static Resource>,
    pub path: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    pub query: BTreeMap<String, String>,
    pub content_type: String,
    pub accept: Accept,
    pub body: Bytes,
}

/// What the answer shall look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accept {
    Json,
    /// Metadata alone.
    Partial,
    /// Anything else: not modelled.
    Other,
}

impl Asked {
    pub(super) fn of(parts: &request::Parts, body: Bytes) -> Self {
        let path = parts.uri.path().to_owned();
        let query = parse_query(parts.uri.query().unwrap_or_default());
        let header = |name| parts.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let content_type = if body.is_empty() { "" } else { header(CONTENT_TYPE).unwrap_or("application/json") };
        let content_type = content_type.split(';').next().unwrap_or_default().trim().to_owned();
        let accept = Accept::of(header(ACCEPT).unwrap_or_default());
        let Place { resource, namespace, name, subresource } = place(&path);
        let watches = query.get("watch").map_or(Some(false), |watch| truth(watch));
        let verb = match (&parts.method, name.is_empty()) {
            (&Method::GET, _) if resource.is_none() => "get",
            (&Method::GET, true) => match watches {
                Some(true) => "watch",
                Some(false) => "list",
                // What a server takes that for is in no row.
                None => "other",
            },
            (&Method::GET, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            _ => "other",
        };
        Self { verb, resource, path, namespace, name, subresource, query, content_type, accept, body }
    }

    pub(super) fn param(&self, key: &str) -> &str {
        self.query.get(key).map_or("", String::as_str)
    }

    /// A parameter that says yes or no; no where it is not given.
    pub(super) fn flag(&self, key: &str) -> Result<bool, StatusError> {
        let Some(value) = self.query.get(key) else { return Ok(false) };
        truth(value).ok_or_else(|| StatusError::not_modelled(&format!("{key}={value}")))
    }

    /// A parameter that is a number, where it is given.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, StatusError> {
        let Some(value) = self.query.get(key) else { return Ok(None) };
        let number = value.parse().map_err(|_| StatusError::not_modelled(&format!("{key}={value}")))?;
        Ok(Some(number))
    }

    /// What tells kinds of requests apart: `list pods ?fieldSelector&limit`, `patch nodes/status as merge-patch+json`.
    pub(super) fn shape(&self) -> String {
        let what = match self.resource {
            None => self.path.clone(),
            Some(resource) if self.subresource.is_empty() => resource.qualified(),
            Some(resource) => format!("{}/{}", resource.qualified(), self.subresource),
        };
        let mut shape = format!("{} {what}", self.verb);
        if !self.query.is_empty() {
            let keys: Vec<&str> = self.query.keys().map(String::as_str).collect();
            shape = format!("{shape} ?{}", keys.join("&"));
        }
        if !self.content_type.is_empty() {
            let kind = self.content_type.strip_prefix("application/").unwrap_or(&self.content_type);
            shape = format!("{shape} as {kind}");
        }
        match self.accept {
            Accept::Json => shape,
            Accept::Partial => shape + " for PartialObjectMetadata",
            Accept::Other => shape + " for something else than JSON",
        }
    }
}

impl Accept {
    fn of(header: &str) -> Self {
        // The first that is served counts: the API server knows all of these.
        for kind in header.split(',').map(str::trim) {
            let mut parts = kind.split(';').map(str::trim);
            let json = matches!(parts.next(), Some("application/json" | "*/*" | ""));
            let of_type = parts.find_map(|part| part.strip_prefix("as="));
            match (json, of_type) {
                (true, None) => return Accept::Json,
                (true, Some("PartialObjectMetadata" | "PartialObjectMetadataList")) => return Accept::Partial,
                _ => {}
            }
        }
        Accept::Other
    }
}

struct Place {
    resource: Option<&'static Resource>,
    namespace: String,
    name: String,
    subresource: String,
}

fn place(path: &str) -> Place {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let (group, version) = match parts.next() {
        Some("api") => ("", parts.next().unwrap_or_default()),
        Some("apis") => (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()),
        _ => ("-", ""),
    };
    let rest: Vec<String> = parts.map(decode).collect();
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let (namespace, rest) = match rest.as_slice() {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
    let resource = Resource::find(group, version, &part(0));
    Place { resource, namespace: namespace.to_owned(), name: part(1), subresource: part(2) }
}

fn parse_query(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let split = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    split.map(|(key, value)| (decode(key), decode(&value.replace('+', " ")))).collect()
}

/// As everybody writes it; a real server guesses at the rest, this one does not.
fn truth(value: &str) -> Option<bool> {
    match value {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        if let Some(decoded) = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(decoded);
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_tells_what_kind_of_request_it_is() {
        let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        for (method, uri, accept, content, shape) in [
            ("GET", "/version", "", "", "get /version"),
            ("GET", "/api/v1/nodes/w1", "application/json", "", "get nodes"),
            ("GET", "/api/v1/namespaces/a", "", "", "get namespaces"),
            ("GET", "/api/v1/pods?limit=5&fieldSelector=spec.nodeName%3Dw1", "", "", "list pods ?fieldSelector&limit"),
            ("GET", "/api/v1/namespaces/a/pods?watch=true", "", "", "watch pods ?watch"),
            ("GET", "/api/v1/nodes", partial, "", "list nodes for PartialObjectMetadata"),
            ("GET", "/api/v1/nodes", "application/yaml", "", "list nodes for something else than JSON"),
            (
                "PATCH",
                "/api/v1/nodes/w1/status",
                "",
                "application/merge-patch+json",
                "patch nodes/status as merge-patch+json",
            ),
            (
                "POST",
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
                "",
                "application/json; charset=utf-8",
                "create leases.coordination.k8s.io as json",
            ),
        ] {
            let request = http::Request::builder().method(method).uri(uri).header(ACCEPT, accept);
            let (parts, ()) = request.header(CONTENT_TYPE, content).body(()).unwrap().into_parts();
            let body = if content.is_empty() { Bytes::new() } else { Bytes::from("{}") };
            assert_eq!(Asked::of(&parts, body).shape(), shape);
        }
    }
}
