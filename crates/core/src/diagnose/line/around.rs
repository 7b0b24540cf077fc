//! The lines above and below one line. A format that spreads an entry over several lines finds its other parts here, never
//! farther than [`REACH`].

use std::ops::Range;

use memchr::{memchr, memrchr};

/// Far enough for a Node as YAML and for the largest result Ansible prints in a block; short enough that a line of any
/// log is read in a bounded time.
pub(super) const REACH: usize = 64 << 10;

/// One line and what is around it.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    above: &'a [u8],
    pub line: &'a [u8],
    below: &'a [u8],
}

impl<'a> Around<'a> {
    pub(super) fn new(text: &'a [u8], place: Range<usize>) -> Self {
        let end = place.end.min(text.len());
        let start = place.start.min(end);
        let (above, rest) = text.split_at(start);
        let (line, below) = rest.split_at(end - start);
        let above = above.get(above.len().saturating_sub(REACH)..).unwrap_or_default();
        let below = below.get(..REACH).unwrap_or(below);
        // Without the end of the line before, and without the end of this one.
        Around {
            above: above.strip_suffix(b"\n").unwrap_or(above),
            line: line.strip_suffix(b"\n").unwrap_or(line),
            below,
        }
    }

    /// The lines above, the nearest first.
    pub(super) fn above(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = Some(self.above).filter(|above| !above.is_empty());
        std::iter::from_fn(move || {
            let text = rest?;
            let (before, line) = match memrchr(b'\n', text) {
                Some(at) => (text.get(..at), text.get(at + 1..).unwrap_or_default()),
                None => (None, text),
            };
            rest = before;
            Some(line)
        })
    }

    /// The lines below, the nearest first.
    pub(super) fn below(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let below = self.below.strip_prefix(b"\n").unwrap_or(self.below);
        let mut rest = Some(below).filter(|below| !below.is_empty());
        std::iter::from_fn(move || {
            let text = rest?;
            let (line, after) = match memchr(b'\n', text) {
                Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
                None => (text, None),
            };
            rest = after.filter(|after| !after.is_empty());
            Some(line)
        })
    }

    /// The nearest line above that is not indented: what an indented block belongs to.
    pub(super) fn owner(&self) -> Option<&'a [u8]> {
        indent(self.line).filter(|&indent| indent > 0)?;
        self.above().find(|line| indent(line) == Some(0) && !matches!(line.trim_ascii(), b"}" | b"]" | b"},"))
    }
}

/// How far a line is indented; an empty one not at all.
pub(super) fn indent(line: &[u8]) -> Option<usize> {
    line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(text: &str, line: &str) -> (Vec<String>, Vec<String>) {
        let start = text.find(line).unwrap();
        let around = Around::new(text.as_bytes(), start..start + line.len());
        let owned = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        (around.above().map(owned).collect(), around.below().map(owned).collect())
    }

    #[test]
    fn walks_both_ways() {
        assert_eq!(around("a\nb\nc\nd\n", "c"), (vec!["b".into(), "a".into()], vec!["d".into()]));
        assert_eq!(around("c", "c"), (vec![], vec![]));
        assert_eq!(around("a\n\nc\n\ne", "c"), (vec![String::new(), "a".into()], vec![String::new(), "e".into()]));
    }

    #[test]
    fn a_place_outside_the_text_is_an_empty_line() {
        assert!(Around::new(b"abc", 7..9).line.is_empty());
        #[expect(clippy::reversed_empty_ranges, reason = "whatever the caller says")]
        let backwards = Around::new(b"abc", 2..1);
        assert!(backwards.line.is_empty());
    }

    #[test]
    fn does_not_reach_farther_than_it_may() {
        let text = format!("first\n{}\nhere", "x\n".repeat(REACH));
        let around = Around::new(text.as_bytes(), text.len() - 4..text.len());
        assert!(around.above().map(|line| line.len() + 1).sum::<usize>() <= REACH + 1);
        assert!(!around.above().any(|line| line == b"first"));
    }
}
