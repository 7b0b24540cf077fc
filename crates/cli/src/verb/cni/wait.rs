//! `carrick cni wait`: until the pod network works; a reason at least every ten seconds, a cause where it does not.

use std::time::Duration;

use carrick_core::cni::status;
use carrick_core::cni::wait::{VERB, WaitReason};
use carrick_core::diagnose::pod_network::told;
use carrick_core::fact::Facts;
use carrick_core::names::Names;
use carrick_core::report::{Overall, Report};
use carrick_engine::cni::{CniWaitEnd, Network, WaitPolicy, sandbox_image};
use carrick_host::cri;
use carrick_host::cri::sandbox::{PLUGIN, SandboxOptions};

use super::{Output, library, show};
use crate::act::with_sandboxes;
use crate::exit::{Exit, Failure};
use crate::machine::{ClusterArgs, CredentialArgs, MachineArgs, client, seconds};
use crate::signals::Signals;
use crate::terminal::{self, DIM, OK, styled};

/// Wait until the pod network works: the runtime's word, the checks, and once joined the kubelet's own; read-only
/// without --probe
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    credential: CredentialArgs,
    /// How often to try at most; it ends as soon as it works
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tries: u32,
    /// How long a try may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    every: Duration,
    /// Prove it: run a throw-away sandbox through the runtime, read its address, take it away again
    #[arg(long)]
    probe: bool,
    /// How to print the end
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    let host = args.place.host().await?;
    let admin = args.credential.admin()?.map(|admin| client(&host, &admin));
    let network = Network { machine: &host, admin: admin.as_ref(), time_box: args.place.time_box() };
    let patience = WaitPolicy { tries: args.tries, every: args.every };
    let image = if args.probe { sandbox_image(host.as_ref()).await } else { None };
    let endpoints = cri::endpoints(host.as_ref());
    let how = SandboxOptions { endpoints: &endpoints, image: image.as_deref(), time: PLUGIN, peers: &[] };
    let whole = patience.whole().as_secs();
    let mut say = |elapsed: Duration, reason: &WaitReason| {
        let id = reason.id.map(|id| format!(" ({id})")).unwrap_or_default();
        let at = styled(DIM, &format!("{} s/{whole} s", elapsed.as_secs()));
        terminal::say(&format!("  ..  {at}  {}{id}", reason.says));
    };
    let waiting = network.wait(patience, args.probe.then_some(&how), &mut say);
    let ended =
        if args.probe { with_sandboxes(host.as_ref(), signals, waiting, async { true }).await? } else { waiting.await };
    match ended {
        CniWaitEnd::Works { says, after } => works(&args, &network, &says, after).await,
        CniWaitEnd::TimedOut { reason, after } => {
            let exit = if reason.is_network { Exit::TimedOut } else { Exit::Warnings };
            let says = format!("Timed out after {} s: {}", after.as_secs(), reason.says);
            end(&args, &network, reason, &says).await?;
            Ok(exit)
        }
        CniWaitEnd::CannotTell(reason) => {
            let says = format!("Cannot tell: {}", reason.says);
            end(&args, &network, reason, &says).await?;
            Ok(Exit::Warnings)
        }
    }
}

async fn works(args: &Args, network: &Network<'_>, says: &str, after: Duration) -> Result<Exit, Failure> {
    match args.output {
        Output::Text => {
            let took = styled(DIM, &format!("{:.1} s", after.as_secs_f64()));
            let line = format!("  {}  {says}  {took}\n", styled(OK, "ok"));
            terminal::print(&line).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
        }
        Output::Json => {
            let report = Report { verdict: Overall::Pass, ..whole(args, network, says).await?.1 };
            show(&report, args.output, false)?;
        }
    }
    Ok(Exit::Ok)
}

/// The cause, and how everything stands.
async fn end(args: &Args, network: &Network<'_>, reason: WaitReason, says: &str) -> Result<(), Failure> {
    let (facts, mut report) = whole(args, network, says).await?;
    let known = |id: &str| report.causes.iter().any(|cause| cause.id == id);
    if reason.id.is_none_or(|id| !known(id)) {
        report.causes.insert(0, reason.into_cause(&library()?, &Names::of(&facts)));
    }
    show(&Report { verdict: Overall::Fail, ..report }, args.output, false)?;
    if matches!(args.output, Output::Text) {
        terminal::say(says);
    }
    Ok(())
}

async fn whole(args: &Args, network: &Network<'_>, says: &str) -> Result<(Facts, Report), Failure> {
    let (facts, _) = args.place.observe_on(network.host(), network.admin, ClusterArgs::default()).await?;
    let mut report = status::report(&library()?, &facts);
    if let Some(reading) = &mut report.reading {
        reading.pod_network.push(told("waited", Ok(says.to_owned())));
    }
    Ok((facts, Report { verb: VERB, ..report }))
}
