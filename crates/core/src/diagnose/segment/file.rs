//! Files as they were printed; and those whose name only a list of their directory tells.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::listing::Listed;
use super::section::{Body, Form, Harvest};
use super::{Segment, listing, mounts};
use crate::fact::listing::DirectoryEntry;
use crate::fact::{Source, dir_key, file_key, sources};

pub(super) fn read(path: &str, body: &Body, harvest: &mut Harvest) {
    if body.lines.is_empty() {
        // An empty file, or a command whose output was not pasted: who knows.
        return;
    }
    match path {
        "/proc/mounts" | "/proc/self/mounts" | "/etc/mtab" => mounts::read_table(body, harvest),
        "/proc/1/mountinfo" | "/proc/self/mountinfo" => mounts::read_mountinfo(body, harvest),
        _ => harvest.segments.push(body.whole(file_key(path))),
    }
}

/// A path alone may head a list of a directory, or the content of a file.
pub(super) fn read_place(path: &str, body: &Body, harvest: &mut Harvest) {
    let first = body.lines.first().map_or("", |(_, line)| line.trim());
    if listing::is_total(first) || listing::row(first, false).is_some() {
        listing::read(&[super::command::trimmed(path)], true, false, body, harvest);
    } else if !path.ends_with('/') && place(path) == file_key(path) {
        read(path, body, harvest);
    }
}

/// The key of a path: a directory's where Carrick would list it.
pub(super) fn place(path: &str) -> String {
    if DIRS.contains(path) { dir_key(path) } else { file_key(path) }
}

static DIRS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let dir = |source| if let Source::Dir(dir) | Source::Tree(dir) = source { Some(dir) } else { None };
    sources().filter_map(dir).collect()
});

/// Files that are known by what they say.
pub(super) fn read_by_content(form: &Form, body: &Body, harvest: &mut Harvest) {
    let text = body.text();
    let has = |words: &str| text.contains(words);
    let path = match form {
        Form::KubeletConfig if has("kind: KubeletConfiguration") => "/var/lib/kubelet/config.yaml",
        Form::Kubeconfig if has("kind: Config") && has("kubelet-client-current.pem") => "/etc/kubernetes/kubelet.conf",
        Form::Kubeconfig if has("kind: Config") && has("tls-bootstrap-token-user") => {
            "/etc/kubernetes/bootstrap-kubelet.conf"
        }
        Form::ContainerdConfig if has("containerd") || has("disabled_plugins") => "/etc/containerd/config.toml",
        Form::OsRelease if has("ID=") => "/etc/os-release",
        _ => return,
    };
    harvest.segments.push(body.whole(file_key(path)));
}

/// Where CNI's configurations are.
const CNI: &str = "/etc/cni/net.d";

/// The files of a directory one after another, and no word where one ends.
pub(super) struct Nameless {
    dir: String,
    body: Body,
}

impl Nameless {
    /// A configuration of CNI, known by what it says.
    pub(super) fn cni(body: Body) -> Self {
        Nameless { dir: CNI.to_owned(), body }
    }

    /// The files they are, by the list of their directory.
    pub(super) fn named(self, listed: &[Listed]) -> Vec<Segment> {
        let list = listed.iter().rfind(|list| list.dir == self.dir && list.host == self.body.host);
        // A glob passes hidden files over, and gives the rest by name.
        let visible = |entry: &&DirectoryEntry| !entry.is_dir() && !entry.name.starts_with('.');
        let mut files: Vec<&DirectoryEntry> = list.iter().flat_map(|list| &list.entries).filter(visible).collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let segment = |file: &DirectoryEntry, body: &Body| body.whole(file_key(&format!("{}/{}", self.dir, file.name)));
        if let [only] = files.as_slice() {
            return vec![segment(only, &self.body)];
        }
        if let Some(bodies) = self.by_sizes(&files) {
            return files.iter().zip(&bodies).map(|(file, body)| segment(file, body)).collect();
        }
        let mut fit = files.iter().filter(|file| has_size(&self.body, file.size));
        fit.next().filter(|_| fit.next().is_none()).map(|file| segment(file, &self.body)).into_iter().collect()
    }

    /// Each as long as the list says, and nothing left over.
    fn by_sizes(&self, files: &[&DirectoryEntry]) -> Option<Vec<Body>> {
        let mut bodies = Vec::new();
        let mut from = 0;
        for file in files {
            let mut size = 0;
            let lines = self.body.lines.iter().skip(from);
            let ends = lines.map(|(_, line)| {
                size += line.len() as u64 + 1;
                size
            });
            let count = ends.take_while(|end| *end <= file.size + 1).count();
            let body = self.body.part(from, from + count);
            from += count;
            bodies.push(Some(body).filter(|body| has_size(body, file.size))?);
        }
        (from == self.body.lines.len() && !files.is_empty()).then_some(bodies)
    }
}

/// The last line of a file need not end with a newline; in a paste it does.
fn has_size(body: &Body, size: u64) -> bool {
    let length = body.text().len() as u64;
    length == size || length == size + 1
}

/// `cat DIR/*`.
pub(super) fn read_glob(dir: &str, body: &Body, harvest: &mut Harvest) {
    if !body.lines.is_empty() {
        let body = body.part(0, body.lines.len());
        harvest.nameless.push(Nameless { dir: super::command::trimmed(dir), body });
    }
}
