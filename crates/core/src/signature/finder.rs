//! Finds the literals of all signatures in raw text, at more than a gigabyte a second.
//!
//! An automaton over hundreds of literals has a table larger than the processor's caches, and waits for memory at every
//! byte; `aho-corasick`'s vector search waits for nothing, but takes 64 literals at most. So it gets the few short ones,
//! and the long ones are looked for by samples: of any [`WINDOW`] bytes one [`BLOCK`] begins at a multiple of [`STRIDE`],
//! so that only blocks at multiples of it need be looked at. A filter that fits into the first cache tells nearly all of
//! them to be in no literal; for the rest, the literals that hold the block are compared with the text.

use aho_corasick::{AhoCorasick, BuildError, MatchKind};

/// What is looked at at once: a word of the processor. Few words of a log have eight letters in common with another.
const BLOCK: usize = 8;
/// How far apart blocks are looked at: half a block. Were it more, the vector search would get more literals than it is
/// fast with.
const STRIDE: usize = BLOCK / 2;
/// What a literal has at least to be found by samples: a block wherever among the strides it begins.
const WINDOW: usize = BLOCK + STRIDE - 1;
/// So many blocks are held against the filter before what it says is looked at: one branch for all of them.
const GROUP: usize = 8;
/// The filter has two to this many bits: 16 KiB, half a first cache. A test holds what the built-in literals set of it to a twentieth.
const FILTER_BITS: u32 = 17;
/// Blocks are told apart by fewer bits of the same hash where the literals that hold one are listed: of a thousand literals, half a
/// block in each bucket.
const BUCKET_BITS: u32 = 13;

pub struct Finder {
    short: AhoCorasick,
    long: Samples,
}

impl Finder {
    /// `lines` are examples of what the texts hold: what they often have leads to no literal in particular.
    pub fn new<'a>(
        literals: impl IntoIterator<Item = &'a str>,
        lines: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, BuildError> {
        let literals = literals.into_iter().map(str::as_bytes).filter(|literal| !literal.is_empty());
        let (long, short): (Vec<&[u8]>, Vec<&[u8]>) = literals.partition(|literal| literal.len() >= WINDOW);
        // The vector search is for leftmost matches only.
        let short = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(short)?;
        Ok(Finder { short, long: Samples::new(&long, lines) })
    }

    pub fn is_match(&self, text: &[u8]) -> bool {
        self.search(text).next_from(0).is_some()
    }

    /// Goes through a text, from one place that is asked for to the next.
    pub fn search<'s>(&'s self, text: &'s [u8]) -> Search<'s> {
        Search { finder: self, text, short: Ahead::NotLooked, long: Ahead::NotLooked }
    }
}

pub struct Search<'s> {
    finder: &'s Finder,
    text: &'s [u8],
    short: Ahead,
    long: Ahead,
}

/// What is known of the text ahead: where the next literal of a kind begins.
#[derive(Clone, Copy)]
enum Ahead {
    NotLooked,
    At(usize),
    Nothing,
}

