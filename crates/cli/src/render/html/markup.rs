//! HTML by construction: text is escaped when it comes in, an element is closed when it is made. There is no other way to
//! make a [`Markup`], so nothing that was read on a machine can add a tag or end one.

use std::fmt::Write as _;

use carrick_core::shown::{INSTEAD, is_unseen};

/// A piece of a page, whole in itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markup(String);

/// Elements within a line; all others end one, so that a page can be read, and compared, as text.
const INLINE: [&str; 9] = ["a", "b", "code", "em", "span", "strong", "text", "tspan", "title"];

impl Markup {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_page(self) -> String {
        format!("<!doctype html>\n{}", self.0)
    }
}

impl FromIterator<Markup> for Markup {
    fn from_iter<T: IntoIterator<Item = Markup>>(pieces: T) -> Self {
        Markup(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

pub fn nothing() -> Markup {
    Markup::default()
}

/// Words as they are to be read.
pub fn text(words: &str) -> Markup {
    Markup(escape(words))
}

/// One element with what is inside it.
pub fn element<'a>(
    name: &'static str,
    attributes: impl IntoIterator<Item = (&'static str, &'a str)>,
    inside: impl IntoIterator<Item = Markup>,
) -> Markup {
    let mut out = opening(name, attributes);
    for piece in inside {
        out.push_str(&piece.0);
    }
    let _ = write!(out, "</{name}>");
    if !INLINE.contains(&name) {
        out.push('\n');
    }
    Markup(out)
}

/// An element with one class and nothing else.
pub fn classed(name: &'static str, class: &str, inside: impl IntoIterator<Item = Markup>) -> Markup {
    element(name, [("class", class)], inside)
}

/// An element with words in it.
pub fn said(name: &'static str, class: &str, words: &str) -> Markup {
    if class.is_empty() { element(name, [], [text(words)]) } else { classed(name, class, [text(words)]) }
}

/// An element that HTML has no end tag for.
pub fn void<'a>(name: &'static str, attributes: impl IntoIterator<Item = (&'static str, &'a str)>) -> Markup {
    Markup(opening(name, attributes) + "\n")
}

/// A style sheet of this program's own: the only text that goes in as it is.
pub fn style(sheet: &'static str) -> Markup {
    Markup(format!("<style>\n{sheet}</style>\n"))
}

fn opening<'a>(name: &'static str, attributes: impl IntoIterator<Item = (&'static str, &'a str)>) -> String {
    let mut out = format!("<{name}");
    for (attribute, value) in attributes {
        let _ = write!(out, " {attribute}=\"{}\"", escape(value));
    }
    out.push('>');
    out
}

/// Marks escaped. What would not be seen, or would change how the rest is seen (control characters, a change of
/// direction), is shown as U+FFFD.
fn escape(words: &str) -> String {
    words.chars().fold(String::with_capacity(words.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if is_unseen(c) => out.push(INSTEAD),
            c => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_stays_text() {
        let rows = [
            ("<script>", "&lt;script&gt;"),
            ("a & b &amp; c", "a &amp; b &amp;amp; c"),
            ("\"'", "&quot;&#39;"),
            ("]]>", "]]&gt;"),
            ("\0\x1b[0m\u{85}", "\u{fffd}\u{fffd}[0m\u{fffd}"),
            ("\u{202e}abc\u{fffe}\u{1fffe}", "\u{fffd}abc\u{fffd}\u{fffd}"),
            ("a\u{2066}b\u{200b}c\u{2028}d\u{e0041}", "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("naïve 節点", "naïve 節点"),
        ];
        for (words, expected) in rows {
            assert_eq!(text(words).0, expected, "{words:?}");
        }
    }

    #[test]
    fn elements_are_whole() {
        let link = element("a", [("href", "#x\"><b>")], [text("1 < 2")]);
        assert_eq!(link.0, "<a href=\"#x&quot;&gt;&lt;b&gt;\">1 &lt; 2</a>");
        assert_eq!(classed("p", "k", [link, nothing()]).0.matches("</p>\n").count(), 1);
    }
}
