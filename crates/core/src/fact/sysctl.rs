//! Kernel parameters: what they are now (`/proc/sys`), and what `systemd-sysctl` makes them at boot.

use super::{Facts, Known, OrAbsent, Source};

pub const IP_FORWARD: &str = "net/ipv4/ip_forward";
/// The kernel forwards no IPv6 packet where this is off, whatever a link's own says.
pub const IP6_FORWARD: &str = "net/ipv6/conf/all/forwarding";
pub const BRIDGE_IPTABLES: &str = "net/bridge/bridge-nf-call-iptables";
pub const BRIDGE_IP6TABLES: &str = "net/bridge/bridge-nf-call-ip6tables";
pub const INOTIFY_INSTANCES: &str = "fs/inotify/max_user_instances";
pub const INOTIFY_WATCHES: &str = "fs/inotify/max_user_watches";

/// Read at boot only through a link, `99-sysctl.conf` in one of the directories, which Debian dropped with 13; and last of
/// all by `sysctl --system`.
pub const CONF: &str = "/etc/sysctl.conf";
const DIRS: [&str; 4] = ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];

pub const SOURCES: &[Source] = &[
    Source::File("/proc/sys/net/ipv4/ip_forward"),
    Source::File("/proc/sys/net/bridge/bridge-nf-call-iptables"),
    Source::File("/proc/sys/net/bridge/bridge-nf-call-ip6tables"),
    Source::File("/proc/sys/net/ipv6/conf/default/forwarding"),
    Source::File("/proc/sys/net/ipv6/conf/all/forwarding"),
    Source::File("/proc/sys/fs/inotify/max_user_instances"),
    Source::File("/proc/sys/fs/inotify/max_user_watches"),
    Source::File("/proc/sys/vm/overcommit_memory"),
    Source::File("/proc/sys/vm/panic_on_oom"),
    Source::File("/proc/sys/kernel/panic"),
    Source::File("/proc/sys/kernel/panic_on_oops"),
    Source::Tree("/etc/sysctl.d"),
    Source::Tree("/run/sysctl.d"),
    Source::Tree("/usr/local/lib/sysctl.d"),
    Source::Tree("/usr/lib/sysctl.d"),
    Source::File(CONF),
];

/// An assignment in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysctlSetting {
    pub value: String,
    pub source: String,
    pub line: u32,
    /// The line as it stands there.
    pub text: String,
}

/// A key as a path below `/proc/sys`. As systemd has it: whichever of `.` and `/` comes first separates, and the other
/// then stands for the first (`net.ipv4.conf.eth0/100.forwarding`).
pub fn path_of(key: &str) -> String {
    match key.find(['.', '/']) {
        Some(at) if key.get(at..).is_some_and(|rest| rest.starts_with('.')) => key
            .chars()
            .map(|c| {
                if c == '.' {
                    '/'
                } else if c == '/' {
                    '.'
                } else {
                    c
                }
            })
            .collect(),
        _ => key.to_owned(),
    }
}

/// The assignments of one file: `key = value`; a leading `-` only says that a failure does not matter.
pub fn parse(source: &str, text: &str) -> Vec<(String, SysctlSetting)> {
    let setting = |(line, text): (u32, &str)| {
        let text = text.trim();
        let (key, value) = text.split_once('=').filter(|_| !text.starts_with(['#', ';']))?;
        let key = key.strip_prefix('-').unwrap_or(key).trim();
        let setting =
            SysctlSetting { value: value.trim().to_owned(), source: source.to_owned(), line, text: text.to_owned() };
        Some((path_of(key), setting))
    };
    (1u32..).zip(text.lines()).filter_map(setting).collect()
}

/// The assignments of one parameter in one file.
fn assignments(source: &str, text: &str, path: &str) -> Vec<SysctlSetting> {
    parse(source, text).into_iter().filter(|(key, _)| key == path).map(|(_, setting)| setting).collect()
}

impl Facts {
    /// What a parameter is now, by its path below `/proc/sys`; `None` where the kernel does not have it.
    pub fn sysctl(&self, path: &str) -> Known<Option<String>> {
        Ok(self.file(&format!("/proc/sys/{path}")).or_absent()?.map(|capture| capture.text.trim().to_owned()))
    }

    /// What a parameter is set to at boot: the last assignment of all the files that count.
    pub fn sysctl_at_boot(&self, path: &str) -> Known<Option<SysctlSetting>> {
        Ok(self.sysctls_at_boot(path)?.pop())
    }

