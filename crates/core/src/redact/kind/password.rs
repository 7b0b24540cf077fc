//! Passwords by their name: in environment files, units, YAML, JSON, mount options and flags.

use super::super::shape::{Shape, Words};
use super::super::value;

const NAME: &str = "credential";

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["pass"]),
        regex: r"(?i)LINE(?:password|passwd|passphrase)[0-9]?IS",
        value: value::any,
    },
    Shape {
        // Of cifs, of Ansible, of a URL's query. A test's `PASS: name` has no equals sign, `pass=3 fail=0` is a count.
        kind: NAME,
        words: Words::InAnyCase(&["pass"]),
        regex: r"(?i)(?:\b|_)pass(?:(?P<c>QUOTE)?\s{0,4}=\s{0,4}|QUOTE\s{0,4}:\s{0,4})",
        value: value::no_number,
    },
    Shape { kind: NAME, words: Words::InAnyCase(&["pass"]), regex: r"(?i)_passIS", value: value::any },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["pass"]),
        regex: r"(?i)(?:password|passwd|passphrase|[-]pass)FOLLOWS",
        value: value::any_of_flag,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["pass"]),
        regex: r"-pass(?:in|out)?\s{1,4}QUOTE?pass:",
        value: value::any,
    },
    Shape {
        // A file with them is no secret; a name and a password, as smbclient takes them, are.
        kind: NAME,
        words: Words::InAnyCase(&["credentials"]),
        regex: r"(?i)\bcredentials=",
        value: value::no_path,
    },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["user=", "username=", "smbclient"]),
        regex: r"(?i)(?:\busername=|\buser=|\bsmbclient\b[^\n|;]{0,200}?\s(?:-U\s{0,4}|--user[=\s]))QUOTE?[a-z0-9_.@\\-]{1,60}%(?P<s>[^\s,]+)",
        value: value::any,
    },
];
