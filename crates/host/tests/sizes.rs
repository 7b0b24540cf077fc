//! What a busy machine has is read whole, here and over SSH: tens of thousands of rules, the mounts of hundreds of pods.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use carrick_core::fact::keep::{RULESET, RULESET_JSON};
use carrick_core::fact::{Facts, Source};
use carrick_core::testing::rules::{iptables_save, nft_json};
use carrick_host::{File, Host, Local, PathEntry, Progress, WriteMode, bundle};
use jiff::Timestamp;
use support::{Sshd, leak, query, seen};

const BOX: Duration = Duration::from_mins(2);
const RULES: usize = 20_000;

async fn is_read_whole(host: &dyn Host, dir: &Path) {
    let at = |name: &str| leak(dir.join(name).to_str().unwrap());
    let (save, json) = (iptables_save(RULES), nft_json(RULES));
    fs::write(at("save"), &save).unwrap();
    fs::write(at("json"), &json).unwrap();
    let sources: [Source; 2] =
        [query("save", &["cat", at("save")], RULESET), query("json", &["cat", at("json")], RULESET_JSON)];
    let observed = host.observe(&sources, &Progress::default()).await;
    for (key, text) in [("query save", &save), ("query json", &json)] {
        let capture = seen(&observed, key).as_ref().unwrap();
        assert!(capture.is_whole() && capture.text == *text, "{key}: {} of {}", capture.text.len(), text.len());
    }
    // As a reset reads and writes them.
    let said = host.run(&["cat", at("save")], BOX).await.unwrap();
    assert!(said.exit == 0 && said.out == save, "{} of {}", said.out.len(), save.len());
    assert!(
        matches!(host.look(at("save")).await.unwrap(), Some(PathEntry::File(file)) if file.bytes == save.as_bytes())
    );
    host.write(at("script"), &File::new(save.clone(), 0o600), WriteMode::Replace).await.unwrap();
    assert_eq!(fs::read_to_string(at("script")).unwrap(), save);
}

#[tokio::test]
async fn on_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    is_read_whole(&Local::new(BOX), dir.path()).await;
}

#[tokio::test]
async fn over_ssh() {
    let Some(sshd) = Sshd::start("") else { return };
    let dir = tempfile::tempdir().unwrap();
    let ssh = sshd.connect(BOX).await;
    is_read_whole(&ssh, dir.path()).await;
}

#[test]
fn in_a_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let mut facts = Facts::new("w1", Timestamp::UNIX_EPOCH);
    let json = nft_json(RULES);
    facts.insert("query nft -j list ruleset".into(), Ok(carrick_core::fact::Capture::text(&json)));
    let path = dir.path().join("b.tar.gz");
    bundle::write(&facts, &carrick_host::Redactions::new(), &mut fs::File::create(&path).unwrap()).unwrap();
    let read = bundle::open(&path).unwrap();
    let capture = read.get("query nft -j list ruleset").unwrap();
    assert!(capture.is_whole() && capture.text == json);
}
