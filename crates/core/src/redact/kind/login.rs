//! Passwords by their place in a command line: only where the command takes no other thing there.

use super::super::shape::{Shape, Words};
use super::super::value;

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["login"]),
        regex: r"(?i)\b(?:docker|podman|nerdctl|buildah|skopeo|crane|helm|oras|oc|az|ctr)\b[^\n|;&]{0,200}?\blogin\b[^\n|;&]{0,200}?\s-p(?:\s{1,4}|=)",
        value: value::any,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["pass"]),
        regex: r"\bsshpass\s{1,4}-p\s{0,4}",
        value: value::any,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["mysql", "mariadb"]),
        regex: r"\b(?:mysql|mariadb)[a-z-]{0,12}\s[^\n|;&]{0,200}?-p(?P<s>[^\s\x22']+)",
        value: value::any,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["curl", "wget", "ctr ", "nerdctl", "etcdctl"]),
        regex: r"(?i)\b(?:curl|ctr|wget|nerdctl|etcdctl)\b[^\n|;]{0,400}?\s(?:-u|--user|--proxy-user)(?:\s{1,4}|=)QUOTE?[^\s:\x22'\\]{1,100}:(?P<s>[^\s\x22'\\]+)",
        value: value::any,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["creds"]),
        regex: r"(?i)--(?:src-|dest-)?creds(?:\s{1,4}|=|QUOTE\s{0,4},\s{0,4})QUOTE?[^\s:\x22'\\]{1,100}:(?P<s>[^\s\x22'\\]+)",
        value: value::any,
    },
    Shape {
        // Of netrc.
        kind: "credential",
        words: Words::InAnyCase(&["pass"]),
        regex: r"\b(?:machine\s{1,8}\S{1,100}|default)\s{1,8}login\s{1,8}\S{1,100}\s{1,8}password\s{1,8}",
        value: value::any,
    },
    Shape {
        kind: "credential",
        words: Words::InAnyCase(&["pass"]),
        regex: r"\b(?:echo|printf)\s{1,4}(?:-n\s{1,4})?QUOTE?(?P<s>[^\s|\x22'`\\]+)QUOTE?\s{0,4}\|[^\n|;]{0,200}--password-stdin",
        value: value::any,
    },
];
