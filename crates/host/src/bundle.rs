//! A machine's facts in a file: written by `collect`, read by whatever judges.
//!
//! `manifest.json` says what is known of each fact and what was taken out of it; `facts/NNN-name.txt` is its text. As a
//! `.tar.gz`, a `.tar` or a directory. Reading one trusts nothing: it comes from elsewhere. Nothing is ever unpacked.

mod open;

use std::io::{self, Write};

use carrick_core::fact::{Capture, Facts, Why};
use carrick_core::redact::redact;
use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::probe::Redactions;
pub use open::{BundleError, BundleFault, open};

const SCHEMA: &str = "carrick.bundle/v";
const VERSION: u32 = 1;

/// How large a bundle may get before it is compressed: what one can still mail, at the tenth of it that it packs to.
pub const LARGEST: usize = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Manifest {
    schema: String,
    /// The version that wrote it.
    carrick: String,
    host: String,
    taken_at: Timestamp,
    facts: Vec<Listed>,
    redactions: Vec<Reported>,
}

/// One fact: a file, or why there is none.
#[derive(Serialize, Deserialize)]
struct Listed {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(flatten)]
    why: Option<Why>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    errors: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    dropped: u64,
    #[serde(default)]
    bytes: usize,
}

/// What was taken out of one fact.
#[derive(Serialize, Deserialize)]
struct Reported {
    key: String,
    kind: String,
    count: u64,
    first_line: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How many of a file's first (unpacked) bytes tell a tar from a text.
pub const HEAD: u64 = 512;

/// Whether a file that begins like this is a tar: what is read as a bundle, not as a log.
pub fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// What went into a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BundleSummary {
    pub facts: usize,
    /// Facts whose text found no room.
    pub left_out: usize,
    /// Secrets that were taken out.
    pub redacted: u64,
}

/// Writes a `.tar.gz`. The same facts give the same bytes.
pub fn write(facts: &Facts, redactions: &Redactions, out: impl Write) -> io::Result<BundleSummary> {
    write_within(LARGEST, facts, redactions, out)
}

fn write_within(largest: usize, facts: &Facts, redactions: &Redactions, out: impl Write) -> io::Result<BundleSummary> {
    let (listed, texts) = list(largest, facts);
    let reported = redactions.iter().flat_map(|(key, found)| {
        found.iter().map(move |redaction| Reported {
            key: key.clone(),
            kind: redaction.kind.clone(),
            count: redaction.count,
            first_line: redaction.first_line,
        })
    });
    let manifest = Manifest {
        schema: format!("{SCHEMA}{VERSION}"),
        carrick: env!("CARGO_PKG_VERSION").to_owned(),
        host: facts.host.clone(),
        taken_at: facts.taken_at,
        facts: listed,
        redactions: reported.collect(),
    };
    let written = BundleSummary {
        facts: manifest.facts.len(),
        left_out: manifest.facts.iter().filter(|listed| listed.why == Some(no_room())).count(),
        redacted: manifest.redactions.iter().map(|reported| reported.count).sum(),
    };
    let mut text = serde_json::to_vec_pretty(&manifest)?;
    text.push(b'\n');
    let mut tar = tar::Builder::new(GzBuilder::new().mtime(0).write(out, Compression::default()));
    append(&mut tar, "manifest.json", &text, facts.taken_at)?;
    for (name, text) in texts {
        append(&mut tar, &name, text.as_bytes(), facts.taken_at)?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok(written)
}

/// Every fact as the manifest has it, and the texts that go beside it.
fn list(largest: usize, facts: &Facts) -> (Vec<Listed>, Vec<(String, &str)>) {
    let (mut listed, mut texts, mut room) = (Vec::new(), Vec::new(), largest);
    for (number, (key, capture)) in (1..).zip(facts.iter()) {
        // A key names a file, and a file's name is whatever someone called it.
        let missing = |why| Listed { why: Some(why), ..Listed::of(redact(key), &Capture::default()) };
        listed.push(match capture {
            Err(why) => missing(why.redacted()),
            Ok(capture) => match room.checked_sub(capture.text.len()) {
                None => missing(no_room()),
                Some(left) => {
                    room = left;
                    let file = file_name(number, key);
                    texts.push((file.clone(), capture.text.as_str()));
                    Listed { file: Some(file), ..Listed::of(redact(key), capture) }
                }
            },
        });
    }
    (listed, texts)
}

fn no_room() -> Why {
    Why::Broken("left out: the bundle was full".to_owned())
}

impl Listed {
    fn of(key: String, capture: &Capture) -> Self {
        let Capture { text, exit, errors, dropped } = capture;
        Listed { key, file: None, why: None, exit: *exit, errors: errors.clone(), dropped: *dropped, bytes: text.len() }
    }
}

/// `facts/007-etc-os-release.txt`: for the person who looks inside. Short enough for the oldest tar.
fn file_name(number: usize, key: &str) -> String {
    const LONGEST: usize = 60;
    let words = redact(key);
    let words = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(LONGEST).collect();
    format!("facts/{number:03}-{name}.txt")
}

fn append(tar: &mut tar::Builder<impl Write>, name: &str, text: &[u8], taken_at: Timestamp) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(u64::try_from(taken_at.as_second()).unwrap_or(0));
    tar.append_data(&mut header, name, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_short() {
        assert_eq!(file_name(7, "file /etc/os-release"), "facts/007-file-etc-os-release.txt");
        assert!(file_name(1000, &"x".repeat(500)).len() < 100);
        assert_eq!(file_name(1, "file /../../x\u{0}"), "facts/001-file-x.txt");
    }

    #[test]
    fn a_fact_that_finds_no_room_is_listed_as_such() {
        let mut facts = Facts::new("w1", Timestamp::UNIX_EPOCH);
        facts.insert("file /a".into(), Ok(Capture::text("12345")));
        facts.insert("file /b".into(), Ok(Capture::text("123456")));
        facts.insert("file /c".into(), Ok(Capture::text("12345")));
        let mut out = Vec::new();
        let written = write_within(10, &facts, &Redactions::new(), &mut out).unwrap();
        assert_eq!(written, BundleSummary { facts: 3, left_out: 1, redacted: 0 });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.tar.gz");
        std::fs::write(&path, out).unwrap();
        let read = open(&path).unwrap();
        assert_eq!(read.get("file /b").unwrap_err().why, no_room());
        assert_eq!(read.file("/c").unwrap().text, "12345");
    }
}
