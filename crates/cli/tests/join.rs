//! What `carrick join` reads from stdin and from its command line, up to its refusal: nothing is looked at or touched.
#![allow(clippy::unwrap_used)] // What helps a test is a test.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// A line that lacks only the CA's hash: what is refused of it, it was read.
const LINE: &str = "kubeadm join 10.0.0.11:6443 --token abcdef.0123456789abcdef\n";
const READ: &str = "carrick: --ca-hash: missing";
const MISSING: &str =
    "carrick: --api: missing; give HOST:PORT of the API server, or --config, or --kubeconfig, or the line";

fn join(args: &[&str], master: Option<&str>, stdin: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carrick"));
    command.arg("join").args(args).env_remove("MASTER_IP").envs(master.map(|master| ("MASTER_IP", master)));
    let mut join = command.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // Who has refused before reads nothing.
    let _ = join.stdin.take().unwrap().write_all(stdin.as_bytes());
    let ended = join.wait_with_output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
fn the_line_is_read_from_where_it_is_given() {
    let long = "x".repeat((64 << 10) + 1);
    let too_long = "carrick: the join line: it is longer than 65536 bytes";
    for (args, master, stdin, expected) in [
        (&["-"][..], None, LINE, READ),
        // Nothing else says which cluster it is: then stdin does.
        (&[], None, LINE, READ),
        (&["--node-name", "w1"], None, LINE, READ),
        (&[], None, "kubectl get nodes", "carrick: the join line: no \"kubeadm join\" in it"),
        (&[], None, "", MISSING),
        (&["--ca-hash", "sha256:aa"], None, LINE, "carrick: --ca-hash: \"sha256:aa\" is not"),
        // MASTER_IP may be left over, and comes last.
        (&[], Some("10.0.0.12"), LINE, READ),
        (&[], Some("10.0.0.12"), "", "carrick: --token-file: missing"),
        // No more than this is taken from anywhere, and nobody waits for a reader.
        (&["-"], None, &long, too_long),
        (&[&long], None, "", too_long),
        (&["--", "kubeadm", "join", &long], None, "", too_long),
    ] {
        let (exit, says) = join(args, master, stdin);
        let shown: String = format!("{args:?}").chars().take(60).collect();
        assert_eq!(exit, Some(2), "{shown}: {says}");
        assert!(says.starts_with(expected) && says.lines().count() == 1, "{shown}: {says}");
    }
}
