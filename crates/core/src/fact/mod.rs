//! What was seen of a machine.
//!
//! A [`Source`] says where to look; a [`Capture`] is what was there, as text; [`Facts`] holds the captures of one machine,
//! whether they came from this machine, over SSH, or out of a bundle. Typed views are parsed from the captures on demand,
//! one parser a file. Parsers are total: whatever the bytes, they answer or say why not.
//!
//! Nothing here looks at a machine: that is carrick-host's work.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::redact::redact;

include!(concat!(env!("OUT_DIR"), "/facts.rs"));

/// Every place Carrick looks at, once: several facts may need the same, and a tree holds its listing.
pub fn sources() -> impl Iterator<Item = Source> {
    let mut places: BTreeMap<String, Source> = BTreeMap::new();
    for source in SOURCES.iter().copied().flatten() {
        let place = places.entry(source.key()).or_insert(*source);
        if matches!(source, Source::Tree(_)) {
            *place = *source;
        }
    }
    places.into_values()
}

/// A place to look. Data, so that a live machine, a script over SSH and a bundle all go by the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The content of one file.
    File(&'static str),
    /// The entries of one directory.
    Dir(&'static str),
    /// The entries of one directory, and the content of every regular file directly in it.
    Tree(&'static str),
    /// What a read-only command prints.
    Query(&'static Query),
    /// An answer of the container runtime over its socket, as JSON.
    Cri(&'static str),
    /// An answer of the cluster, or of the path to it.
    Api(&'static str),
}

/// A read-only command: the only way Carrick runs something in order to look.
#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    /// What a person would type; evidence names it.
    pub name: &'static str,
    /// What is run. Constant: nothing is ever pasted into it.
    pub argv: &'static [&'static str],
    /// Which part is kept when it prints too much.
    pub keep: keep::Keep,
}

impl Source {
    /// The name under which its capture is kept.
    pub fn key(&self) -> String {
        match self {
            Source::File(path) => file_key(path),
            Source::Dir(path) | Source::Tree(path) => dir_key(path),
            Source::Query(query) => query_key(query),
            Source::Cri(call) => format!("cri {call}"),
            Source::Api(call) => format!("api {call}"),
        }
    }
}

pub fn file_key(path: &str) -> String {
    format!("file {path}")
}

pub fn dir_key(path: &str) -> String {
    format!("dir {path}")
}

fn query_key(query: &Query) -> String {
    format!("query {}", query.name)
}

/// What a source gave, secrets already taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    pub text: String,
    /// A command's exit status.
    pub exit: Option<i32>,
    /// What a command said on stderr (the beginning).
    pub errors: String,
    /// Bytes that were not kept because there were too many.
    pub dropped: u64,
}

impl Capture {
    pub fn text(text: impl Into<String>) -> Self {
        Capture { text: text.into(), ..Self::default() }
    }

    /// Nothing of it is missing.
    pub fn is_whole(&self) -> bool {
        self.dropped == 0
    }

    /// Lines with their numbers, from 1, as evidence cites them.
    pub fn lines(&self) -> impl Iterator<Item = (u32, &str)> {
        (1u32..).zip(self.text.lines())
    }
}

/// Why a fact could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", content = "detail", rename_all = "kebab-case")]
pub enum Why {
    /// Looked for, and not there: often a fact in itself.
    Absent,
    /// There, but not for this user.
    Denied,
    /// No answer within the time box.
    TimedOut,
    /// The program that would tell is not installed.
    NoTool,
    /// systemd is to be asked, and something else is the first process.
    NoSystemd,
    /// Nobody looked: not part of this capture.
    NotCollected,
    /// Needs the cluster's address, which was not given.
    NotAsked,
    /// Needs an admin's kubeconfig, which was not given.
    NotAdmin,
    /// The machine was not reached; what ssh said instead.
    NoShell(String),
    /// The cluster, or a service of the machine's, was not reached (refused, no route, cut off); what happened instead. It may
    /// be back a little later.
    Unreachable(String),
    /// The cluster was reached, and could not answer at that moment; what it said. The same question may be answered later.
    Busy(String),
    /// Who was asked answers, and does not know the question: containerd without its CRI plugin. What it said.
    Unimplemented(String),
    /// It was read, and could not be understood; or reading failed in another way. Asking again brings the same.
    Broken(String),
}

impl Why {
    /// What systemctl or timedatectl complained of, where it gave no answer: its first line, or `otherwise`.
    pub fn of_systemd(errors: &str, otherwise: &str) -> Self {
        if errors.contains("has not been booted with systemd") {
            return Why::NoSystemd;
        }
        let said = errors.lines().map(str::trim).find(|line| !line.is_empty());
        Why::Broken(said.unwrap_or(otherwise).to_owned())
    }

    /// The machine itself was not reached: what was to be looked at may be as well as ever.
    pub fn is_of_the_link(&self) -> bool {
        matches!(self, Why::NoShell(_))
    }

    /// Whether the same look may well succeed a little later, with nothing changed by anybody.
    pub fn may_pass(&self) -> bool {
        match self {
            Why::TimedOut | Why::NoShell(_) | Why::Unreachable(_) | Why::Busy(_) => true,
            Why::Absent
            | Why::Denied
            | Why::NoTool
            | Why::NoSystemd
            | Why::NotCollected
            | Why::NotAsked
            | Why::NotAdmin
            | Why::Unimplemented(_)
            | Why::Broken(_) => false,
        }
    }

    /// The same, without secrets in what it quotes.
    pub fn redacted(&self) -> Why {
        match self {
            Why::NoShell(said) => Why::NoShell(redact(said)),
            Why::Unreachable(detail) => Why::Unreachable(redact(detail)),
            Why::Busy(said) => Why::Busy(redact(said)),
            Why::Unimplemented(said) => Why::Unimplemented(redact(said)),
            Why::Broken(detail) => Why::Broken(redact(detail)),
            Why::Absent
            | Why::Denied
            | Why::TimedOut
            | Why::NoTool
            | Why::NoSystemd
            | Why::NotCollected
            | Why::NotAsked
            | Why::NotAdmin => self.clone(),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Why::NoShell(said) = self {
            return write!(f, "no shell there: {said}");
        }
        f.write_str(match self {
            Why::Absent => "not there",
            Why::Denied => "permission denied",
            Why::TimedOut => "no answer in time",
            Why::NoTool => "the command is not installed",
            Why::NoSystemd => "the machine was not booted with systemd",
            Why::NotCollected => "not part of this capture",
            Why::NotAsked => "needs --api",
            Why::NotAdmin => "needs --kubeconfig",
            Why::NoShell(detail)
            | Why::Unreachable(detail)
            | Why::Busy(detail)
            | Why::Unimplemented(detail)
            | Why::Broken(detail) => detail,
        })
    }
}

/// A fact that is not known, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Missing {
    pub source_name: String,
    pub why: Why,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            // Which call would have been made is of no use to the reader: the option is.
            Why::NotAsked | Why::NotAdmin => self.why.fmt(f),
            why => write!(f, "{}: {why}", self.source_name),
        }
    }
}

