//! `carrick check`: every prerequisite of a join, judged. Nothing is changed, unless `--fix` says so.

mod fix;

pub use fix::CheckFixer;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use carrick_cluster::ClusterClient;
use carrick_core::check::CheckPolicy;
use carrick_core::fact::Facts;
use carrick_core::judge::{self, Ignore};
use carrick_core::report::Report;
use carrick_host::Probe;

use crate::act::Consent;
use crate::exit::{Exit, Failure};
use crate::machine::{ClusterArgs, MachineArgs, client, open_bundle};
use crate::render::{Format, TextOptions, render};
use crate::signals::Signals;
use crate::terminal;

/// Check every prerequisite of a join; read-only without --fix
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Judge a bundle made by `carrick collect` (a directory, .tar or .tar.gz) instead of this machine
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["host", "api", "kubeconfig"])]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Checks that shall not count: ids, kubeadm's names, or all
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    ignore: Vec<String>,
    /// The pod network must be configured already: its absence is a failure
    #[arg(long)]
    expect_cni: bool,
    /// How to print the report
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Fix what is safe to fix: shows the plan, asks, makes the changes, checks again. `carrick undo` takes it back
    #[arg(long, conflicts_with = "bundle")]
    fix: bool,
    #[command(flatten)]
    consent: Consent,
    /// List what passes and what is skipped, too
    #[arg(short, long)]
    verbose: bool,
}

pub async fn run(args: Args, signals: &Signals) -> Result<Exit, Failure> {
    if args.fix {
        return fix::run(&args, signals).await;
    }
    if args.consent.is_given() {
        return Err(Failure::usage("--plan, --yes and --protect go with --fix; see carrick check --help"));
    }
    let begun = Instant::now();
    let report = if let Some(path) = &args.bundle {
        report_on(&args, &open_bundle(path)?)?
    } else {
        let host = args.place.host().await?;
        let admin = args.cluster.admin()?.map(|admin| client(&host, &admin));
        judge(&args, host.as_ref(), admin.as_ref()).await?.1
    };
    let took = args.bundle.is_none().then(|| begun.elapsed());
    show(&args, &report, took)
}

/// Looks at a machine and judges it.
async fn judge(args: &Args, probe: &dyn Probe, admin: Option<&ClusterClient>) -> Result<(Facts, Report), Failure> {
    let (facts, _) = args.place.observe_on(probe, admin, args.cluster.clone()).await?;
    let report = report_on(args, &facts)?;
    Ok((facts, report))
}

fn report_on(args: &Args, facts: &Facts) -> Result<Report, Failure> {
    let ignore = Ignore::of(args.ignore.iter().map(String::as_str))
        .map_err(|error| Failure::usage(format!("--ignore: {error}")))?;
    Ok(judge::check(facts, &CheckPolicy { cni_expected: args.expect_cni }, &ignore))
}

fn show(args: &Args, report: &Report, took: Option<Duration>) -> Result<Exit, Failure> {
    let look = TextOptions { width: terminal::width(), verbose: args.verbose, took };
    let text = render(report, args.output, &look).map_err(|error| Failure::internal(error.to_string()))?;
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(report.verdict.into())
}
