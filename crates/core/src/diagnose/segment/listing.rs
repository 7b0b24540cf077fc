//! `ls`: what is in a directory.

use super::Segment;
use super::section::{Body, Harvest};
use crate::fact::dir_key;
use crate::fact::listing::{DirectoryEntry, render};

/// A directory that was listed whole.
pub(super) struct Listed {
    pub(super) dir: String,
    pub(super) entries: Vec<DirectoryEntry>,
    pub(super) line: u64,
    pub(super) host: Option<String>,
}

/// Where only names are read, a list of names is enough.
const BY_NAME: [&str; 3] = ["/etc/cni/net.d", "/etc/kubernetes", "/var/lib/etcd"];
/// What stands for a mode that was not shown.
const NO_MODE: &str = "??????????";
/// Who is not root and has a name only: what counts is that it is not 0.
const NOBODY: u32 = 65534;
const CNI: (&str, &str) = ("/etc/cni", "net.d");

/// `total 12`.
pub(super) fn is_total(line: &str) -> bool {
    line.trim()
        .strip_prefix("total ")
        .is_some_and(|size| size.starts_with(|c: char| c.is_ascii_digit()) && !size.contains(' '))
}

pub(super) fn read(paths: &[String], long: bool, marks: bool, body: &Body, harvest: &mut Harvest) {
    let mut current: Option<Draft> = match paths {
        [path] => Some(Draft::of(path, body.first)),
        _ => None,
    };
    for (number, line) in &body.lines {
        let line = line.trim_end();
        let named = line.strip_suffix(':').filter(|path| path.starts_with('/') && !path.contains(' '));
        if let Some(path) = named {
            finish(current.take(), long, body, harvest);
            current = Some(Draft::of(&super::command::trimmed(path), *number));
        } else if let Some(draft) = &mut current {
            draft.take(line.trim_start(), long, marks, *number);
        }
    }
    finish(current, long, body, harvest);
}

struct Draft {
    dir: String,
    line: u64,
    /// `ls -l` begins with it, also in an empty directory.
    total: bool,
    entries: Vec<DirectoryEntry>,
    /// The directory itself.
    own: Option<DirectoryEntry>,
}

impl Draft {
    fn of(dir: &str, line: u64) -> Self {
        Draft { dir: dir.to_owned(), line, total: false, entries: Vec::new(), own: None }
    }

    fn take(&mut self, line: &str, long: bool, marks: bool, number: u64) {
        if is_total(line) {
            self.total = true;
            self.line = number;
        } else if !long {
            let names =
                line.split("  ").flat_map(|part| part.split('\t')).map(str::trim).filter(|name| !name.is_empty());
            self.entries.extend(names.map(|name| entry(NO_MODE, 0, name)));
        } else if let Some(row) = row(line, marks) {
            match row.name.as_str() {
                "." => self.own = Some(row),
                ".." => {}
                // A file that was named itself.
                name if name.starts_with('/') => {}
                _ => self.entries.push(row),
            }
        }
    }
}

fn finish(draft: Option<Draft>, long: bool, body: &Body, harvest: &mut Harvest) {
    let Some(Draft { dir, line, total, entries, own }) = draft else { return };
    let known = if long { total } else { !entries.is_empty() && BY_NAME.contains(&dir.as_str()) };
    if !known {
        return;
    }
    let text = entries.iter().map(render).collect();
    harvest.segments.push(body.told(dir_key(&dir), line, text));
    if let Some(own) = own.filter(|_| dir == format!("{}/{}", CNI.0, CNI.1)) {
        harvest.segments.push(parent(body, line, Some(own)));
    }
    harvest.listed.push(Listed { dir, entries, line, host: body.host.clone() });
}

/// Of `/etc/cni` only `net.d` is ever asked for: its own line, or that it is not there, is enough.
fn parent(body: &Body, line: u64, own: Option<DirectoryEntry>) -> Segment {
    let text = own.map(|own| render(&DirectoryEntry { name: CNI.1.to_owned(), ..own })).unwrap_or_default();
    body.told(dir_key(CNI.0), line, text)
}

