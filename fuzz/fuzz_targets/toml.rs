//! Any configuration of containerd's is edited, or said to be unfit; edited twice it is as edited once, and reads as it was to read.
#![no_main]

use carrick_core::fact::containerd_config;
use carrick_core::plan::edit::{Edit, Set};
use libfuzzer_sys::fuzz_target;

const VALUES: [&str; 5] = ["true", "\"systemd\"", "[]", "", "not a value"];

fuzz_target!(|input: (Vec<&str>, u8, &str)| {
    let (key, value, text) = input;
    let _ = containerd_config::parse(text);
    let key: Vec<String> = key.into_iter().take(6).map(str::to_owned).collect();
    let to = VALUES[usize::from(value) % VALUES.len()].to_owned();
    let lines = text.lines().take(2).map(str::to_owned).collect();
    for edit in [Edit::Toml { set: vec![Set { key, to }] }, Edit::CommentOut { lines }] {
        let Ok(edited) = edit.apply(text) else { continue };
        if matches!(edit, Edit::Toml { .. }) {
            assert!(containerd_config::parse(&edited).is_ok(), "{edited}");
            assert_eq!(edit.apply(&edited).as_ref(), Ok(&edited));
        }
    }
});
