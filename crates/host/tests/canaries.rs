//! Secrets of every kind, planted in every kind of source: none is anywhere in a bundle, byte for byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

mod support;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use carrick_core::fact::keep::{ERRORS, Keeper, USUAL};
use carrick_core::fact::{Capture, Source};
use carrick_core::testing::secret::{Plant, pieces_found, plant};
use carrick_host::{Local, Observation, Probe, Progress, bundle, gather};
use flate2::read::GzDecoder;
use jiff::Timestamp;
use support::{Sshd, leak, path, query, shell};

const BOX: Duration = Duration::from_secs(10);

/// A source of each kind, with its own secrets.
fn planted(dir: &Path) -> (Vec<Source>, Vec<String>) {
    let mut secrets = Vec::new();
    let mut write = |name: &str, before: usize| {
        let plant = plant(name);
        fs::write(dir.join(name), format!("{}{}", "a line before\n".repeat(before), plant.text)).unwrap();
        secrets.extend(plant.secrets);
    };
    fs::create_dir(dir.join("tree")).unwrap();
    // The second crosses the size of every buffer on the way; the third the end of what is kept.
    for (name, before) in [
        ("file", 0),
        ("far", 4660),
        ("beyond", 74_870),
        ("tree/file", 0),
        ("target", 0),
        ("out", 0),
        ("log", 0),
        ("errors", 0),
    ] {
        write(name, before);
    }
    // Shorter without its secrets than what is kept, it is read no further than into the middle of a token.
    let tokens: Vec<String> =
        (0..30_000).map(|n| format!("{:06x}.{:016x}", n, 0x9e37_79b9_7f4a_7c15_u64.rotate_left(n))).collect();
    let key = "c2VjcmV0".repeat(80_000);
    fs::write(dir.join("shrunk"), format!("client-key-data: {key}\n{}\n", tokens.join("\n"))).unwrap();
    secrets.extend(tokens);
    std::os::unix::fs::symlink("../target", dir.join("tree/link")).unwrap();
    let at = |name: &str| path(dir, name);
    // A secret in the middle of what is cut out of a log, on its edges, and at its ends.
    let log = format!("cat {0}; seq 1 300000; cat {0}; seq 1 300000; cat {0}", at("log"));
    let sources = vec![
        Source::File(at("file")),
        Source::File(at("far")),
        Source::File(at("beyond")),
        Source::File(at("shrunk")),
        Source::Tree(at("tree")),
        query("out", &["cat", at("out")], USUAL),
        query("log", &["sh", "-c", leak(log)], carrick_core::fact::keep::LOG),
        shell("errors", &format!("cat {} >&2; exit 1", at("errors"))),
    ];
    (sources, secrets)
}

fn holds_none(observations: Vec<Observation>, secrets: &[String]) {
    let texts: Vec<String> =
        observations.iter().filter_map(|seen| Some(seen.capture.as_ref().ok()?.text.clone())).collect();
    assert!(texts.iter().any(|text| text.contains("the end of file")), "the rest of the text is there");
    let (facts, redactions) = gather("w1", Timestamp::UNIX_EPOCH, observations);
    let mut packed = Vec::new();
    let written = bundle::write(&facts, &redactions, &mut packed).unwrap();
    assert!(written.redacted > 50, "{written:?}");
    let mut tar = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut tar).unwrap();
    for bytes in [&packed, &tar] {
        assert_eq!(pieces_found(bytes, secrets), Vec::<String>::new());
    }
    let text = String::from_utf8_lossy(&tar);
    for kind in [
        "authorization",
        "bootstrap-token",
        "certificate-key",
        "cloud-key",
        "cluster-token",
        "credential",
        "jwt",
        "kubeconfig",
        "password-hash",
        "private-key",
        "registry-credential",
        "token",
        "url-password",
    ] {
        assert!(text.contains(&format!("\"kind\": \"{kind}\"")), "{kind} is reported");
    }
}

#[test]
fn what_is_looked_for_would_be_found() {
    let Plant { text, secrets } = plant("here");
    for secret in secrets {
        assert!(!pieces_found(text.as_bytes(), std::slice::from_ref(&secret)).is_empty(), "{secret} is planted");
    }
}

/// Every place Carrick looks at, with its own secrets on stdout and stderr, through what all of them go through.
#[test]
fn nothing_secret_is_kept_of_any_source() {
    let (mut observations, mut secrets) = (Vec::new(), Vec::new());
    for source in carrick_core::fact::sources() {
        let keep = if let Source::Query(query) = source { query.keep } else { USUAL };
        let (out, errors) = (plant(&format!("file {}", source.key())), plant(&format!("errors of {}", source.key())));
        let kept = |keep, text: &str| {
            let mut keeper = Keeper::new(keep);
            keeper.push(text.as_bytes());
            keeper.finish()
        };
        let ((capture, mut redactions), (said, more)) = (kept(keep, &out.text), kept(ERRORS, &errors.text));
        redactions.extend(more);
        let capture = Ok(Capture { errors: said.text, exit: Some(1), ..capture });
        observations.push(Observation { key: source.key(), capture, redactions });
        secrets.extend(out.secrets.into_iter().chain(errors.secrets));
    }
    assert!(observations.len() > 100);
    holds_none(observations, &secrets);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_is_in_a_bundle_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let (sources, secrets) = planted(dir.path());
    holds_none(Local::new(BOX).observe(&sources, &Progress::default()).await, &secrets);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_is_in_a_bundle_of_a_machine_over_ssh() {
    let Some(sshd) = Sshd::start("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (sources, secrets) = planted(dir.path());
    let ssh = sshd.connect(BOX).await;
    holds_none(ssh.observe(&sources, &Progress::default()).await, &secrets);
}
