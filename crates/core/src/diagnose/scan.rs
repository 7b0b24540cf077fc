//! Looks for signatures in text of any size, as it comes, in constant memory.
//!
//! One pass of Aho–Corasick over the raw bytes finds the few lines that hold a literal; only those are read, and only
//! there do regular expressions run. What a line says is kept a few times, and counted for the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use jiff::Timestamp;
use memchr::{memchr, memchr_iter, memrchr};

use super::last_words;
use super::line::{self, HostTimeZones, Line};
use super::names::MachineNames;
use super::past::pod_of;
use super::paste;
use super::segment::{Segment, Segmenter};
use super::unrecognised::Unrecognised;
use crate::redact::{Redactor, redact};
use crate::report::UnrecognisedError;
use crate::shown;
use crate::signature::{Library, Severity, Signature};

/// A longer line is read in pieces: a JSON document on one line may have gigabytes.
const LONGEST_LINE: usize = 64 << 10;
/// How much of a line is shown, in characters: three lines of a terminal. A kubelet's lines have up to thousands.
const LONGEST_QUOTE: usize = 200;
/// How much of that is the line's end, where something between is left out.
const END: usize = 80;
/// How many of a signature's first lines are quoted, beside the last; the rest is counted.
const QUOTED: usize = 2;
/// A line is noted as it is up to this length, so that [`MOST_SIGHTINGS`] notes are bounded; a longer one is quoted at once.
const LONGEST_NOTE: usize = 4 << 10;
/// What is told apart: signatures on nodes. A text that names nodes without end gets no more than this.
const MOST_SIGHTINGS: usize = 4096;
/// Names of machines that are told apart: more than that is no capture of one join.
const MOST_HOSTS: usize = 256;
/// Pods of a signature that are told apart: a node has 110.
const MOST_PODS: usize = 128;
/// Whose log it is shows in its first lines; after these, one line in every piece of input is looked at.
const LINES_LOOKED_AT: u64 = 2000;

/// A line in which a signature was recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    pub source: String,
    /// From 1.
    pub line: u64,
    /// Of the line's first byte.
    pub offset: u64,
    /// Fit to be shown: secrets and control characters taken out, cut to a length.
    pub text: String,
    pub at: Option<Timestamp>,
    pub program: Option<String>,
    /// The signature's cause and remedies with the captures of this line in them.
    pub why: String,
    pub remedy: Vec<String>,
}

/// Everything seen of one signature on one node.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// Its place in the [`Library`].
    pub signature: usize,
    /// The node the lines speak of, where they say.
    pub node: Option<String>,
    pub count: u64,
    /// The first ones and the last.
    pub hits: Vec<Hit>,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// Of a warning: it stands on a line that reports an error.
    pub(super) failing: bool,
    /// The pods that are spoken of, by their names, and when last.
    pub(super) pods: BTreeMap<String, Moment>,
    /// Some lines name no pod, or more are named than are told apart.
    pub(super) of_other_pods: bool,
}

/// When something was said, or where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub at: Option<Timestamp>,
    pub source: String,
    pub line: u64,
}

impl Moment {
    /// By time; in one text without times by its place. Otherwise nobody can say.
    pub(super) fn comes_after(&self, other: &Moment) -> bool {
        match (self.at, other.at) {
            (Some(own), Some(other)) => own >= other,
            _ => self.source == other.source && self.line >= other.line,
        }
    }
}

/// What a text holds.
#[derive(Clone, Debug, Default)]
pub struct ScanResult {
    pub sightings: Vec<Sighting>,
    /// How many of the lines that were looked at each machine wrote.
    pub hosts: BTreeMap<String, u64>,
    /// Which names are one machine's.
    pub(super) names: MachineNames,
    pub segments: Vec<(String, Segment)>,
    /// What reads like an error and no signature knows.
    pub unrecognised: Vec<UnrecognisedError>,
    pub bytes: u64,
    pub lines: u64,
}

