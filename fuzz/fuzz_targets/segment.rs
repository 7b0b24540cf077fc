//! Any paste is cut into facts, and whatever they are, every check has a verdict.
#![no_main]

use carrick_core::check::{CHECKS, CheckPolicy, run};
use carrick_core::diagnose::segment::Segmenter;
use carrick_core::fact::Facts;
use carrick_core::testing::NOW;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|paste: &[u8]| {
    let mut segmenter = Segmenter::new();
    for (number, line) in (1u64..).zip(paste.split(|&byte| byte == b'\n')) {
        segmenter.push(number, line);
    }
    let segments = segmenter.finish();
    let kept: usize = segments.iter().filter_map(|it| it.capture.as_ref().ok()).map(|it| it.text.len()).sum();
    assert!(kept <= 6 * paste.len() + 100 * segments.len());
    let mut facts = Facts::new("w1", NOW);
    for segment in segments {
        assert!(segment.first_line > 0);
        facts.insert(segment.key, segment.capture);
    }
    assert_eq!(run(&facts, &CheckPolicy::default()).len(), CHECKS.len());
});
