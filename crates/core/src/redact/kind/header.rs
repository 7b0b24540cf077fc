//! What a request carries to say who asks: as a header, in a dump of headers, in JSON.

use super::super::shape::{Shape, Words};
use super::super::value;

const NAME: &str = "authorization";

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["auth"]),
        regex: r"(?i)authorization(?:IS\[?|PAIR|QUOTE\s{0,8},\s{0,8})QUOTE?(?:basic|bearer|token|negotiate|ntlm|oauth|apikey|kerberos|splunk|key|bot)\s{1,8}(?P<s>[a-z0-9._~+/=:-]{2,})",
        value: value::any,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["auth"]),
        regex: r"(?i)authorization(?:IS\[?|PAIR|QUOTE\s{0,8},\s{0,8})QUOTE?(?:digest|aws4-hmac-sha256|hmac|hawk|signature)\s{1,8}(?P<s>[a-z]+=(?:QUOTE[^\x22'\\]*QUOTE|[^\s,\x22'\\]+)(?:,\s{0,4}[a-z]+=(?:QUOTE[^\x22'\\]*QUOTE|[^\s,\x22'\\]+))*)",
        value: value::certain,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["auth"]),
        regex: r"(?i)authorization(?:IS\[?|PAIR|QUOTE\s{0,8},\s{0,8})",
        value: value::long_random,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["bearer"]),
        regex: r"(?i)\bbearer\s{1,8}QUOTE?(?P<s>[a-z0-9._~+/=-]{8,})",
        value: value::random,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["token", "key", "auth", "secret", "signature"]),
        regex: r"(?i)\bx-[a-z0-9-]{0,30}(?:token|key|auth|secret|signature)IS",
        value: value::random,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["cookie"]),
        regex: r"(?i)\b(?:set-)?cookie(?P<c>QUOTE)?\s{0,4}:\s{0,4}\[?QUOTE?(?P<s>[a-z0-9_.-]+=[^\s\x22'\\]+(?:;\s[a-z0-9_.-]+=[^\s\x22'\\]+)*)",
        value: value::certain,
    },
    Shape {
        kind: "jwt",
        words: Words::AsTheyAre(&["eyJ"]),
        regex: r"(?P<s>eyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?)",
        value: value::certain,
    },
    Shape {
        // Cut off, or wrapped: base64 of `{"alg":`, `{"typ":`, `{"kid":`.
        kind: "jwt",
        words: Words::AsTheyAre(&["eyJ"]),
        regex: r"(?P<s>eyJ(?:hbGciOi|0eXAiOi|raWQiOi)[A-Za-z0-9_.-]{8,})",
        value: value::certain,
    },
];
