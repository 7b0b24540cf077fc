//! Secrets of every kind, planted in every kind of source: none is anywhere in a bundle, byte for byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

mod support;

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use carrick_core::fact::keep::{ERRORS, Keeper, USUAL};
use carrick_core::fact::{Capture, Source};
use carrick_host::{Local, Observation, Probe, Progress, bundle, gather};
use flate2::read::GzDecoder;
use jiff::Timestamp;
use support::{Sshd, leak, path, query, shell};

const BOX: Duration = Duration::from_secs(10);

/// A text with a secret of each kind, and the secrets; each place has its own.
struct Plant {
    text: String,
    secrets: Vec<String>,
}

/// Letters and digits that look like chance and are the same in every run.
fn chance(seed: &str, alphabet: &[u8], length: usize) -> String {
    let mut state = seed
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()] as char
    };
    (0..length).map(|_| next()).collect()
}

fn plant(place: &str) -> Plant {
    const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    const HEX: &[u8] = b"0123456789abcdef";
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let secret = |kind: &str, alphabet, length| chance(&format!("{place} {kind}"), alphabet, length);
    let token = format!("{}.{}", secret("id", LOWER, 6), secret("secret", LOWER, 16));
    let key = secret("certificate key", HEX, 64);
    let [pem_1, pem_2, data, jwt, bearer, password, url, node] =
        ["pem 1", "pem 2", "data", "jwt", "bearer", "password", "url", "node"].map(|kind| secret(kind, BASE64, 64));
    let jwt = format!("eyJ{jwt}.eyJ{jwt}.{jwt}");
    let text = format!(
        "kubeadm join 10.0.0.11:6443 --token {token} --discovery-token-ca-cert-hash sha256:0\n\
         kubeadm join --certificate-key {key}\n\
         -----BEGIN RSA PRIVATE KEY-----\n{pem_1}\n{pem_2}\n-----END RSA PRIVATE KEY-----\n\
         users:\n- name: x\n  user:\n    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt{data}\n    token: {node}\n\
         Authorization: Bearer {bearer}\n\
         id {jwt}\n\
         password: {password}\n\
         HTTPS_PROXY=http://operator:{url}@proxy.example.org:3128/\n\
         the end of {place}\n"
    );
    Plant { text, secrets: vec![token, key, pem_1, pem_2, data, jwt, bearer, password, url, node] }
}

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
    std::os::unix::fs::symlink("../target", dir.join("tree/link")).unwrap();
    let at = |name: &str| path(dir, name);
    // A secret in the middle of what is cut out of a log, on its edges, and at its ends.
    let log = format!("cat {0}; seq 1 300000; cat {0}; seq 1 300000; cat {0}", at("log"));
    let sources = vec![
        Source::File(at("file")),
        Source::File(at("far")),
        Source::File(at("beyond")),
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
    for kind in
        ["bootstrap-token", "certificate-key", "private-key", "credential", "authorization", "url-password", "jwt"]
    {
        assert!(text.contains(&format!("\"kind\": \"{kind}\"")), "{kind} is reported");
    }
}

/// Also a part of a secret must not be there.
fn pieces_found(bytes: &[u8], secrets: &[String]) -> Vec<String> {
    const PIECE: usize = 12;
    let pieces: HashSet<&[u8]> = secrets.iter().flat_map(|secret| secret.as_bytes().windows(PIECE)).collect();
    let found = bytes.windows(PIECE).filter(|window| pieces.contains(window));
    found.map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
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