pub struct Scan<'l> {
    library: &'l Library,
    now: Timestamp,
    source: String,
    /// Of a text that somebody may have pasted: what came so far, while that is little enough to be put right as a whole.
    pasted: Option<Vec<u8>>,
    /// The beginning of a line whose end has not come yet.
    carry: Vec<u8>,
    /// Of a line that is read in pieces: what it is read through, so that no piece ends within a secret.
    long: Option<LongLine>,
    segmenter: Option<Segmenter>,
    /// In this source, before what is being read.
    line: u64,
    offset: u64,
    seen: ScanResult,
    unrecognised: Unrecognised,
    tracked: Vec<Tracked>,
    places: BTreeMap<(usize, Option<String>), usize>,
    /// What the machines' clocks on the wall are ahead of UTC.
    clock: HostTimeZones,
}

impl<'l> Scan<'l> {
    /// `now` gives the year to times that have none.
    pub fn new(library: &'l Library, now: Timestamp) -> Self {
        Scan {
            library,
            now,
            source: String::new(),
            pasted: None,
            carry: Vec::new(),
            long: None,
            segmenter: None,
            line: 1,
            offset: 0,
            seen: ScanResult::default(),
            unrecognised: Unrecognised::default(),
            tracked: Vec::new(),
            places: BTreeMap::new(),
            clock: HostTimeZones::default(),
        }
    }

