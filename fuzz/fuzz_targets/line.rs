//! Any bytes, any line of them: it is read, into a bounded number of lines that are lines.
#![no_main]

use carrick_core::diagnose::last_words::{LastWords, Weight, said};
use carrick_core::diagnose::line::{HostTimeZones, message, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, u16, &[u8])| {
    let (start, length, bytes) = input;
    let start = usize::from(start);
    let now = "2026-11-15T21:00:00Z".parse().expect("a time");
    let mut clock = HostTimeZones::default();
    for line in read(bytes, start..start + usize::from(length), now) {
        assert!(!line.text.contains(['\n', '\r']), "{line:?}");
        clock.learn(&line);
        if let Some(at) = line.at {
            clock.utc(line.host.as_deref(), at, line.zoned);
        }
    }
    // And as it is used: line by line.
    let mut start = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let place = start..start + line.len();
        start = place.end;
        assert!(read(bytes, place, now).len() <= 4096);
    }
    // One of them may be the last that a program said.
    let mut words = LastWords::default();
    String::from_utf8_lossy(bytes).lines().for_each(|line| words.hear(message(line)));
    if let Some(line) = words.line(Weight::Plain) {
        assert!(said(line).chars().count() <= 303, "{line:?}");
    }
});
