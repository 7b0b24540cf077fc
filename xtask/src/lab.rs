//! `cargo xtask lab …`: hands everything to the lab, which is a program of its own so that no test of the workspace needs it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Becomes the lab; returns only where it cannot.
pub fn run(arguments: &[OsString]) -> io::Error {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    Command::new(cargo).args(["run", "--quiet", "--package", "carrick-lab", "--"]).args(arguments).exec()
}