    /// From here on the text is another source's. A text that may hold several things after one another is cut into facts.
    pub fn begin(&mut self, source: &str, cut: bool) {
        self.end();
        source.clone_into(&mut self.source);
        self.segmenter = cut.then(|| Segmenter::named(source));
        self.pasted = cut.then(Vec::new);
        (self.line, self.offset) = (1, 0);
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.seen.bytes += bytes.len() as u64;
        let Some(pasted) = &mut self.pasted else { return self.take(bytes) };
        pasted.extend_from_slice(bytes);
        if pasted.len() > paste::LARGEST
            && let Some(pasted) = self.pasted.take()
        {
            self.take(&pasted);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if !self.carry.is_empty() || self.long.is_some() {
            let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            rest = self.carry_on(bytes, end);
        }
        let whole = memrchr(b'\n', rest).map_or(0, |at| at + 1);
        let (lines, open) = rest.split_at(whole);
        self.read(lines);
        self.carry_on(open, open.len());
    }

    /// Adds to the open line, reading it in pieces where it gets too long, and to its end where that comes.
    fn carry_on<'b>(&mut self, bytes: &'b [u8], until: usize) -> &'b [u8] {
        let (open, rest) = bytes.split_at(until);
        for piece in open.chunks(LONGEST_LINE) {
            let ended = piece.last() == Some(&b'\n');
            match &mut self.long {
                Some(long) => self.carry.extend(long.push(piece)),
                None => self.carry.extend_from_slice(piece),
            }
            if !ended && self.long.is_none() && self.carry.len() >= LONGEST_LINE {
                let mut long = LongLine::default();
                self.carry = long.push(&std::mem::take(&mut self.carry));
                self.long = Some(long);
            }
            if ended {
                self.end_line();
            } else if self.carry.len() >= LONGEST_LINE {
                let mut carry = std::mem::take(&mut self.carry);
                let cut = end_of_piece(&carry);
                self.read(&carry[..cut]);
                carry.drain(..cut);
                self.carry = carry;
            }
        }
        rest
    }

    /// Reads what is left of a line.
    fn end_line(&mut self) {
        let mut last = std::mem::take(&mut self.carry);
        let shorter = self.long.take().map_or(0, |long| long.finish(&mut last));
        self.read(&last);
        self.offset = self.offset.saturating_add_signed(shorter);
    }

    fn end(&mut self) {
        if let Some(pasted) = self.pasted.take() {
            match std::str::from_utf8(&pasted) {
                Ok(text) => self.take(paste::restored(text).as_bytes()),
                Err(_) => self.take(&pasted),
            }
        }
        if self.long.is_some() {
            self.end_line();
            self.seen.lines += 1;
        }
        let last = std::mem::take(&mut self.carry);
        if !last.is_empty() {
            self.read(&last);
            self.seen.lines += 1;
        }
        if let Some(segmenter) = self.segmenter.take() {
            let source = self.source.clone();
            self.seen.segments.extend(segmenter.finish().into_iter().map(|segment| (source.clone(), segment)));
        }
    }

    /// What was seen by now, for who goes on reading; whole lines only.
    pub fn so_far(&self) -> Vec<Sighting> {
        self.tracked.iter().cloned().map(|tracked| tracked.finish(self.library)).collect()
    }

    pub fn finish(mut self) -> ScanResult {
        self.end();
        let sightings = self.tracked.into_iter().map(|tracked| tracked.finish(self.library)).collect();
        ScanResult { sightings, unrecognised: self.unrecognised.finish(), ..self.seen }
    }

    /// A piece of text that ends at a line's end, or within a line that is too long.
    fn read(&mut self, text: &[u8]) {
        self.cut(text);
        self.look_for_hosts(text);
        let mut search = self.library.finder().search(text);
        let (mut at, mut number) = (0, self.line);
        while let Some(found) = search.next_from(at) {
            let (start, end) = line_around(text, found);
            self.sift(text, at..start, number);
            number += memchr_iter(b'\n', &text[at..start]).count() as u64;
            self.read_line(text, start..end, number);
            at = end;
        }
        self.sift(text, at..text.len(), number);
        number += memchr_iter(b'\n', &text[at..]).count() as u64;
        self.seen.lines += number - self.line;
        self.line = number;
        self.offset += text.len() as u64;
    }

    fn cut(&mut self, text: &[u8]) {
        let Some(segmenter) = self.segmenter.as_mut().filter(|segmenter| !segmenter.is_full()) else { return };
        for (number, line) in (self.line..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
            segmenter.push(number, line.strip_suffix(b"\n").unwrap_or(line));
        }
    }

    /// Which machines wrote this, and in which zone.
    fn look_for_hosts(&mut self, text: &[u8]) {
        let looked_at = if self.line < LINES_LOOKED_AT { usize::MAX } else { 1 };
        let mut start = 0;
        for end in memchr_iter(b'\n', text).take(looked_at) {
            for line in line::read(text, start..end, self.now) {
                self.clock.learn(&line);
                self.seen.names.learn(&line.text);
                self.seen.count_host(line.host);
            }
            start = end + 1;
        }
    }

    fn read_line(&mut self, text: &[u8], place: Range<usize>, number: u64) {
        let library = self.library;
        let offset = self.offset + place.start as u64;
        for line in line::read(text, place, self.now).into_iter().filter(|line| !line.narrated) {
            let mut recognised = self.recognise(&line);
            if Unrecognised::looks_at(offset) {
                // How far the machine was is all that a sign tells.
                if recognised.iter().all(|&n| library.get(n).severity == Severity::Sign) {
                    self.unrecognised.push(&self.source, number, &line);
                }
                recognised.extend(library.last_words(&line.text, &recognised));
            }
            for signature in recognised {
                self.note(signature, &line, number, offset);
            }
        }
    }

    /// Lines that hold no literal: those that read like an error are kept.
    fn sift(&mut self, text: &[u8], place: Range<usize>, first: u64) {
        if place.is_empty() || !Unrecognised::looks_at(self.offset + place.start as u64) {
            return;
        }
        let (mut start, mut number) = (place.start, first);
        for line in text[place].split_inclusive(|&byte| byte == b'\n') {
            let end = start + line.strip_suffix(b"\n").unwrap_or(line).len();
            if start < end && Unrecognised::may_be_one(&text[start..end]) {
                self.sift_line(text, start..end, number);
            }
            number += u64::from(line.ends_with(b"\n"));
            start += line.len();
        }
    }

    /// The signatures of a line; of one that was cut, those of what can only have stood there.
    fn recognise(&self, line: &Line) -> Vec<usize> {
        let recognised = self.library.recognise(&line.text);
        let says_nothing = recognised.iter().all(|&n| self.library.get(n).severity == Severity::Sign);
        let completed = says_nothing.then(|| self.library.completed(&line.text)).flatten();
        completed.map_or(recognised, |line| self.library.recognise(&line))
    }

    fn sift_line(&mut self, text: &[u8], place: Range<usize>, number: u64) {
        let offset = self.offset + place.start as u64;
        for line in line::read(text, place, self.now).into_iter().filter(|line| !line.narrated) {
            let mut recognised = self.recognise(&line);
            if recognised.is_empty() && self.unrecognised.push(&self.source, number, &line) {
                recognised.extend(self.library.last_words(&line.text, &[]));
            }
            for signature in recognised {
                self.note(signature, &line, number, offset);
            }
        }
    }

    fn note(&mut self, signature: usize, line: &Line, number: u64, offset: u64) {
        let node = self.library.node(signature, &line.text).or(line.host.as_deref());
        let at = line.at.map(|at| self.clock.utc(line.host.as_deref(), at, line.zoned));
        let sighting = self.sighting(signature, node.map(str::to_owned));
        let moment = Moment { at, source: self.source.clone(), line: number };
        if let Some(Tracked { sighting, .. }) = self.tracked.get_mut(sighting) {
            let is_warning = self.library.get(signature).severity == Severity::Warning;
            sighting.failing |= is_warning && !sighting.failing && Unrecognised::is_error(&line.text);
            sighting.name_pod(line.pod.clone().or_else(|| pod_of(&line.text)), moment);
        }
        self.see(sighting, line, Place { line: number, offset, at });
    }

    /// Counts a line, and keeps it where it is among the first. The last is only known at the end: each is noted, and the
    /// work of quoting is left for then.
    fn see(&mut self, n: usize, line: &Line, place: Place) {
        let Some(Tracked { sighting, last }) = self.tracked.get_mut(n) else { return };
        sighting.count(place.at);
        sighting.hits.truncate(QUOTED);
        last.text.clear();
        if sighting.hits.len() == QUOTED && line.text.len() <= LONGEST_NOTE {
            last.source.clone_from(&self.source);
            last.text.push_str(&line.text);
            last.program = line.program.as_deref().map(str::to_owned);
            last.place = place;
        } else {
            let note = Note {
                source: self.source.clone(),
                text: line.text.clone().into_owned(),
                program: line.program.as_deref().map(str::to_owned),
                place,
            };
            sighting.hits.push(note.hit(self.library, sighting.signature));
        }
    }

    /// The place of what is seen of a signature on a node.
    fn sighting(&mut self, signature: usize, node: Option<String>) -> usize {
        let tracked = &mut self.tracked;
        let node = node.filter(|_| tracked.len() < MOST_SIGHTINGS);
        *self.places.entry((signature, node.clone())).or_insert_with(|| {
            let sighting = Sighting {
                signature,
                node,
                count: 0,
                hits: Vec::new(),
                first: None,
                last: None,
                failing: false,
                pods: BTreeMap::new(),
                of_other_pods: false,
            };
            tracked.push(Tracked { sighting, last: Note::default() });
            tracked.len() - 1
        })
    }
}

