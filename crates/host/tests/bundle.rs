//! Bundles: what is written is read back; what comes from elsewhere is not believed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // What helps a test is a test.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use carrick_core::fact::{Capture, Facts, Why};
use carrick_core::redact::Redaction;
use carrick_host::{Redactions, bundle};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use tar::{EntryType, Header};
use tempfile::TempDir;

fn facts() -> Facts {
    let mut facts = Facts::new("w1", "2026-11-15T17:40:00Z".parse().unwrap());
    facts.insert("file /etc/os-release".into(), Ok(Capture::text("ID=debian\n")));
    let told = Capture { text: "x".repeat(3000), exit: Some(3), errors: "warning\n".into(), dropped: 17 };
    facts.insert("query systemctl show".into(), Ok(told));
    facts.insert("file /etc/empty".into(), Ok(Capture::text("")));
    let whys = [
        Why::Absent,
        Why::Denied,
        Why::TimedOut,
        Why::NoTool,
        Why::NotCollected,
        Why::NotAsked,
        Why::Broken("is a fifo".into()),
        Why::NotAdmin,
    ];
    for (number, why) in whys.into_iter().enumerate() {
        facts.insert(format!("file /{number}"), Err(why));
    }
    facts
}

fn written(facts: &Facts) -> Vec<u8> {
    let found = vec![Redaction { kind: "bootstrap-token".into(), count: 2, first_line: 7 }];
    let redactions = Redactions::from([("file /etc/os-release".to_owned(), found)]);
    let mut out = Vec::new();
    let written = bundle::write(facts, &redactions, &mut out).unwrap();
    assert_eq!((written.facts, written.left_out, written.redacted), (11, 0, 2));
    out
}

fn unpacked(gz: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    GzDecoder::new(gz).read_to_end(&mut tar).unwrap();
    tar
}

/// Files in a place of their own.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn file(&self, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join("bundle");
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The bundle, laid out as a directory.
    fn dir(&self) -> PathBuf {
        let path = self.0.path().join("dir");
        fs::create_dir(&path).unwrap();
        tar::Archive::new(&unpacked(&written(&facts()))[..]).unpack(&path).unwrap();
        path
    }
}

/// What is said of a bundle, without its path.
fn fault(path: &Path) -> String {
    let error = bundle::open(path).expect_err("it must not be taken").to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error.strip_prefix(&format!("{}: ", path.display())).unwrap_or_else(|| panic!("{error}")).to_owned()
}

fn fault_of(bytes: &[u8]) -> String {
    fault(&Place::new().file(bytes))
}

/// An entry with any name and any type, also those no honest tar would write.
fn entry(tar: &mut tar::Builder<Vec<u8>>, name: &str, kind: EntryType, text: &[u8]) {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append(&header, text).unwrap();
}

fn tar_of(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, kind, text) in entries {
        entry(&mut tar, name, *kind, text);
    }
    tar.into_inner().unwrap()
}

const MANIFEST: &str = r#"{"schema":"carrick.bundle/v1","carrick":"0.1.0","host":"w1","taken_at":"2026-11-15T17:40:00Z",
    "facts":[{"key":"file /a","file":"facts/001-a.txt","bytes":2}],"redactions":[]}"#;

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn what_is_written_is_read_back_in_all_three_forms() {
    let (facts, place) = (facts(), Place::new());
    let packed = written(&facts);
    assert_eq!(bundle::open(&place.file(&packed)).unwrap(), facts);
    assert_eq!(bundle::open(&place.file(&unpacked(&packed))).unwrap(), facts);
    assert_eq!(bundle::open(&place.dir()).unwrap(), facts);
}

#[test]
fn the_same_facts_give_the_same_bytes() {
    assert_eq!(written(&facts()), written(&facts()));
}

#[test]
fn the_manifest_tells_a_person_what_is_inside() {
    let place = Place::new();
    let manifest = fs::read_to_string(place.dir().join("manifest.json")).unwrap();
    for line in [
        r#""schema": "carrick.bundle/v1""#,
        r#""host": "w1""#,
        r#""taken_at": "2026-11-15T17:40:00Z""#,
        r#""file": "facts/010-file-etc-os-release.txt""#,
        r#""why": "timed-out""#,
        r#""kind": "bootstrap-token""#,
        r#""first_line": 7"#,
        r#""dropped": 17"#,
    ] {
        assert!(manifest.contains(line), "{line} in {manifest}");
    }
}

