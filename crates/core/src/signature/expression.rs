//! A signature's regular expression, compiled when a line first needs it.
//!
//! In a line of ASCII, which nearly all are, `\w` and `[^"]` mean the same with Unicode and without, and without it an
//! expression is compiled in a fifth of the time and takes a fraction of the memory. So there are two of each, of which
//! one is seldom needed.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::{Captures, Regex, RegexBuilder};

/// What one expression may keep of its states: a hit line is short, and hundreds of expressions may be needed at once.
const CACHE: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Expression {
    /// For lines of ASCII; none where the expression itself speaks of other letters.
    ascii: OnceLock<Option<Regex>>,
    /// For all others.
    unicode: OnceLock<Regex>,
}

impl Expression {
    /// Whether a line is recognised: a third of the work of [`Expression::take`]. `pattern` is always the same.
    pub(super) fn is_match(&self, pattern: &str, line: &str) -> Result<bool, regex::Error> {
        Ok(self.of(pattern, line)?.is_match(line.as_bytes()))
    }

    /// What is taken from a line that is recognised.
    pub(super) fn take<'line>(&self, pattern: &str, line: &'line str) -> Result<Option<Taken<'line>>, regex::Error> {
        Ok(self.of(pattern, line)?.captures(line.as_bytes()).map(Taken))
    }

    /// The one for this line.
    fn of(&self, pattern: &str, line: &str) -> Result<&Regex, regex::Error> {
        let ascii = || self.ascii.get_or_init(|| compile(pattern, false).ok()).as_ref();
        match line.is_ascii().then(ascii).flatten() {
            Some(regex) => Ok(regex),
            None => self.unicode(pattern),
        }
    }

    fn unicode(&self, pattern: &str) -> Result<&Regex, regex::Error> {
        if let Some(regex) = self.unicode.get() {
            return Ok(regex);
        }
        let regex = compile(pattern, true)?;
        Ok(self.unicode.get_or_init(|| regex))
    }
}

fn compile(pattern: &str, unicode: bool) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(unicode).dfa_size_limit(CACHE).build()
}

/// What an expression took from a line.
pub struct Taken<'line>(Captures<'line>);

impl<'line> Taken<'line> {
    pub fn named(&self, name: &str) -> Option<&'line str> {
        str::from_utf8(self.0.name(name)?.as_bytes()).ok()
    }

    /// Where in the line it stands.
    pub fn range(&self) -> Range<usize> {
        self.0.get(0).map_or(0..0, |whole| whole.range())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The range and the capture `x` that both kinds of expression and `regex` itself give.
    fn taken(pattern: &str, line: &str) -> Option<(Range<usize>, Option<String>)> {
        let expression = Expression::default();
        let taken = expression.take(pattern, line).unwrap();
        assert_eq!(expression.is_match(pattern, line).unwrap(), taken.is_some(), "{pattern} in {line}");
        let taken = taken.map(|taken| (taken.range(), taken.named("x").map(str::to_owned)));
        let known = regex::Regex::new(pattern).unwrap();
        let known = known
            .captures(line)
            .map(|known| (known.get(0).unwrap().range(), known.name("x").map(|value| value.as_str().to_owned())));
        assert_eq!(taken, known, "{pattern} in {line}");
        taken
    }

    #[test]
    fn letters_are_letters_in_every_line() {
        for (pattern, line, x) in [
            (r"node (?P<x>\w+)", "the node w1 is away", Some("w1")),
            (r"node (?P<x>\w+)", "the node späth is away", Some("späth")),
            (r"node (?P<x>[^ ]+)", "the node späth is away", Some("späth")),
            (r"node (?P<x>.)", "the node ä", Some("ä")),
            (r"node (?P<x>[‘’'])", "the node 'w1'", Some("'")),
            (r"node (?P<x>[‘’'])", "the node ‘w1’", Some("‘")),
            (r"(?i)NODE (?P<x>\d+)", "the node 12", Some("12")),
            (r"node\b(?P<x>)", "nodeä", None),
            (r"node (?P<x>\w+)", "nothing", None),
        ] {
            assert_eq!(taken(pattern, line).and_then(|(_, taken)| taken).as_deref(), x, "{pattern} in {line}");
        }
    }

    #[test]
    fn an_expression_that_does_not_compile_says_so_in_every_line() {
        for line in ["ascii", "späth"] {
            assert!(Expression::default().take("(", line).is_err());
        }
    }
}
