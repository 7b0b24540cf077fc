//! The kernel: its release, its build configuration, the filesystems it knows.

use std::collections::{BTreeMap, BTreeSet};

use super::keep::USUAL;
use super::version::{self, Version};
use super::{Facts, Known, Missing, Query, Source};

pub const RELEASE: &str = "/proc/sys/kernel/osrelease";
pub const FILESYSTEMS: &str = "/proc/filesystems";

/// The options kubeadm's system validators ask for, from the first of the places they look in. Exit 3: there is none,
/// and then kubeadm stops too, unless `modprobe configs` brings `/proc/config.gz`.
pub const CONFIG: Query = Query {
    name: "grep CONFIG_ /boot/config-$(uname -r)",
    argv: &[
        "sh",
        "-c",
        r##"r=$(uname -r)
o='NAMESPACES|NET_NS|PID_NS|IPC_NS|UTS_NS|CGROUPS|CGROUP_[A-Z]+|CPUSETS|MEMCG|INET|EXT4_FS|PROC_FS|FAIR_GROUP_SCHED'
o="$o|NETFILTER_XT_TARGET_REDIRECT|IP_NF_TARGET_REDIRECT|NETFILTER_XT_MATCH_COMMENT|CFS_BANDWIDTH|OVERLAY_FS"
o="$o|SECCOMP|SECCOMP_FILTER|BRIDGE_NETFILTER|VXLAN|NF_TABLES"
for f in /proc/config.gz "/boot/config-$r" "/usr/src/linux-$r/.config" /usr/src/linux/.config \
  "/usr/lib/modules/$r/config" "/usr/lib/ostree-boot/config-$r" "/usr/lib/kernel/config-$r" \
  "/usr/src/linux-headers-$r/.config" "/lib/modules/$r/build/.config"; do
  [ -e "$f" ] || continue
  echo "# $f"
  case $f in *.gz) gzip -dc "$f" ;; *) cat "$f" ;; esac | grep -E "^(# )?CONFIG_($o)[= ]"
  exit
done
PATH=$PATH:/usr/sbin:/sbin
modinfo -F filename configs 2>/dev/null && exit 4
exit 3"##,
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[Source::File(RELEASE), Source::File(FILESYSTEMS), Source::Query(&CONFIG)];

/// A kernel's build configuration, as far as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelConfig {
    /// Where it was found.
    pub path: String,
    /// `NET_NS` to `y` or `m`; what is not set is not here.
    pub options: BTreeMap<String, String>,
}

impl KernelConfig {
    /// Built in, or built as a module.
    pub fn has(&self, option: &str) -> bool {
        self.options.get(option).is_some_and(|value| value == "y" || value == "m")
    }
}

/// `CONFIG_NET_NS=y` lines under a `# /path` heading; `# CONFIG_X is not set` says nothing.
pub fn parse_config(text: &str) -> KernelConfig {
    let mut config = KernelConfig::default();
    for line in text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("# /") {
            config.path = format!("/{path}");
        } else if let Some((option, value)) = line.strip_prefix("CONFIG_").and_then(|line| line.split_once('=')) {
            config.options.insert(option.to_owned(), value.to_owned());
        }
    }
    config
}

/// `nodev overlay` and `ext4`: the name is the last word of each line.
pub fn parse_filesystems(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.split_whitespace().next_back()).map(str::to_owned).collect()
}

/// Where a kernel's configuration stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigFound {
    Here(KernelConfig),
    /// In a module that kubeadm would load.
    InModule,
    Nowhere,
}

impl Facts {
    /// `6.1.0-28-amd64`.
    pub fn kernel_release(&self) -> Known<String> {
        Ok(self.file(RELEASE)?.text.trim().to_owned())
    }

    pub fn kernel_version(&self) -> Known<Version> {
        let release = self.kernel_release()?;
        version::parse(&release).ok_or_else(|| Missing::broken(RELEASE, format!("no version in {release:?}")))
    }

    pub fn kernel_config(&self) -> Known<ConfigFound> {
        let capture = self.query(&CONFIG)?;
        match capture.exit {
            Some(3) => return Ok(ConfigFound::Nowhere),
            Some(4) => return Ok(ConfigFound::InModule),
            _ => {}
        }
        let config = parse_config(&capture.text);
        if config.options.is_empty() {
            let said = capture.errors.lines().next().unwrap_or("printed no option");
            return Err(Missing::broken(CONFIG.name, said));
        }
        Ok(ConfigFound::Here(config))
    }

    /// The filesystems the kernel can mount right now; others may come with a module.
    pub fn kernel_filesystems(&self) -> Known<BTreeSet<String>> {
        Ok(parse_filesystems(&self.file(FILESYSTEMS)?.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    #[test]
    fn reads_the_options_that_are_set() {
        let text = "# /boot/config-6.1.0-28-amd64\nCONFIG_CGROUPS=y\nCONFIG_OVERLAY_FS=m\n# CONFIG_VXLAN is not set\n\
                    CONFIG_EXT4_FS=n\n";
        let config = parse_config(text);
        assert_eq!(config.path, "/boot/config-6.1.0-28-amd64");
        assert!(config.has("CGROUPS") && config.has("OVERLAY_FS"));
        assert!(!config.has("VXLAN") && !config.has("EXT4_FS") && !config.has("CGROUP"));
    }

    #[test]
    fn tells_no_configuration_from_an_unreadable_one() {
        assert_eq!(facts().with_exit(&CONFIG, 3, "", "").kernel_config(), Ok(ConfigFound::Nowhere));
        assert_eq!(facts().with_exit(&CONFIG, 4, "/x/configs.ko\n", "").kernel_config(), Ok(ConfigFound::InModule));
        let denied =
            facts().with_exit(&CONFIG, 1, "# /boot/config-6.1\n", "cat: /boot/config-6.1: Permission denied\n");
        let missing = denied.kernel_config().unwrap_err();
        assert!(missing.to_string().contains("Permission denied"), "{missing}");
    }

    #[test]
    fn knows_the_release_and_the_filesystems() {
        assert_eq!(facts().with_file(RELEASE, "6.1.0-28-amd64\n").kernel_version().unwrap().to_string(), "6.1.0");
        assert!(facts().with_file(RELEASE, "next\n").kernel_version().is_err());
        let known = parse_filesystems("nodev\tsysfs\nnodev\toverlay\n\text4\n\n");
        assert!(known.contains("overlay") && known.contains("ext4") && !known.contains("nodev"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*", lines in "((# )?CONFIG_[A-Z_]{0,6}[= ]?[ymn]?\n){0,5}") {
            for text in [&text, &lines] {
                parse_config(text);
                parse_filesystems(text);
            }
        }
    }
}
