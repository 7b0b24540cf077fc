//! Any bytes, cut anywhere: the redactor gives the same as in one piece, and takes a planted token out.
#![no_main]

use carrick_core::redact::Redactor;
use libfuzzer_sys::fuzz_target;

const TOKEN: &[u8] = b" abcdef.0123456789abcdef ";

fn through(bytes: &[u8], cut: usize) -> Vec<u8> {
    let mut redactor = Redactor::new();
    let mut out: Vec<u8> = bytes.chunks(cut).flat_map(|chunk| redactor.push(chunk)).collect();
    out.extend(redactor.finish().0);
    out
}

fuzz_target!(|input: (u16, u16, &[u8])| {
    let (cut, at, bytes) = input;
    if bytes.windows(23).any(|window| window == b"abcdef.0123456789abcdef") {
        // The same letters glued to others are no token.
        return;
    }
    let at = usize::from(at).min(bytes.len());
    let planted = [&bytes[..at], TOKEN, &bytes[at..]].concat();
    let out = through(&planted, usize::from(cut).max(1));
    assert!(!out.windows(23).any(|window| window == b"abcdef.0123456789abcdef"));
});