impl Missing {
    pub fn broken(source_name: impl Into<String>, detail: impl fmt::Display) -> Self {
        Missing { source_name: source_name.into(), why: Why::Broken(detail.to_string()) }
    }

    /// It was longer than is kept of it.
    pub fn cut(source_name: &str, limit: usize) -> Self {
        Missing::broken(source_name, format!("longer than {} MiB, and not read whole", limit >> 20))
    }

    /// An answer of the container runtime over its socket: [`Source::Cri`].
    pub fn is_answer_of_runtime(&self) -> bool {
        self.source_name.starts_with("cri ")
    }

    /// An answer of the cluster, or of the path to it: [`Source::Api`].
    pub fn is_answer_of_cluster(&self) -> bool {
        self.source_name.starts_with("api ")
    }

    /// A file in this directory, or below it.
    pub fn is_of_file_below(&self, dir: &str) -> bool {
        self.source_name.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
    }

    /// What may bring it.
    pub fn next_step(&self) -> &'static str {
        match self.why {
            Why::Denied => "try as root",
            Why::TimedOut | Why::Unreachable(_) | Why::Busy(_) => "try again",
            _ => "carrick check says more",
        }
    }
}

/// A fact, or why it is missing.
pub type Known<T> = Result<T, Missing>;

/// For the facts whose absence is itself a fact.
pub trait OrAbsent<T> {
    /// Turns "looked for and not there" into `None`; every other reason stays a missing fact.
    fn or_absent(self) -> Known<Option<T>>;
}

impl<T> OrAbsent<T> for Known<T> {
    fn or_absent(self) -> Known<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Missing { why: Why::Absent, .. }) => Ok(None),
            Err(missing) => Err(missing),
        }
    }
}

/// Everything seen of one machine at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    captures: BTreeMap<String, Result<Capture, Why>>,
    /// How the operator calls the machine.
    pub host: String,
    /// The machine's "now": certificates and clocks are judged against it, also when a bundle is read a year later.
    pub taken_at: Timestamp,
}

impl Facts {
    pub fn new(host: impl Into<String>, taken_at: Timestamp) -> Self {
        Facts { captures: BTreeMap::new(), host: host.into(), taken_at }
    }

