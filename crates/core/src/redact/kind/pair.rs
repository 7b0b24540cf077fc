//! A name and a value that are each a value themselves: the environment of a container as the API server, the runtime, Go and
//! YAML print it, headers as browsers keep them. Where they stand on two lines: [`super::super::wrap`].

use super::super::shape::{Shape, Words};
use super::super::value;

/// What is the name of a secret wherever it stands. `-i`: no case; a key in small letters may be any.
macro_rules! certain {
    () => {
        r"[a-z0-9_.-]{0,60}(?:password|passwd|passphrase|[_.-]pass|_secret|_token|(?-i:_KEY|SECRET|TOKEN)|(?:api|access|secret)[_-]?key|credentials?)[0-9]?(?:_(?:value|data))?|cookie|set-cookie|(?:proxy-)?authorization"
    };
}

/// What may be.
macro_rules! possible {
    () => {
        r"[a-z0-9_.-]{0,60}(?:secret|token|key)"
    };
}

/// For the name of a pair whose value stands in the next line.
pub(in super::super) const CERTAIN: &str = certain!();
pub(in super::super) const POSSIBLE: &str = possible!();

const WORDS: Words = Words::InAnyCase(&["pass", "secret", "token", "key", "auth", "cookie", "credential"]);

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: "credential",
        words: WORDS,
        regex: concat!(r"(?i)\b(?:name|key)(?:QUOTE)?\s{0,8}[:=]\s{0,8}QUOTE?(?P<n>", certain!(), ")PAIR"),
        value: value::no_path,
    },
    Shape {
        kind: "credential",
        words: WORDS,
        regex: concat!(r"(?i)\b(?:name|key)(?:QUOTE)?\s{0,8}[:=]\s{0,8}QUOTE?(?P<n>", possible!(), ")PAIR"),
        value: value::random,
    },
    // As Go prints it: a value with spaces has no quotes.
    Shape {
        kind: "credential",
        words: WORDS,
        regex: concat!(r"(?i)\{(?:name|key):(?P<n>", certain!(), r"),value:(?P<s>[^\n]{0,400}?)(?:,valuefrom:|,\})"),
        value: value::no_path,
    },
];
