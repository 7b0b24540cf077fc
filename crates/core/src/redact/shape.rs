//! What secrets look like, as data: the files of [`super::kind`] list shapes, this one compiles them and finds them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::{Captures, Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::value::{self, Ends, Value};
use super::{array, encoded, kind, token, url};

/// A secret's shape. In its regex these words stand for: `QUOTE` a quote, however often it was escaped; `IS` what stands
/// between a name and its value; `FOLLOWS` what stands between a flag and its argument; `PAIR` what stands between a name and
/// its value where each is a value itself, `"name": "DB_PASSWORD", "value": "…"`; `NEXT` a part of what stands between an item
/// of a list and the next; `LINE` nothing: where the name is the first of its line, an unquoted value goes on to the line's end.
pub(super) struct Shape {
    pub kind: &'static str,
    /// One of them stands in every line that has it.
    pub words: Words,
    /// What the value is known by, which begins where it ends; or all of it, with the value as the group `s`. The name may
    /// begin before it, or is the group `n`. A quote behind the name is the group `c`.
    pub regex: &'static str,
    pub value: Value,
}

/// Words that lead to a secret.
#[derive(Clone, Copy)]
pub(super) enum Words {
    /// In lower case; people also write them in upper case, or with a capital.
    InAnyCase(&'static [&'static str]),
    AsTheyAre(&'static [&'static str]),
}

impl Words {
    fn words(self) -> &'static [&'static str] {
        let (Words::InAnyCase(words) | Words::AsTheyAre(words)) = self;
        words
    }

    /// As they may be written.
    fn written(self) -> Vec<String> {
        let Words::InAnyCase(words) = self else { return self.words().iter().map(|&word| word.to_owned()).collect() };
        let ways = |word: &&str| [(*word).to_owned(), capital(word), word.to_uppercase()];
        words.iter().flat_map(ways).collect()
    }
}

