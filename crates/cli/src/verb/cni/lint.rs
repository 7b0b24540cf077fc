//! `carrick cni lint`: configuration files, judged as the checks judge the one that is loaded; nothing is changed.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use carrick_core::cni::lint;
use carrick_core::fact::cni::{Candidate, is_conf_name};
use carrick_core::report::Report;

use super::{Output, show};
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::machine::{CredentialArgs, MachineArgs, open_bundle};

/// What is wrong with configuration files: a file, a directory, a bundle, or a machine's own; read-only
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file, a directory of files, or a bundle made by `carrick collect`; none looks at this machine
    #[arg(value_name = "PATH", conflicts_with = "host")]
    path: Option<PathBuf>,
    #[command(flatten)]
    place: MachineArgs,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// List what passes, too
    #[arg(short, long)]
    verbose: bool,
}

pub async fn run(args: Args) -> Result<Exit, Failure> {
    let report = match &args.path {
        None => lint::machine(&args.place.observe(CredentialArgs::default().into()).await?.0),
        Some(path) => lint_path(path)?,
    };
    show(&report, args.output, args.verbose)?;
    Ok(report.verdict.into())
}

fn lint_path(path: &Path) -> Result<Report, Failure> {
    let kind = fs::metadata(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    if !kind.is_dir() && !kind.is_file() {
        return Err(Failure::usage(format!("{}: neither a file nor a directory", path.display())));
    }
    if is_bundle(path, kind.is_dir())? {
        return Ok(lint::machine(&open_bundle(path)?));
    }
    let shown = path.display().to_string();
    if kind.is_file() {
        return Ok(lint::file(&shown, &read(path)?));
    }
    let files = files(path)?;
    if files.is_empty() {
        return Err(Failure::usage(format!("{shown}: no .conf, .conflist or .json in it: nothing to lint")));
    }
    Ok(lint::dir(&shown, &files))
}

fn is_bundle(path: &Path, is_dir: bool) -> Result<bool, Failure> {
    if is_dir {
        return Ok(path.join("manifest.json").exists());
    }
    Ok(matches!(Input::of(path)?, Input::Bundle(_)))
}

/// As a runtime would find them: by name.
fn files(dir: &Path) -> Result<Vec<Candidate>, Failure> {
    let entries = fs::read_dir(dir).map_err(|error| Failure::usage(format!("{}: {error}", dir.display())))?;
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let mut paths: Vec<PathBuf> = paths.filter(|path| is_conf_name(&name(path))).collect();
    paths.sort();
    let at = dir.display().to_string();
    let at = at.trim_end_matches('/');
    paths.iter().map(|path| Ok(Candidate::read(at, &name(path), &read(path)?))).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The longest that anybody wrote is a few kB; what is much longer is another file.
const LONGEST: u64 = 1 << 20;

fn read(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(Failure::usage(format!("{}: {error}", path.display()))),
        Ok(size) if size as u64 > LONGEST => {
            Err(Failure::usage(format!("{}: longer than {LONGEST} bytes: no CNI configuration", path.display())))
        }
        // What is not text is not JSON either, and is told as such.
        Ok(_) => Ok(carrick_core::redact::redact(&String::from_utf8_lossy(&bytes))),
    }
}
