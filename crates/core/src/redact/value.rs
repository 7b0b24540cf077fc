//! Where a value ends, and which values are none: a reference, a placeholder, a word of a sentence.

use std::ops::Range;

use super::shape::Known;

/// Says whether a value is a secret.
pub(super) type Value = fn(&Known<'_>) -> bool;

/// What ends a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// White space, a quote, an escape.
    Word,
    /// This quote behind at most so many backslashes.
    Quote { slashes: usize, quote: u8 },
    /// The end of the line.
    Line,
}

const QUOTES: &[u8] = b"\"'`";

/// The value that begins at `from` and ends, where it has no quotes of its own, with `around`. `None` where there is none.
pub(super) fn at(text: &[u8], from: usize, around: Ends) -> Option<(Range<usize>, Ends)> {
    let (opened, ends) = opening(text.get(from..)?).unwrap_or((0, around));
    let start = from + opened;
    let rest = text.get(start..)?;
    let length = end(rest, ends).unwrap_or(rest.len());
    let value = rest.get(..length)?;
    let length = if ends == Ends::Word { trimmed(value) } else { value.trim_ascii_end().len() };
    (length > 0).then_some((start..start + length, ends))
}

/// A quote at the beginning, with its backslashes: its length, and what ends it.
fn opening(rest: &[u8]) -> Option<(usize, Ends)> {
    let slashes = rest.iter().take_while(|&&byte| byte == b'\\').count();
    let quote = *rest.get(slashes).filter(|quote| QUOTES.contains(quote))?;
    Some((slashes + 1, Ends::Quote { slashes, quote }))
}

/// What ends a value whose name stands behind an opened quote.
pub(super) fn within(before: &[u8]) -> Option<Ends> {
    let (&quote, before) = before.split_last().filter(|(quote, _)| QUOTES.contains(quote))?;
    Some(Ends::Quote { slashes: before.iter().rev().take_while(|&&byte| byte == b'\\').count(), quote })
}

/// Where the value at the beginning of `rest` ends; `None` where `rest` ends before it does.
pub(super) fn end(rest: &[u8], ends: Ends) -> Option<usize> {
    match ends {
        Ends::Line => memchr::memchr2(b'\n', b'\r', rest),
        Ends::Word => {
            let ends = |at: usize, byte: u8| byte.is_ascii_whitespace() || QUOTES.contains(&byte) || escapes(rest, at);
            rest.iter().enumerate().position(|(at, &byte)| ends(at, byte))
        }
        Ends::Quote { slashes, quote } => {
            let mut at = 0;
            loop {
                let found = at + memchr::memchr2(quote, b'\n', rest.get(at..)?)?;
                let before = rest.get(..found)?.iter().rev().take_while(|&&byte| byte == b'\\').count();
                // YAML's quote in single quotes is two of them.
                let doubled = quote == b'\'' && slashes == 0 && found > 0 && rest.get(found + 1) == Some(&quote);
                if rest.get(found) == Some(&b'\n') || (before <= slashes && !doubled) {
                    return Some(found - before);
                }
                at = found + 1 + usize::from(doubled && before <= slashes);
            }
        }
    }
}

/// Backslashes that escape a line end, a tab or a quote: the text stands in a string, and what follows is no value.
fn escapes(rest: &[u8], at: usize) -> bool {
    if rest.get(at) != Some(&b'\\') || (at > 0 && rest.get(at - 1) == Some(&b'\\')) {
        return false;
    }
    let escaped = rest.iter().skip(at).find(|&&byte| byte != b'\\');
    escaped.is_none_or(|byte| b"nrt\"'`".contains(byte) || byte.is_ascii_whitespace())
}

/// Without the punctuation of the text around it.
fn trimmed(value: &[u8]) -> usize {
    value.iter().rposition(|byte| !b",;)]}>".contains(byte)).map_or(0, |last| last + 1)
}

/// Anything but a reference.
pub(super) fn any(known: &Known<'_>) -> bool {
    // What goes on to the end of the line is a sentence if its first word is one of a sentence.
    let first = known.value.split(u8::is_ascii_whitespace).next().filter(|_| !known.quoted).unwrap_or(known.value);
    let goes_on = first.len() < known.value.len() || followed(known.after);
    let says = !known.quoted && goes_on && is_of_sentence(first);
    let opens = !known.quoted && opens(first);
    !opens && !is_reference(first) && !says
}

