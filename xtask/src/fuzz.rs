//! `cargo xtask fuzz`: every target of fuzz/ for some minutes, one after the other, with a nightly compiler and cargo-fuzz.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// One input that takes longer than this, in seconds, hangs; one that needs more than this, in MiB, is not bounded.
const LIMITS: [&str; 2] = ["-timeout=30", "-rss_limit_mb=2048"];

/// The part of fuzz/Cargo.toml that names the targets.
#[derive(Deserialize)]
struct Manifest {
    bin: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    path: PathBuf,
}

pub fn run(minutes: f64, names: &[String]) -> anyhow::Result<()> {
    ensure!(minutes > 0.0 && minutes <= 24.0 * 60.0, "{minutes} is no number of minutes to fuzz for");
    let seconds = Duration::from_secs_f64(minutes * 60.0).as_secs().max(1);
    let chosen = chosen(targets()?, names)?;
    // What does not build is no crash.
    ensure!(fuzz(&["build"])?, "the targets do not build");
    let mut crashed = Vec::new();
    for name in &chosen {
        println!("fuzz: {name} for {seconds} s");
        let time = format!("-max_total_time={seconds}");
        let ended_well = fuzz(&[&["run", name, "--", &time][..], &LIMITS].concat())?;
        crashed.extend((!ended_well).then_some(name));
    }
    for name in &crashed {
        println!("fuzz: {name} crashed; its input is in fuzz/artifacts/{name}");
    }
    println!("fuzz: {} targets, {} crashes", chosen.len(), crashed.len());
    ensure!(crashed.is_empty(), "{} of {} targets crashed", crashed.len(), chosen.len());
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn targets() -> anyhow::Result<Vec<Target>> {
    let place = root().join("fuzz/Cargo.toml");
    let text = std::fs::read_to_string(&place).with_context(|| place.display().to_string())?;
    let Manifest { bin } = toml::from_str(&text).with_context(|| place.display().to_string())?;
    ensure!(!bin.is_empty(), "{} names no target", place.display());
    let is_there = |target: &&Target| root().join("fuzz").join(&target.path).is_file();
    if let Some(absent) = bin.iter().find(|target| !is_there(target)) {
        bail!("{}: {} is not there", place.display(), absent.path.display());
    }
    Ok(bin)
}

/// Those that were asked for; all where none was.
fn chosen(targets: Vec<Target>, names: &[String]) -> anyhow::Result<Vec<String>> {
    let known: Vec<String> = targets.into_iter().map(|target| target.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("{unknown} is no target of fuzz/: {}", known.join(", "));
    }
    Ok(if names.is_empty() { known } else { names.to_vec() })
}

/// Whether `cargo fuzz` ended well.
fn fuzz(arguments: &[&str]) -> anyhow::Result<bool> {
    let mut cargo = Command::new("cargo");
    // Which compiler, and where to build, is cargo's own to say anew: ours are not for this.
    for name in ["RUSTUP_TOOLCHAIN", "CARGO", "CARGO_TARGET_DIR"] {
        cargo.env_remove(name);
    }
    let status = cargo.args(["+nightly", "fuzz"]).args(arguments).current_dir(root()).status();
    Ok(status.context("cargo +nightly fuzz: install a nightly toolchain and cargo-fuzz")?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_target_and_every_target_a_file() {
        let mut named: Vec<PathBuf> =
            targets().unwrap().iter().map(|target| root().join("fuzz").join(&target.path)).collect();
        let files = std::fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        named.sort();
        files.sort();
        assert_eq!(named, files);
        let by_file = |target: &Target| target.path.file_stem().and_then(|stem| stem.to_str()) == Some(&target.name);
        assert!(targets().unwrap().iter().all(by_file));
    }

    #[test]
    fn a_name_that_is_no_target_is_refused() {
        assert_eq!(chosen(targets().unwrap(), &["redact".to_owned()]).unwrap(), ["redact"]);
        assert!(chosen(targets().unwrap(), &[]).unwrap().len() > 10);
        assert!(
            chosen(targets().unwrap(), &["redcat".to_owned()]).unwrap_err().to_string().starts_with("redcat is no")
        );
    }
}
