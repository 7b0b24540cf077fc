//! The verbs, one file each.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::exit::{Exit, Failure};
use crate::signals::Signals;

pub mod check;
mod cni;
mod collect;
mod controller;
mod demo;
mod diagnose;
mod explain;
mod history;
mod join;
mod reset;
mod rule;
mod undo;
mod verify;

#[derive(Debug, Parser)]
#[command(name = "carrick", version, about = ABOUT, after_help = EXITS, disable_help_subcommand = true)]
pub struct Carrick {
    #[command(subcommand)]
    verb: Verb,
    // Before --help, which is clap's 999th: else every new verb moves it in the help of all the others.
    /// When to colour: on a terminal, always, or never
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN", display_order = 998)]
    color: Colour,
}

const ABOUT: &str = "Joins worker machines to Kubernetes, and says the true cause when it cannot.";
const EXITS: &str = "Exit codes: 0 ok · 1 internal error · 2 usage · 3 failed · 4 warnings or unknowns only · 6 timed out · 7 unreachable · 8 needs consent · 128+n ended by signal n";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(check::Args),
    Diagnose(diagnose::Args),
    Collect(collect::Args),
    Join(join::Args),
    Verify(verify::Args),
    Cni(cni::Args),
    Reset(reset::Args),
    Undo(undo::Args),
    History(history::Args),
    Controller(controller::Args),
    Rule(rule::Args),
    Explain(explain::Args),
    Demo(demo::Args),
}

/// Takes the command line apart. Help and mistakes end here: one line says what is wrong and where to look.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Carrick, ExitCode> {
    let command = Carrick::command().mut_subcommand("verify", verify::described);
    let command = command.term_width(crate::terminal::width());
    let parsed = command
        .try_get_matches_from(controller::go_flags(args))
        .and_then(|matches| Carrick::from_arg_matches(&matches));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match crate::terminal::print(&error.render().to_string())
        {
            Ok(()) => Exit::Ok.into(),
            Err(error) => Failure::internal(format!("stdout: {error}")).report(),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Failure::usage("no verb was given; see carrick --help").report()
        }
        _ => Failure::usage(in_one_line(&error)).report(),
    })
}

/// clap's first line, with what it lists below it and its hint, and where the rest is told.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let is_listed = |line: &&str| {
        line.starts_with('<')
            || line.starts_with("--")
            || line.starts_with("[possible values")
            || line.starts_with("[subcommands")
    };
    let listed: Vec<&str> = lines.clone().take_while(is_listed).collect();
    let is_hint = |tip: &&str| !tip.starts_with("to pass");
    let tip = lines.find_map(|line| line.strip_prefix("tip: ")).filter(is_hint).map(|tip| format!("; {tip}"));
    let sentence = if listed.is_empty() { first } else { format!("{first} {}", listed.join(" ")) };
    format!("{sentence}{}; see carrick --help", tip.unwrap_or_default())
}

impl Carrick {
    pub async fn run(self, signals: &Signals) -> Result<Exit, Failure> {
        match self.color {
            Colour::Auto => {}
            Colour::Always => anstream::ColorChoice::Always.write_global(),
            Colour::Never => anstream::ColorChoice::Never.write_global(),
        }
        match self.verb {
            Verb::Check(args) => check::run(args, signals).await,
            Verb::Diagnose(args) => diagnose::run(args).await,
            Verb::Collect(args) => collect::run(args).await,
            Verb::Join(args) => Box::pin(join::run(args, signals)).await,
            Verb::Reset(args) => Box::pin(reset::run(args, signals)).await,
            Verb::Verify(args) => Box::pin(verify::run(args, signals)).await,
            Verb::Cni(args) => cni::run(args, signals).await,
            Verb::Undo(args) => undo::run(args, signals).await,
            Verb::History(args) => history::run(args, signals).await,
            Verb::Rule(args) => rule::run(args).await,
            Verb::Controller(args) => Box::pin(controller::run(args, signals)).await,
            Verb::Explain(args) => explain::run(&args),
            Verb::Demo(args) => demo::run(&args),
        }
    }
}
