//! The strings of a JSON text, wherever it was cut: a line of a capture may begin or end in the middle of a value, so nothing
//! here expects the text to be whole.

use std::borrow::Cow;
use std::ops::ControlFlow;

/// One value that holds no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value<'t> {
    /// Its own key; of an element of an array the array's.
    pub key: Option<&'t str>,
    pub text: Cow<'t, str>,
    /// It is a string, not a number, true, false or null.
    pub quoted: bool,
    /// It is an element of an array.
    pub element: bool,
}

/// Whether a text is JSON that holds others, at a glance. `[preflight]` and `[[ "$x" == … ]]` are none.
pub(super) fn opens(text: &str) -> bool {
    let mut letters = text.chars().filter(|letter| !letter.is_whitespace());
    match letters.next() {
        Some('{') => matches!(letters.next(), Some('"' | '}')),
        Some('[') => matches!(letters.next(), Some('"' | '{')),
        _ => false,
    }
}

/// Gives each value with the keys it stands under, the outermost first, until told to stop.
pub(super) fn walk<'t>(text: &'t str, each: &mut dyn FnMut(&[&'t str], Value<'t>) -> ControlFlow<()>) {
    let mut rest = text;
    // An array's elements go by its key; an object's have their own.
    let mut open: Vec<Open<'t>> = Vec::new();
    let mut path: Vec<&'t str> = Vec::new();
    let mut key: Option<&'t str> = None;
    while let Some(first) = rest.chars().next() {
        match first {
            '"' => {
                let (raw, after) = string(rest);
                rest = after;
                if let Some(after) = after.trim_start().strip_prefix(':') {
                    key = Some(raw);
                    rest = after;
                    continue;
                }
                let element = key.is_none();
                let key = key.take().or(in_array(&open));
                if each(&path, Value { key, text: unescape(raw), quoted: true, element }).is_break() {
                    return;
                }
                continue;
            }
            '{' | '[' => {
                let own = key.take();
                path.extend(own);
                open.push(Open { array: first == '[', key: own.or(in_array(&open)), in_path: own.is_some() });
            }
            '}' | ']' => {
                key = None;
                if open.pop().is_some_and(|open| open.in_path) {
                    path.pop();
                }
            }
            _ if is_bare(first) => {
                let end = rest.find(|letter| !is_bare(letter)).unwrap_or(rest.len());
                let (bare, after) = rest.split_at(end);
                rest = after;
                let element = key.is_none();
                let key = key.take().or(in_array(&open));
                if each(&path, Value { key, text: Cow::Borrowed(bare), quoted: false, element }).is_break() {
                    return;
                }
                continue;
            }
            _ => {}
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
}

/// A bracket that is not closed yet.
struct Open<'t> {
    array: bool,
    key: Option<&'t str>,
    in_path: bool,
}

fn in_array<'t>(open: &[Open<'t>]) -> Option<&'t str> {
    open.last().filter(|open| open.array).and_then(|open| open.key)
}

fn is_bare(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '+' | '.')
}

/// The inside of the string a text begins with, still escaped, and what comes after it. One without an end goes to the end.
pub(super) fn string(text: &str) -> (&str, &str) {
    let inside = text.strip_prefix('"').unwrap_or(text);
    let mut escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return (inside.get(..at).unwrap_or_default(), inside.get(at + 1..).unwrap_or_default()),
            _ => {}
        }
    }
    (inside, "")
}

/// Takes one level of escapes off. What is no escape stays as it is.
pub(super) fn unescape(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        let (letter, after) = one_escape(escape);
        text.push(letter);
        rest = after;
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// What stands after a backslash: the letter it means, and the rest.
fn one_escape(escape: &str) -> (char, &str) {
    let mut letters = escape.chars();
    let letter = match letters.next() {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some(itself @ ('"' | '\\' | '/')) => itself,
        Some('u') => return unicode(letters.as_str()).unwrap_or(('\\', escape)),
        _ => return ('\\', escape),
    };
    (letter, letters.as_str())
}

/// Four hexadecimal digits, or twice four for a letter beyond them; half of such a pair is unreadable.
fn unicode(digits: &str) -> Option<(char, &str)> {
    let (unit, rest) = hex(digits)?;
    if let Some(letter) = char::from_u32(unit) {
        return Some((letter, rest));
    }
    let low = rest.strip_prefix("\\u").and_then(hex).filter(|(low, _)| (0xdc00..0xe000).contains(low));
    let pair = low.and_then(|(low, rest)| {
        let high = unit.checked_sub(0xd800).filter(|high| *high < 0x400)?;
        Some((char::from_u32(0x1_0000 + (high << 10) + (low - 0xdc00))?, rest))
    });
    Some(pair.unwrap_or((char::REPLACEMENT_CHARACTER, rest)))
}

fn hex(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    // from_str_radix would take a sign.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        walk(text, &mut |path, value| {
            found.push(format!("{}|{}={}", path.join("."), value.key.unwrap_or("-"), value.text));
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn every_value_has_its_key() {
        let table: [(&str, &[&str]); 8] = [
            (r#"{"a": "x", "b": {"c": 1, "d": [true, "y"]}}"#, &["|a=x", "b|c=1", "b.d|d=true", "b.d|d=y"]),
            (r#""message": "it \"is\"","#, &["|message=it \"is\""]),
            (r#""lines": ["x", "y"],"#, &["lines|lines=x", "lines|lines=y"]),
            (r#"[{"a":"x"},{"a":"y"}]"#, &["|a=x", "|a=y"]),
            (r#"{"a": "cut of"#, &["|a=cut of"]),
            (r#"of a string", "b": "x"}"#, &["|-=of", "|-=a", "|-=string", "|-=, ", "|-=b", "|-=: ", "|-=x", "|-=}"]),
            ("}}]]", &[]),
            ("", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(values(text), expected, "{text}");
        }
    }

    #[test]
    fn takes_one_level_of_escapes_off() {
        let table = [
            (r"a\nb\tc", "a\nb\tc"),
            (r#"say \"hi\", C:\\x, a\/b"#, r#"say "hi", C:\x, a/b"#),
            (r#"err=\"open \\\"x\\\"\""#, r#"err="open \"x\"""#),
            (r"\u001b[31m \u00e9 \ud83d\ude00", "\u{1b}[31m é 😀"),
            (r"half \ud83d and \udc00 of one", "half \u{fffd} and \u{fffd} of one"),
            (r"\ud83dx \ud83d\u0041", "\u{fffd}x \u{fffd}A"),
            (r"\x1b \u12 \u+123 \q \", r"\x1b \u12 \u+123 \q \"),
        ];
        for (raw, expected) in table {
            assert_eq!(unescape(raw), expected);
        }
    }

    #[test]
    fn a_tag_in_brackets_is_no_array() {
        let table = [
            (r#"{"a":1}"#, true),
            (r#"[ {"a":1}"#, true),
            (r#"["a""#, true),
            ("[preflight] Running", false),
            (r#"[[ "$x" == y ]]"#, false),
            ("{ path=/usr/bin/kubelet ; }", false),
            ("{", false),
        ];
        for (text, expected) in table {
            assert_eq!(opens(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn gives_back_what_was_escaped(text in any::<String>(), key in "[a-z]{1,8}") {
            let whole = serde_json::json!({ &key: &text }).to_string();
            let mut found = Vec::new();
            walk(&whole, &mut |_, value| { found.push(value.text.into_owned()); ControlFlow::Continue(()) });
            prop_assert_eq!(found, [text]);
        }

        #[test]
        fn reads_any_text(text in any::<String>()) {
            values(&text);
        }
    }
}
