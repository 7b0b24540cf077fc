//! `carrick`: joins worker machines to Kubernetes. One file per verb under `verb/`; renderers under `render/`.
#![allow(unreachable_pub)] // A program has no outside: `pub` says what a module offers to the others.

use std::process::ExitCode;

mod act;
mod exit;
mod input;
mod machine;
mod render;
mod signals;
mod terminal;
mod verb;

fn main() -> ExitCode {
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