impl Search<'_> {
    /// Where a literal begins at or after `from`: one on the first line that has any. `from` never goes back, and lies
    /// within no literal.
    pub fn next_from(&mut self, from: usize) -> Option<usize> {
        let Finder { short, long } = self.finder;
        let rest = self.text.get(from..)?;
        self.short = self.short.after(from, || short.find(rest).map(|found| found.start()));
        self.long = self.long.after(from, || long.find(rest));
        self.short.place().into_iter().chain(self.long.place()).min()
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

/// Literals of at least [`WINDOW`] bytes.
struct Samples {
    literals: Vec<Box<[u8]>>,
    /// A bit for each hash that a block of a literal has.
    filter: Box<[u64; 1 << (FILTER_BITS - 6)]>,
    /// Where in `places` those of a bucket begin, and after the last one, where they end.
    buckets: Vec<usize>,
    places: Vec<Place>,
}

/// A block in a literal.
struct Place {
    block: u64,
    literal: usize,
    offset: usize,
}

impl Samples {
    fn new<'a>(literals: &[&[u8]], lines: impl IntoIterator<Item = &'a str>) -> Self {
        // Of hashes, not of blocks: what only looks like a frequent block to the filter is as bad.
        let mut frequency = vec![0_u32; 1 << FILTER_BITS];
        for (_, block) in lines.into_iter().flat_map(|line| blocks(line.as_bytes())) {
            frequency[hash(block)] += 1;
        }
        let mut places: Vec<Place> = Vec::with_capacity(literals.len() * STRIDE);
        for (literal, text) in literals.iter().enumerate() {
            let telling = blocks(text).skip(most_telling(text, &frequency)).take(STRIDE);
            places.extend(telling.map(|(offset, block)| Place { block, literal, offset }));
        }
        places.sort_by_key(|place| hash(place.block));
        let mut filter = Box::new([0; 1 << (FILTER_BITS - 6)]);
        for place in &places {
            filter[hash(place.block) / 64] |= 1 << (hash(place.block) % 64);
        }
        let buckets = 0..=1 << BUCKET_BITS;
        let buckets = buckets.map(|n| places.partition_point(|place| bucket(hash(place.block)) < n)).collect();
        let literals = literals.iter().map(|literal| Box::from(*literal)).collect();
        Samples { literals, filter, buckets, places }
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        let (strides, _) = text.as_chunks::<STRIDE>();
        let mut rest = strides;
        let mut at = 0;
        while let Some(group) = rest.first_chunk::<{ GROUP + 1 }>() {
            let mut maybe = 0;
            for (n, pair) in group.array_windows().enumerate() {
                maybe |= self.filtered(block(*pair)) << n;
            }
            while maybe != 0 {
                let n = maybe.trailing_zeros() as usize;
                maybe &= maybe - 1;
                let start =
                    group.array_windows().nth(n).and_then(|pair| self.start(text, at + n * STRIDE, block(*pair)));
                if start.is_some() {
                    return start;
                }
            }
            rest = rest.get(GROUP..)?;
            at += GROUP * STRIDE;
        }
        let mut pairs = rest.array_windows().enumerate();
        pairs.find_map(|(n, pair)| self.start(text, at + n * STRIDE, block(*pair)))
    }

    /// 1 where a literal may have the block, 0 where none has.
    #[inline]
    fn filtered(&self, block: u64) -> u64 {
        let hash = hash(block);
        self.filter[hash / 64] >> (hash % 64) & 1
    }

    /// Where a literal begins that has this block of the text in it. Kept out of the loop, which is to stay small.
    #[inline(never)]
    fn start(&self, text: &[u8], at: usize, block: u64) -> Option<usize> {
        let bucket = bucket(hash(block));
        let places = self.places.get(*self.buckets.get(bucket)?..*self.buckets.get(bucket + 1)?)?;
        places.iter().filter(|place| place.block == block).find_map(|place| {
            let start = at.checked_sub(place.offset)?;
            text.get(start..)?.starts_with(self.literals.get(place.literal)?).then_some(start)
        })
    }
}

/// The blocks of a text, at every byte, and where they begin.
fn blocks(text: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    text.array_windows().map(|block| u64::from_le_bytes(*block)).enumerate()
}

/// Where the blocks begin by which a literal is to be found: those that are least frequent. What all logs have, such as
/// "container", would else have the literal compared with the text all the time.
fn most_telling(literal: &[u8], frequency: &[u32]) -> usize {
    let frequencies: Vec<u32> = blocks(literal).map(|(_, block)| frequency[hash(block)]).collect();
    let windows = frequencies.windows(STRIDE).map(|window| window.iter().sum::<u32>());
    windows.enumerate().min_by_key(|(_, sum)| *sum).map_or(0, |(start, _)| start)
}

/// The block that two strides are.
fn block([first, second]: [[u8; STRIDE]; 2]) -> u64 {
    u64::from(u32::from_le_bytes(first)) | u64::from(u32::from_le_bytes(second)) << 32
}

