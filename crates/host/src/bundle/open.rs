//! Reading a bundle that came from elsewhere: every length bounded, every name checked, every text redacted once more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use carrick_core::fact::cri::is_printed_as_unimplemented;
use carrick_core::fact::keep::{ERRORS, Keep, LONGEST};
use carrick_core::fact::{Capture, Facts, Why};
use carrick_core::redact::redact;
use flate2::bufread::GzDecoder;
use rustix::fs::OFlags;
use tar::EntryType;

use super::{Listed, Manifest, SCHEMA, VERSION};
use crate::command::{self, Intake};
use crate::cri;
use crate::local::kind_name;

/// As much as is ever kept of one source.
const LARGEST_FILE: Keep = LONGEST;
/// A line a fact, and what a command said on stderr.
const LARGEST_MANIFEST: usize = 4 << 20;
/// Unpacked: four times what is written at most. A gzip of a gigabyte of nothing is one megabyte long.
const LARGEST: u64 = 256 << 20;
/// A machine has some two hundred facts; trees add their files.
const MOST_ENTRIES: usize = 8192;

const MANIFEST: &str = "manifest.json";

/// Why something is not a bundle that can be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct BundleError {
    pub path: PathBuf,
    pub fault: BundleFault,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleFault {
    #[error("{0}")]
    Unreadable(String),
    #[error("not a Carrick bundle: {0}")]
    NotABundle(String),
    #[error("the bundle is cut short or damaged: {0}")]
    Damaged(String),
    #[error("entry {0:?} {1}")]
    Entry(String, &'static str),
    #[error("the bundle holds more than {0}")]
    TooLarge(String),
    #[error("manifest.json: {0}")]
    Manifest(String),
}

/// Reads a bundle: a directory, a `.tar` or a `.tar.gz`, told apart by what they hold.
pub fn open(path: &Path) -> Result<Facts, BundleError> {
    read(path).and_then(Contents::facts).map_err(|fault| BundleError { path: path.to_owned(), fault })
}

fn read(path: &Path) -> Result<Contents, BundleFault> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(&error))?;
    if metadata.is_dir() {
        return read_dir(path);
    }
    if !metadata.is_file() {
        return Err(BundleFault::NotABundle(format!("a {}", kind_name(metadata.file_type()))));
    }
    let mut file = BufReader::new(open_file(path, OFlags::empty()).map_err(|error| unreadable(&error))?);
    if file.fill_buf().map_err(|error| unreadable(&error))?.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = BufReader::new(GzDecoder::new(file));
        unpacked.fill_buf().map_err(|error| BundleFault::Damaged(error.to_string()))?;
        return read_tar(unpacked);
    }
    read_tar(file)
}

/// Never waits.
fn open_file(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

fn unreadable(error: &io::Error) -> BundleFault {
    BundleFault::Unreadable(error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase())
}

/// What a bundle holds, not yet believed.
#[derive(Default)]
struct Contents {
    manifests: BTreeMap<String, Vec<u8>>,
    texts: BTreeMap<String, Capture>,
    entries: usize,
}

impl Contents {
    fn count(&mut self) -> Result<(), BundleFault> {
        self.entries += 1;
        if self.entries > MOST_ENTRIES { Err(BundleFault::TooLarge(format!("{MOST_ENTRIES} entries"))) } else { Ok(()) }
    }

    fn add(&mut self, name: String, from: &mut impl Read) -> Result<(), BundleFault> {
        if self.manifests.contains_key(&name) || self.texts.contains_key(&name) {
            return Err(BundleFault::Entry(name, "is there twice"));
        }
        if name == MANIFEST || name.ends_with("/manifest.json") {
            let mut text = Vec::new();
            from.take(LARGEST_MANIFEST as u64 + 1).read_to_end(&mut text).map_err(|error| damaged(&name, &error))?;
            if text.len() > LARGEST_MANIFEST {
                return Err(BundleFault::Entry(name, "is too large for a manifest"));
            }
            self.manifests.insert(name, text);
            return Ok(());
        }
        let mut intake = Intake::new(LARGEST_FILE);
        let mut chunk = vec![0; 64 << 10];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => intake.push(chunk.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(damaged(&name, &error)),
            }
        }
        self.texts.insert(name, intake.finish().0);
        Ok(())
    }

    fn facts(mut self) -> Result<Facts, BundleFault> {
        let (name, text) =
            self.manifests.pop_first().ok_or_else(|| BundleFault::NotABundle(format!("no {MANIFEST}")))?;
        // Whoever unpacked it and packed it again may have packed the directory around it too.
        let top = name.strip_suffix(MANIFEST).unwrap_or_default();
        if top.matches('/').count() > 1 {
            return Err(BundleFault::NotABundle(format!("no {MANIFEST}")));
        }
        if let Some(other) = self.manifests.into_keys().next() {
            return Err(BundleFault::Entry(other, "is a second manifest"));
        }
        let manifest = parse(&text)?;
        let mut facts = Facts::new(redact(&manifest.host), manifest.taken_at);
        let mut seen = BTreeSet::new();
        for listed in manifest.facts {
            let key = redact(&listed.key);
            if !seen.insert(key.clone()) {
                return Err(BundleFault::Manifest(format!("{key:?} is listed twice")));
            }
            let capture = fact(listed, top, &mut self.texts);
            facts.insert(key, capture);
        }
        Ok(facts)
    }
}

