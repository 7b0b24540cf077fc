//! Takes secrets out of text while it streams by, before anything else sees it.
//!
//! A line without a word that leads to a secret is copied; what leads to one is looked at shape by shape. What stands in
//! a secret's place says what it was: `<redacted:bootstrap-token>`. Memory is bounded by one window, whatever the length of
//! a line.
//!
//! Where text is cut into lines and windows depends on the text alone, so it does not matter in which pieces it comes.
//!
//! * [`kind`]: the secrets that are known by a name, as data
//! * [`shape`], [`value`]: how they are found, where their values end, which values are none
//! * [`token`], [`url`], [`encoded`], [`array`]: those that are known by a form of their own
//! * [`key`], [`wrap`]: what goes on in the next line

mod array;
mod encoded;
mod key;
mod kind;
mod shape;
mod token;
mod url;
mod value;
mod wrap;

#[cfg(test)]
mod tests;

use self::key::Key;
use self::shape::{Search, Secret, secrets};
use self::value::Ends;
use self::wrap::{Awaited, Block, More, Wrapped};

/// Where something was taken out: its kind, how often, and the line of the first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Redaction {
    pub kind: String,
    pub count: u64,
    pub first_line: u64,
}

/// A line longer than this is worked through in pieces.
const WINDOW: usize = 64 << 10;
/// What is held back at the end of a piece: longer than any secret's shape needs to be recognised.
const OVERLAP: usize = 4 << 10;

/// Takes bytes in pieces, gives them back without secrets.
#[derive(Default)]
pub struct Redactor {
    pending: Vec<u8>,
    /// Lines given back so far.
    lines: u64,
    within: Within,
    found: Vec<Noted>,
}

/// As [`Redaction`].
struct Noted {
    kind: &'static str,
    count: u64,
    first_line: u64,
}

/// What the text that comes next belongs to.
#[derive(Clone, Copy, Default)]
enum Within {
    #[default]
    Text,
    /// A PEM private key.
    Key(Key),
    /// A value that is longer than the window.
    Value(Ends),
    /// Lines of a value that was wrapped.
    Wrapped(Wrapped),
    /// The line behind one that ends with the name of a secret.
    Awaited(Awaited),
    Block(Block),
}

