//! `cargo xtask lab …`: hands everything to the lab, which is a program of its own so that no test of the workspace needs it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Becomes the lab; returns only where it cannot.
pub fn run(arguments: &[OsString]) -> io::Error {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    // Tests play carrick itself: built with the lab it shares its crates, built alone it would not.
    let plays =
        |words: &[OsString]| words.iter().any(|word| word == "test") && words.iter().all(|word| word != "--list");
    if plays(arguments) {
        let both = ["build", "--quiet", "--locked", "--package", "carrick-lab", "--package", "carrick"];
        match Command::new(&cargo).args(both).status() {
            Ok(built) if built.success() => {}
            Ok(built) => return io::Error::other(format!("the lab does not build: {built}")),
            Err(error) => return error,
        }
        let lab = crate::target().join("debug/carrick-lab");
        return Command::new(lab).env("CARGO", cargo).args(arguments).exec();
    }
    Command::new(cargo).args(["run", "--quiet", "--package", "carrick-lab", "--"]).args(arguments).exec()
}