    pub fn insert(&mut self, key: String, capture: Result<Capture, Why>) {
        self.captures.insert(key, capture);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Result<Capture, Why>)> {
        self.captures.iter().map(|(key, capture)| (key.as_str(), capture))
    }

    pub fn file(&self, path: &str) -> Known<&Capture> {
        self.get(&file_key(path))
    }

    pub fn query(&self, query: &Query) -> Known<&Capture> {
        self.get(&query_key(query))
    }

    /// The same, for whoever would answer wrongly from a part: what was too long to be kept whole is not known.
    pub fn whole(&self, query: &Query) -> Known<&Capture> {
        let capture = self.query(query)?;
        capture.is_whole().then_some(capture).ok_or_else(|| Missing::cut(query.name, query.keep.limit()))
    }

    pub fn cri(&self, call: &str) -> Known<&Capture> {
        self.get(&format!("cri {call}"))
    }

    pub fn api(&self, call: &str) -> Known<&Capture> {
        self.get(&format!("api {call}"))
    }

    /// What stands under a key: `file /etc/os-release`, `query uname -m` …
    pub fn get(&self, key: &str) -> Known<&Capture> {
        let missing = |why| Missing { source_name: shown(key).to_owned(), why };
        match self.captures.get(key) {
            Some(Ok(capture)) => Ok(capture),
            Some(Err(why)) => Err(missing(why.clone())),
            None => Err(missing(unseen(key))),
        }
    }
}

/// Why something is missing of which a capture says nothing.
fn unseen(key: &str) -> Why {
    match key.strip_prefix("api ") {
        Some(daemon_sets::CALL | overlay::CALL | bootstrap_token::SECRET) => Why::NotAdmin,
        Some(_) => Why::NotAsked,
        None => Why::NotCollected,
    }
}

/// A key as evidence names it: a file by its path, a command as it is typed.
pub fn shown(key: &str) -> &str {
    match key.split_once(' ') {
        Some(("file" | "dir" | "query", rest)) => rest,
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;

    /// Bundles and records of every version are read by every later one.
    #[test]
    fn why_is_written_and_read_alike() {
        let said = || "said".to_owned();
        for (why, json, may_pass) in [
            (Why::Absent, r#"{"why":"absent"}"#, false),
            (Why::Denied, r#"{"why":"denied"}"#, false),
            (Why::TimedOut, r#"{"why":"timed-out"}"#, true),
            (Why::NoTool, r#"{"why":"no-tool"}"#, false),
            (Why::NoSystemd, r#"{"why":"no-systemd"}"#, false),
            (Why::NotCollected, r#"{"why":"not-collected"}"#, false),
            (Why::NotAsked, r#"{"why":"not-asked"}"#, false),
            (Why::NotAdmin, r#"{"why":"not-admin"}"#, false),
            (Why::NoShell(said()), r#"{"why":"no-shell","detail":"said"}"#, true),
            (Why::Unreachable(said()), r#"{"why":"unreachable","detail":"said"}"#, true),
            (Why::Busy(said()), r#"{"why":"busy","detail":"said"}"#, true),
            (Why::Unimplemented(said()), r#"{"why":"unimplemented","detail":"said"}"#, false),
            (Why::Broken(said()), r#"{"why":"broken","detail":"said"}"#, false),
        ] {
            assert_eq!(serde_json::to_string(&why).ok().as_deref(), Some(json));
            assert_eq!(serde_json::from_str::<Why>(json).ok().as_ref(), Some(&why));
            assert_eq!(why.may_pass(), may_pass, "{why:?}");
        }
    }

    #[test]
    fn what_is_quoted_is_redacted() {
        let secret = || "token abcdef.0123456789abcdef".to_owned();
        for why in [Why::NoShell, Why::Unreachable, Why::Busy, Why::Unimplemented, Why::Broken].map(|of| of(secret())) {
            assert!(!why.redacted().to_string().contains("0123456789abcdef"), "{why:?}");
        }
    }

    #[test]
    fn what_is_missing_is_told_apart_by_its_source() {
        let missing = |source: Source| facts().without(source, Why::Absent).get(&source.key()).unwrap_err();
        let (runtime, cluster) = (missing(Source::Cri("status")), missing(Source::Api("version")));
        let (file, like_it) = (missing(Source::File("/etc/cni/net.d/10-x.conf")), missing(Source::File("/etc/cniX")));
        let all = [&runtime, &cluster, &file, &like_it];
        assert_eq!(all.map(Missing::is_answer_of_runtime), [true, false, false, false]);
        assert_eq!(all.map(Missing::is_answer_of_cluster), [false, true, false, false]);
        assert_eq!(all.map(|missing| missing.is_of_file_below("/etc/cni")), [false, false, true, false]);
    }
}
