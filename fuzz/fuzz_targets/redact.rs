//! Any bytes, cut anywhere: the redactor gives the same as in one piece, to the byte and to the count, and takes a planted
//! secret of any kind out.
#![no_main]

use std::ops::Range;

use carrick_core::redact::{Redaction, Redactor};
use carrick_core::testing::secret::{KINDS, Plant, pieces_found, plant_one};
use libfuzzer_sys::fuzz_target;

fn through<'t>(pieces: impl Iterator<Item = &'t [u8]>) -> (Vec<u8>, Vec<Redaction>) {
    let mut redactor = Redactor::new();
    let mut out: Vec<u8> = pieces.flat_map(|piece| redactor.push(piece)).collect();
    let (rest, found) = redactor.finish();
    out.extend(rest);
    (out, found)
}

/// Where the text is cut: lengths of pieces, over and over; `0` stands for many bytes.
fn pieces<'t>(text: &'t [u8], lengths: &[u8]) -> Vec<&'t [u8]> {
    let mut rest = text;
    let mut pieces = Vec::new();
    for &length in lengths.iter().cycle() {
        let length = if length == 0 { 70_000 } else { usize::from(length) };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    pieces
}

/// What the letters of a text are repeated to, so that lines get longer than a window.
fn longer(bytes: &[u8], times: u8) -> Vec<u8> {
    bytes.repeat(if bytes.contains(&b'\n') { 1 } else { 1 + usize::from(times) * 16 })
}

fuzz_target!(|input: (u8, u8, u8, u16, &[u8], &[u8])| {
    let (kind, times, first, at, lengths, bytes) = input;
    let lengths: &[u8] = if lengths.is_empty() { &[1] } else { lengths };
    let Plant { text, secrets } = plant_one(&KINDS[usize::from(kind) % KINDS.len()], "fuzz");
    let before = longer(bytes, times);
    // On lines of its own, between whatever there is: within another text it may be another text.
    let at: Range<usize> = 0..usize::from(at).min(before.len());
    let quiet = if first == 0 {
        b"\n\n\n\n\n\n".as_slice()
    } else {
        b"\n-----END PRIVATE KEY-----\n\nend:\n\n\n\n\n\n\n".as_slice()
    };
    let planted = [&before[at.clone()], quiet, text.as_bytes(), b"\n", &before[at.end..]].concat();
    let whole = through(std::iter::once(planted.as_slice()));
    assert_eq!(whole, through(pieces(&planted, lengths).into_iter()), "in pieces");
    let newlines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(newlines(&whole.0), newlines(&planted), "line numbers");
    // The bytes themselves may hold what a secret is made of.
    if pieces_found(&before, &secrets).is_empty() {
        assert_eq!(pieces_found(&whole.0, &secrets), Vec::<String>::new(), "planted");
    }
});
