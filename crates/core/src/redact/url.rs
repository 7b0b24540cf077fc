//! Passwords and tokens in URLs: `scheme://user:password@host`, `https://TOKEN@host`, `https://TOKEN:x-oauth-basic@host`.
//!
//! People write passwords as they are, with a slash or a per cent sign in them; then only what follows says where the host
//! begins.

use std::ops::Range;

use super::shape::Secret;
use super::value::looks_random;

const KIND: &str = "url-password";
/// A token is longer than a name: those of forges have 20 letters and more.
const TOKEN: usize = 16;
/// A longer word is no URL that somebody typed.
const LONGEST: usize = 2048;

pub(super) fn find(text: &[u8], found: &mut Vec<Secret>) {
    if memchr::memchr(b'@', text).is_none() {
        return;
    }
    for at in memchr::memmem::find_iter(text, b"://") {
        let start = at + 3;
        let rest = text.get(start..).unwrap_or_default();
        let rest = rest.get(..LONGEST).unwrap_or(rest);
        let word = rest.iter().position(|byte| byte.is_ascii_whitespace() || b"\"'`<>\\".contains(byte));
        let word = rest.get(..word.unwrap_or(rest.len())).unwrap_or_default();
        if let Some(value) = secret(word, scheme(text, at)) {
            let value = start + value.start..start + value.end;
            found.push(Secret::new(KIND, at..value.end + 1, value));
        }
    }
}

fn scheme(text: &[u8], end: usize) -> &[u8] {
    let start = text.get(..end).unwrap_or_default().iter().rposition(|byte| !byte.is_ascii_alphanumeric());
    text.get(start.map_or(0, |at| at + 1)..end).unwrap_or_default()
}

/// Where in `user:password@host/…` the secret is.
fn secret(word: &[u8], scheme: &[u8]) -> Option<Range<usize>> {
    let authority = word.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(word.len());
    let within = word.get(..authority)?;
    let colon = within.iter().position(|&byte| byte == b':');
    match (colon, within.iter().rposition(|&byte| byte == b'@')) {
        // Who has a token stands as its user, with a password that says nothing, or none.
        (Some(colon), Some(at)) if colon < at && is_user_token(word.get(..at)?, colon, scheme) => Some(0..at),
        (Some(colon), Some(at)) if colon < at => Some(colon + 1..at).filter(|value| !hidden(word, value)),
        (_, Some(at)) => is_token(within.get(..at)?, scheme).then_some(0..at),
        (Some(colon), None) => behind_slash(word, colon, authority),
        (None, None) => None,
    }
}

fn hidden(word: &[u8], value: &Range<usize>) -> bool {
    word.get(value.clone()).is_some_and(|value| value.is_empty() || value.iter().all(|byte| b"*xX".contains(byte)))
}

fn is_user_token(login: &[u8], colon: usize, scheme: &[u8]) -> bool {
    let (user, password) = login.split_at(colon);
    password == b":x-oauth-basic" || is_token(user, scheme)
}

/// `https://TOKEN@host`; `ssh://root@w1` names who asks.
fn is_token(user: &[u8], scheme: &[u8]) -> bool {
    !matches!(scheme, b"ssh" | b"sftp" | b"rsync" | b"scp") && looks_random(user, TOKEN)
}

/// A password with a slash in it. `host:port/path@sha256:…` is no password: after it comes no host, or the part before the
/// slash is a port and no port follows the `@`.
fn behind_slash(word: &[u8], colon: usize, slash: usize) -> Option<Range<usize>> {
    let at = word.iter().rposition(|&byte| byte == b'@').filter(|&at| at > slash)?;
    let (host, port) = host(word.get(at + 1..)?)?;
    let first = word.get(colon + 1..slash)?;
    let is_port = first.len() <= 5 && first.iter().all(u8::is_ascii_digit);
    (!host.is_empty() && (port || !is_port)).then_some(colon + 1..at)
}

/// A host, and whether a port follows it.
fn host(rest: &[u8]) -> Option<(&[u8], bool)> {
    let end =
        rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b".-_".contains(byte)).unwrap_or(rest.len());
    let (host, rest) = rest.split_at_checked(end)?;
    let Some(port) = rest.strip_prefix(b":") else { return Some((host, false)) };
    let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let goes_on = port.get(digits).is_some_and(u8::is_ascii_alphanumeric);
    ((1..=5).contains(&digits) && !goes_on).then_some((host, true))
}
