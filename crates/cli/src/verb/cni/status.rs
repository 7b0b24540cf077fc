//! `carrick cni status`: what is configured, what the runtime has loaded, and what runs; nothing is changed.

use std::path::PathBuf;

use carrick_core::cni::status;

use super::{Output, library, show};
use crate::exit::{Exit, Failure};
use crate::machine::{CredentialArgs, MachineArgs, open_bundle};

/// What is configured, what the runtime has loaded, and what runs; read-only
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundle made by `carrick collect` instead of this machine
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["host", "kubeconfig"])]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    credential: CredentialArgs,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let facts = match &args.bundle {
        Some(path) => open_bundle(path)?,
        None => args.place.observe(args.credential.into()).await?.0,
    };
    let report = status::report(&library()?, &facts);
    show(&report, args.output, false)?;
    Ok(report.verdict.into())
}
