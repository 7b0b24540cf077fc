//! The whole of `carrick check` and `carrick collect`, on this machine as it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

#[path = "../../host/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Sshd, program};

fn carrick(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carrick"));
    command.args(args).envs(environment.iter().copied()).output().unwrap()
}

/// What each check found: its verdict and its sentence.
fn findings(output: &Output) -> BTreeMap<String, (String, String)> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|finding| (text(finding, "id"), (text(finding, "verdict"), text(finding, "title")))).collect()
}

/// The exit status is the report's verdict: what it is on this machine, only the machine knows.
fn ends_by_its_verdict(output: &Output) -> bool {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let right = match report["verdict"].as_str() {
        Some("pass") => 0,
        Some("warn" | "unknown") => 4,
        Some("fail") => 3,
        _ => return false,
    };
    output.status.code() == Some(right)
}

#[test]
fn the_report_is_the_same_over_ssh() {
    let Some(sshd) = Sshd::start("") else { return };
    let config = sshd.options().config.unwrap();
    let here = carrick(&["check", "-o", "json"], &[]);
    let there = carrick(&["check", "-o", "json", "-H", "there", "--ssh-config", config.to_str().unwrap()], &[]);
    assert!(ends_by_its_verdict(&here) && here.status.code() == there.status.code(), "{here:?} {there:?}");
    let verdicts = |output| findings(output).into_iter().map(|(id, (verdict, _))| (id, verdict)).collect::<Vec<_>>();
    assert_eq!(verdicts(&here), verdicts(&there));
}

#[test]
fn a_bundle_is_judged_as_the_machine_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.tar.gz");
    let collected = carrick(&["collect", "--out", path.to_str().unwrap()], &[]);
    assert!(collected.status.success(), "{collected:?}");
    let here = carrick(&["check", "-o", "json"], &[]);
    let read = carrick(&["check", "-o", "json", path.to_str().unwrap()], &[]);
    let verdicts = |output| findings(output).into_iter().map(|(id, (verdict, _))| (id, verdict)).collect::<Vec<_>>();
    assert_eq!(verdicts(&here), verdicts(&read));
    let again = carrick(&["collect", "--out", path.to_str().unwrap()], &[]);
    assert_eq!(again.status.code(), Some(2), "an existing file was written over");
}

#[test]
fn a_command_that_hangs_costs_its_own_facts_and_no_more_than_the_time_box() {
    let dir = tempfile::tempdir().unwrap();
    program(&dir.path().join("systemctl"), "exec sleep 1000");
    program(&dir.path().join("ip"), "exec sleep 1000");
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let begun = Instant::now();
    let output = carrick(&["check", "-o", "json", "--time-box", "1"], &[("PATH", &path)]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let found = findings(&output);
    let (verdict, title) = &found["kubelet.masked"];
    assert_eq!((verdict.as_str(), title.as_str()), ("unknown", "cannot tell: systemctl show: no answer in time"));
    assert_eq!(found["network.default-route"].0, "unknown");
    for id in ["machine.cpu", "machine.memory", "kernel.version", "filesystem.inodes"] {
        assert_ne!(found[id].0, "unknown", "{id}: {}", found[id].1);
    }
    assert!(left_of(dir.path()).is_empty(), "{:?}", left_of(dir.path()));
}

/// Processes that still run a program of this directory.
fn left_of(dir: &Path) -> Vec<String> {
    let commands = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = commands.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    commands.filter(|command| command.contains(dir.to_str().unwrap())).collect()
}

#[test]
fn what_is_typed_wrong_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["collect", "--nonsense"][..], &["check", "--api", "nowhere"], &["collect", "--out", "/proc/none/x"]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carrick"));
        let output = command.args(args).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
