//! What secrets look like, as data: the files of [`super::kind`] list shapes, this one compiles them and finds them.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Captures, Regex, RegexBuilder};

use super::value::{self, Ends, Value};
use super::{array, encoded, kind, token, url};

/// A secret's shape. In its regex `QUOTE` stands for a quote, however often it was escaped, `IS` for what stands between a
/// name and its value.
pub(super) struct Shape {
    pub kind: &'static str,
    /// One of them stands in every line that has it, in any case.
    pub words: &'static [&'static str],
    /// What the value is known by, which begins where it ends; or all of it, with the value as the group `s`. A quote before
    /// the name is the group `o`, one behind it `c`, the name `n`; with the group `l` an unquoted value
    /// goes on to the end of the line.
    pub regex: &'static str,
    pub value: Value,
}

/// A secret in a text.
pub(super) struct Secret {
    pub kind: &'static str,
    /// With the words it was known by.
    pub whole: Range<usize>,
    pub value: Range<usize>,
    /// Where it goes on to, should the text end before it does.
    pub ends: Ends,
    /// What stands in its place where that is not the kind.
    pub instead: Option<Vec<u8>>,
}

impl Secret {
    pub(super) fn new(kind: &'static str, whole: Range<usize>, value: Range<usize>) -> Self {
        Secret { kind, whole, value, ends: Ends::Word, instead: None }
    }
}

/// How a shape that is no regex is found.
type Find = fn(&[u8], &mut Vec<Secret>);

/// Shapes that take more than a regex, and the words that lead to them.
const FOUND: &[(&[&str], Find)] = &[
    (&["://"], url::find),
    (encoded::WORDS, encoded::find),
    (array::WORDS, array::find),
    // Found by whoever copies up to one: it may go on in the next line.
    (&["PRIVATE KEY"], |_, _| {}),
];

struct Library {
    shapes: Vec<(&'static Shape, Regex)>,
    /// The words of all, in any case; and for each what it leads to, by its place in `shapes`, after them in [`FOUND`].
    words: AhoCorasick,
    leads: Vec<usize>,
}

#[allow(clippy::expect_used)] // Constants of this module; the tests compile every one.
static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let shapes: Vec<(&Shape, Regex)> = kind::all().map(|shape| (shape, compile(shape.regex))).collect();
    let of_shapes = shapes.iter().map(|(shape, _)| shape.words);
    let mut words: Vec<&str> = Vec::new();
    let mut leads = Vec::new();
    for (place, of_one) in of_shapes.chain(FOUND.iter().map(|(words, _)| *words)).enumerate() {
        words.extend(of_one);
        leads.extend(of_one.iter().map(|_| place));
    }
    // The table of states costs some hundred kilobytes and is walked once for every byte: nothing else is as fast.
    let words = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).ascii_case_insensitive(true).build(words);
    Library { shapes, words: words.expect("constant words"), leads }
});

#[allow(clippy::expect_used)] // As above.
pub(super) fn compile(regex: &str) -> Regex {
    let regex = regex
        .replace("IS", r"(?P<c>QUOTE)?\s{0,40}(?:=>|:=|[:=])\s{0,40}\[?")
        .replace("QUOTE", r#"(?:\\{0,7}["'`])"#);
    RegexBuilder::new(&regex).unicode(false).build().expect("a constant regex")
}

/// Where the next line is that may hold a secret: a place on it, at or after `from`.
pub(super) struct Search<'t> {
    text: &'t [u8],
    word: Ahead,
    token: Ahead,
}

/// What is known of the text ahead.
#[derive(Clone, Copy)]
enum Ahead {
    NotLooked,
    At(usize),
    Nothing,
}

impl<'t> Search<'t> {
    pub(super) fn of(text: &'t [u8]) -> Self {
        Search { text, word: Ahead::NotLooked, token: Ahead::NotLooked }
    }

    /// `from` never goes back.
    pub(super) fn next_from(&mut self, from: usize) -> Option<usize> {
        let rest = self.text.get(from..)?;
        self.word = self.word.after(from, || LIBRARY.words.find(rest).map(|found| found.start()));
        self.token = self.token.after(from, || token::first(rest));
        self.word.place().into_iter().chain(self.token.place()).min()
    }
}

impl Ahead {
    fn after(self, from: usize, look: impl FnOnce() -> Option<usize>) -> Ahead {
        match self {
            Ahead::Nothing => Ahead::Nothing,
            Ahead::At(at) if at >= from => self,
            Ahead::At(_) | Ahead::NotLooked => look().map_or(Ahead::Nothing, |at| Ahead::At(from + at)),
        }
    }

    fn place(self) -> Option<usize> {
        match self {
            Ahead::At(at) => Some(at),
            Ahead::NotLooked | Ahead::Nothing => None,
        }
    }
}

/// The secrets of a text, in order of place; none overlaps another.
pub(super) fn secrets(text: &[u8]) -> Vec<Secret> {
    let mut found = Vec::new();
    token::find(text, &mut found);
    for place in led_to(text) {
        match LIBRARY.shapes.get(place) {
            Some((shape, regex)) => {
                found.extend(regex.captures_iter(text).filter_map(|captures| shape.secret(text, &captures)));
            }
            None => {
                if let Some((_, find)) = FOUND.get(place - LIBRARY.shapes.len()) {
                    find(text, &mut found);
                }
            }
        }
    }
    apart(found)
}

/// The shapes whose words the text has.
fn led_to(text: &[u8]) -> Vec<usize> {
    let mut places: Vec<usize> = Vec::new();
    for word in LIBRARY.words.find_overlapping_iter(text) {
        let place = LIBRARY.leads.get(word.pattern().as_usize()).copied().unwrap_or_default();
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_unstable();
    places
}

impl Shape {
    fn secret(&self, text: &[u8], captures: &Captures<'_>) -> Option<Secret> {
        let whole = captures.get(0)?.range();
        let name = captures.name("n").map(|name| name.as_bytes()).unwrap_or_default();
        let (value, ends) = match captures.name("s") {
            Some(value) => (value.range(), Ends::Word),
            None => {
                // `"NAME=value"`: the quote that was opened before the name ends the value.
                let quote = captures.name("o").filter(|_| captures.name("c").is_none());
                let line = captures.name("l").map(|_| Ends::Line);
                let around = quote.and_then(|quote| value::within(quote.as_bytes())).or(line);
                value::at(text, whole.end, around.unwrap_or(Ends::Word))?
            }
        };
        let alone = Known { name, value: text.get(value.clone())?, after: text.get(value.end..)?, quoted: matches!(ends, Ends::Quote { .. }) };
        (self.value)(&alone).then(|| Secret { ends, ..Secret::new(self.kind, whole.start..value.end, value) })
    }
}

/// What is known of a value.
pub(super) struct Known<'t> {
    pub name: &'t [u8],
    pub value: &'t [u8],
    /// The rest of the text.
    pub after: &'t [u8],
    pub quoted: bool,
}

/// In order of place; what overlaps is one, under the name of the first.
fn apart(mut found: Vec<Secret>) -> Vec<Secret> {
    found.sort_by_key(|secret| (secret.value.start, std::cmp::Reverse(secret.value.end)));
    let mut apart: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match apart.last_mut().filter(|last| secret.value.start < last.value.end) {
            Some(last) => {
                last.whole.start = last.whole.start.min(secret.whole.start);
                last.whole.end = last.whole.end.max(secret.whole.end);
                if secret.value.end > last.value.end {
                    (last.value.end, last.ends) = (secret.value.end, secret.ends);
                }
            }
            None => apart.push(secret),
        }
    }
    apart
}