/// Where and when a line was.
#[derive(Clone, Copy, Default)]
struct Place {
    line: u64,
    offset: u64,
    at: Option<Timestamp>,
}

/// What is seen of a signature on a node, and the last line where that is not among the hits yet.
#[derive(Clone)]
struct Tracked {
    sighting: Sighting,
    last: Note,
}

impl Tracked {
    fn finish(mut self, library: &Library) -> Sighting {
        let last = Some(self.last).filter(|last| !last.text.is_empty());
        self.sighting.hits.extend(last.map(|last| last.hit(library, self.sighting.signature)));
        self.sighting.hits.iter_mut().for_each(Hit::clean);
        self.sighting
    }
}

/// What a line that is too long is read through.
#[derive(Default)]
struct LongLine {
    redactor: Redactor,
    /// How many bytes the text is shorter than the line was; longer, where it is negative.
    shorter: i64,
}

impl LongLine {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let clean = self.redactor.push(bytes);
        self.shorter += difference(bytes.len(), clean.len());
        clean
    }

    /// Adds the rest; how many bytes there are less than there were.
    fn finish(self, to: &mut Vec<u8>) -> i64 {
        let (rest, _) = self.redactor.finish();
        to.extend_from_slice(&rest);
        self.shorter - difference(rest.len(), 0)
    }
}

