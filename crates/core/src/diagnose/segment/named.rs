//! What the name of a text says that it is: a folder of captures has `hosts`, `containerd-config.toml`, `df_-h.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::command::{Asked, understand};
use super::heading::{Heading, Strength};
use super::section::Form;
use crate::fact::{Source, sources};

/// What a text of this name begins with.
pub(super) fn heading(source: &str) -> Option<Heading> {
    let asked = file(source).map(|path| Asked::of(Form::File(path))).or_else(|| command(source))?;
    Some(Heading { host: None, asked, strength: Strength::Full })
}

/// A file that Carrick would read: by its whole path (`w1/etc/hosts`), or by a name that only one has.
fn file(source: &str) -> Option<String> {
    let slashed = format!("/{source}");
    let by_path = FILES.values().flatten().filter(|path| slashed.ends_with(**path)).max_by_key(|path| path.len());
    if let Some(path) = by_path {
        return Some((*path).to_owned());
    }
    let name = source.rsplit('/').next()?;
    let name = name.strip_suffix(".txt").unwrap_or(name).replace(['_', ' '], "-").to_ascii_lowercase();
    let paths = FILES.get(name.trim_start_matches('-'))?;
    // Of several the one in /etc is meant: /etc/resolv.conf, not systemd-resolved's.
    let mut likely = paths.iter().filter(|path| paths.len() == 1 || path.starts_with("/etc/"));
    likely.next().filter(|_| likely.next().is_none()).map(|path| (*path).to_owned())
}

/// `df_-h.txt`, `iptables-save.log`, `systemctl status kubelet.txt`. What has no facts in it is left to the signatures.
fn command(source: &str) -> Option<Asked> {
    let name = source.rsplit('/').next()?;
    let stem =
        name.rsplit_once('.').filter(|(_, end)| matches!(*end, "txt" | "log" | "out")).map_or(name, |(stem, _)| stem);
    let spellings = [stem.to_owned(), stem.replace('_', " "), stem.replace(['_', '-'], " ")];
    let telling = |asked: &Asked| !matches!(asked.form, None | Some(Form::Passed));
    spellings.iter().find_map(|typed| understand(typed).filter(telling))
}

/// The names under which people keep the files that Carrick reads: `hosts`, `containerd-config.toml`, `etc-containerd-config.toml`.
static FILES: LazyLock<BTreeMap<String, Vec<&'static str>>> = LazyLock::new(|| {
    let mut names: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    let file = |source| if let Source::File(path) = source { Some(path) } else { None };
    // What is in /proc and /sys has names like everything else.
    for path in sources().filter_map(file).filter(|path| !path.starts_with("/sys/")) {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        for from in 0..parts.len() {
            let paths = names.entry(parts.get(from..).unwrap_or_default().join("-")).or_default();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    names
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_a_text_is() {
        for (source, path) in [
            ("hosts", Some("/etc/hosts")),
            ("folder/w1/hosts.txt", Some("/etc/hosts")),
            ("resolv.conf", Some("/etc/resolv.conf")),
            ("containerd-config.toml", Some("/etc/containerd/config.toml")),
            ("etc_containerd_config.toml", Some("/etc/containerd/config.toml")),
            ("w1/etc/kubernetes/kubelet.conf", Some("/etc/kubernetes/kubelet.conf")),
            ("kubelet-config.yaml", Some("/var/lib/kubelet/config.yaml")),
            ("paste.txt", None),
            ("journal", None),
        ] {
            assert_eq!(file(source).as_deref(), path, "{source}");
        }
        assert_eq!(
            command("iptables-save.txt").and_then(|asked| asked.form),
            understand("iptables-save").and_then(|it| it.form)
        );
        assert!(command("df_-h.txt").is_some_and(|asked| matches!(asked.form, Some(Form::Df(_)))));
        assert_eq!(command("journalctl.txt"), None);
    }
}
