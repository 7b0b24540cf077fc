//! `carrick collect`: a bundle of everything that can be seen, secrets taken out; `check` reads it anywhere.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use carrick_host::bundle;

use crate::exit::{Exit, Failure};
use crate::machine::{ClusterArgs, MachineArgs};
use crate::terminal;

/// Collect what can be seen into a bundle, secrets taken out, that `carrick check` reads anywhere; read-only
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write the bundle; default: carrick-HOST-TIME.tar.gz here
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let (facts, redactions) = args.place.observe(args.cluster).await?;
    let path = args.out.unwrap_or_else(|| default_name(&facts.host, facts.taken_at));
    let shown = path.display();
    let failed = |error: io::Error| Failure::usage(format!("{shown}: {error}"));
    let mut file = create(&path).map_err(failed)?;
    let written = bundle::write(&facts, &redactions, &mut file).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let missing = facts.iter().filter(|(_, capture)| capture.is_err()).count();
    let left_out = if written.left_out > 0 { format!(", {} too large", written.left_out) } else { String::new() };
    terminal::print(&format!(
        "{shown}  {} kB: {} facts, {missing} not to be had{left_out}; {} secrets taken out\njudge it with: carrick check {shown}\n",
        bytes.div_ceil(1000),
        written.facts,
        written.redacted,
    ))
    .map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(Exit::Ok)
}

/// A new file, for its owner only: what is in it is nobody else's business. An existing one is not written over.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A name that is safe to write whatever the host is called.
fn default_name(host: &str, at: jiff::Timestamp) -> PathBuf {
    let host: String =
        host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' }).collect();
    let host = host.trim_start_matches(['-', '.']);
    PathBuf::from(format!("carrick-{host}-{}.tar.gz", at.strftime("%Y%m%dT%H%M%SZ")))
}
