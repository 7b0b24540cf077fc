//! What secrets look like, as data: the files of [`super::kind`] list shapes, this one compiles them and finds them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::bytes::{Captures, Regex, RegexBuilder};

use super::value::{self, Ends, Value};
use super::{array, encoded, kind, token, url};

/// A secret's shape. In its regex `QUOTE` stands for a quote, however often it was escaped, `IS` for what stands between a
/// name and its value, `LINE` for the beginning of a line, if it is one, `NEXT` for
/// what is between an item of a list and the next, `FOLLOWS` for all of that after a flag.
pub(super) struct Shape {
    pub kind: &'static str,
    /// One of them stands in every line that has it.
    pub words: Words,
    /// What the value is known by, which begins where it ends; or all of it, with the value as the group `s`. A quote before
    /// the name is the group `o`, one behind it `c`, the name `n`; with the group `l` an unquoted value
    /// goes on to the end of the line.
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

struct Library {
    shapes: Vec<(&'static Shape, Regex)>,
    /// Whether a line has any word at all: each a vector search, several times as fast as one automaton for all of them.
    /// Words that hold another are left out.
    any: Vec<AhoCorasick>,
    /// Which words it has; and for each what it leads to, by its place in `shapes`, after them in [`FOUND`].
    words: AhoCorasick,
    leads: Vec<usize>,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(Library::new);

#[allow(clippy::expect_used)] // Constants of this module; the tests compile every one.
impl Library {
    fn new() -> Self {
        let shapes: Vec<(&Shape, Regex)> = kind::all().map(|shape| (shape, compile(shape.regex))).collect();
        let of_shapes = shapes.iter().map(|(shape, _)| shape.words);
        let all: Vec<Words> = of_shapes.chain(FOUND.iter().map(|(words, _)| *words)).collect();
        let led = all.iter().enumerate().flat_map(|(place, words)| words.words().iter().map(move |word| (place, word)));
        let (leads, words): (Vec<usize>, Vec<&str>) = led.unzip();
        let words = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).ascii_case_insensitive(true).build(words);
        let written: BTreeSet<String> = all.iter().flat_map(|words| words.written()).collect();
        let shortest = |word: &&String| !written.iter().any(|other| other != *word && word.contains(other.as_str()));
        let shortest: Vec<&String> = written.iter().filter(shortest).collect();
        // The vector search is for leftmost matches only.
        let search = |words: &[&String]| AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(words);
        let any = shortest.chunks(AT_ONCE).map(|words| search(words).expect("constant words")).collect();
        Library { shapes, any, words: words.expect("constant words"), leads }
    }
}

#[allow(clippy::expect_used)] // As above.
pub(super) fn compile(regex: &str) -> Regex {
    let regex = regex
        .replace("IS", r"(?P<c>QUOTE)?\s{0,40}(?:=>|:=|[:=])\s{0,40}\[?")
        .replace("FOLLOWS", r"(?:QUOTE\s{0,40},\s{0,40}|QUOTE?(?:\\{1,8}[nrt]|\s|-\s){1,40})")
        .replace("NEXT", r"(?:\s|\\{1,8}[nrt]|QUOTE|[,\[-])")
        .replace("LINE", r"(?P<l>(?:^|\n)[\s>]{0,40}(?:-\s{1,4})?(?:export\s{1,4})?)?")
        .replace("QUOTE", r#"(?:\\{0,7}["'`])"#);
    RegexBuilder::new(&regex).unicode(false).build().expect("a constant regex")
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
        Search { text, words: vec![Ahead::NotLooked; LIBRARY.any.len()], token: Ahead::NotLooked, url: Ahead::NotLooked }
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
