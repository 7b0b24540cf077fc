//! A run's journal as a power cut may leave it: whatever it holds, what is whole before the damage is read, and cut there it is
//! sound.
#![no_main]

use carrick_core::record::journal::parse;
use libfuzzer_sys::fuzz_target;

const BEGUN: &[u8] = b"{\"at\":\"2026-11-15T12:00:00Z\",\"step\":0,\"mark\":\"begun\"}\n";

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (whole, steps, garbage) = (usize::from(input.0 % 8), usize::from(input.1), input.2);
    let bytes = [BEGUN.repeat(whole).as_slice(), garbage].concat();
    let text = parse(&bytes, steps);
    assert!(steps == 0 || (text.lines.len() >= whole && text.whole >= whole * BEGUN.len()));
    let again = parse(&bytes[..text.whole], steps);
    assert_eq!((again.lines, again.whole, again.damage), (text.lines, text.whole, None));
});
