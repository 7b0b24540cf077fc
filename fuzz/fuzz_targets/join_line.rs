//! A join line as somebody pastes it, whole or as words: a request or one clear error, and no token in what is shown of either.
#![no_main]

use carrick_core::join::request::line::{from_args, from_text};
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "9876543210fedcba";

fuzz_target!(|input: (&str, &str)| {
    let (before, behind) = input;
    let line = format!("kubeadm join 10.0.0.11:6443 {before} --token zyxwvu.{SECRET} {behind}");
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    for read in [from_text(&line), from_args(&words), from_text(before), from_text(behind)] {
        let shown = match read {
            Ok(request) => format!("{request:?}"),
            Err(bad) => bad.to_string(),
        };
        assert!(before.contains(SECRET) || behind.contains(SECRET) || !shown.contains(SECRET), "{shown}");
    }
});
