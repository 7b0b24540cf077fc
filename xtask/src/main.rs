//! The project's own chores: `cargo xtask lab …`.

use std::ffi::OsString;
use std::process::ExitCode;

mod lab;

#[allow(clippy::print_stderr)] // Its last word.
fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let chore = arguments.next().unwrap_or_default();
    if chore != "lab" {
        eprintln!("no such chore: {}; there is: lab", chore.display());
        return ExitCode::from(2);
    }
    let rest: Vec<OsString> = arguments.collect();
    eprintln!("cannot run cargo: {}", lab::run(&rest));
    ExitCode::FAILURE
}
