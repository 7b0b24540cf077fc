//! A directory's entries.
//!
//! One line an entry: `mode uid gid size mtime name`, and for a link a tab and its target: what
//! `find DIR -mindepth 1 -maxdepth 1 -printf '%M %U %G %s %T@ %f\t%l\n'` prints.
//!
//! Shared: every source that is a directory.

use super::{Facts, Known, Missing, dir_key};

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// As `ls -l` shows it: `-rwxr-xr-x`, `drwx------`.
    pub mode: String,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// Seconds since 1970.
    pub mtime: i64,
    pub name: String,
    pub target: Option<String>,
}

impl DirectoryEntry {
    pub fn is_dir(&self) -> bool {
        self.mode.starts_with('d')
    }

    pub fn is_file(&self) -> bool {
        self.mode.starts_with('-')
    }

    pub fn is_socket(&self) -> bool {
        self.mode.starts_with('s')
    }

    pub fn is_executable(&self) -> bool {
        self.mode.bytes().skip(1).any(|bit| matches!(bit, b'x' | b's' | b't'))
    }
}

/// The line of an entry.
pub fn render(entry: &DirectoryEntry) -> String {
    let DirectoryEntry { mode, uid, gid, size, mtime, name, target } = entry;
    let name = name.replace(['\n', '\t'], "?");
    let target = target.as_deref().unwrap_or_default().replace('\n', "?");
    format!("{mode} {uid} {gid} {size} {mtime} {name}\t{target}\n")
}

/// The entries of a listing, by name. A line that is not one is passed over: a name may hold anything.
pub fn parse(text: &str) -> Vec<DirectoryEntry> {
    let mut entries: Vec<DirectoryEntry> = text.lines().filter_map(parse_line).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn parse_line(line: &str) -> Option<DirectoryEntry> {
    let (fields, target) = line.split_once('\t').unwrap_or((line, ""));
    let mut fields = fields.splitn(6, ' ');
    Some(DirectoryEntry {
        mode: fields.next().filter(|mode| mode.len() == 10)?.to_owned(),
        uid: fields.next()?.parse().ok()?,
        gid: fields.next()?.parse().ok()?,
        size: fields.next()?.parse().ok()?,
        mtime: fields.next()?.split('.').next()?.parse().ok()?,
        name: fields.next().filter(|name| !name.is_empty())?.to_owned(),
        target: (!target.is_empty()).then(|| target.to_owned()),
    })
}

impl Facts {
    /// The entries of a directory, by name.
    pub fn dir(&self, path: &str) -> Known<Vec<DirectoryEntry>> {
        self.get(&dir_key(path)).map(|capture| parse(&capture.text))
    }

    /// One entry of a directory that was listed; `None` where the directory or the entry is not there.
    pub fn entry(&self, dir: &str, name: &str) -> Known<Option<DirectoryEntry>> {
        match self.dir(dir) {
            Ok(entries) => Ok(entries.into_iter().find(|entry| entry.name == name)),
            Err(Missing { why: super::Why::Absent, .. }) => Ok(None),
            Err(missing) => Err(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_find_prints() {
        let entries = parse(
            "-rw-r--r-- 0 0 292 1763228400.1234567890 10-flannel.conflist\t\n\
             lrwxrwxrwx 0 0 59 1763228400.0000000000 kubelet-client-current.pem\t/var/lib/kubelet/pki/kubelet-client-2026.pem\n\
             drwx------ 0 0 4096 1763228400.0000000000 a name with spaces\t\n\
             find: 'x': Permission denied\n",
        );
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["10-flannel.conflist", "a name with spaces", "kubelet-client-current.pem"]);
        assert!(entries[1].is_dir());
        assert_eq!(entries[2].target.as_deref(), Some("/var/lib/kubelet/pki/kubelet-client-2026.pem"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_listing(text in ".*") {
            parse(&text);
        }

        #[test]
        fn a_rendered_entry_is_read_back(name in "[^\n\t/]{1,20}", size in 0u64.., mtime in 0i64..) {
            let entry = DirectoryEntry { mode: "-rw-r--r--".into(), uid: 0, gid: 1, size, mtime, name, target: None };
            prop_assert_eq!(parse(&render(&entry)), vec![entry]);
        }
    }
}