fn difference(more: usize, less: usize) -> i64 {
    i64::try_from(more).unwrap_or(i64::MAX) - i64::try_from(less).unwrap_or(i64::MAX)
}

/// A line as it was read: what is needed to make a hit of it. Empty where there is none.
#[derive(Clone, Default)]
struct Note {
    source: String,
    text: String,
    program: Option<String>,
    place: Place,
}

impl Note {
    /// Secrets are taken out of the whole line, before anything is taken from it: half a secret is not known for one.
    fn hit(self, library: &Library, signature: usize) -> Hit {
        let Note { source, text, program, place: Place { line, offset, at } } = self;
        let text = redact(&text);
        let (known, remedy) = (library.get(signature), library.remedy(signature, &text));
        let (why, found) = match library.take(signature, &text) {
            // What it means nobody knows: the words are the program's own.
            Some(taken) if known.last_words => (last_words::said(taken.named("words").unwrap_or(&text)), taken.range()),
            Some(taken) => (Signature::filled(&known.cause, &taken), taken.range()),
            // It was known by what is a secret, or was cut off.
            None => (Signature::open(&known.cause), 0..0),
        };
        Hit { source, line, offset, text: quote(&text, found), at, program, why, remedy }
    }
}

impl ScanResult {
    fn count_host(&mut self, host: Option<Cow<str>>) {
        let Some(host) = host else { return };
        if let Some(count) = self.hosts.get_mut(host.as_ref()) {
            *count += 1;
        } else if self.hosts.len() < MOST_HOSTS {
            self.hosts.insert(host.into_owned(), 1);
        }
    }
}

impl Sighting {
    fn name_pod(&mut self, pod: Option<String>, moment: Moment) {
        // A pod is the same under its full name: what is random in it is enough.
        let pod = pod.map(|pod| pod.rsplit('/').next().unwrap_or(&pod).to_owned());
        match pod.filter(|pod| self.pods.len() < MOST_PODS || self.pods.contains_key(pod)) {
            Some(pod) => drop(self.pods.insert(pod, moment)),
            None => self.of_other_pods = true,
        }
    }

    fn count(&mut self, at: Option<Timestamp>) {
        self.count += 1;
        self.first = self.first.min(at).or(self.first).or(at);
        self.last = self.last.max(at);
    }
}

impl Hit {
    /// Makes it fit to be shown to anybody.
    fn clean(&mut self) {
        let Hit { source: _, line: _, offset: _, text, at: _, program, why, remedy } = self;
        for said in [text, why].into_iter().chain(program).chain(remedy) {
            *said = shown::in_line(&redact(said));
        }
    }
}

/// A line, cut around what was recognised in it where it is too long.
fn quote(text: &str, found: Range<usize>) -> String {
    let letters = text.chars().count();
    if letters <= LONGEST_QUOTE {
        return text.trim().to_owned();
    }
    let before = |at: usize| text.get(..at).map_or(0, |before| before.chars().count());
    let (from, to) = (before(found.start), before(found.end));
    let spare = (LONGEST_QUOTE - END).saturating_sub(to - from);
    let start = from.saturating_sub(spare / 2).min(letters - LONGEST_QUOTE);
    let head = if start > 0 { "…" } else { "" };
    if start + LONGEST_QUOTE >= letters {
        return format!("{head}{}", text.chars().skip(start).collect::<String>().trim());
    }
    // The reason stands at the end of a long error.
    let cut: String = text.chars().skip(start).take(LONGEST_QUOTE - END).collect();
    let end: String = text.chars().skip(letters - END).collect();
    format!("{head}{}…{}", cut.trim(), end.trim())
}

/// A line in which nothing was recognised: its beginning, and its end.
pub(super) fn quote_end(text: &str) -> String {
    quote(text, 0..0)
}