impl Redactor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes; gives back what is complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.pending.len() + bytes.len());
        if memchr::memchr(b'\n', bytes).is_none() && self.pending.len() + bytes.len() < WINDOW {
            self.pending.extend_from_slice(bytes);
        } else if self.pending.is_empty() {
            let done = self.work(bytes, false, &mut out);
            self.pending.extend_from_slice(&bytes[done..]);
        } else {
            let mut pending = std::mem::take(&mut self.pending);
            pending.extend_from_slice(bytes);
            let done = self.work(&pending, false, &mut out);
            pending.drain(..done);
            self.pending = pending;
        }
        out
    }

    /// The rest, and what was taken out.
    pub fn finish(mut self) -> (Vec<u8>, Vec<Redaction>) {
        let mut out = Vec::new();
        let rest = std::mem::take(&mut self.pending);
        self.work(&rest, true, &mut out);
        (out, self.redactions())
    }

    /// What was taken out of a text that was cut off here: a secret may have been cut in two, so the line it ends in is
    /// not given back.
    pub fn finish_cut(self) -> Vec<Redaction> {
        self.redactions()
    }

    fn redactions(self) -> Vec<Redaction> {
        let told = |Noted { kind, count, first_line }| Redaction { kind: str::to_owned(kind), count, first_line };
        self.found.into_iter().map(told).collect()
    }

    /// Works through whole lines and whole windows; gives how far it came.
    fn work(&mut self, text: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let mut search = Search::of(text);
        let mut at = 0;
        while at < text.len() {
            if matches!(self.within, Within::Text) {
                let calm = calm(text, at, search.next_from(at));
                out.extend_from_slice(&text[at..calm]);
                self.lines += newlines(&text[at..calm]);
                at = calm;
            }
            let Some(piece) = Piece::first(&text[at..], last) else { break };
            at += self.take(&piece, out);
        }
        at
    }

    /// Works on a piece; gives how much of it is done.
    fn take(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) -> usize {
        let bytes = piece.bytes;
        match std::mem::take(&mut self.within) {
            Within::Text => self.copy(piece, out),
            Within::Key(key) => self.pass_key(key, piece, out),
            Within::Value(ends) => end_of_value(bytes, ends).unwrap_or_else(|| {
                self.within = Within::Value(ends);
                bytes.len()
            }),
            Within::Wrapped(wrapped) => self.pass_wrapped(wrapped, piece, out),
            Within::Awaited(awaited) => match awaited.value(bytes).filter(|_| !piece.open) {
                Some((kind, value)) => {
                    out.extend_from_slice(&bytes[..value.start]);
                    self.mark(kind, out);
                    value.end
                }
                None => self.copy(piece, out),
            },
            Within::Block(block) => match block.takes(bytes) {
                Some(first) => {
                    if first {
                        self.mark("credential", out);
                    }
                    self.within = Within::Block(block.begun());
                    self.drop_line(bytes, out)
                }
                None => self.copy(piece, out),
            },
        }
    }

    /// Copies a piece, its secrets masked: up to a private key, or as far as no secret is cut in two.
    fn copy(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) -> usize {
        let bytes = piece.bytes;
        let end = if piece.open { bytes.len() - OVERLAP } else { bytes.len() };
        if Search::of(bytes).next_from(0).is_none() {
            self.mask_all(&bytes[..end], &[], out);
            return end;
        }
        if let Some(begin) = key::begin(bytes).filter(|begin| begin.start < end) {
            self.mask_all(&bytes[..begin.start], &secrets(&bytes[..begin.start]), out);
            self.mark("private-key", out);
            self.within = Within::Key(Key::default());
            return begin.end;
        }
        let found = secrets(bytes);
        let cut = if piece.open { safe_cut(&found, end) } else { end };
        if let Some(first) = found.first().filter(|_| cut == 0) {
            // One value fills the window: what is here is masked, and what follows dropped until the value ends.
            let (value, ends) = (first.value.clone(), first.ends);
            self.mask_all(&bytes[..value.end], &found[..1], out);
            self.within = Within::Value(ends);
            return value.end;
        }
        let within = &found[..found.partition_point(|secret| secret.value.start < cut)];
        self.mask_all(&bytes[..cut], within, out);
        if !piece.open {
            self.within = goes_on(bytes, within);
        }
        cut
    }

    /// Passes over a private key, keeping its line ends, so that line numbers stay true.
    fn pass_key(&mut self, key: Key, piece: &Piece<'_>, out: &mut Vec<u8>) -> usize {
        let bytes = piece.bytes;
        if let Some(end) = key::end(bytes) {
            out.resize(out.len() + usize::try_from(newlines(&bytes[..end])).unwrap_or_default(), b'\n');
            self.lines += newlines(&bytes[..end]);
            return end;
        }
        if piece.open {
            self.within = Within::Key(key);
            return bytes.len() - OVERLAP;
        }
        let one_line = key == Key::default() && key::is_on_one_line(bytes);
        self.within = match key.after(bytes) {
            _ if one_line => Within::Wrapped(Wrapped::key()),
            Some(key) => Within::Key(key),
            None => Within::Text,
        };
        self.drop_line(bytes, out)
    }

    fn pass_wrapped(&mut self, wrapped: Wrapped, piece: &Piece<'_>, out: &mut Vec<u8>) -> usize {
        let bytes = piece.bytes;
        if let Some(end) = key::end(bytes).filter(|_| wrapped.key && !piece.open) {
            return end;
        }
        // What is known by itself may go on in lines of its own.
        let is_known = key::begin(bytes).is_some() || !secrets(bytes).is_empty();
        match wrapped.takes(bytes).filter(|_| !piece.open && !is_known) {
            Some(next) => {
                self.within = match next {
                    More::Then(wrapped) => Within::Wrapped(wrapped),
                    More::Last => Within::Text,
                };
                self.drop_line(bytes, out)
            }
            None => self.copy(piece, out),
        }
    }

    /// Of a line only its end is given back.
    fn drop_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> usize {
        let ends = newlines(line);
        out.resize(out.len() + usize::try_from(ends).unwrap_or_default(), b'\n');
        self.lines += ends;
        line.len()
    }

    fn mask_all(&mut self, bytes: &[u8], found: &[Secret], out: &mut Vec<u8>) {
        let mut done = 0;
        for secret in found {
            let before = &bytes[done..secret.value.start];
            out.extend_from_slice(before);
            self.lines += newlines(before);
            match &secret.instead {
                Some(instead) => {
                    self.note(secret.kind);
                    out.extend_from_slice(instead);
                }
                None => self.mark(secret.kind, out),
            }
            self.lines += newlines(&bytes[secret.value.clone()]);
            done = secret.value.end;
        }
        out.extend_from_slice(&bytes[done..]);
        self.lines += newlines(&bytes[done..]);
    }

    fn mark(&mut self, kind: &'static str, out: &mut Vec<u8>) {
        self.note(kind);
        out.extend_from_slice(format!("<redacted:{kind}>").as_bytes());
    }

    fn note(&mut self, kind: &'static str) {
        match self.found.iter_mut().find(|noted| noted.kind == kind) {
            Some(noted) => noted.count += 1,
            None => self.found.push(Noted { kind, count: 1, first_line: self.lines + 1 }),
        }
    }
}

