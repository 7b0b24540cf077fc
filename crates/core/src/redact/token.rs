//! kubeadm's bootstrap token: six letters, a dot, sixteen. No word leads to it, so the dots are looked at.

use super::shape::Secret;

const ID: usize = 6;
const SECRET: usize = 16;

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Where the first token begins.
pub(super) fn first(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'.', text).find(|&dot| is_token(text, dot)).map(|dot| dot - ID)
}

pub(super) fn find(text: &[u8], found: &mut Vec<Secret>) {
    for dot in memchr::memchr_iter(b'.', text).filter(|&dot| is_token(text, dot)) {
        let place = dot - ID..dot + 1 + SECRET;
        found.push(Secret::new("bootstrap-token", place.clone(), place));
    }
}

fn is_token(text: &[u8], dot: usize) -> bool {
    let Some(secret) = text.get(dot + 1..dot + 1 + SECRET) else { return false };
    let Some(id) = dot.checked_sub(ID).and_then(|start| text.get(start..dot)) else { return false };
    secret.iter().chain(id).all(|&byte| is_letter(byte)) && begins(text, dot - ID) && ends(text, dot + 1 + SECRET)
}

/// Not in the middle of a word; the letter of an escaped line end is none.
fn begins(text: &[u8], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|at| text.get(at));
    match before(1) {
        Some(b'n' | b'r' | b't') if before(2) == Some(&b'\\') => true,
        Some(byte) => !byte.is_ascii_alphanumeric(),
        None => true,
    }
}

fn ends(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}
