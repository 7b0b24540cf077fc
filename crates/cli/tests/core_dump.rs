//! A process that holds a token leaves no copy of its memory behind.
#![allow(clippy::unwrap_used)] // What helps a test is a test.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Nobody in particular.
const NOBODY: u32 = 65_534;

/// A program in a shell that takes every limit off core dumps; as an ordinary user where the test is root.
fn started(program: &str, dir: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -c unlimited; exec {program}")]).current_dir(dir).env("PATH", "/usr/bin:/bin");
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Whether it crashes with a copy of its memory, wherever that goes.
fn dumps_core(mut child: Child) -> bool {
    kill_process(Pid::from_child(&child), Signal::ABORT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
    status.core_dumped()
}

/// A place where anybody may run carrick, and write.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_carrick"), dir.path().join("carrick")).unwrap();
    dir
}

#[test]
fn a_join_that_holds_a_token_cannot_be_dumped() {
    let dir = place();
    let mut join = started("./carrick join", dir.path());
    let mut line = String::new();
    join.stdin.as_mut().unwrap().write_all(b"kubeadm join 10.0.0.11:6443 --token abcdef.0123456789abcdef").unwrap();
    BufReader::new(join.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("is read from stdin"), "{line}");
    let about = |file: &str| format!("/proc/{}/{file}", join.id());
    let limits = fs::read_to_string(about("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
    // The kernel gives these to root where a process is not dumpable: no other of its user can read its memory.
    assert_eq!(fs::metadata(about("mem")).unwrap().uid(), 0);
    assert!(!dumps_core(join));
}

/// What the other test would see of a process that does nothing about it, where cores are written at all.
#[test]
fn another_process_can_be_dumped() {
    let dir = place();
    let sleep = started("sleep 100", dir.path());
    let owner = if geteuid().is_root() { NOBODY } else { geteuid().as_raw() };
    while fs::read_to_string(format!("/proc/{}/comm", sleep.id())).unwrap() != "sleep\n" {}
    assert_eq!(fs::metadata(format!("/proc/{}/mem", sleep.id())).unwrap().uid(), owner);
    let dumped = dumps_core(sleep);
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    assert!(dumped || pattern.trim() != "core", "{pattern}");
}

/// A token on the command line is moved off it by running ourselves anew, through /proc: an ordinary user can do that too.
#[test]
fn what_is_run_anew_still_runs() {
    let dir = place();
    let join = started("./carrick join -- kubeadm join 10.0.0.11:6443 --token abcdef.0123456789abcdef", dir.path());
    let said = join.wait_with_output().unwrap();
    let says = String::from_utf8(said.stderr).unwrap();
    assert!(says.starts_with("carrick: --ca-hash: missing"), "{says}");
}