/// What the absence of `/etc/cni/net.d` says of `/etc/cni`.
pub(super) fn without(path: &str, body: &Body, line: u64) -> Option<Segment> {
    (path == format!("{}/{}", CNI.0, CNI.1)).then(|| parent(body, line, None))
}

fn entry(mode: &str, size: u64, name: &str) -> DirectoryEntry {
    DirectoryEntry { mode: mode.to_owned(), uid: 0, gid: 0, size, mtime: 0, name: name.to_owned(), target: None }
}

/// `-rw-r--r-- 1 root root 292 Nov 15 18:44 10-flannel.conflist`, with any of `ls`'s ways to write the time.
pub(super) fn row(line: &str, marks: bool) -> Option<DirectoryEntry> {
    let (mode, rest) = word(line)?;
    let is_mode = mode.len() >= 10 && mode.starts_with(['-', 'd', 'l', 's', 'p', 'c', 'b']) && mode.is_ascii();
    let mode = mode.get(..10).filter(|mode| is_mode && mode.bytes().skip(1).all(|bit| b"rwxsStT-".contains(&bit)))?;
    let (links, rest) = word(rest)?;
    links.parse::<u64>().ok()?;
    let (owner, rest) = word(rest)?;
    let (group, rest) = word(rest)?;
    let (size, rest) = word(rest)?;
    // A device has two numbers in the place of a size.
    let (size, rest) = match size.strip_suffix(',') {
        Some(_) => ("0", word(rest)?.1),
        None => (size, rest),
    };
    let (first, after) = word(rest)?;
    let rest = if first.contains('-') {
        let (_, after) = word(after)?;
        // With `--full-time` the zone follows.
        match word(after) {
            Some((zone, name)) if zone.len() == 5 && zone.starts_with(['+', '-']) => name,
            _ => after,
        }
    } else {
        word(word(after)?.1)?.1
    };
    let (name, target) = match rest.split_once(" -> ") {
        Some((name, target)) if mode.starts_with('l') => (name, Some(target.to_owned())),
        _ => (rest, None),
    };
    let name = if marks { name.trim_end_matches(['*', '/', '=', '|', '@']) } else { name };
    let name = name.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')).unwrap_or(name);
    let id = |name: &str| if name == "root" { 0 } else { name.parse().unwrap_or(NOBODY) };
    let size = size.parse().unwrap_or(0);
    (!name.is_empty()).then(|| DirectoryEntry { uid: id(owner), gid: id(group), target, ..entry(mode, size, name) })
}

/// The first word, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(' ');
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (!word.is_empty()).then(|| (word, rest.trim_start_matches(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rows() {
        for (line, expected) in [
            (
                "-rw-r--r--  1 root root  292 Nov 15 18:44 10-flannel.conflist",
                Some(("-rw-r--r--", 0, 292, "10-flannel.conflist")),
            ),
            ("drwxr-xr-x. 2 root root 4096 Mar  5  2023 .", Some(("drwxr-xr-x", 0, 4096, "."))),
            ("-rwxr-xr-x 1 core core 2634240 2026-11-15 18:44 a b", Some(("-rwxr-xr-x", 65534, 2_634_240, "a b"))),
            ("-rw------- 1 0 0 5 2026-11-15 18:44:33.1 +0000 x", Some(("-rw-------", 0, 5, "x"))),
            ("srw-rw---- 1 root root 0 Nov 15 18:44 containerd.sock", Some(("srw-rw----", 0, 0, "containerd.sock"))),
            ("crw-rw-rw- 1 root root 1, 3 Nov 15 18:44 null", Some(("crw-rw-rw-", 0, 0, "null"))),
            ("total 12", None),
            ("-----BEGIN CERTIFICATE-----", None),
            ("drwxr-xr-x 2 root", None),
        ] {
            let found = row(line, false);
            let found = found.as_ref().map(|it| (it.mode.as_str(), it.uid, it.size, it.name.as_str()));
            assert_eq!(found, expected, "{line}");
        }
        let link = row("lrwxrwxrwx 1 root root 59 Nov 15 18:44 current.pem -> /var/lib/kubelet/pki/x.pem", false)
            .expect("a row");
        assert_eq!((link.name.as_str(), link.target.as_deref()), ("current.pem", Some("/var/lib/kubelet/pki/x.pem")));
    }
}
