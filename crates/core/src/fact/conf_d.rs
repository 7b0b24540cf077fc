//! Directories of fragments as systemd reads them: `/etc/NAME.d` before `/run/NAME.d` before `/usr/lib/NAME.d`.
//!
//! Of several files with one name only that of the first directory counts; all that count are read in the order of
//! their names, whatever directory they are in. A link to `/dev/null` takes a packaged file out.
//!
//! Shared: `sysctl` and `modules`.

use std::collections::BTreeMap;

use super::listing::DirectoryEntry;
use super::{Capture, Facts, Known, Missing, OrAbsent, Why};

impl Facts {
    /// The `*.conf` files of some directories that count, by path, in the order they are read.
    pub fn conf_d(&self, dirs: &[&str]) -> Known<Vec<(String, &Capture)>> {
        let mut by_name: BTreeMap<String, (String, DirectoryEntry)> = BTreeMap::new();
        for dir in dirs {
            let entries = self.dir(dir).or_absent()?.unwrap_or_default();
            for entry in
                entries.into_iter().filter(|entry| !entry.is_dir() && entry.name.strip_suffix(".conf").is_some())
            {
                by_name.entry(entry.name.clone()).or_insert_with(|| (format!("{dir}/{}", entry.name), entry));
            }
        }
        let mut found = Vec::new();
        for (path, entry) in by_name.into_values() {
            if let Some(capture) = self.fragment(&path, &entry)? {
                found.push((path, capture));
            }
        }
        Ok(found)
    }

    /// The content of an entry; a link's is that of its target, and nothing where the target is `/dev/null` or gone.
    fn fragment(&self, path: &str, entry: &DirectoryEntry) -> Known<Option<&Capture>> {
        let Some(target) = &entry.target else { return self.file(path).map(Some) };
        let target = resolved(path, target);
        if target == "/dev/null" {
            return Ok(None);
        }
        match self.file(path) {
            // A link may be listed without being followed; where it leads may have been read for its own sake.
            Err(Missing { why: Why::NotCollected, .. }) => self.file(&target).or_absent(),
            other => other.or_absent(),
        }
    }
}

/// Where a link leads, without asking the filesystem: enough for links between configuration files.
fn resolved(link: &str, target: &str) -> String {
    let parent = link.rsplit_once('/').map_or("", |(parent, _)| parent);
    let whole = if target.starts_with('/') { target.to_owned() } else { format!("{parent}/{target}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    const DIRS: [&str; 2] = ["/etc/x.d", "/usr/lib/x.d"];

    fn read(facts: &Facts) -> Vec<(String, String)> {
        facts.conf_d(&DIRS).unwrap().into_iter().map(|(path, capture)| (path, capture.text.clone())).collect()
    }

    fn pair(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn a_name_in_etc_replaces_the_packaged_one_and_names_order_the_rest() {
        let facts = facts()
            .with_dir("/etc/x.d", &[("-rw-r--r--", "20-b.conf"), ("-rw-r--r--", "README"), ("drwxr-xr-x", "d.conf")])
            .with_dir("/usr/lib/x.d", &[("-rw-r--r--", "20-b.conf"), ("-rw-r--r--", "10-a.conf")])
            .with_file("/etc/x.d/20-b.conf", "mine")
            .with_file("/usr/lib/x.d/10-a.conf", "packaged");
        assert_eq!(read(&facts), [pair("/usr/lib/x.d/10-a.conf", "packaged"), pair("/etc/x.d/20-b.conf", "mine")]);
    }

    #[test]
    fn links_are_followed_or_take_a_file_out() {
        let facts = facts()
            .with_dir("/etc/x.d", &[("lrwxrwxrwx", "10-a.conf -> /dev/null"), ("lrwxrwxrwx", "99-x.conf -> ../x.conf")])
            .with_dir("/usr/lib/x.d", &[("-rw-r--r--", "10-a.conf")])
            .with_file("/usr/lib/x.d/10-a.conf", "packaged")
            .with_file("/etc/x.conf", "linked");
        assert_eq!(read(&facts), [pair("/etc/x.d/99-x.conf", "linked")]);
        let dangling = facts.without_file("/etc/x.conf");
        assert_eq!(read(&dangling), []);
    }

    #[test]
    fn what_cannot_be_read_is_not_passed_over() {
        let facts = facts().with_dir("/etc/x.d", &[("-rw-------", "a.conf")]).without_dir("/usr/lib/x.d");
        assert_eq!(facts.conf_d(&DIRS).unwrap_err().source_name, "/etc/x.d/a.conf");
        assert_eq!(facts.without_dir("/etc/x.d").conf_d(&DIRS), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn any_text_is_a_link(link in ".*", target in "[./a]{0,12}") {
            prop_assert!(resolved(&link, &target).starts_with('/'));
        }
    }
}
