//! Takes secrets out of text while it streams by, before anything else sees it.
//!
//! Known by their shape: bootstrap tokens, certificate keys, PEM private keys, kubeconfig credentials, passwords in URLs,
//! JWTs, bearer headers. What stands in their place says what it was: `<redacted:bootstrap-token>`. Memory is bounded by
//! one window, whatever the length of a line.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// Where something was taken out: its kind, how often, and the line of the first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Redaction {
    pub kind: String,
    pub count: u64,
    pub first_line: u64,
}

/// A secret's shape; what is to be masked is the group `s`.
struct Shape {
    kind: &'static str,
    regex: Regex,
}

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    // `\\?"?`: the same text also comes inside JSON, with its quotes escaped.
    [
        ("bootstrap-token", r"(?P<s>[a-z0-9]{6}\.[a-z0-9]{16})(?:[^A-Za-z0-9]|$)"),
        ("certificate-key", r#"(?i)certificate[-_ ]?key[\\"'\s:=]{1,8}(?P<s>[0-9a-f]{64})"#),
        (
            "credential",
            r#"(?i)\b(?:password|passwd|client-key-data|client-secret|token-secret|id-token|refresh-token|access-token)\\?["']?\s*[:=]\s*\\?["']?(?P<s>[^\s"'\\,}]+)"#,
        ),
        ("token", r#"(?i)\btoken\\?["']?\s*[:= ]\s*\\?["']?(?P<s>[a-z0-9._~+/=-]{20,})"#),
        ("authorization", r#"(?i)\b(?:bearer|basic)\s+(?P<s>[a-z0-9._~+/=-]{8,})"#),
        ("url-password", r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:(?P<s>[^\s/@"']+)@"#),
        ("jwt", r"(?P<s>eyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*)"),
        // base64 of "-----BEGIN [RSA |EC |ENCRYPTED |OPENSSH |DSA ]PRIVATE KEY": the value of client-key-data and of Secrets.
        ("private-key", r"(?P<s>LS0tLS1CRUdJTi(?:BSU0Eg|BFQyBQ|BQUklW|BPUEVO|BFTkNS|BEU0Eg)[A-Za-z0-9+/=]+)"),
    ]
    .map(|(kind, regex)| Shape { kind, regex: compile(regex) })
    .into()
});

static KEY_BEGIN: LazyLock<Regex> = LazyLock::new(|| compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"));
static KEY_END: LazyLock<Regex> = LazyLock::new(|| compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----"));

#[allow(clippy::expect_used)] // Constants of this file; the tests compile every one.
fn compile(regex: &str) -> Regex {
    regex::bytes::RegexBuilder::new(regex).unicode(false).build().expect("a constant regex")
}

/// A line longer than this is worked through in pieces.
const WINDOW: usize = 64 << 10;
/// What is held back at the end of a piece: longer than any secret's shape needs to be recognised.
const OVERLAP: usize = 4 << 10;
/// An RSA key of 8192 bits has 105 lines; a stray BEGIN must not swallow the rest of a log.
const KEY_LINES: u64 = 200;

/// Takes bytes in pieces, gives them back without secrets.
#[derive(Default)]
pub struct Redactor {
    pending: Vec<u8>,
    /// Lines given back so far.
    lines: u64,
    /// Inside a PEM private key since that line.
    key_since: Option<u64>,
    /// Inside a value that was longer than the window.
    in_value: bool,
    found: Vec<Redaction>,
}

impl Redactor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes; gives back what is complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let lines_end = self.pending.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let mut out = self.clean(lines_end);
        while self.pending.len() > WINDOW {
            let cut = self.safe_cut(self.pending.len() - OVERLAP);
            out.extend(self.clean(cut));
        }
        out
    }

    /// The rest, and what was taken out.
    pub fn finish(mut self) -> (Vec<u8>, Vec<Redaction>) {
        let out = self.clean(self.pending.len());
        (out, self.found)
    }

    /// Cleans the first `end` pending bytes and lets go of them.
    fn clean(&mut self, end: usize) -> Vec<u8> {
        let block: Vec<u8> = self.pending.drain(..end).collect();
        let mut out = Vec::with_capacity(block.len());
        let mut rest = self.leave_value(&block);
        while !rest.is_empty() {
            rest = if self.key_since.is_some() { self.skip_key(rest, &mut out) } else { self.copy_to_key(rest, &mut out) };
        }
        out
    }

    /// Drops what still belongs to a value that began before.
    fn leave_value<'a>(&mut self, block: &'a [u8]) -> &'a [u8] {
        if !self.in_value {
            return block;
        }
        let ends = block.iter().position(|byte| byte.is_ascii_whitespace() || b"\"'\\,}".contains(byte));
        self.in_value = ends.is_none();
        &block[ends.unwrap_or(block.len())..]
    }

    /// Copies up to the next private key, masking as it goes; gives back what follows the key's first line.
    fn copy_to_key<'a>(&mut self, block: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let Some(begin) = KEY_BEGIN.find(block) else {
            self.mask(block, out);
            return &[];
        };
        self.mask(&block[..begin.start()], out);
        self.note("private-key", self.lines);
        out.extend_from_slice(b"<redacted:private-key>");
        self.key_since = Some(self.lines);
        &block[begin.end()..]
    }

    /// Passes over a private key, keeping its line ends, so that line numbers stay true.
    fn skip_key<'a>(&mut self, block: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let since = self.key_since.unwrap_or(self.lines);
        let end = KEY_END.find(block).map(|end| end.end());
        let stop = end.unwrap_or(block.len());
        for at in block[..stop].iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at) {
            out.push(b'\n');
            self.lines += 1;
            if self.lines - since > KEY_LINES {
                self.key_since = None;
                return &block[at + 1..];
            }
        }
        if end.is_some() {
            self.key_since = None;
        }
        &block[stop..]
    }

    fn mask(&mut self, block: &[u8], out: &mut Vec<u8>) {
        let mut done = 0;
        for (range, kind) in secrets(block) {
            if range.end <= done {
                continue;
            }
            let start = range.start.max(done);
            out.extend_from_slice(&block[done..start]);
            self.note(kind, self.lines + newlines(&block[..start]));
            out.extend_from_slice(format!("<redacted:{kind}>").as_bytes());
            done = range.end;
        }
        out.extend_from_slice(&block[done..]);
        self.lines += newlines(block);
    }

    /// A place to cut the pending bytes where no secret is cut in two.
    fn safe_cut(&mut self, wanted: usize) -> usize {
        let mut cut = wanted;
        for (range, _) in secrets(&self.pending).into_iter().rev() {
            if range.start < cut && cut < range.end {
                cut = range.start;
            }
        }
        if cut == 0 {
            // One value fills the window: mask what is here, and drop what follows until the value ends.
            self.in_value = true;
            let kept = self.pending.len();
            return kept;
        }
        cut
    }

    fn note(&mut self, kind: &str, line: u64) {
        match self.found.iter_mut().find(|redaction| redaction.kind == kind) {
            Some(redaction) => redaction.count += 1,
            None => self.found.push(Redaction { kind: kind.to_owned(), count: 1, first_line: line + 1 }),
        }
    }
}

/// Masks the secrets in a text that is there as a whole.
pub fn redact(text: &str) -> String {
    let mut redactor = Redactor::new();
    let mut out = redactor.push(text.as_bytes());
    out.extend(redactor.finish().0);
    String::from_utf8_lossy(&out).into_owned()
}

/// Where secrets stand, in order of place.
fn secrets(block: &[u8]) -> Vec<(Range<usize>, &'static str)> {
    let mut found: Vec<(Range<usize>, &'static str)> = Vec::new();
    for shape in SHAPES.iter() {
        let captures = shape.regex.captures_iter(block).filter_map(|captures| captures.name("s"));
        found.extend(captures.map(|secret| (secret.range(), shape.kind)));
    }
    found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    found
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}
