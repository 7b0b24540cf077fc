//! The line of a directory's entry, from what the kernel says and from what `find` prints: the same text for both.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use carrick_core::fact::keep::USUAL;
use carrick_core::fact::listing::{DirectoryEntry, render};

use crate::command;
use crate::probe::{Kept, MOST_ENTRIES};

pub(crate) fn entry(name: String, metadata: &Metadata, target: Option<String>) -> DirectoryEntry {
    DirectoryEntry {
        mode: mode(metadata.mode()),
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: metadata.size(),
        mtime: metadata.mtime(),
        name,
        target,
    }
}

/// The entries in what observe.sh has `find` print: `%M %U %G %s %T@ %f\t%l\0`, ended by a NUL because a name may hold
/// anything else. The last may be cut short; it is left out.
pub(crate) fn entries(found: &[u8]) -> Vec<DirectoryEntry> {
    let whole = found.iter().rposition(|&byte| byte == 0).map_or(&[][..], |end| found.get(..end).unwrap_or_default());
    whole.split(|&byte| byte == 0).filter_map(|record| record_entry(&String::from_utf8_lossy(record))).collect()
}

fn record_entry(record: &str) -> Option<DirectoryEntry> {
    // A name may hold a tab, a target too; the last tab is right for every entry that is not a link.
    let (fields, target) = record.rsplit_once('\t')?;
    let mut fields = fields.splitn(6, ' ');
    Some(DirectoryEntry {
        mode: fields.next()?.to_owned(),
        uid: fields.next()?.parse().ok()?,
        gid: fields.next()?.parse().ok()?,
        size: fields.next()?.parse().ok()?,
        // The fraction of a second is of no use, and the two ways of looking are to say the same.
        mtime: fields.next()?.split('.').next()?.parse().ok()?,
        name: fields.next()?.to_owned(),
        target: (!target.is_empty()).then(|| target.to_owned()),
    })
}

/// A directory's capture: its entries by name.
pub(crate) fn capture(mut entries: Vec<DirectoryEntry>) -> Kept {
    let more = entries.len().saturating_sub(MOST_ENTRIES);
    entries.truncate(MOST_ENTRIES);
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let text: String = entries.iter().map(render).collect();
    let (mut capture, redactions) = command::keep(text.as_bytes(), USUAL);
    // How long the lines left out would have been is not known; that there were some is.
    capture.dropped += more as u64;
    (capture, redactions)
}

/// `-rwxr-xr-x`, as `ls -l` and `find` show it.
fn mode(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o040_000 => 'd',
        0o120_000 => 'l',
        0o010_000 => 'p',
        0o140_000 => 's',
        0o020_000 => 'c',
        0o060_000 => 'b',
        _ => '-',
    };
    let mut text = String::from(kind);
    // Each class of user, the bit that takes the place of its x, and how that is written.
    for (shift, special, mark) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => mark,
            (true, false) => mark.to_ascii_uppercase(),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_modes_as_ls_does() {
        let rows = [
            (0o100_644, "-rw-r--r--"),
            (0o104_755, "-rwsr-xr-x"),
            (0o104_644, "-rwSr--r--"),
            (0o102_755, "-rwxr-sr-x"),
            (0o041_777, "drwxrwxrwt"),
            (0o041_776, "drwxrwxrwT"),
            (0o120_777, "lrwxrwxrwx"),
            (0o140_660, "srw-rw----"),
            (0o010_600, "prw-------"),
            (0o020_620, "crw--w----"),
            (0o060_660, "brw-rw----"),
        ];
        for (bits, text) in rows {
            assert_eq!(mode(bits), text);
        }
    }

    #[test]
    fn reads_records_of_find_whatever_the_name() {
        let found = b"-rw-r--r-- 0 0 3 1763228400.1234567890 a\nb\tc\t\0lrwxrwxrwx 0 0 1 1763228400.5 link\t/to it\0-rw- 0 0 cut";
        let entries = entries(found);
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[0].name.as_str(), entries[0].mtime), ("a\nb\tc", 1_763_228_400));
        assert_eq!((entries[1].name.as_str(), entries[1].target.as_deref()), ("link", Some("/to it")));
        let (text, _) = capture(entries);
        assert_eq!(text.text, "-rw-r--r-- 0 0 3 1763228400 a?b?c\t\nlrwxrwxrwx 0 0 1 1763228400 link\t/to it\n");
    }

    #[test]
    fn an_overfull_directory_says_so() {
        let entry = DirectoryEntry {
            mode: "-rw-r--r--".into(),
            uid: 0,
            gid: 0,
            size: 0,
            mtime: 0,
            name: "x".into(),
            target: None,
        };
        let (capture, _) = capture(vec![entry; MOST_ENTRIES + 3]);
        assert_eq!((capture.text.lines().count(), capture.dropped), (MOST_ENTRIES, 3));
    }
}
