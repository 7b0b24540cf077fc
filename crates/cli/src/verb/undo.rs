//! `carrick undo`: takes back what a run of Carrick changed on a machine.

use carrick_engine::act::undo::{self, Return};

use crate::act::{self, Consent, Steps};
use crate::exit::{Exit, Failure};
use crate::machine::{Cluster, Where};
use crate::render::wrap;
use crate::signals::Signals;
use crate::terminal;

/// Take back what Carrick changed here
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run, as `carrick history` numbers them; the last one that changed something where none is named
    run: Option<u32>,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    consent: Consent,
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    let host = args.place.host().await?;
    let (actor, _lock) = act::begin("undo", host.as_ref(), &args.consent, signals, &[]).await?;
    let back = undo::plan(host.as_ref(), args.run).await.map_err(|error| act::not_undone(&error))?;
    let print = |text: &str| terminal::print(text).map_err(|error| Failure::internal(format!("stdout: {error}")));
    print(&told(&back))?;
    if args.consent.plan {
        return Ok(Exit::Ok);
    }
    let (facts, _) = args.place.observe_on(host.as_ref(), None, Cluster::default()).await?;
    let protected = args.consent.protected(&facts)?;
    args.consent.ask("Take this back?", &actor.stop).await?;
    let mut steps = Steps::new();
    let applied = undo::apply(&host, &back, &protected, &actor.stop, &mut |told| steps.tell(&told)).await;
    applied.map_err(|error| act::not_undone(&error))?;
    Ok(Exit::Ok)
}

/// The later lines of a sentence stand two behind its first.
const UNDER: usize = 4;

fn told(back: &Return) -> String {
    let runs: Vec<String> = back.runs.iter().map(u32::to_string).collect();
    let runs = runs.join(" and ");
    let line = |text: &str| format!("  {}\n", wrap::hang(text, UNDER, terminal::width()));
    let stays: String = back.stays.iter().map(|stays| line(stays)).collect();
    let stays = if stays.is_empty() { stays } else { format!("Not taken back:\n{stays}") };
    if back.backs.is_empty() {
        return format!("Run {runs}: everything is as it was before.\n{stays}");
    }
    let lines: String = back.backs.iter().map(|back| line(&back.sentence())).collect();
    format!("Run {runs}, taken back:\n{lines}{stays}")
}