/// With its first letter as a capital.
fn capital(word: &str) -> String {
    let at = word.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or_default();
    let (before, rest) = word.split_at(at);
    let (first, rest) = rest.split_at(rest.len().min(1));
    format!("{before}{}{rest}", first.to_ascii_uppercase())
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
const FOUND: &[(Words, Find)] = &[
    (encoded::WORDS, encoded::find),
    (array::WORDS, array::find),
    // Found by whoever copies up to one: it may go on in the next line.
    (Words::AsTheyAre(&["PRIVATE KEY"]), |_, _| {}),
];

/// So many words the vector search takes at once and is still fast; it takes 64 at most.
const AT_ONCE: usize = 48;

/// Room for what the set of all shapes learns of a text as it goes. With the two megabytes that are usual it forgets so often that
/// it takes four times as long.
const STATES: usize = 8 << 20;

struct Library {
    /// Each with its regex, once a text holds it.
    shapes: Vec<(&'static Shape, OnceLock<Regex>)>,
    /// Which of them a text holds, in one pass.
    set: RegexSet,
    /// Whether a line has any word at all: each a vector search, several times as fast as one automaton for all of them.
    /// Words that hold another are left out.
    any: Vec<AhoCorasick>,
    /// Which of [`FOUND`] a text leads to.
    found: Vec<AhoCorasick>,
}

#[allow(clippy::expect_used)] // Constants of this module.
fn search<W: AsRef<[u8]>>(words: &[W]) -> AhoCorasick {
    // The vector search is for leftmost matches only.
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(words).expect("constant words")
}

static LIBRARY: LazyLock<Library> = LazyLock::new(Library::new);

#[allow(clippy::expect_used)] // Constants of this module; the tests compile every one.
impl Library {
    fn new() -> Self {
        let shapes = kind::all().map(|shape| (shape, OnceLock::new())).collect();
        let all: Vec<Words> =
            kind::all().map(|shape| shape.words).chain(FOUND.iter().map(|(words, _)| *words)).collect();
        let written: BTreeSet<String> = all.iter().flat_map(|words| words.written()).collect();
        let shortest = |word: &&String| !written.iter().any(|other| other != *word && word.contains(other.as_str()));
        let shortest: Vec<&String> = written.iter().filter(shortest).collect();
        let any = shortest.chunks(AT_ONCE).map(search).collect();
        let found = FOUND.iter().map(|(words, _)| search(words.words())).collect();
        let mut set = RegexSetBuilder::new(kind::all().map(|shape| spelt_out(shape.regex)));
        let set = set.unicode(false).dfa_size_limit(STATES).build();
        Library { shapes, set: set.expect("constant regexes"), any, found }
    }
}

#[allow(clippy::expect_used)] // As above.
pub(super) fn compile(regex: &str) -> Regex {
    RegexBuilder::new(&spelt_out(regex)).unicode(false).build().expect("a constant regex")
}

/// With what its words stand for.
fn spelt_out(regex: &str) -> String {
    regex
        .replace("IS", r"(?P<c>QUOTE)?\s{0,8}(?:=>|:=|[:=])\s{0,8}\[?")
        .replace("FOLLOWS", r"(?:QUOTE\s{0,8},\s{0,8}|QUOTE?(?:\\{1,8}[nrt]|\s{1,40}|-\s){1,6})")
        .replace(
            "PAIR",
            r"(?:QUOTE?\s{0,4},?[\s\\][\s\\nrt]{0,60}QUOTE?|QUOTE?,QUOTE)value(?:QUOTE)?\s{0,8}[:=]\s{0,8}",
        )
        .replace("NEXT", r"(?:\s{1,40}|\\{1,8}[nrt]|QUOTE|[,\[-])")
        .replace("LINE", "(?P<l>)")
        .replace("QUOTE", r#"(?:\\{0,7}["'`])"#)
}

/// Where the next line is that may hold a secret: a place on it, at or after `from`.
pub(super) struct Search<'t> {
    text: &'t [u8],
    words: Vec<Ahead>,
    token: Ahead,
    /// Every URL that holds a secret has an `@` in it; most that logs have do not.
    url: Ahead,
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
        Search {
            text,
            words: vec![Ahead::NotLooked; LIBRARY.any.len()],
            token: Ahead::NotLooked,
            url: Ahead::NotLooked,
        }
    }

    /// `from` never goes back.
    pub(super) fn next_from(&mut self, from: usize) -> Option<usize> {
        let rest = self.text.get(from..)?;
        for (ahead, words) in self.words.iter_mut().zip(&LIBRARY.any) {
            *ahead = ahead.after(from, || words.find(rest).map(|found| found.start()));
        }
        self.token = self.token.after(from, || token::first(rest));
        self.url = self.url.after(from, || memchr::memchr(b'@', rest));
        self.words.iter().chain([&self.token, &self.url]).filter_map(|ahead| ahead.place()).min()
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
    url::find(text, &mut found);
    for (shape, regex) in LIBRARY.set.matches(text).into_iter().filter_map(|place| LIBRARY.shapes.get(place)) {
        shape.find(regex.get_or_init(|| compile(shape.regex)), text, &mut found);
    }
    for ((_, find), words) in FOUND.iter().zip(&LIBRARY.found) {
        if words.is_match(text) {
            find(text, &mut found);
        }
    }
    apart(found)
}

impl Shape {
    fn find(&self, regex: &Regex, text: &[u8], found: &mut Vec<Secret>) {
        let mut from = 0;
        // Groups cost many times what the place of a match does.
        while let Some(place) = regex.find_at(text, from) {
            let captures = regex.captures_at(text, place.start());
            found.extend(captures.and_then(|captures| self.secret(text, &captures)));
            from = place.end().max(from + 1);
        }
    }

    fn secret(&self, text: &[u8], captures: &Captures<'_>) -> Option<Secret> {
        let place = captures.get(0)?.range();
        let (start, value, ends) = if let Some(value) = captures.name("s") {
            (place.start, value.range(), Ends::Word)
        } else {
            let start = name_start(text, place.start);
            let before = text.get(..start)?;
            // `"NAME=value"`: the quote that was opened before the name ends the value.
            let quote = value::within(before).filter(|_| captures.name("c").is_none());
            let line = captures.name("l").filter(|_| is_line_start(before)).map(|_| Ends::Line);
            let (value, ends) = value::at(text, place.end, quote.or(line).unwrap_or(Ends::Word))?;
            (start, value, ends)
        };
        let name = text.get(start..place.end)?;
        let name = name.iter().position(|&byte| !is_name(byte)).map_or(name, |end| &name[..end]);
        let name = captures.name("n").map_or(name, |name| name.as_bytes());
        let quoted = matches!(ends, Ends::Quote { .. });
        let known = Known { name, value: text.get(value.clone())?, after: text.get(value.end..)?, quoted };
        (self.value)(&known).then(|| Secret { ends, ..Secret::new(self.kind, start..value.end, value) })
    }
}

/// A longer name is none.
const LONGEST_NAME: usize = 60;

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}

/// Where a name begins that a part of was found.
fn name_start(text: &[u8], found: usize) -> usize {
    let before = text.get(found.saturating_sub(LONGEST_NAME)..found).unwrap_or_default();
    found - before.iter().rev().take_while(|&&byte| is_name(byte)).count()
}

/// Nothing but what quotes or indents stands before it, or what makes an item of a list or an assignment of it.
fn is_line_start(before: &[u8]) -> bool {
    let near = before.get(before.len().saturating_sub(LONGEST_NAME)..).unwrap_or_default();
    let line = memchr::memrchr(b'\n', near).map_or(near, |end| &near[end + 1..]);
    let line = line.trim_ascii_end();
    let line = line.strip_suffix(b"export").or(line.strip_suffix(b"-")).unwrap_or(line);
    line.iter().all(|byte| byte.is_ascii_whitespace() || *byte == b'>')
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
