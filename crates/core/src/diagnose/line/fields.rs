//! One field of an object that is printed over many lines: `"message": "…",` and `message: '…'`, as kubectl, crictl and Ansible
//! print them. What stands beside it says when and of which node.

use super::around::{Around, indent};
use super::when::{Cursor, Stamp};
use super::{ansible, json, narrated, plain};

/// A value folded over more lines is not put together: kubectl folds at 80 letters, and no message is that long.
const MOST_FOLDS: usize = 64;

/// A scalar of YAML, unfolded and without its quotes.
pub(super) struct Scalar {
    pub key: String,
    pub value: String,
    /// Of the key.
    pub indent: usize,
}

/// A field as JSON: the line is `"key": …` or `"element",` and nothing else. klog's `"message" err="…"` is none.
pub(super) fn is_json(line: &str) -> bool {
    let words = line.trim_start();
    if !words.starts_with('"') {
        return false;
    }
    let after = json::string(words).1.trim_start();
    after.is_empty() || after.trim_end() == "," || after.starts_with(':')
}

/// The scalar a line is of, or a part of.
pub(super) fn yaml(line: &str, around: &Around) -> Option<Scalar> {
    let own = Field::of(line).filter(Field::is_scalar).map(|field| field.unfolded(around.below()));
    own.or_else(|| folded(line, around))
}

/// A part of a folded scalar: the nearest line that is indented less begins it.
fn folded(line: &str, around: &Around) -> Option<Scalar> {
    let inner = indent(line.as_bytes()).filter(|&inner| inner > 0)?;
    let mut between: Vec<&[u8]> = Vec::new();
    for above in around.above().take(MOST_FOLDS) {
        if indent(above).is_none_or(|outer| outer >= inner) {
            between.push(above);
            continue;
        }
        let head = plain::text(above);
        let field = Field::of(&head).filter(Field::is_scalar).filter(Field::is_open)?;
        let rest = between.iter().rev().copied().chain([line.as_bytes()]).chain(around.below());
        return Some(field.unfolded(rest));
    }
    None
}

/// `  - key: value`
struct Field<'t> {
    indent: usize,
    key: &'t str,
    value: &'t str,
}

impl<'t> Field<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let outer = indent(line.as_bytes())?;
        let words = line.trim_start();
        let item = words.strip_prefix("- ").map(str::trim_start);
        let inner = item.map_or(outer, |item| outer + (words.len() - item.len()));
        let (key, value) = item.unwrap_or(words).split_once(": ").filter(|(key, _)| is_key(key))?;
        Some(Field { indent: inner, key, value: value.trim() })
    }

    fn quote(&self) -> Option<char> {
        self.value.chars().next().filter(|quote| matches!(quote, '\'' | '"'))
    }

    /// Quoted, or of a key under which only messages stand: `error: …` is also how programs begin a line.
    fn is_scalar(&self) -> bool {
        (self.quote().is_some() && (self.is_open() || self.ends_quoted()))
            || is_message(self.key) && !self.value.starts_with(['|', '>'])
    }

    fn ends_quoted(&self) -> bool {
        self.quote().is_some_and(|quote| closes(self.value, quote) == Some(self.value.len()))
    }

    /// It goes on below.
    fn is_open(&self) -> bool {
        self.quote().is_none_or(|quote| closes(self.value, quote).is_none())
    }

    fn unfolded<'l>(&self, below: impl Iterator<Item = &'l [u8]>) -> Scalar {
        let mut whole = self.value.to_owned();
        for line in below.take(MOST_FOLDS) {
            let ended = self.quote().is_some_and(|quote| closes(&whole, quote).is_some());
            if ended || indent(line).is_none_or(|inner| inner <= self.indent) {
                break;
            }
            // A backslash at the end of a line of a quoted value joins without a space.
            match whole.strip_suffix('\\').filter(|_| self.quote() == Some('"')) {
                Some(joined) => whole.truncate(joined.len()),
                None => whole.push(' '),
            }
            let text = plain::text(line);
            let words = text.trim_start();
            // So is a space kept that a line of it begins with.
            let kept = words.strip_prefix('\\').filter(|kept| kept.starts_with(' ') && self.quote() == Some('"'));
            whole.push_str(kept.unwrap_or(words));
        }
        let value = match self.quote() {
            Some('\'') => whole.get(1..).unwrap_or_default().trim_end_matches('\'').replace("''", "'"),
            Some(_) => json::unescape(json::string(&whole).0).into_owned(),
            None => whole,
        };
        Scalar { key: self.key.to_owned(), value, indent: self.indent }
    }
}

/// Where a quoted value ends, its quote included; `None` where it does not.
fn closes(value: &str, quote: char) -> Option<usize> {
    let mut letters = value.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && quote == '"' {
            letters.next();
        } else if letter == quote {
            if quote == '\'' && letters.peek().is_some_and(|(_, next)| *next == quote) {
                letters.next();
            } else {
                return Some(at + 1);
            }
        }
    }
    None
}

