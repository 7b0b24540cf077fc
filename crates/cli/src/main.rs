//! `carrick`: joins worker machines to Kubernetes. One file per verb under `verb/`; renderers under `render/`.
#![allow(unreachable_pub)] // A program has no outside: `pub` says what a module offers to the others.

use std::process::ExitCode;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

mod act;
mod exit;
mod input;
mod machine;
mod render;
mod signals;
mod terminal;
mod verb;

fn main() -> ExitCode {
    // Before anything is read: a token comes on the command line, on stdin and out of files.
    if let Err(error) = without_core_dump() {
        return exit::Failure::internal(format!("memory cannot be kept out of a core dump: {error}")).report();
    }
    let command = match verb::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(answer) => return answer,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::Failure::internal(format!("no runtime: {error}")).report(),
    };
    let outcome = runtime.block_on(async {
        let (signals, ended) =
            signals::listen().map_err(|error| exit::Failure::internal(format!("signals: {error}")))?;
        tokio::select! {
            outcome = command.run(&signals) => outcome,
            signal = ended => Ok(exit::Exit::Signal(signal)),
        }
    });
    // A read that hangs on a dead mount cannot be taken back; it must not keep the report from its reader.
    runtime.shutdown_background();
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}

/// A process that crashes leaves no copy of its memory, which holds tokens and keys: neither in a file, nor with a program that
/// the kernel pipes it to (it does so whatever the limit), nor with another process of the same user. What we start has the limit
/// too; what it holds of ours, it got from us.
fn without_core_dump() -> rustix::io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}
