//! Symbolic links where a reset deletes: none is followed.
//!
//! `kubeadm reset` opens the directories it empties by their names: a link in the place of one would cost what it leads to. Such a
//! link is refused ([`followed`]). What is in those directories it removes entry by entry, and of a link that is the link alone:
//! those are shown with where they lead to, which stays.

use crate::fact::keep::Keep;
use crate::fact::{Facts, Known, Missing, Query, Source};

/// What is emptied, or has files removed from it, by name.
pub const PLACES: [&str; 6] = [
    "/etc/kubernetes",
    "/etc/kubernetes/manifests",
    "/etc/kubernetes/pki",
    "/var/lib/kubelet",
    "/etc/cni",
    "/etc/cni/net.d",
];

/// Every link in these places: `PATH -> TARGET`. Not those in the directories of pods, which are the pods' own: a volume of a
/// ConfigMap is made of links to itself.
pub const LINKED: Query = Query {
    name: "find -type l of what reset empties",
    argv: &[
        "sh",
        "-c",
        r#"set --
for dir in /etc/kubernetes /var/lib/kubelet /etc/cni; do
  if [ -e "$dir" ] || [ -h "$dir" ]; then set -- "$@" "$dir"; fi
done
[ $# -eq 0 ] || find -P "$@" -ignore_readdir_race -xdev -path '/var/lib/kubelet/pods/*' -prune -o -type l -printf '%p -> %l\n'"#,
    ],
    // A link is 150 bytes; what makes more than 7,000 of them there is not a join.
    keep: Keep::Head(1 << 20),
};

pub const SOURCES: &[Source] = &[Source::Query(&LINKED)];

/// A link, and where it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symlink {
    pub path: String,
    pub target: String,
}

impl Symlink {
    pub fn is_below(&self, dir: &str) -> bool {
        self.path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl std::fmt::Display for Symlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} -> {} (the link alone)", self.path, self.target)
    }
}

/// What [`LINKED`] prints.
pub fn parse(text: &str) -> Vec<Symlink> {
    let link = |line: &str| {
        let (path, target) = line.split_once(" -> ")?;
        Some(Symlink { path: path.to_owned(), target: target.to_owned() })
    };
    text.lines().filter_map(link).collect()
}

pub fn on(facts: &Facts) -> Known<Vec<Symlink>> {
    let found = facts.whole(&LINKED)?;
    match found.exit {
        Some(0) | None => Ok(parse(&found.text)),
        Some(exit) => {
            let said = found.errors.lines().next().unwrap_or_default();
            Err(Missing::broken(LINKED.name, format!("ended with status {exit}: {said}")))
        }
    }
}

/// The first that would be followed.
pub fn followed(links: &[Symlink]) -> Option<&Symlink> {
    links.iter().find(|link| PLACES.contains(&link.path.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_link_in_the_place_of_a_directory_is_told_from_one_in_it() {
        let links = parse("/etc/kubernetes/pki/ca.crt -> /srv/pki/a -> b\nnoise\n/var/lib/kubelet -> /data/kubelet\n");
        assert_eq!(links[0], Symlink { path: "/etc/kubernetes/pki/ca.crt".into(), target: "/srv/pki/a -> b".into() });
        assert_eq!(followed(&links), Some(&links[1]));
        assert_eq!(followed(&links[..1]), None);
        assert!(links[0].is_below("/etc/kubernetes/pki") && !links[0].is_below("/etc/kubernetes/p"));
    }

    proptest! {
        #[test]
        fn any_text_has_links(text in "(/etc/cni| -> |.)*") {
            followed(&parse(&text));
        }
    }
}
