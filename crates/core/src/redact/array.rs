//! journald's byte arrays: a message that is not UTF-8 is printed in JSON as an array of numbers. A secret in it is masked,
//! and the array written anew, so that who reads it finds the rest.

use super::shape::{Secret, Words};

pub(super) const WORDS: Words = Words::AsTheyAre(&["\":[", "\": [", "\" : ["]);
/// The shortest secret that is known by its form has as many bytes.
const SHORTEST: usize = 8;

pub(super) fn find(text: &[u8], found: &mut Vec<Secret>) {
    let mut from = 0;
    while let Some(open) = memchr::memchr(b'[', text.get(from..).unwrap_or_default()).map(|at| from + at) {
        from = open + 1;
        let Some((bytes, end)) = bytes(text, from) else { continue };
        from = end;
        if bytes.len() < SHORTEST {
            continue;
        }
        // What was found is counted once, under the first kind.
        if let (clean, Some(kind)) = super::clean(&bytes) {
            let lines = memchr::memchr_iter(b'\n', text.get(open..end).unwrap_or_default()).count();
            let instead = Some(written(&clean, lines));
            found.push(Secret { instead, ..Secret::new(kind, open..end, open..end) });
        }
    }
}

/// The bytes of an array whose bracket was opened before `from`, and where the closing bracket ends.
fn bytes(text: &[u8], from: usize) -> Option<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    let mut number: Option<u32> = None;
    for (at, &byte) in text.iter().enumerate().skip(from) {
        match byte {
            b'0'..=b'9' => number = Some(number.unwrap_or(0) * 10 + u32::from(byte - b'0')).filter(|n| *n < 256),
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b',' | b']' => bytes.push(u8::try_from(number.take()?).ok()?),
            _ => return None,
        }
        if byte.is_ascii_digit() && number.is_none() {
            return None;
        }
        if byte == b']' {
            return Some((bytes, at + 1));
        }
    }
    None
}

/// With as many line ends as there were.
fn written(bytes: &[u8], lines: usize) -> Vec<u8> {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    format!("[{}{}]", numbers.join(","), "\n".repeat(lines)).into_bytes()
}
