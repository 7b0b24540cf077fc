//! Credentials of registries: docker's config.json, containerd's hosts and auths, the Secrets made of them.

use super::super::shape::{Known, Shape, Words};
use super::super::value;

const NAME: &str = "registry-credential";

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&["auth"]),
        regex: r"(?i)\bauth(?:QUOTE\s{0,8}:|\s{0,8}=)\s{0,8}",
        value: is_auth,
    },
    // registries.yaml of k3s and RKE2.
    Shape { kind: NAME, words: Words::InAnyCase(&["auth"]), regex: r"(?i)\bauth:\s{1,8}", value: is_login },
    Shape { kind: NAME, words: Words::InAnyCase(&["token"]), regex: r"(?i)\bidentity_?tokenIS", value: value::no_path },
    Shape { kind: NAME, words: Words::InAnyCase(&["token"]), regex: r"(?i)\bregistrytokenIS", value: value::no_path },
    Shape {
        kind: NAME,
        words: Words::InAnyCase(&[".dockerc"]),
        regex: r"(?i)\.docker(?:configjson|cfg)IS",
        value: is_long,
    },
    Shape { kind: NAME, words: Words::InAnyCase(&["auth"]), regex: r"(?i)--auth(?:\s{1,4}|=)", value: is_auth },
];

/// A mode of authentication is a word.
fn is_auth(known: &Known<'_>) -> bool {
    is_login(known) || value::long_random(known)
}

/// A name and a password in base64.
fn is_login(known: &Known<'_>) -> bool {
    use base64::Engine as _;
    let decoded = super::super::encoded::BASE64.decode(known.value).unwrap_or_default();
    decoded.contains(&b':') && decoded.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

fn is_long(known: &Known<'_>) -> bool {
    known.value.len() >= 16 && value::any(known)
}