/// Where a line that is too long is cut: at the end of a line escaped into it, so that none is torn.
fn end_of_piece(text: &[u8]) -> usize {
    let cut = text.windows(2).rposition(|pair| pair == b"\\n").map_or(0, |at| at + 2);
    if cut > 0 { cut } else { text.len() }
}

fn line_around(text: &[u8], at: usize) -> (usize, usize) {
    let start = memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
    let end = memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NOW;
    use crate::testing::secret::{KINDS, Plant, pieces_found, plant_one};
    use proptest::prelude::*;

    const KNOWN: &str = "failed to run Kubelet: running with swap on is not supported";

    fn scanned(text: &str, chunk: usize) -> ScanResult {
        let library = Library::built_in().unwrap();
        let mut scan = Scan::new(&library, NOW);
        scan.begin("journal", false);
        text.as_bytes().chunks(chunk).for_each(|chunk| scan.push(chunk));
        scan.finish()
    }

    fn shown(seen: &ScanResult) -> String {
        let hits = seen.sightings.iter().flat_map(|sighting| &sighting.hits);
        hits.map(|hit| format!("{}\n{}\n{}\n", hit.text, hit.why, hit.remedy.join("\n"))).collect()
    }

    /// A kind that is known within one line, and does not need the line's beginning or end.
    fn in_a_line() -> impl Strategy<Value = Plant> {
        let alone = |(name, _): &&crate::testing::secret::SecretKind| {
            !["any length", "words", "RKE2"].iter().any(|it| name.contains(it))
        };
        let kinds: Vec<_> = KINDS.iter().filter(alone).map(|kind| plant_one(kind, "journal")).collect();
        let kinds: Vec<_> =
            kinds.into_iter().filter(|plant| !plant.text.contains('\n')).map(|it| (it.text, it.secrets)).collect();
        prop::sample::select(kinds).prop_map(|(text, secrets)| Plant { text, secrets })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// A quote has 200 letters: wherever it begins and ends, no part of a secret is in it.
        #[test]
        fn a_quote_holds_no_part_of_a_secret(plant in in_a_line(), between in 0usize..260, first: bool) {
            let (space, secret) = ("x ".repeat(between / 2), &plant.text);
            let line = if first { format!("{secret} {space}{KNOWN}\n") } else { format!("{KNOWN} {space}{secret}\n") };
            let line = line + &"y ".repeat(150);
            let seen = scanned(&line, line.len());
            prop_assert!(first || seen.sightings.len() == 1);
            prop_assert_eq!(pieces_found(shown(&seen).as_bytes(), &plant.secrets), Vec::<String>::new());
        }

        /// A line that is too long is read in pieces; none of them ends within a secret.
        #[test]
        fn a_piece_of_a_long_line_holds_no_part_of_a_secret(
            plant in in_a_line(),
            before in LONGEST_LINE - 600..LONGEST_LINE + 200,
            chunk in prop::sample::select(vec![1000usize, 4096, LONGEST_LINE, 1 << 20]),
        ) {
            let line = format!("{} {KNOWN} {} {}\nlast\n", "x".repeat(before), plant.text, "z ".repeat(LONGEST_LINE));
            let seen = scanned(&line, chunk);
            prop_assert_eq!(pieces_found(shown(&seen).as_bytes(), &plant.secrets), Vec::<String>::new());
            prop_assert_eq!((seen.lines, seen.bytes), (2, line.len() as u64));
        }
    }

    #[test]
    fn the_place_of_a_line_behind_a_long_one_is_its_own() {
        let long =
            format!("{} --token abcdef.0123456789abcdef {}\n", "x".repeat(LONGEST_LINE), "y".repeat(LONGEST_LINE));
        for chunk in [1000, 1 << 20] {
            let seen = scanned(&format!("{long}{KNOWN}\n"), chunk);
            let hit = &seen.sightings[0].hits[0];
            assert_eq!((hit.line, hit.offset), (2, long.len() as u64));
        }
    }
}
