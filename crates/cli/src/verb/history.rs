//! `carrick history`: what Carrick did on a machine, when, why, and what became of it.

use std::fmt::Write as _;

use carrick_engine::act::journal::{self, Past};
use serde_json::json;

use crate::act;
use crate::exit::{Exit, Failure};
use crate::machine::Where;
use crate::terminal::{self, BOLD, styled};

/// What Carrick changed here, when and why
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// Every step of every run
    #[arg(short, long)]
    verbose: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let host = args.place.host().await?;
    let runs = journal::history(host.as_ref()).await;
    let runs = runs.map_err(|trouble| Failure::failed(format!("{trouble}; try as root")))?;
    let mut out = String::new();
    for run in &runs {
        match (run, args.output) {
            (Ok(past), Format::Text) => out.push_str(&told(past, args.verbose)),
            (Ok(past), Format::Json) => out.push_str(&line(past)?),
            // Said where it cannot be taken for a run.
            (Err(broken), _) => terminal::say(&format!("carrick: {broken}")),
        }
    }
    if runs.is_empty() && matches!(args.output, Format::Text) {
        out.push_str("Carrick has changed nothing here.\n");
    }
    terminal::print(&out).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(if runs.iter().any(Result::is_err) { Exit::Failed } else { Exit::Ok })
}

fn told(past: &Past, verbose: bool) -> String {
    let run = &past.run;
    let number = styled(BOLD, &format!("{:>4}", run.run));
    let mut out =
        format!("{number}  {}  {} by {}: {} steps, {}\n", run.begun, run.verb, run.by, run.steps.len(), past.end());
    for recorded in run.steps.iter().filter(|_| verbose) {
        let (effect, why) = (recorded.step.effect.to_string(), recorded.step.why.join(", "));
        let _ = writeln!(out, "      {}", act::with_note(&effect, &why, terminal::width()));
    }
    out
}

fn line(past: &Past) -> Result<String, Failure> {
    let mut run = serde_json::to_value(&past.run).map_err(|error| Failure::internal(error.to_string()))?;
    if let Some(run) = run.as_object_mut() {
        run.insert("end".into(), past.end().to_string().into());
        run.insert("journal".into(), json!(past.lines));
    }
    Ok(format!("{run}\n"))
}