/// Kubernetes' keys, and those of others that print YAML, begin with a small letter; a person's labels with a capital.
fn is_key(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_lowercase())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'))
}

pub(super) fn is_message(key: &str) -> bool {
    matches!(key, "message" | "note" | "lastCNILoadStatus" | "lastCNILoadStatus.default")
}

/// Whether a scalar's key is written by people into playbooks, and this is one.
pub(super) fn is_told(scalar: &Scalar, around: &Around) -> bool {
    if is_message(&scalar.key) {
        return false;
    }
    let in_result = ansible::owner(around).is_some();
    (narrated::is_playbook_key(&scalar.key) && !in_result) || narrated::markdown_around(around)
}

/// Beside a message, when it came to be so. The first of these that is there.
const TIMES: [&str; 7] = [
    "lastTransitionTime",
    "lastTimestamp",
    "eventTime",
    "finishedAt",
    "startedAt",
    "lastUpdateTime",
    "lastHeartbeatTime",
];
/// A condition has six fields, an event some fifteen with those of its parts.
const MOST_SIBLINGS: usize = 32;

/// When, as the fields beside one have it that is indented so far.
pub(super) fn stamp(around: &Around, own: usize) -> Option<Stamp> {
    let mut found: Option<(usize, Stamp)> = None;
    let mut see = |field: &Plain| {
        let rank = TIMES.iter().position(|key| *key == field.key);
        if let Some(rank) = rank.filter(|rank| found.is_none_or(|(best, _)| *rank < best)) {
            found = Cursor::new(&field.value).iso().map(|stamp| (rank, stamp)).or(found);
        }
    };
    let begins = |field: &Plain| field.first && field.indent == own;
    // The first of an item has nothing of it above.
    if !Plain::of(around.line).as_ref().is_some_and(begins) {
        for field in around.above().take(MOST_SIBLINGS).filter_map(Plain::of) {
            if field.indent < own {
                break;
            }
            if field.indent == own {
                see(&field);
            }
            if begins(&field) {
                break;
            }
        }
    }
    for field in around.below().take(MOST_SIBLINGS).filter_map(Plain::of) {
        if field.indent < own || begins(&field) {
            break;
        }
        if field.indent == own {
            see(&field);
        }
    }
    found.map(|(_, stamp)| stamp)
}

/// How far the field of a line is indented.
pub(super) fn indent_of(line: &[u8]) -> Option<usize> {
    Plain::of(line).map(|field| field.indent)
}

/// The node a field belongs to: of a Pod where it runs, of a Node itself, of an event the Node it is about.
pub(super) fn node(around: &Around) -> Option<String> {
    let mut name: Option<String> = None;
    let mut kind: Option<String> = None;
    let mut named: Option<(usize, String)> = None;
    for field in around.above().filter(|line| may_name(line)).filter_map(Plain::of) {
        match field.key.as_str() {
            "nodeName" if !field.value.is_empty() => return Some(field.value),
            "name" => name = Some(field.value),
            "kind" => {
                if let Some((_, name)) = named.take_if(|(outer, _)| *outer == field.indent) {
                    return (field.value == "Node").then_some(name);
                }
                kind = Some(field.value);
            }
            "metadata" => named = name.take().map(|name| (field.indent, name)),
            "involvedObject" if kind.as_deref() == Some("Node") => return name,
            _ => {}
        }
    }
    None
}

/// Whether a line can be one of those that name a node, before it is taken apart: there are many lines above.
fn may_name(line: &[u8]) -> bool {
    let words = line.trim_ascii_start();
    let words = words.strip_prefix(b"- ").unwrap_or(words);
    let words = words.strip_prefix(b"\"").unwrap_or(words);
    ["nodeName", "name", "kind", "metadata", "involvedObject"].iter().any(|key| words.starts_with(key.as_bytes()))
}

/// A field of YAML or JSON, as plain text.
struct Plain {
    /// Of the key itself, after the dash of an item.
    indent: usize,
    /// The first of an item of a list.
    first: bool,
    key: String,
    value: String,
}

impl Plain {
    fn of(line: &[u8]) -> Option<Self> {
        let outer = indent(line)?;
        let text = plain::text(line);
        let words = text.trim_start();
        let item = words.strip_prefix("- ").map(str::trim_start);
        let rest = item.unwrap_or(words);
        let (key, value) = rest.split_once(':')?;
        let trim = |text: &str| text.trim().trim_end_matches(',').trim_matches(['"', '\'']).to_owned();
        let key = trim(key);
        let named = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'));
        named.then(|| Plain {
            indent: outer + (words.len() - rest.len()),
            first: item.is_some(),
            key,
            value: trim(value),
        })
    }
}
