//! PEM private keys, however they are wrapped: in lines, quoted, indented, behind a log's head, in one line, escaped.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::shape::compile;

static BEGIN: LazyLock<Regex> = LazyLock::new(|| compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"));
static END: LazyLock<Regex> = LazyLock::new(|| compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"));
/// What stands behind BEGIN where the key is in one line: escaped line ends, or spaces, and base64.
static ON_ONE_LINE: LazyLock<Regex> = LazyLock::new(|| compile(r"^(?:\s|\\{1,8}[nr])*[A-Za-z0-9+/=]{16}"));
/// A line of a key behind the head of a log's line.
static BODY: LazyLock<Regex> = LazyLock::new(|| compile(r"[A-Za-z0-9+/=]{24}"));

/// An RSA key of 8192 bits has 105 lines; a stray BEGIN must not swallow the rest of a log.
const MOST_LINES: u32 = 200;
/// So many lines may stand between two of a key, its headers or another program's, before it is taken to be cut off.
const MOST_OTHERS: u32 = 4;

/// A BEGIN, where there is one: its place.
pub(super) fn begin(text: &[u8]) -> Option<std::ops::Range<usize>> {
    memchr::memmem::find(text, b"-----BEGIN ")?;
    BEGIN.find(text).map(|found| found.range())
}

/// Where the END ends.
pub(super) fn end(text: &[u8]) -> Option<usize> {
    END.find(text).map(|found| found.end())
}

pub(super) fn is_on_one_line(after: &[u8]) -> bool {
    ON_ONE_LINE.is_match(after)
}

/// Within a key: how many lines of it there were, and how many in a row that are none of a key's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    lines: u32,
    others: u32,
}

impl Key {
    /// After this line; `None` where the key is taken to be over.
    pub(super) fn after(self, line: &[u8]) -> Option<Key> {
        let others = if is_body(line) { 0 } else { self.others + 1 };
        let next = Key { lines: self.lines + 1, others };
        (next.lines <= MOST_LINES && others <= MOST_OTHERS).then_some(next)
    }
}

fn is_body(line: &[u8]) -> bool {
    super::wrap::core(line).is_some_and(|core| !core.is_empty()) || BODY.is_match(line)
}