#[test]
fn one_that_was_packed_again_is_still_one() {
    let place = Place::new();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all("./w1", place.dir()).unwrap();
    assert_eq!(bundle::open(&place.file(&tar.into_inner().unwrap())).unwrap(), facts());
    // As newer tars write them: a pax header before every entry.
    let pax = b"30 mtime=1763228400.123456789\n";
    let packed = tar_of(&[
        ("pax", EntryType::XHeader, pax),
        ("manifest.json", EntryType::Regular, MANIFEST.as_bytes()),
        ("pax", EntryType::XHeader, pax),
        ("facts/001-a.txt", EntryType::Regular, b"a\n"),
        ("notes.txt", EntryType::Regular, b"theirs"),
    ]);
    assert_eq!(bundle::open(&place.file(&packed)).unwrap().file("/a").unwrap().text, "a\n");
}

#[test]
fn entries_that_lead_elsewhere_are_refused_by_name() {
    let manifest = ("manifest.json", EntryType::Regular, MANIFEST.as_bytes());
    let rows: [(&str, EntryType, &str); 8] = [
        ("../evil", EntryType::Regular, "leads out of the bundle"),
        ("facts/../../evil", EntryType::Regular, "leads out of the bundle"),
        ("/etc/evil", EntryType::Regular, "leads out of the bundle"),
        ("../evil", EntryType::Directory, "leads out of the bundle"),
        ("facts/001-a.txt", EntryType::Symlink, "is a link"),
        ("facts/001-a.txt", EntryType::Link, "is a link"),
        ("facts/001-a.txt", EntryType::Char, "is neither a file nor a directory"),
        ("facts/001-a.txt", EntryType::GNULongName, "is neither a file nor a directory"),
    ];
    for (name, kind, what) in rows {
        assert_eq!(fault_of(&tar_of(&[manifest, (name, kind, b"")])), format!("entry {name:?} {what}"));
    }
    let twice = ("facts/001-a.txt", EntryType::Regular, &b"a\n"[..]);
    assert_eq!(fault_of(&tar_of(&[manifest, twice, twice])), r#"entry "facts/001-a.txt" is there twice"#);
    assert_eq!(fault_of(&tar_of(&[manifest, manifest])), r#"entry "manifest.json" is there twice"#);
}

#[test]
fn what_is_cut_short_is_refused_wherever_it_is_cut() {
    let packed = written(&facts());
    let tar = unpacked(&packed);
    for cut in (20..packed.len()).step_by(37) {
        let said = fault_of(&packed[..cut]);
        assert!(said.starts_with("the bundle is cut short or damaged: "), "{cut}: {said}");
    }
    for cut in (512..tar.len() - 512).step_by(512).chain([700, 3000]) {
        let said = fault_of(&tar[..cut]);
        assert!(said.starts_with("the bundle is cut short or damaged: "), "{cut}: {said}");
    }
    let mut damaged = packed.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    assert!(fault_of(&damaged).starts_with("the bundle is cut short or damaged: "));
}

#[test]
fn what_is_no_bundle_is_said_to_be_none() {
    let neither = "not a Carrick bundle: neither a directory, a tar nor a gzipped tar";
    assert_eq!(fault_of(b""), neither);
    assert_eq!(fault_of(b"kubelet.service: failed\n"), neither);
    assert_eq!(fault_of("a line of a log\n".repeat(1000).as_bytes()), neither);
    assert_eq!(fault_of(&gz("a line of a log\n".repeat(1000).as_bytes())), neither);
    let none = "not a Carrick bundle: no manifest.json";
    assert_eq!(fault_of(&[0; 1024]), none);
    assert_eq!(fault_of(&tar_of(&[("a/b/manifest.json", EntryType::Regular, MANIFEST.as_bytes())])), none);
    let place = Place::new();
    assert_eq!(fault(place.0.path()), none);
    assert_eq!(fault(&place.0.path().join("absent")), "no such file or directory");
    support::fifo(&place.0.path().join("fifo"));
    assert_eq!(fault(&place.0.path().join("fifo")), "not a Carrick bundle: a fifo");
}

#[test]
fn a_manifest_that_is_not_ours_is_refused() {
    let with = |from: &str, to: &str| {
        fault_of(&tar_of(&[("manifest.json", EntryType::Regular, MANIFEST.replace(from, to).as_bytes())]))
    };
    assert_eq!(
        with("bundle/v1", "bundle/v2"),
        r#"manifest.json: schema "carrick.bundle/v2" is of a newer Carrick; this one reads carrick.bundle/v1"#
    );
    assert_eq!(with("carrick.bundle/v1", "other/v1"), r#"manifest.json: schema "other/v1" is not carrick.bundle/v1"#);
    assert!(with("\"host\":\"w1\",", "").starts_with("manifest.json: missing field `host`"));
    assert!(with("{", "[").starts_with("manifest.json: "));
    let twice = r#"{"key":"file /a","why":"absent"},{"key":"file /a","file":"#;
    assert_eq!(with(r#"{"key":"file /a","file":"#, twice), r#"manifest.json: "file /a" is listed twice"#);
    let long = format!("{MANIFEST}{}", " ".repeat(5 << 20));
    assert_eq!(
        fault_of(&tar_of(&[("manifest.json", EntryType::Regular, long.as_bytes())])),
        r#"entry "manifest.json" is too large for a manifest"#
    );
}

#[test]
fn a_fact_whose_file_is_missing_is_a_missing_fact() {
    let place = Place::new();
    let facts =
        bundle::open(&place.file(&tar_of(&[("manifest.json", EntryType::Regular, MANIFEST.as_bytes())]))).unwrap();
    assert_eq!(facts.file("/a").unwrap_err().why, Why::Broken("listed in the manifest, not in the bundle".into()));
    let neither = MANIFEST.replace(r#""file":"facts/001-a.txt","#, "");
    let facts =
        bundle::open(&place.file(&tar_of(&[("manifest.json", EntryType::Regular, neither.as_bytes())]))).unwrap();
    assert_eq!(facts.file("/a").unwrap_err().why, Why::Broken("the manifest names neither a file nor a reason".into()));
    let outside = MANIFEST.replace("facts/001-a.txt", "../../etc/passwd");
    let facts =
        bundle::open(&place.file(&tar_of(&[("manifest.json", EntryType::Regular, outside.as_bytes())]))).unwrap();
    assert!(facts.file("/a").is_err());
}

#[test]
fn a_gigabyte_in_a_megabyte_is_not_unpacked() {
    let mut header = Header::new_ustar();
    header.set_path("facts/001-a.txt").unwrap();
    header.set_size(1 << 30);
    header.set_mode(0o644);
    header.set_cksum();
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(header.as_bytes()).unwrap();
    // All that is ever looked at.
    for _ in 0..257 {
        out.write_all(&vec![b'a'; 1 << 20]).unwrap();
    }
    let begun = Instant::now();
    assert_eq!(fault_of(&out.finish().unwrap()), "the bundle holds more than 256 MiB");
    println!("refused after {:?}", begun.elapsed());
}

#[test]
fn too_many_entries_are_refused() {
    let mut tar = tar::Builder::new(Vec::new());
    for number in 0..9000 {
        entry(&mut tar, &format!("facts/{number}"), EntryType::Directory, b"");
    }
    assert_eq!(fault_of(&tar.into_inner().unwrap()), "the bundle holds more than 8192 entries");
}

#[test]
fn a_directory_is_trusted_no_more_than_a_tar() {
    let place = Place::new();
    let dir = place.dir();
    let begun = Instant::now();
    support::fifo(&dir.join("facts/zzz.txt"));
    assert_eq!(fault(&dir), r#"entry "facts/zzz.txt" is neither a file nor a directory"#);
    assert!(begun.elapsed() < Duration::from_secs(2));
    fs::remove_file(dir.join("facts/zzz.txt")).unwrap();
    symlink("/etc/passwd", dir.join("facts/zzz.txt")).unwrap();
    assert_eq!(fault(&dir), r#"entry "facts/zzz.txt" is a link"#);
    fs::remove_file(dir.join("facts/zzz.txt")).unwrap();
    fs::rename(dir.join("facts"), place.0.path().join("elsewhere")).unwrap();
    symlink(place.0.path().join("elsewhere"), dir.join("facts")).unwrap();
    assert_eq!(fault(&dir), r#"entry "facts" is a link"#);
    fs::remove_file(dir.join("facts")).unwrap();
    let facts = bundle::open(&dir).unwrap();
    let missing = facts.file("/etc/os-release").unwrap_err().why;
    assert_eq!(missing, Why::Broken("listed in the manifest, not in the bundle".into()));
}

#[test]
fn secrets_in_a_bundle_of_another_are_taken_out_on_reading() {
    let token = "abcdef.0123456789abcdef";
    let manifest = MANIFEST.replace(r#""bytes":2"#, &format!(r#""bytes":2,"errors":"token {token}""#));
    let packed = tar_of(&[
        ("manifest.json", EntryType::Regular, manifest.as_bytes()),
        ("facts/001-a.txt", EntryType::Regular, format!("kubeadm join --token {token}\n").as_bytes()),
    ]);
    let facts = bundle::open(&Place::new().file(&packed)).unwrap();
    assert!(!format!("{facts:?}").contains(token), "{facts:?}");
    assert_eq!(facts.file("/a").unwrap().text, "kubeadm join --token <redacted:bootstrap-token>\n");
}

#[test]
fn times_are_those_of_the_machine() {
    let tar = unpacked(&written(&facts()));
    let mut archive = tar::Archive::new(&tar[..]);
    let taken_at: Timestamp = "2026-11-15T17:40:00Z".parse().unwrap();
    for entry in archive.entries().unwrap() {
        let mtime = entry.unwrap().header().mtime().unwrap();
        assert_eq!(i64::try_from(mtime).unwrap(), taken_at.as_second());
    }
}