fn fact(listed: Listed, top: &str, texts: &mut BTreeMap<String, Capture>) -> Result<Capture, Why> {
    let Some(file) = listed.file else {
        return Err(match listed.why {
            Some(why) => as_now_told(&listed.key, why.redacted()),
            None => Why::Broken("the manifest names neither a file nor a reason".to_owned()),
        });
    };
    let Some(capture) = texts.remove(&format!("{top}{file}")) else {
        return Err(Why::Broken("listed in the manifest, not in the bundle".to_owned()));
    };
    let errors = command::keep(listed.errors.as_bytes(), ERRORS).0.text;
    Ok(Capture { exit: listed.exit, errors, dropped: listed.dropped.saturating_add(capture.dropped), ..capture })
}

/// Older bundles have a sentence where there is a reason of its own by now.
fn as_now_told(key: &str, why: Why) -> Why {
    match why {
        Why::Broken(said) if key == cri::STATUS && is_printed_as_unimplemented(&said) => Why::Unimplemented(said),
        why => why,
    }
}

fn parse(text: &[u8]) -> Result<Manifest, BundleFault> {
    /// Read first: what a newer version writes may look different in every other way.
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let broken = |error: serde_json::Error| BundleFault::Manifest(error.to_string());
    let Head { schema } = serde_json::from_slice(text).map_err(broken)?;
    match schema.strip_prefix(SCHEMA).map(str::parse::<u32>) {
        Some(Ok(VERSION)) => serde_json::from_slice(text).map_err(broken),
        Some(Ok(newer)) if newer > VERSION => Err(BundleFault::Manifest(format!(
            "schema {schema:?} is of a newer Carrick; this one reads {SCHEMA}{VERSION}"
        ))),
        _ => Err(BundleFault::Manifest(format!("schema {schema:?} is not {SCHEMA}{VERSION}"))),
    }
}

fn read_tar(from: impl Read) -> Result<Contents, BundleFault> {
    let mut contents = Contents::default();
    let mut archive = tar::Archive::new(Watched { from, room: LARGEST, zeros: 0 });
    let archive_entries = archive.entries().map_err(|error| not_tar(&error))?;
    // Raw: a long name or a pax header is an entry like any other, and cannot make us hold its length in memory.
    for entry in archive_entries.raw(true) {
        let first = contents.entries == 0;
        let mut entry = entry.map_err(|error| if first { not_tar(&error) } else { damaged("a header", &error) })?;
        contents.count()?;
        let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        match entry.header().entry_type() {
            EntryType::Regular => {
                let name = checked(&shown)?;
                contents.add(name, &mut entry)?;
            }
            EntryType::Directory => drop(checked(&shown)?),
            // Times and owners in the way of newer tars; our names are short enough to need none.
            EntryType::XHeader | EntryType::XGlobalHeader => {}
            EntryType::Symlink | EntryType::Link => return Err(BundleFault::Entry(shown, "is a link")),
            _ => return Err(BundleFault::Entry(shown, "is neither a file nor a directory")),
        }
    }
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(|error| damaged("the end", &error))?;
    // A tar ends with two empty blocks; without them more was to come.
    match rest.zeros {
        1024.. => Ok(contents),
        _ if contents.entries == 0 => Err(not_tar(&io::ErrorKind::InvalidData.into())),
        _ => Err(BundleFault::Damaged("it has no end".to_owned())),
    }
}

