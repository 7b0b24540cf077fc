//! What a test needs of the machine it runs on. A person may lack it: then the test says that it is skipped. CI may not: where
//! `CI` is set, as `.ci/run` does, the same is a failure.
#![allow(clippy::print_stdout)] // A skipped test says so.

use std::path::Path;

/// Where Debian's packages put programs; sshd is on nobody's PATH.
const PLACES: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Whether a program is here; where it is not, the test is skipped, and fails on CI.
#[track_caller]
pub fn need(program: &str) -> bool {
    let here = PLACES.iter().any(|place| Path::new(place).join(program).is_file());
    here || skip(&format!("{program} is not installed"))
}

/// Says that a test is skipped, and why; on CI it fails. Always false, for whoever asks whether to go on.
#[track_caller]
pub fn skip(why: &str) -> bool {
    assert!(!fails(std::env::var("CI").ok().as_deref()), "{why}, and CI is set: a test that does not run is a failure");
    println!("skipped: {why}");
    false
}

/// Whether a test that does not run is a failure.
fn fails(ci: Option<&str>) -> bool {
    ci.is_some_and(|value| !["", "0", "false"].contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ci_is_strict() {
        for (ci, strict) in
            [(None, false), (Some(""), false), (Some("false"), false), (Some("0"), false), (Some("true"), true)]
        {
            assert_eq!(fails(ci), strict, "{ci:?}");
        }
        assert!(need("sh"));
    }
}
