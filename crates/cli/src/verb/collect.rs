//! `carrick collect`: a bundle of everything that can be seen, secrets taken out; `check` reads it anywhere.

use std::path::PathBuf;

use carrick_host::bundle;

use crate::exit::{Exit, Failure};
use crate::machine::{Cluster, Where};
use crate::terminal;

/// Collect what can be seen into a bundle, secrets taken out, that `carrick check` reads anywhere; read-only
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write the bundle; default: carrick-HOST-TIME.tar.gz here
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    cluster: Cluster,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let observed = args.place.observe(args.cluster.aim()?.as_ref()).await?;
    let path = args.out.unwrap_or_else(|| default_name(&observed.facts.host, observed.facts.taken_at));
    let bytes = bundle::write_file(&observed, &path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let seen = observed.facts.iter().filter(|(_, capture)| capture.is_ok()).count();
    let missing = observed.facts.iter().count() - seen;
    let taken_out: u64 = observed.redactions.iter().map(|(_, redaction)| redaction.count).sum();
    terminal::print(&format!(
        "{}  {} kB, {seen} facts, {missing} not to be had, {taken_out} secrets taken out\nread it with: carrick check {}\n",
        path.display(),
        bytes.div_ceil(1000),
        path.display()
    ))
    .map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(Exit::Ok)
}

/// A name that is safe to write whatever the host is called.
fn default_name(host: &str, at: jiff::Timestamp) -> PathBuf {
    let host: String = host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' }).collect();
    let host = host.trim_start_matches(['-', '.']);
    PathBuf::from(format!("carrick-{host}-{}.tar.gz", at.strftime("%Y%m%dT%H%M%SZ")))
}
