//! Any bytes as a bundle, a tar, a gzip: facts or one clear error.
#![no_main]

use std::io::Write as _;

use carrick_host::bundle;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    file.write_all(bytes).expect("room");
    if let Err(error) = bundle::open(file.path()) {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
});