/// What begins something else where a value would stand: a block of YAML, a pipe, a redirection, the next parameter of a URL,
/// a list, a structure. A password may begin with the same letter, and goes on otherwise.
fn opens(word: &[u8]) -> bool {
    let Some((sign, rest)) = word.split_first() else { return false };
    let behind = |signs: &[u8]| {
        let signs = rest.iter().take_while(|byte| signs.contains(byte)).count();
        rest.get(signs..).unwrap_or_default()
    };
    let named =
        |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte)).count();
    match sign {
        b'|' | b'>' => {
            let rest = behind(b"|>&=+-");
            rest.len() <= 2 && rest.iter().all(u8::is_ascii_digit) || is_path(rest)
        }
        b'&' => {
            let rest = behind(b"&>");
            let (name, next) = rest.split_at(named(rest));
            let is_name = !name.is_empty() && !name.iter().any(u8::is_ascii_digit);
            rest.is_empty() || (is_name && next.first().is_some_and(|next| b"=;".contains(next)))
        }
        b'{' | b'[' => {
            let (name, next) = rest.split_at(named(rest));
            let is_mixed = name.iter().any(u8::is_ascii_digit) && name.iter().any(u8::is_ascii_alphabetic);
            let goes_on = next.first().is_none_or(|next| b":=,;{}[]()<*%$\\\"'".contains(next));
            goes_on && !(is_mixed && name.len() >= 6)
        }
        _ => false,
    }
}

/// Anything that is there: the shape itself says it all.
pub(super) fn certain(_: &Known<'_>) -> bool {
    true
}

/// Not what names a file either, nor what the name says is something else.
pub(super) fn no_path(known: &Known<'_>) -> bool {
    any(known) && !is_path(known.value) && !names_something_else(known.name)
}

pub(super) fn names_something_else(name: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[
        b"PUBLIC_KEY",
        b"HOST_KEY",
        b"PRIMARY_KEY",
        b"FOREIGN_KEY",
        b"SORT_KEY",
        b"PARTITION_KEY",
        b"CACHE_KEY",
        b"NAME",
        b"FILE",
        b"PATH",
        b"DIR",
        b"REF",
        b"NAMESPACE",
        b"TYPE",
        b"VERSION",
        b"ENABLED",
        b"STORE",
        b"URL",
        b"TTL",
    ];
    let name = name.to_ascii_uppercase();
    NAMES.iter().any(|other| name.ends_with(other))
}

/// What no person would have written: letters and digits of both kinds, or many of them.
pub(super) fn random(known: &Known<'_>) -> bool {
    no_path(known) && looks_random(known.value, 8)
}

/// As [`random`], and as long as what is made by a machine.
pub(super) fn long_random(known: &Known<'_>) -> bool {
    no_path(known) && looks_random(known.value, 16)
}

pub(super) fn any_of_flag(known: &Known<'_>) -> bool {
    is_flag(known) && any(known)
}

pub(super) fn random_of_flag(known: &Known<'_>) -> bool {
    is_flag(known) && random(known)
}

pub(super) fn long_random_of_flag(known: &Known<'_>) -> bool {
    is_flag(known) && long_random(known)
}

/// A word behind a flag that takes a token, which may be any: not what stands for one in a manual or a sentence.
pub(super) fn word(known: &Known<'_>) -> bool {
    let is_placeholder = known.value.iter().all(|byte| byte.is_ascii_uppercase() || b"_-.".contains(byte));
    no_path(known) && !is_placeholder && !known.value.starts_with(b"-") && !is_of_sentence(known.value)
}

pub(super) fn word_of_flag(known: &Known<'_>) -> bool {
    is_flag(known) && word(known)
}

/// The same where only a space stands between: in a command line, where another flag follows, or the line is continued.
pub(super) fn word_before_flag(known: &Known<'_>) -> bool {
    let next = known.after.trim_ascii_start();
    let goes_on = next.len() < known.after.len() && (next.starts_with(b"-") || next.starts_with(b"\\"));
    word_of_flag(known) && goes_on
}

