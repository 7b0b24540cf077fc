//! What comes from elsewhere and reaches a terminal is text by then: names of files and hosts, what ssh says, what was typed.
#![allow(clippy::unwrap_used)] // What helps a test is a test.

#[path = "../../host/tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use carrick_core::fact::Capture;
use carrick_core::fact::example::troubled_worker;
use carrick_core::shown::is_unseen;
use carrick_host::{Redactions, bundle};
use carrick_testkit::need;
use support::program;

/// The title of a window, a cleared screen, colour by eight bits, another direction, and no width.
const HOSTILE: &str = "w\x1b]0;pwned\x07\x1b[2J\u{9b}31m\u{202e}x\u{200b}";
const SHOWN: &str = "w\u{fffd}]0;pwned\u{fffd}\u{fffd}[2J\u{fffd}31m\u{fffd}x\u{fffd}";

fn carrick(args: &[&str], dir: &Path) -> Output {
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    Command::new(env!("CARGO_BIN_EXE_carrick")).args(args).current_dir(dir).env("PATH", path).output().unwrap()
}

/// Both streams, with nothing in them that a terminal obeys.
fn seen(output: &Output) -> String {
    let text =
        [&output.stdout[..], &output.stderr[..]].map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).concat();
    let obeyed: Vec<char> = text.chars().filter(|c| is_unseen(*c) && !matches!(c, '\n' | '\t')).collect();
    assert!(obeyed.is_empty(), "{obeyed:?} in {text}");
    text
}

/// A machine whose name and whose /etc/os-release are not what they should be.
fn hostile_bundle(path: &Path) {
    let mut facts = troubled_worker();
    HOSTILE.clone_into(&mut facts.host);
    let release = format!("ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian {HOSTILE}\"\n");
    facts.insert("file /etc/os-release".into(), Ok(Capture::text(&release)));
    bundle::write(&facts, &Redactions::new(), &mut fs::File::create(path).unwrap()).unwrap();
}

#[test]
fn a_folder_with_hostile_names() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join(format!("{HOSTILE}\ncarrick: all is well")), b"\0binary").unwrap();
    let line = "Jan 02 10:00:00 w1 kubelet[1]: E0102 10:00:00.0 1 run.go:74] \"command failed\" err=\"failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false\"\n";
    fs::write(logs.join(format!("log {HOSTILE}")), line).unwrap();
    let done = carrick(&["diagnose", "logs"], dir.path());
    let text = seen(&done);
    assert!(
        text.contains(&format!("carrick: left out: logs/{SHOWN}\u{fffd}carrick: all is well is no text")),
        "{text}"
    );
    assert!(text.contains(&format!("log {SHOWN}")), "{text}");
    assert!(!text.lines().any(|line| line == "carrick: all is well"), "{text}");
    let one = carrick(&["diagnose", &format!("logs/{HOSTILE}")], dir.path());
    assert!(seen(&one).contains(SHOWN));
}

#[test]
fn a_bundle_of_a_machine_with_a_hostile_name() {
    let dir = tempfile::tempdir().unwrap();
    hostile_bundle(&dir.path().join("b.tar.gz"));
    for verb in ["check", "diagnose"] {
        for format in ["text", "html", "junit"] {
            let text = seen(&carrick(&[verb, "b.tar.gz", "-o", format], dir.path()));
            assert!(text.contains(SHOWN), "{verb} {format}: {text}");
            assert!(format == "junit" || text.contains(&format!("Debian {SHOWN}")), "{verb} {format}: {text}");
        }
        let coloured = carrick(&[verb, "b.tar.gz", "--color", "always"], dir.path());
        let coloured = String::from_utf8(coloured.stdout).unwrap();
        assert!(coloured.starts_with(&format!("\x1b[1m{SHOWN}\x1b[0m · Debian {SHOWN} · ")), "{coloured:?}");
        let sequences: Vec<&str> =
            coloured.split('\x1b').skip(1).filter_map(|rest| rest.split_once('m')).map(|(style, _)| style).collect();
        let ours = ["[0", "[1", "[2", "[1;31", "[1;32", "[1;33", "[1;35"];
        assert!(sequences.iter().all(|style| ours.contains(style)), "{sequences:?}");
    }
}

#[test]
fn json_in_a_pipe_is_as_it_was_made_and_on_a_terminal_escaped() {
    let dir = tempfile::tempdir().unwrap();
    hostile_bundle(&dir.path().join("b.tar.gz"));
    let piped = carrick(&["check", "b.tar.gz", "-o", "json"], dir.path());
    let value: serde_json::Value = serde_json::from_slice(&piped.stdout).unwrap();
    assert_eq!(value["machine"]["os"], format!("Debian {HOSTILE}"));
    assert_eq!(piped.stdout, format!("{value}\n").into_bytes());
    if !need("script") {
        return;
    }
    let command = format!("{} check b.tar.gz -o json", env!("CARGO_BIN_EXE_carrick"));
    let mut script = Command::new("script");
    let typed = script.args(["-qec", &command, "/dev/null"]).current_dir(dir.path()).output().unwrap();
    let typed = String::from_utf8(typed.stdout).unwrap().replace("\r\n", "\n");
    let json = typed.lines().find(|line| line.starts_with('{')).unwrap();
    assert!(!json.contains(is_unseen), "{json:?}");
    assert!(json.contains("\\u009b31m\\u202ex\\u200b"), "{json}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(json).unwrap(), value);
}

#[test]
fn what_ssh_says_and_where_it_was_to_go() {
    let dir = tempfile::tempdir().unwrap();
    program(
        &dir.path().join("ssh"),
        "#!/bin/sh\nprintf 'ssh: \\033]0;pwned\\007\\302\\2332J\\342\\200\\256 no route\\n' >&2; exit 255",
    );
    let text = seen(&carrick(&["check", "-H", HOSTILE], dir.path()));
    assert!(text.starts_with(&format!("carrick: {SHOWN}: ")), "{text}");
    let text = seen(&carrick(&["check", "-H", "w1"], dir.path()));
    assert!(text.contains("\u{fffd}]0;pwned\u{fffd}\u{fffd}2J\u{fffd} no route"), "{text}");
}

#[test]
fn what_was_typed_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let rows: [&[&str]; 5] = [
        &[HOSTILE],
        &["check", HOSTILE],
        &["check", "--api", HOSTILE],
        &["explain", HOSTILE],
        &["join", "--api", "10.0.0.11:6443", "--ca-hash", HOSTILE],
    ];
    for args in rows {
        let done = carrick(args, dir.path());
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        assert!(seen(&done).contains("pwned"), "{args:?}: {done:?}");
    }
}
