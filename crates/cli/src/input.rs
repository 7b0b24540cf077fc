//! What `diagnose` is given: a text, a bundle, a directory, or stdin. Texts are read as they come, never as a whole.

use std::fs::{self, File};
use std::io::{self, BufRead, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use carrick_core::diagnose::scan::Scan;
use carrick_core::shown;
use carrick_host::bundle;
use flate2::read::MultiGzDecoder;

use crate::exit::Failure;

/// How much is read at a time: enough for the scan to run at full speed, small beside the memory it may take.
const CHUNK: usize = 256 << 10;
/// A directory with more files is not a folder of logs.
const MOST_FILES: usize = 10_000;
/// gzip's first two bytes.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What stands behind a path.
pub enum Input {
    Stdin,
    Bundle(PathBuf),
    Texts(Vec<PathBuf>),
}

impl Input {
    pub fn of(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Input::Stdin);
        }
        let cannot = |error: io::Error| Failure::usage(format!("{}: {error}", path.display()));
        let kind = fs::metadata(path).map_err(cannot)?;
        if kind.is_dir() {
            return if path.join("manifest.json").exists() {
                Ok(Input::Bundle(path.to_owned()))
            } else {
                files_below(path).map(Input::Texts)
            };
        }
        let mut head = Vec::new();
        // A pipe can be read only once.
        if kind.is_file() {
            open(path).and_then(|text| text.take(bundle::HEAD).read_to_end(&mut head)).map_err(cannot)?;
        }
        Ok(if bundle::is_tar(&head) { Input::Bundle(path.to_owned()) } else { Input::Texts(vec![path.to_owned()]) })
    }
}

/// Whether somebody piped a text in, or gave a file for stdin: `journalctl -u kubelet | carrick diagnose`. A pipe that is closed without
/// a word, as schedulers give one, is none.
pub fn is_piped() -> bool {
    let stdin = io::stdin();
    let Ok(kind) = stdin.as_fd().try_clone_to_owned().map(File::from).and_then(|file| file.metadata()) else {
        return false;
    };
    let may_say = kind.file_type().is_fifo() || kind.is_file();
    may_say && stdin.lock().fill_buf().is_ok_and(|text| !text.is_empty())
}

/// The regular files of a directory and of those in it; links are not followed.
fn files_below(top: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut open = vec![top.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = fs::read_dir(&dir).map_err(|error| Failure::usage(format!("{}: {error}", dir.display())))?;
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
        if files.len() > MOST_FILES {
            return Err(Failure::usage(format!(
                "{}: more than {MOST_FILES} files; name the ones that matter",
                top.display()
            )));
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::usage(format!("{}: no files in it", top.display())));
    }
    Ok(files)
}

/// A file's text, unpacked where it is packed.
fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = File::open(path)?;
    let mut head = [0; 2];
    let filled = fill(&mut file, &mut head)?;
    let whole = io::Cursor::new(head).take(filled as u64).chain(file);
    Ok(if head == GZIP { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}

/// Reads until the buffer is full or the text ends.
fn fill(text: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        match text.read(room) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Scans texts one after another. What is no text is told to `skipped` where there are others, else it is an error.
pub fn scan(scan: &mut Scan, input: &Input, mut skipped: impl FnMut(String)) -> Result<(), Failure> {
    let files = match input {
        Input::Bundle(_) => return Ok(()),
        Input::Stdin => return read_into(scan, "stdin", &mut io::stdin().lock()).map_err(Failure::usage),
        Input::Texts(files) => files,
    };
    for file in files {
        // A name may hold anything, a line end as well.
        let name = shown::in_line(&file.display().to_string());
        let read = match open(file) {
            Ok(mut text) => read_into(scan, &name, &mut text),
            Err(error) => Err(format!("{name}: {error}")),
        };
        match read {
            Err(why) if files.len() == 1 => return Err(Failure::usage(why)),
            Err(why) => skipped(why),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn read_into(scan: &mut Scan, name: &str, text: &mut dyn Read) -> Result<(), String> {
    let mut buffer = vec![0; CHUNK];
    let mut first = true;
    let mut utf16 = None;
    scan.begin(name, true);
    loop {
        let filled = fill(text, &mut buffer).map_err(|error| format!("{name}: {error}"))?;
        let bytes = buffer.get(..filled).unwrap_or_default();
        if first && bytes.is_empty() {
            return Err(format!("{name} is empty: nothing to diagnose"));
        }
        if first {
            // Of what a log is written in, every letter has a zero byte there.
            utf16 = Utf16::of(bytes).filter(|_| is_binary(bytes));
        }
        if first && utf16.is_none() && is_binary(bytes) {
            return Err(format!("{name} is no text"));
        }
        match utf16 {
            Some(utf16) => scan.push(utf16.text(bytes).as_bytes()),
            None => scan.push(bytes),
        }
        if filled < buffer.len() {
            return Ok(());
        }
        first = false;
    }
}

/// What Windows saves a text as, by the mark it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Utf16 {
    Little,
    Big,
}

impl Utf16 {
    fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0xff, 0xfe, ..] => Some(Utf16::Little),
            [0xfe, 0xff, ..] => Some(Utf16::Big),
            _ => None,
        }
    }

    /// The text; a letter that a chunk cuts through is lost, and none that a log is written in has two halves.
    fn text(self, bytes: &[u8]) -> String {
        let (pairs, _) = bytes.as_chunks::<2>();
        let units = pairs.iter().map(|pair| match self {
            Utf16::Little => u16::from_le_bytes(*pair),
            Utf16::Big => u16::from_be_bytes(*pair),
        });
        char::decode_utf16(units)
            .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
            .filter(|letter| *letter != '\u{feff}')
            .collect()
    }
}

/// A zero byte is in no log.
fn is_binary(head: &[u8]) -> bool {
    head.iter().take(8 << 10).any(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_windows_is_read() {
        let text = "error: ä\n";
        let units: Vec<u16> = std::iter::once(0xfeff).chain(text.encode_utf16()).collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        for (bytes, kind) in [(little, Utf16::Little), (big, Utf16::Big)] {
            assert_eq!(Utf16::of(&bytes), Some(kind));
            assert_eq!(kind.text(&bytes), text);
        }
        assert_eq!(Utf16::of(text.as_bytes()), None);
    }
}
