//! Tokens by their name. A lone `token` is also a word of parsers and of sentences, so what follows it must look like one.

use super::super::shape::{Shape, Words};
use super::super::value;

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: "token",
        words: Words::InAnyCase(&["token"]),
        regex: r"LINE(?:\b|_)TOKEN[0-9]?(?P<c>QUOTE)?\s{0,4}=\s{0,4}",
        value: value::no_path,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)(?:\b|_)(?:id|refresh|access)[_.-]?tokenIS",
        value: value::no_path,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)\btoken-secretIS",
        value: value::any,
    },
    Shape {
        kind: "token",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)(?:auth|api|bearer|session|security|bot|vault|registry|bootstrap|agent|server|node|join|cluster|personal|private|deploy|runner|github|gitlab|discovery|k3s|rke2)[_.-]?tokenIS",
        value: value::random,
    },
    Shape {
        // A line of a configuration: k3s and RKE2 take words of any length.
        kind: "token",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)(?:^|\n)[\s>|]{0,40}(?:-\s{1,4})?QUOTE?(?:agent-)?tokenQUOTE?\s{0,4}[:=]\s{0,4}(?P<s>QUOTE[^\x22'\n]{4,}|[^\s\x22',]{4,})(?:QUOTE)?,?\s*(?:#[^\n]*)?(?:\n|$)",
        value: value::any,
    },
    Shape {
        kind: "token",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)QUOTE\btokenQUOTE\s{0,4}:\s{0,4}",
        value: value::any,
    },
    Shape {
        kind: "token",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)-token(?:=|FOLLOWS)",
        value: value::random_of_flag,
    },
    // Agents of k3s and RKE2 take any word.
    Shape {
        kind: "token",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)-token(?:=|QUOTE\s{0,8},\s{0,8})QUOTE?(?P<s>[^\s,\x22'`\\]+)",
        value: value::word_of_flag,
    },
    Shape {
        kind: "token",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)-tokenFOLLOWSQUOTE?(?P<s>[^\s,\x22'`\\]+)",
        value: value::word_before_flag,
    },
    Shape {
        kind: "token",
        words: Words::InAnyCase(&["token", " -t "]),
        regex: r"\b(?:k3s|rke2)\b[^\n|;]{0,20}?\s(?:agent|server)\s[^\n|;]{0,400}?(?:-token|\s-t)(?:=|FOLLOWS)QUOTE?(?P<s>[^\s,\x22'`\\]+)",
        value: value::word,
    },
    Shape {
        kind: "token",
        words: Words::InAnyCase(&["token"]),
        regex: r"(?i)\btoken(?:IS|\s{1,4})QUOTE?(?P<s>[a-z0-9._~+/=-]{20,})",
        value: value::random,
    },
];
