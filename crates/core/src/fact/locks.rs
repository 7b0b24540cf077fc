//! Who holds the package manager's locks right now.

use super::keep::USUAL;
use super::{Facts, Known, Missing, Query, Source};

/// The lock files with their inodes, dnf's files of process ids that are alive, the kernel's table of locks, and the
/// names of the processes in it. dpkg, apt and rpm lock a file that is always there; only its inode in the table says
/// it is held.
pub const HOLDERS: Query = Query {
    name: "stat of package locks; cat /proc/locks",
    argv: &[
        "sh",
        "-c",
        r#"for f in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock \
  /var/cache/apt/archives/lock /var/lib/rpm/.rpm.lock /usr/lib/sysimage/rpm/.rpm.lock /run/zypp.pid; do
  [ ! -e "$f" ] || stat -c 'inode %i %n' "$f"
done
for f in /var/cache/dnf/metadata_lock.pid /var/cache/dnf/download_lock.pid /var/lib/dnf/rpmdb_lock.pid \
  /var/run/yum.pid; do
  { read -r p <"$f"; } 2>/dev/null || continue
  [ ! -d "/proc/$p" ] || echo "pidfile $p $f"
done
cat /proc/locks || exit 1
for p in $(sed -n 's/^[0-9]*: [A-Z]* *[A-Z]* *[A-Z]* *\([0-9]*\) .*/\1/p' /proc/locks | sort -u); do
  { read -r c <"/proc/$p/comm"; } 2>/dev/null && echo "comm $p $c"
done
exit 0"#,
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[Source::Query(&HOLDERS)];

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    pub path: String,
    /// `None` where the holder is not to be seen from here: another process namespace.
    pub pid: Option<u32>,
    /// The holder's name, where it is still there.
    pub command: Option<String>,
}

impl HeldLock {
    /// `apt-get (pid 1234)`.
    pub fn holder(&self) -> String {
        match (&self.command, self.pid) {
            (Some(command), Some(pid)) => format!("{command} (pid {pid})"),
            (None, Some(pid)) => format!("pid {pid}"),
            _ => "a process that is not to be seen from here".to_owned(),
        }
    }
}

/// One row of `/proc/locks`: `1: POSIX  ADVISORY  WRITE 1234 08:01:398608 0 EOF`; a row with `->` only waits.
fn parse_lock(line: &str) -> Option<(u64, Option<u32>)> {
    let mut fields = line.split_whitespace();
    fields.next()?.strip_suffix(':')?.parse::<u64>().ok()?;
    let pid = fields.nth(3)?.parse().ok();
    let inode = fields.next()?.rsplit(':').next()?.parse().ok()?;
    Some((inode, pid))
}

pub fn parse(text: &str) -> Vec<HeldLock> {
    let command = |pid: Option<u32>| {
        let prefix = format!("comm {} ", pid?);
        text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    };
    let mut held = Vec::new();
    for line in text.lines() {
        if let Some((inode, path)) = line.strip_prefix("inode ").and_then(|rest| rest.split_once(' ')) {
            let holder = text.lines().filter_map(parse_lock).find(|(locked, _)| inode.parse() == Ok(*locked));
            held.extend(holder.map(|(_, pid)| HeldLock { path: path.to_owned(), pid, command: command(pid) }));
        } else if let Some((pid, path)) = line.strip_prefix("pidfile ").and_then(|rest| rest.split_once(' ')) {
            let pid = pid.parse().ok();
            held.push(HeldLock { path: path.to_owned(), pid, command: command(pid) });
        }
    }
    held
}

impl Facts {
    /// The package manager's locks that are held.
    pub fn package_locks(&self) -> Known<Vec<HeldLock>> {
        let capture = self.query(&HOLDERS)?;
        if matches!(capture.exit, Some(0) | None) {
            return Ok(parse(&capture.text));
        }
        Err(Missing::broken(HOLDERS.name, capture.errors.lines().next().unwrap_or("failed")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    const BUSY: &str = "\
inode 398608 /var/lib/dpkg/lock-frontend
inode 398607 /var/lib/dpkg/lock
inode 395803 /var/lib/apt/lists/lock
1: FLOCK  ADVISORY  WRITE 812 fe:00:9977954 0 EOF
2: POSIX  ADVISORY  WRITE 4711 fe:00:398608 0 EOF
2: -> POSIX  ADVISORY  WRITE 4800 fe:00:395803 0 EOF
3: OFDLCK ADVISORY  WRITE -1 fe:00:398607 0 EOF
comm 4711 unattended-upgr
";

    #[test]
    fn a_lock_is_held_where_its_inode_is_in_the_table() {
        let held = parse(BUSY);
        let shown: Vec<(String, String)> = held.iter().map(|lock| (lock.path.clone(), lock.holder())).collect();
        assert_eq!(
            shown,
            [
                ("/var/lib/dpkg/lock-frontend".into(), "unattended-upgr (pid 4711)".into()),
                ("/var/lib/dpkg/lock".into(), "a process that is not to be seen from here".into()),
            ]
        );
    }

    #[test]
    fn dnf_writes_its_process_id() {
        let held = parse("pidfile 99 /var/lib/dnf/rpmdb_lock.pid\n");
        assert_eq!((held.len(), held[0].holder()), (1, "pid 99".into()));
        assert_eq!(parse("inode 5 /var/lib/dpkg/lock\n"), []);
    }

    #[test]
    fn an_unreadable_table_is_not_an_empty_one() {
        let facts = facts().with_exit(&HOLDERS, 1, "inode 5 /x\n", "cat: /proc/locks: Permission denied\n");
        assert!(facts.package_locks().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*", lines in "((inode|comm|pidfile|1:)( [0-9:a-z-]{0,8}){0,7}\n){0,6}") {
            parse(&text);
            parse(&lines);
        }
    }
}
