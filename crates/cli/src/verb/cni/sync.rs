//! `carrick cni sync`: the configuration file as the cluster has it, written in place, and loaded by the runtime.

use carrick_core::cni::status;
use carrick_core::cni::sync::{self, ClusterCniConfig};
use carrick_core::fact::{Facts, Missing};
use carrick_core::plan::Plan;
use carrick_core::report::Report;
use carrick_engine::act::{Grounded, journal};
use carrick_engine::cni::Network;

use super::{Output, library, show};
use crate::act::{self, Consent, Refused};
use crate::exit::{Exit, Failure};
use crate::machine::{ClusterArgs, CredentialArgs, MachineArgs, client};
use crate::signals::Signals;
use crate::terminal::{self, FAIL, OK, styled};

/// Bring back the configuration file that the cluster has for this machine: missing or different, it is written in place,
/// and the runtime's word is waited for
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    credential: CredentialArgs,
    #[command(flatten)]
    consent: Consent,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Writing the file; and where the runtime has lost its watch, restarting it.
const ROUNDS: usize = 2;

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    let host = args.place.host().await?;
    let admin = args.credential.admin()?.map(|admin| client(&host, &admin));
    let (actor, _lock) = act::begin("cni sync", host.as_ref(), &args.consent, signals, &[]).await?;
    let network = Network { machine: &host, admin: admin.as_ref(), time_box: args.place.time_box() };
    let (mut facts, _) = args.place.observe_on(host.as_ref(), admin.as_ref(), ClusterArgs::default()).await?;
    let wanted = network.wanted(&facts).await.map_err(|why| Failure::failed(format!("nothing was changed: {why}")))?;
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        let steps = steps(&network, &facts, &wanted).await?;
        let refused = args.consent.refused(&facts, &steps)?;
        if args.consent.plan {
            return print_plan(&args, host.name(), &wanted, &steps, &refused);
        }
        if steps.is_empty() {
            break;
        }
        let protected = args.consent.protected(&facts)?;
        if !args.consent.yes {
            terminal::say(&act::told_with(host.name(), &steps, &refused));
        }
        refused.ends()?;
        args.consent.ask("Make these changes?", &actor.stop).await?;
        runs.push(act::carry_out(&host, &actor, &steps, &protected).await?);
        network.confirm(&wanted).await.map_err(Failure::failed)?;
        facts = args.place.observe_on(host.as_ref(), admin.as_ref(), ClusterArgs::default()).await?.0;
    }
    finish(&args, &facts, &wanted, &runs)
}

async fn steps(network: &Network<'_>, facts: &Facts, wanted: &ClusterCniConfig) -> Result<Vec<Grounded>, Failure> {
    let same = network.is_same(wanted).await;
    let same = same.map_err(|trouble| Failure::failed(format!("nothing was changed: {trouble}")))?;
    let cannot = |missing: Missing| Failure::failed(format!("nothing was changed: {missing}; {}", missing.next_step()));
    let plan = sync::plan(facts, wanted, same).map_err(cannot)?;
    // What a run that was killed had still to reload or restart.
    let owed = journal::owed(network.host()).await.map_err(|broken| Failure::failed(broken.to_string()))?;
    let plan = Plan::of(owed.into_iter().chain(plan.steps));
    let plan = plan.map_err(|conflict| Failure::internal(conflict.to_string()))?;
    act::ground(network.host(), &plan).await
}

fn print_plan(
    args: &Args,
    host: &str,
    wanted: &ClusterCniConfig,
    steps: &[Grounded],
    refused: &Refused,
) -> Result<Exit, Failure> {
    let text = match args.output {
        Output::Json => act::as_json(host, steps, refused)?,
        Output::Text if steps.is_empty() => format!("{} is as {} says; nothing to do.\n", wanted.path, wanted.from),
        Output::Text if refused.ends().is_err() => act::told_with(host, steps, refused),
        Output::Text => act::told(host, steps) + "\nNothing was changed. Do it: carrick cni sync\n",
    };
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    refused.ends().map(|()| Exit::Ok)
}

/// Whether the runtime has it; where it has not, how everything stands.
fn finish(args: &Args, facts: &Facts, wanted: &ClusterCniConfig, runs: &[u32]) -> Result<Exit, Failure> {
    let loaded = sync::is_loaded(facts, wanted) == Ok(true) && sync::is_first(facts, wanted) == Ok(true);
    let (path, from) = (&wanted.path, &wanted.from);
    let report = Report { verb: "cni sync", ..status::report(&library()?, facts) };
    if matches!(args.output, Output::Json) || !loaded {
        show(&report, args.output, false)?;
    }
    let line = if loaded {
        format!("{} {path} is as {from} says, and the runtime has loaded it.", styled(OK, "ok"))
    } else {
        format!("{} {path} is as {from} says, and the runtime has not loaded it.", styled(FAIL, "!!"))
    };
    match args.output {
        Output::Text => {
            terminal::print(&format!("  {line}\n")).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
        }
        Output::Json => terminal::say(&line),
    }
    for run in runs.iter().rev() {
        terminal::say(&format!("Take it back: carrick undo {run}"));
    }
    Ok(if loaded { Exit::Ok } else { Exit::Failed })
}
