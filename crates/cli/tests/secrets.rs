//! Every kind of secret in what `diagnose` reads, in lines that are quoted and in texts that are judged: none is in any output.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use carrick_core::fact::{Capture, Facts};
use carrick_core::testing::NOW;
use carrick_core::testing::secret::{KINDS, Plant, pieces_found, plant, plant_one};
use carrick_host::{Redactions, bundle};
use serde_json::json;

/// A line that a signature knows, so that it is quoted with what stands before and behind.
const KNOWN: &str = "failed to run Kubelet: running with swap on is not supported";

fn outputs(path: &str, dir: &Path, secrets: &[String]) {
    for output in ["text", "json", "html", "junit"] {
        let command = || Command::new(env!("CARGO_BIN_EXE_carrick"));
        let done = command().args(["diagnose", path, "-v", "-o", output]).current_dir(dir).output().unwrap();
        let (out, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        // junit has the checks alone, and quotes no line of a log.
        let quotes = out.contains("running with swap on") && out.contains("redacted:");
        assert!(quotes || output == "junit" && out.contains("<testcase"), "{output}: {out}{errors}");
        for shown in [out, errors] {
            assert_eq!(pieces_found(shown.as_bytes(), secrets), Vec::<String>::new(), "{output}: {shown}");
        }
    }
}

/// A journal with a line of each kind, of another machine each, so that each is quoted; at times more than a quote holds.
fn journal() -> Plant {
    let mut all = Plant { text: String::new(), secrets: Vec::new() };
    for (n, kind) in KINDS.iter().enumerate() {
        let Plant { text, secrets } = plant_one(kind, "journal");
        let space = "and so on ".repeat(n % 17);
        let head = format!("Nov 15 17:40:00 w{n} kubelet[12]: E1115 17:40:00.000001      12 run.go:72]");
        writeln!(all.text, "{head} {KNOWN}: {space}{}", text.replace('\n', "\\n")).unwrap();
        // In one line some are no secrets any more that anybody could tell.
        if !text.contains('\n') && !["any length", ", words", "RKE2"].iter().any(|it| kind.0.contains(it)) {
            all.secrets.extend(secrets);
        }
    }
    all
}

#[test]
fn no_secret_of_a_paste_is_in_any_output() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, mut text) = (journal(), String::new());
    let mut secrets = journal.secrets;
    for path in
        ["/etc/environment", "/etc/kubernetes/kubelet.conf", "/etc/containerd/config.toml", "/etc/fstab", "/etc/hosts"]
    {
        let Plant { text: of_file, secrets: of_one } = plant(path);
        write!(text, "root@w1:~# cat {path}\n{of_file}").unwrap();
        secrets.extend(of_one);
    }
    write!(text, "root@w1:~# journalctl -u kubelet\n{}", journal.text).unwrap();
    fs::write(dir.path().join("paste.txt"), text).unwrap();
    outputs("paste.txt", dir.path(), &secrets);
}

/// Somebody else's bundle may hold what its writer did not redact.
#[test]
fn no_secret_of_a_bundle_is_in_any_output() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, mut secrets) = (journal(), Vec::new());
    let mut facts = Facts::new("w1", NOW);
    for source in carrick_core::fact::sources() {
        let Plant { text, secrets: of_one } = plant(&source.key());
        facts.insert(source.key(), Ok(Capture { exit: Some(0), errors: text.clone(), ..Capture::text(text) }));
        secrets.extend(of_one);
    }
    let entry = |line: &str| {
        let message = line.split_once("]: ").map_or(line, |(_, message)| message);
        let fields = json!({"__REALTIME_TIMESTAMP": "1763228400000000", "SYSLOG_IDENTIFIER": "kubelet", "_PID": "12", "MESSAGE": message});
        format!("{fields}\n")
    };
    let lines: String = journal.text.lines().map(entry).collect();
    facts.insert("query journalctl -u kubelet".to_owned(), Ok(Capture { exit: Some(0), ..Capture::text(lines) }));
    secrets.extend(journal.secrets);
    bundle::write(&facts, &Redactions::new(), fs::File::create(dir.path().join("w1.tar.gz")).unwrap()).unwrap();
    outputs("w1.tar.gz", dir.path(), &secrets);
}
