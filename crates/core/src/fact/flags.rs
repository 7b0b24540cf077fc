//! Flags that kubelets no longer know: one of them, left in a file, and the kubelet does not start.
//!
//! Shared: `kubelet.removed-flags`.

use super::unit::{CommandLine, Word};
use super::version::Version;

/// A flag, and the minor version of Kubernetes 1 that no longer knows it.
const REMOVED: [(&str, u32); 17] = [
    ("--allow-privileged", 15),
    // With dockershim:
    ("--cni-bin-dir", 24),
    ("--cni-cache-dir", 24),
    ("--cni-conf-dir", 24),
    ("--docker-endpoint", 24),
    ("--dynamic-config-dir", 24),
    ("--experimental-dockershim-root-directory", 24),
    ("--image-pull-progress-deadline", 24),
    ("--network-plugin", 24),
    ("--network-plugin-mtu", 24),
    ("--container-runtime", 27),
    ("--master-service-namespace", 27),
    ("--iptables-drop-bit", 31),
    ("--iptables-masquerade-bit", 31),
    ("--keep-terminated-pod-volumes", 31),
    ("--cloud-config", 34),
    ("--pod-infra-container-image", 35),
];

/// A flag on a command line that the installed kubelet refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedFlag<'a> {
    pub word: &'a Word,
    pub name: &'static str,
    /// The minor version that removed it.
    pub since: u32,
}

pub fn removed<'a>(command: &'a CommandLine, kubelet: Version) -> Vec<RemovedFlag<'a>> {
    let known = |word: &'a Word| {
        let (name, since) = REMOVED.into_iter().find(|(name, _)| word.flag_name() == Some(name))?;
        ((kubelet.major, kubelet.minor) >= (1, since)).then_some(RemovedFlag { word, name, since })
    };
    command.words.iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::evidence::Evidence;

    #[test]
    fn a_flag_is_gone_from_the_version_that_removed_it() {
        let word = |text: &str| Word { text: text.to_owned(), seen: Evidence::of("", "") };
        let words = [
            "kubelet",
            "--network-plugin=cni",
            "--container-runtime",
            "remote",
            "--container-runtime-endpoint=unix:///x",
        ];
        let command = CommandLine { words: words.map(word).to_vec(), unread: Vec::new() };
        let names = |minor| -> Vec<&str> {
            removed(&command, Version { major: 1, minor, patch: 0 }).into_iter().map(|flag| flag.name).collect()
        };
        assert!(names(23).is_empty());
        assert_eq!(names(24), ["--network-plugin"]);
        assert_eq!(names(26), ["--network-plugin"]);
        assert_eq!(names(27), ["--network-plugin", "--container-runtime"]);
    }

    #[test]
    fn no_flag_is_listed_twice() {
        for (at, (name, _)) in REMOVED.iter().enumerate() {
            assert!(REMOVED.iter().skip(at + 1).all(|(other, _)| other != name), "{name}");
        }
    }
}