    /// Every assignment of a parameter at boot, in the order they are made.
    pub fn sysctls_at_boot(&self, path: &str) -> Known<Vec<SysctlSetting>> {
        let mut settings = Vec::new();
        for (source, capture) in self.conf_d(&DIRS)? {
            settings.extend(assignments(&source, &capture.text, path));
        }
        Ok(settings)
    }

    /// What `/etc/sysctl.conf` sets a parameter to, whether or not it is read at boot.
    pub fn sysctl_conf(&self, path: &str) -> Known<Option<SysctlSetting>> {
        Ok(self.sysctls_in_conf(path)?.pop())
    }

    /// Every assignment of a parameter in `/etc/sysctl.conf`.
    pub fn sysctls_in_conf(&self, path: &str) -> Known<Vec<SysctlSetting>> {
        let Some(capture) = self.file(CONF).or_absent()? else { return Ok(Vec::new()) };
        Ok(assignments(CONF, &capture.text, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    fn machine() -> Facts {
        DIRS.into_iter().fold(facts(), Facts::without_dir)
    }

    fn at_boot(facts: &Facts) -> Option<(String, String, u32)> {
        facts.sysctl_at_boot(IP_FORWARD).unwrap().map(|found| (found.value, found.source, found.line))
    }

    #[test]
    fn keys_come_in_two_spellings() {
        assert_eq!(path_of("net.ipv4.ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path_of("net/ipv4/ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path_of("net.ipv4.conf.eth0/100.forwarding"), "net/ipv4/conf/eth0.100/forwarding");
        assert_eq!(path_of("net/ipv4/conf/eth0.100/forwarding"), "net/ipv4/conf/eth0.100/forwarding");
        assert_eq!(path_of("plain"), "plain");
    }

    #[test]
    fn the_last_assignment_in_the_order_of_names_wins() {
        let facts = machine()
            .with_dir("/etc/sysctl.d", &[("-rw-r--r--", "k8s.conf")])
            .with_file("/etc/sysctl.d/k8s.conf", "# Kubernetes\n-net.ipv4.ip_forward = 0\nnet/ipv4/ip_forward=1\n")
            .with_dir("/usr/lib/sysctl.d", &[("-rw-r--r--", "50-default.conf")])
            .with_file("/usr/lib/sysctl.d/50-default.conf", "net.ipv4.ip_forward=0\n");
        assert_eq!(at_boot(&facts), Some(("1".into(), "/etc/sysctl.d/k8s.conf".into(), 3)));
        let overridden = facts
            .with_dir("/usr/lib/sysctl.d", &[("-rw-r--r--", "zz-hardening.conf")])
            .with_file("/usr/lib/sysctl.d/zz-hardening.conf", ";net.ipv4.ip_forward=1\nnet.ipv4.ip_forward=0\n");
        assert_eq!(at_boot(&overridden), Some(("0".into(), "/usr/lib/sysctl.d/zz-hardening.conf".into(), 2)));
    }

    #[test]
    fn sysctl_conf_counts_only_through_its_link() {
        let debian13 = machine().with_file("/etc/sysctl.conf", "net.ipv4.ip_forward=0\nnet.ipv4.ip_forward=1\n");
        assert_eq!(at_boot(&debian13), None);
        assert_eq!(debian13.sysctl_conf(IP_FORWARD).unwrap().unwrap().line, 2);
        assert_eq!(machine().without_file("/etc/sysctl.conf").sysctl_conf(IP_FORWARD), Ok(None));
        let debian12 = debian13.with_dir("/etc/sysctl.d", &[("lrwxrwxrwx", "99-sysctl.conf -> ../sysctl.conf")]);
        assert_eq!(at_boot(&debian12), Some(("1".into(), "/etc/sysctl.d/99-sysctl.conf".into(), 2)));
    }

    #[test]
    fn a_parameter_the_kernel_lacks_is_none() {
        let facts = facts()
            .with_file("/proc/sys/net/ipv4/ip_forward", "1\n")
            .without_file("/proc/sys/net/bridge/bridge-nf-call-iptables");
        assert_eq!(facts.sysctl(IP_FORWARD), Ok(Some("1".into())));
        assert_eq!(facts.sysctl(BRIDGE_IPTABLES), Ok(None));
        assert!(facts.sysctl(INOTIFY_WATCHES).is_err());
    }

    proptest! {
        #[test]
        fn any_text_has_settings(text in ".*", lines in "([a-z./=# -]{0,30}\n){0,5}") {
            parse("x", &text);
            parse("x", &lines);
            path_of(&text);
        }
    }
}
