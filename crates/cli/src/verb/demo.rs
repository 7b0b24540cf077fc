//! `carrick demo`: the real judge on an example machine. Nothing is looked at, nothing has to be installed.

use carrick_core::check::CheckPolicy;
use carrick_core::fact::example;
use carrick_core::judge::{self, Ignore};

use crate::exit::{Exit, Failure};
use crate::render::{Format, TextOptions, render};
use crate::terminal;

/// Judge an example machine that comes with Carrick: shows what a report looks like; needs nothing, touches nothing
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to print the report
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// List what passes and what is skipped, too
    #[arg(short, long)]
    verbose: bool,
}

pub fn run(args: &Args) -> Result<Exit, Failure> {
    let report = judge::check(&example::troubled_worker(), &CheckPolicy::default(), &Ignore::default());
    let look = TextOptions { width: terminal::width(), verbose: args.verbose, took: None };
    let text = render(&report, args.output, &look).map_err(|error| Failure::internal(error.to_string()))?;
    let intro = "This is an example: a recorded machine with some faults put in. Nothing here was looked at.\n\
                 On a machine of yours: carrick check\n\n";
    // What a program reads, or is kept as a file, is the report and nothing else.
    let intro = if args.output == Format::Text { intro } else { "" };
    terminal::print(&format!("{intro}{text}")).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(Exit::Ok)
}
