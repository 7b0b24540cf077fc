//! `carrick diagnose`: the root cause, from this machine, a bundle, or any pasted text; nothing is changed.

use std::path::{Path, PathBuf};

use carrick_core::diagnose::Case;
use carrick_core::diagnose::scan::Scan;
use carrick_core::judge::Ignore;
use carrick_core::signature::{self, Library, Signature, lint};
use carrick_engine::health;
use jiff::Timestamp;

use crate::exit::{Exit, Failure};
use crate::input::{self, Input};
use crate::machine::{self, ClusterArgs, MachineArgs, client, open_bundle};
use crate::render::{Format, TextOptions, render};
use crate::terminal;

/// Find the root cause of a join that failed: on this machine, in a bundle, in any pasted text; read-only
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Texts, a directory of texts, a bundle made by `carrick collect`, or - for stdin; none reads what is piped in, else this machine
    #[arg(value_name = "FILE", conflicts_with_all = ["host", "api", "kubeconfig"])]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    place: MachineArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The node that is asked about; else the one most lines speak of
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// A directory with signatures of your own (*.toml), beside Carrick's
    #[arg(long, value_name = "DIR")]
    signatures: Option<PathBuf>,
    /// Only say what is wrong with the signatures: those of --signatures, else Carrick's own
    #[arg(long, conflicts_with = "inputs")]
    lint: bool,
    /// How to print the report
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Also the timeline, and everything that is normal
    #[arg(short, long)]
    verbose: bool,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let broken = |complaint: signature::Complaint| Failure::internal(complaint.to_string());
    let library = match &args.signatures {
        None if args.lint => {
            let own = signature::built_in().map_err(broken)?;
            return lint_report("Carrick's own", own.len(), &lint::complaints(&own, &[]));
        }
        None => Library::built_in().map_err(broken)?,
        Some(dir) => {
            let (own, mut all) = (own_signatures(dir)?, signature::built_in().map_err(broken)?);
            let complaints = lint::own(&own, &all);
            if args.lint {
                return lint_report(&dir.display().to_string(), own.len(), &complaints);
            }
            if let Some(first) = complaints.first() {
                let all = format!("carrick diagnose --lint --signatures {}", dir.display());
                return Err(Failure::usage(format!("{first}; all that is wrong: {all}")));
            }
            all.extend(own);
            Library::new(all).map_err(broken)?
        }
    };
    let case = case(&args, &library).await?;
    if let Some(complaint) = library.broken() {
        return Err(Failure::internal(complaint.to_string()));
    }
    let report = case.report(&Ignore::default());
    let look = TextOptions { width: terminal::width(), verbose: args.verbose, took: None };
    let text = render(&report, args.output, &look).map_err(|error| Failure::internal(error.to_string()))?;
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(report.verdict.into())
}

async fn case<'l>(args: &Args, library: &'l Library) -> Result<Case<'l>, Failure> {
    let node = args.node.clone();
    let mut inputs = args.inputs.iter().map(|path| Input::of(path)).collect::<Result<Vec<_>, _>>()?;
    if inputs.is_empty() && args.place.is_here() && args.cluster.is_nobody() && input::is_piped() {
        inputs.push(Input::Stdin);
    }
    match inputs.as_slice() {
        [] => {
            let host = args.place.host().await?;
            let admin = args.cluster.admin()?.map(|admin| client(&host, &admin));
            let mut facts = args.place.observe_on(host.as_ref(), admin.as_ref(), args.cluster.clone()).await?.0;
            // Of a kubelet that hangs everything else looks well.
            health::add_lease(&host, &mut facts).await;
            Ok(Case::of_facts(library, facts, node))
        }
        [Input::Bundle(path)] => Ok(Case::of_facts(library, open_bundle(path)?, node)),
        texts => {
            if let Some(bundle) = texts.iter().find_map(|input| match input {
                Input::Bundle(path) => Some(path),
                _ => None,
            }) {
                return Err(Failure::usage(format!("{}: a bundle is diagnosed by itself", bundle.display())));
            }
            let now = Timestamp::now();
            let mut scan = Scan::new(library, now);
            for input in texts {
                input::scan(&mut scan, input, |why| terminal::say(&format!("carrick: left out: {why}")))?;
            }
            Ok(Case::of_text(library, scan.finish(), now, node))
        }
    }
}

/// A signature is a page; what is much larger is another file.
const LARGEST_SIGNATURE: u64 = 256 << 10;

fn own_signatures(dir: &Path) -> Result<Vec<Signature>, Failure> {
    let cannot = |path: &Path, error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .map_err(|error| cannot(dir, error))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::usage(format!("--signatures {}: no *.toml in it", dir.display())));
    }
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        let text = machine::read_at_most(path, LARGEST_SIGNATURE);
        let text = text.map_err(|error| Failure::usage(format!("{name}: {error}: no signature is")))?;
        signature::parse(&name, &text).map_err(|complaint| Failure::usage(complaint.to_string()))
    };
    files.iter().map(read).collect()
}

fn lint_report(whose: &str, count: usize, complaints: &[signature::Complaint]) -> Result<Exit, Failure> {
    let lines: String = complaints.iter().map(|complaint| format!("{complaint}\n")).collect();
    let sum = match complaints.len() {
        0 => format!("{whose}: {count} signatures, nothing wrong\n"),
        n => format!("{whose}: {count} signatures, {n} complaints\n"),
    };
    terminal::print(&(lines + &sum)).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(if complaints.is_empty() { Exit::Ok } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_that_has_no_end_is_not_read_to_it() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("mine.toml")).unwrap();
        let refused = own_signatures(dir.path()).unwrap_err();
        assert!(refused.to_string().ends_with("mine.toml: longer than 262144 bytes: no signature is"), "{refused}");
    }
}