/// Fibonacci hashing: the upper bits of a product depend on all of the word. Always less than two to [`FILTER_BITS`].
fn hash(block: u64) -> usize {
    (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize
}

fn bucket(hash: usize) -> usize {
    hash >> (FILTER_BITS - BUCKET_BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The lines that have a literal, as a person would look for them.
    fn naive(literals: &[String], text: &str) -> Vec<usize> {
        let has_any = |line: &str| literals.iter().any(|literal| line.contains(literal.as_str()));
        text.split('\n').enumerate().filter(|(_, line)| has_any(line)).map(|(n, _)| n).collect()
    }

    fn found(finder: &Finder, text: &str) -> Vec<usize> {
        let mut search = finder.search(text.as_bytes());
        let mut lines = Vec::new();
        let mut from = 0;
        while let Some(at) = search.next_from(from) {
            lines.push(text[..at].matches('\n').count());
            from = text[at..].find('\n').map_or(text.len(), |end| at + end);
        }
        lines
    }

    #[test]
    fn a_literal_is_found_wherever_it_stands() {
        let literals = ["rc=124", "twelve bytes", "no route to host", "a much longer literal than all of the others"];
        let finder = Finder::new(literals, []).unwrap();
        for literal in literals {
            for before in 0..40 {
                for after in 0..10 {
                    let text = format!("{}{literal}{}", ".".repeat(before), ".".repeat(after));
                    assert_eq!(finder.search(text.as_bytes()).next_from(0), Some(before), "{text}");
                    assert_eq!(finder.search(text.as_bytes()).next_from(before + 1), None, "{text}");
                    let (torn, _) = text.split_at(before + literal.len() - 1);
                    assert!(!finder.is_match(torn.as_bytes()), "{torn}");
                }
            }
        }
    }

    /// What is set leads to a comparison that finds nothing; more than 64 short ones and the vector search is none.
    #[test]
    fn the_filter_is_large_enough_for_the_built_in_literals() {
        let signatures = crate::signature::built_in().unwrap();
        let literals: std::collections::BTreeSet<&str> =
            signatures.iter().flat_map(|it| &it.literals).map(String::as_str).collect();
        let finder = Finder::new(literals.iter().copied(), []).unwrap();
        let set: u32 = finder.long.filter.iter().map(|word| word.count_ones()).sum();
        assert!(set < (1 << FILTER_BITS) / 20, "{set} bits are set");
        assert!(literals.iter().filter(|literal| literal.len() < WINDOW).count() <= 64);
    }

    #[test]
    fn nothing_is_found_where_there_is_nothing() {
        for (literals, text) in [(&[][..], "some text that is long"), (&["", "a literal of some length"][..], "")] {
            assert!(!Finder::new(literals.iter().copied(), []).unwrap().is_match(text.as_bytes()));
        }
    }

    #[test]
    fn more_short_ones_than_a_vector_search_takes_are_found_too() {
        let literals: Vec<String> = (0..500).map(|n| format!("rc={n:03}")).collect();
        let finder = Finder::new(literals.iter().map(String::as_str), []).unwrap();
        for literal in &literals {
            assert_eq!(finder.search(format!("x {literal}").as_bytes()).next_from(0), Some(2));
        }
    }

    proptest! {
        // Of few letters, so that literals overlap, begin alike and are in one another.
        #[test]
        fn the_lines_are_those_that_a_person_would_find(
            literals in prop::collection::vec("[ab]{6,20}|[ab]{12}|[a-c ]{10,40}", 0..40),
            text in "([abc ]{0,60}\n?){0,20}",
            planted in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
        ) {
            let mut text = text;
            for (literal, place) in planted.iter().filter(|_| !literals.is_empty()) {
                let literal: &String = literal.get(&literals);
                text.insert_str(place.index(text.len() + 1), literal);
            }
            let lines = text.lines();
            let finder = Finder::new(literals.iter().map(String::as_str), lines).unwrap();
            prop_assert_eq!(found(&finder, &text), naive(&literals, &text));
        }
    }
}