fn is_flag(known: &Known<'_>) -> bool {
    known.name.starts_with(b"-")
}

/// A mode is a word, a count is short.
pub(super) fn no_number(known: &Known<'_>) -> bool {
    any(known) && !(known.value.len() <= 4 && known.value.iter().all(u8::is_ascii_digit))
}

pub(super) fn looks_random(value: &[u8], least: usize) -> bool {
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let word = value.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"._~+/=%:@!-".contains(&byte));
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    word && value.len() >= least && (mixed || value.ends_with(b"="))
}

/// Directories that files of a machine are in. A secret in base64 may begin with a slash, but not with one of these.
const ROOTS: &[&[u8]] = &[
    b"etc", b"var", b"run", b"usr", b"opt", b"home", b"root", b"tmp", b"srv", b"mnt", b"dev", b"proc", b"sys", b"data",
    b"path", b"secrets", b"certs", b"pki", b"boot", b"lib", b"media", b"app", b"config",
];

pub(super) fn is_path(value: &[u8]) -> bool {
    let value = value.strip_prefix(b"file://").unwrap_or(value);
    if value.starts_with(b"./") || value.starts_with(b"~/") || value.starts_with(b"%d/") {
        return true;
    }
    let first = value.strip_prefix(b"/").and_then(|path| path.split(|&byte| byte == b'/').next());
    first.is_some_and(|first| ROOTS.contains(&first))
}

/// What stands where a value would, and is none.
fn is_reference(value: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "null",
        "nil",
        "none",
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "unset",
        "unknown",
        "missing",
        "required",
        "optional",
        "invalid",
        "incorrect",
        "expired",
        "empty",
        "denied",
        "disabled",
        "enabled",
        "hidden",
        "redacted",
        "masked",
        "prompt",
        "files",
        "compat",
        "systemd",
        "sss",
        "ldap",
        "db",
        "string",
        "object",
        "n/a",
        "file",
        "env",
    ];
    let is_name = |name: &[u8]| name.iter().all(|byte| byte.is_ascii_uppercase() || b"_0123456789".contains(byte));
    let bare: &[u8] = value.trim_ascii();
    let word = bare.strip_suffix(b".").unwrap_or(bare);
    let begins = |with: &[u8]| bare.starts_with(with);
    bare.is_empty()
        || bare == b"~"
        || bare.strip_prefix(b"<").is_some_and(is_placeholder)
        || [&b"${"[..], b"$(", b"{{"].into_iter().any(begins)
        || begins(b"$") && is_name(bare.get(1..).unwrap_or_default())
        || begins(b"%") && bare.len() <= 3
        || bare.iter().all(|byte| b"*xX.-_?#[]{}()".contains(byte))
        || WORDS.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()))
}

/// Between angle brackets: words for a person to replace, or what a redactor left.
fn is_placeholder(name: &[u8]) -> bool {
    let name = name.strip_suffix(b">").unwrap_or(name);
    name.starts_with(b"redacted") || name.iter().all(|byte| byte.is_ascii_lowercase() || b" _-".contains(byte))
}

/// A word of a sentence about passwords: `password: must be set`, `--token is required`.
fn is_of_sentence(word: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "is",
        "was",
        "are",
        "must",
        "to",
        "and",
        "or",
        "for",
        "flag",
        "flags",
        "option",
        "options",
        "the",
        "a",
        "an",
        "with",
        "cannot",
        "can",
        "has",
        "have",
        "not",
        "should",
        "may",
        "will",
        "in",
        "of",
        "as",
        "from",
        "on",
        "at",
        "by",
        "if",
        "when",
        "you",
        "your",
        "requires",
        "needs",
        "value",
        "argument",
        "set",
        "given",
        "instead",
        "via",
        "authentication",
        "failed",
        "could",
        "failure",
        "error",
        "does",
        "did",
        "it",
        "this",
        "that",
        "too",
        "been",
    ];
    WORDS.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()))
}

/// By another word in the line.
fn followed(after: &[u8]) -> bool {
    let near = after.get(..40).unwrap_or(after);
    let line = near.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.first().is_some_and(u8::is_ascii_whitespace) && !line.trim_ascii().is_empty()
}
