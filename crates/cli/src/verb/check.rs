//! `carrick check`: every prerequisite of a join, judged; nothing is changed.

use std::path::PathBuf;
use std::time::Instant;

use carrick_core::check::Policy;
use carrick_core::report::{self, Ignore};

use crate::exit::{Exit, Failure};
use crate::machine::{Cluster, Where, open_bundle};
use crate::render::{Format, Look, render};
use crate::terminal;

/// Check every prerequisite of a join; read-only
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Judge a bundle made by `carrick collect` (a directory, .tar or .tar.gz) instead of this machine
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["host", "api", "kubeconfig"])]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    cluster: Cluster,
    /// Checks that shall not count: ids, kubeadm's names, or all
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    ignore: Vec<String>,
    /// The pod network must be configured already: its absence is a failure
    #[arg(long)]
    expect_cni: bool,
    /// How to print the report
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// List what passes and what is skipped, too
    #[arg(short, long)]
    verbose: bool,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let ignore = Ignore::of(args.ignore.iter().map(String::as_str))
        .map_err(|error| Failure::usage(format!("--ignore: {error}")))?;
    let policy = Policy { cni_expected: args.expect_cni };
    let begun = Instant::now();
    let facts = match &args.bundle {
        Some(path) => open_bundle(path)?,
        None => args.place.observe(args.cluster).await?.0,
    };
    let report = report::check(&facts, &policy, &ignore);
    let took = args.bundle.is_none().then(|| begun.elapsed());
    let look = Look { width: terminal::width(), verbose: args.verbose, took };
    let text = render(&report, args.output, &look).map_err(|error| Failure::internal(error.to_string()))?;
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(report.verdict.into())
}
