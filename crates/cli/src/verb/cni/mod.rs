//! `carrick cni`: the pod network of a machine. Only `sync` changes something.

use carrick_core::report::Report;
use carrick_core::signature::Library;

use crate::exit::{Exit, Failure};
use crate::render::{Format, TextOptions, render};
use crate::signals::Signals;
use crate::terminal;

mod lint;
mod status;
mod sync;
mod wait;

/// The pod network of a machine: how it stands, whether its files are right, wait for it, bring its file back
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = false, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Status(status::Args),
    Lint(lint::Args),
    Wait(wait::Args),
    Sync(sync::Args),
}

/// How these verbs print.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    match args.what {
        What::Status(args) => status::run(args).await,
        What::Lint(args) => lint::run(args).await,
        What::Wait(args) => wait::run(args, signals).await,
        What::Sync(args) => sync::run(args, signals).await,
    }
}

fn library() -> Result<Library, Failure> {
    Library::built_in().map_err(|complaint| Failure::internal(complaint.to_string()))
}

fn show(report: &Report, output: Output, verbose: bool) -> Result<(), Failure> {
    let format = match output {
        Output::Text => Format::Text,
        Output::Json => Format::Json,
    };
    let look = TextOptions { width: terminal::width(), verbose, took: None };
    let text = render(report, format, &look).map_err(|error| Failure::internal(error.to_string()))?;
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))
}