/// Masks the secrets in a text that is there as a whole.
pub fn redact(text: &str) -> String {
    String::from_utf8_lossy(&clean(text.as_bytes()).0).into_owned()
}

/// Bytes without secrets, and the kind of the first that was in them.
fn clean(bytes: &[u8]) -> (Vec<u8>, Option<&'static str>) {
    let mut redactor = Redactor::new();
    let mut out = Vec::with_capacity(bytes.len());
    redactor.work(bytes, true, &mut out);
    (out, redactor.found.first().map(|first| first.kind))
}

/// How far lines from `at` on can be copied: to the line with the next word that leads to a secret, or over all whole lines.
fn calm(text: &[u8], at: usize, next: Option<usize>) -> usize {
    let before = &text[at..next.unwrap_or(text.len())];
    memchr::memrchr(b'\n', before).map_or(at, |end| at + end + 1)
}

/// What is worked on at once: a line, an array over several of them, or a window of a line that is too long.
struct Piece<'t> {
    bytes: &'t [u8],
    /// The line goes on behind it.
    open: bool,
}

impl<'t> Piece<'t> {
    /// The first of a text; `None` where more must come to know it. `last`: nothing more comes.
    fn first(text: &'t [u8], last: bool) -> Option<Self> {
        let window = &text[..text.len().min(WINDOW)];
        match memchr::memchr(b'\n', window) {
            Some(end) if opens_array(&window[..end]) => {
                let whole = last || window.len() == WINDOW;
                let length = array_end(window, end + 1, whole).or(whole.then_some(end + 1))?;
                Some(Piece { bytes: &window[..length], open: false })
            }
            Some(end) => Some(Piece { bytes: &window[..=end], open: false }),
            None if window.len() == WINDOW => Some(Piece { bytes: window, open: true }),
            None => last.then_some(Piece { bytes: window, open: false }),
        }
    }
}

/// `"MESSAGE" : [`, as `journalctl -o json-pretty` prints it, a number a line.
fn opens_array(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    [&b"\" : ["[..], b"\": [", b"\":["].iter().any(|opening| line.ends_with(opening))
}

/// Behind the line with the bracket that closes it; the end of the first line that is none of an array of numbers, where
/// that comes first.
fn array_end(text: &[u8], from: usize, whole: bool) -> Option<usize> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_whitespace() || *byte == b',';
    let end = from + text[from..].iter().position(|byte| !is_number(byte))?;
    if text[end] != b']' {
        return Some(from);
    }
    memchr::memchr(b'\n', &text[end..]).map(|newline| end + newline + 1).or(whole.then_some(text.len()))
}

/// A place at or before `wanted` where no secret is cut in two.
fn safe_cut(found: &[Secret], wanted: usize) -> usize {
    found.iter().rev().fold(
        wanted,
        |cut, Secret { whole, .. }| {
            if whole.start < cut && cut < whole.end { whole.start } else { cut }
        },
    )
}

/// What a line's end promises of the next.
fn goes_on(line: &[u8], found: &[Secret]) -> Within {
    if !line.ends_with(b"\n") {
        return Within::Text;
    }
    let wrapped = found.last().and_then(|last| {
        let rest = line.get(last.value.end..).unwrap_or_default();
        let value = line.get(last.value.clone()).unwrap_or_default();
        Wrapped::after(last.kind, value, rest).filter(|_| last.instead.is_none())
    });
    if let Some(wrapped) = wrapped {
        return Within::Wrapped(wrapped);
    }
    let awaited = Awaited::after(line).map(Within::Awaited);
    awaited.or_else(|| Block::after(line).map(Within::Block)).unwrap_or_default()
}

/// Where a value that began before ends; at the end of the line at the latest.
fn end_of_value(bytes: &[u8], ends: Ends) -> Option<usize> {
    let line = memchr::memchr(b'\n', bytes);
    value::end(bytes, ends).into_iter().chain(line).min()
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
