//! Which programs are installed, where a service would find them.

use super::keep::USUAL;
use super::{Facts, Known, Missing, Query, Source, Why};

/// With the search path of systemd's services: that of a login over SSH often lacks `/usr/sbin`.
pub const INSTALLED: Query = Query {
    name: "command -v mount losetup cp …",
    argv: &[
        "sh",
        "-c",
        r#"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
for t in mount losetup cp touch conntrack iptables ip nsenter socat ethtool ebtables tc crictl apparmor_parser \
  modprobe kubelet kubeadm containerd runc; do
  echo "$t $(command -v "$t")"
done
for t in kubelet kubeadm containerd containerd-shim-runc-v2 runc crun; do
  for d in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
    if [ -f "$d/$t" ] && [ ! -x "$d/$t" ]; then echo "not-executable $d/$t"; fi
  done
done"#,
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[Source::Query(&INSTALLED)];

/// `mount /usr/bin/mount`, and a bare name where there is none: the path of one tool, if it was looked for.
pub fn parse(text: &str, tool: &str) -> Option<Option<String>> {
    let path = |line: &str| {
        let (name, path) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        (name == tool).then(|| Some(path.trim().to_owned()).filter(|path| path.starts_with('/')))
    };
    text.lines().find_map(path)
}

/// Files with the name of a program that nobody may execute.
pub fn parse_not_executable(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.trim().strip_prefix("not-executable ")).map(str::to_owned).collect()
}

impl Facts {
    /// Programs that are there and that nobody may execute.
    pub fn not_executable(&self) -> Known<Vec<String>> {
        Ok(parse_not_executable(&self.query(&INSTALLED)?.text))
    }

    /// The path of a program; `None` where it is not installed.
    pub fn tool(&self, tool: &str) -> Known<Option<String>> {
        let capture = self.query(&INSTALLED)?;
        parse(&capture.text, tool)
            .ok_or_else(|| Missing { source_name: format!("command -v {tool}"), why: Why::NotCollected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    #[test]
    fn tells_missing_from_not_looked_for() {
        let facts = facts().with_query(&INSTALLED, "mount /usr/bin/mount\nconntrack \nip\n");
        assert_eq!(facts.tool("mount"), Ok(Some("/usr/bin/mount".into())));
        assert_eq!(facts.tool("conntrack"), Ok(None));
        assert_eq!(facts.tool("ip"), Ok(None));
        assert_eq!(facts.tool("mou").unwrap_err().why, Why::NotCollected);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*") {
            parse(&text, "mount");
            parse(&format!("mount {text}"), "mount");
        }
    }
}