fn not_tar(error: &io::Error) -> BundleFault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("its beginning", error),
        _ => BundleFault::NotABundle("neither a directory, a tar nor a gzipped tar".to_owned()),
    }
}

fn damaged(what: &str, error: &io::Error) -> BundleFault {
    too_large(error).unwrap_or_else(|| BundleFault::Damaged(format!("{what}: {error}")))
}

fn too_large(error: &io::Error) -> Option<BundleFault> {
    let full = error.kind() == io::ErrorKind::QuotaExceeded;
    full.then(|| BundleFault::TooLarge(format!("{} MiB", LARGEST >> 20)))
}

/// A name inside the bundle, whoever wrote it.
fn checked(name: &str) -> Result<String, BundleFault> {
    let mut parts = Vec::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy()),
            Component::CurDir => {}
            _ => return Err(BundleFault::Entry(name.to_owned(), "leads out of the bundle")),
        }
    }
    Ok(parts.join("/"))
}

/// Counts what is read, and knows how many zeros it ended with.
struct Watched<R> {
    from: R,
    room: u64,
    zeros: u64,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(buf)?;
        let read = buf.get(..length).unwrap_or_default();
        let zeros = read.iter().rev().take_while(|&&byte| byte == 0).count();
        self.zeros = if zeros == length { self.zeros + zeros as u64 } else { zeros as u64 };
        self.room = self.room.checked_sub(length as u64).ok_or(io::ErrorKind::QuotaExceeded)?;
        Ok(length)
    }
}

/// The manifest and what lies in `facts`; nothing else is looked at, and nothing but files is read.
fn read_dir(path: &Path) -> Result<Contents, BundleFault> {
    if path.join(MANIFEST).symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(BundleFault::NotABundle(format!("no {MANIFEST}")));
    }
    let mut contents = Contents::default();
    let mut room = LARGEST;
    for (dir, prefix) in [(path.to_owned(), ""), (path.join("facts"), "facts/")] {
        let found = match fs::read_dir(&dir) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !prefix.is_empty() => continue,
            Err(error) => return Err(unreadable(&error)),
        };
        for entry in found {
            let entry = entry.map_err(|error| unreadable(&error))?;
            contents.count()?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().map_err(|error| unreadable(&error))?;
            match kind {
                _ if kind.is_dir() => {}
                _ if kind.is_symlink() => return Err(BundleFault::Entry(name, "is a link")),
                _ if !kind.is_file() => return Err(BundleFault::Entry(name, "is neither a file nor a directory")),
                _ if prefix.is_empty() && name != MANIFEST => {}
                _ => add_file(&mut contents, name, &entry.path(), &mut room)?,
            }
        }
    }
    Ok(contents)
}

fn add_file(contents: &mut Contents, name: String, path: &Path, room: &mut u64) -> Result<(), BundleFault> {
    let file =
        open_file(path, OFlags::NOFOLLOW).map_err(|error| BundleFault::Unreadable(format!("{name}: {error}")))?;
    let mut watched = Watched { from: file, room: *room, zeros: 0 };
    contents.add(name, &mut watched)?;
    *room = watched.room;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_of_an_older_bundle_is_the_reason_it_stands_for() {
        let said = || "unknown service runtime.v1.RuntimeService".to_owned();
        for (key, why, expected) in [
            (cri::STATUS, Why::Broken(said()), Why::Unimplemented(said())),
            (cri::STATUS, Why::Broken("connection refused".into()), Why::Broken("connection refused".into())),
            ("query crictl info", Why::Broken(said()), Why::Broken(said())),
            (cri::STATUS, Why::Absent, Why::Absent),
        ] {
            assert_eq!(as_now_told(key, why), expected, "{key}");
        }
    }
}
