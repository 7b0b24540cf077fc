//! Versions of the programs a join depends on.

use std::fmt;

use super::keep::USUAL;
use super::{Facts, Known, Missing, Query, Source};

pub const KUBELET: Query = Query { name: "kubelet --version", argv: &["kubelet", "--version"], keep: USUAL };
pub const KUBEADM: Query =
    Query { name: "kubeadm version -o short", argv: &["kubeadm", "version", "-o", "short"], keep: USUAL };
pub const CONTAINERD: Query = Query { name: "containerd --version", argv: &["containerd", "--version"], keep: USUAL };

pub const SOURCES: &[Source] = &[Source::Query(&KUBELET), Source::Query(&KUBEADM), Source::Query(&CONTAINERD)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The first `MAJOR.MINOR[.PATCH]` in a text: `Kubernetes v1.34.4`, `containerd github.com/… 1.6.20~ds1 …`.
pub fn parse(text: &str) -> Option<Version> {
    text.split(|c: char| c.is_whitespace() || c == '"').find_map(parse_word)
}

fn parse_word(word: &str) -> Option<Version> {
    let mut parts = word.strip_prefix('v').unwrap_or(word).splitn(3, '.');
    let major = parts.next()?.parse().ok()?;
    let minor = leading_number(parts.next()?)?;
    let patch = parts.next().and_then(leading_number).unwrap_or(0);
    Some(Version { major, minor, patch })
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

impl Facts {
    pub fn kubelet_version(&self) -> Known<Version> {
        self.version_of(&KUBELET)
    }

    pub fn kubeadm_version(&self) -> Known<Version> {
        self.version_of(&KUBEADM)
    }

    pub fn containerd_version(&self) -> Known<Version> {
        self.version_of(&CONTAINERD)
    }

    fn version_of(&self, query: &Query) -> Known<Version> {
        let said = self.query(query)?;
        parse(&said.text).ok_or_else(|| {
            let said = if said.text.trim().is_empty() { &said.errors } else { &said.text };
            Missing::broken(query.name, format!("no version in {:?}", said.lines().next().unwrap_or_default()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_the_programs_print() {
        for (text, expected) in [
            ("Kubernetes v1.34.4\n", Some("1.34.4")),
            ("v1.29.15\n", Some("1.29.15")),
            ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1\n", Some("1.6.20")),
            ("containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da", Some("1.7.27")),
            ("v1.35.0-rc.1", Some("1.35.0")),
            ("1.34", Some("1.34.0")),
            ("bash: line 1: kubeadm: command not found", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|version| version.to_string()).as_deref(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_version_or_none(text in ".*") {
            parse(&text);
        }
    }
}
