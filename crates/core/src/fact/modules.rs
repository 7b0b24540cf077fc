//! Kernel modules: which are loaded, which could be, and which are loaded at boot.

use super::keep::USUAL;
use super::{Facts, Known, Missing, OrAbsent, Query, Source};

pub const LOADED: &str = "/proc/modules";

/// Where the modules Kubernetes needs stand in the running kernel's tree: built in, or loadable. `absent` says that
/// there is no tree for this kernel: it was upgraded away before the reboot, or never came with one.
pub const AT_HAND: Query = Query {
    name: "grep modules.builtin modules.dep of $(uname -r)",
    argv: &[
        "sh",
        "-c",
        r#"d=/lib/modules/$(uname -r)
[ -d "$d" ] || { echo "absent $d"; exit 0; }
grep -HE '/(br_netfilter|overlay|vxlan|nf_conntrack)\.ko(\.[a-z]+)?(:|$)' "$d/modules.builtin" "$d/modules.dep"
[ $? -le 1 ]"#,
    ],
    keep: USUAL,
};

const LOAD_DIRS: [&str; 3] = ["/etc/modules-load.d", "/run/modules-load.d", "/usr/lib/modules-load.d"];
const ETC_MODULES: &str = "/etc/modules";

pub const SOURCES: &[Source] = &[
    Source::File(LOADED),
    Source::Query(&AT_HAND),
    Source::Tree("/etc/modules-load.d"),
    Source::Tree("/run/modules-load.d"),
    Source::Tree("/usr/lib/modules-load.d"),
    Source::File(ETC_MODULES),
];

/// How a module stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Module {
    Loaded,
    BuiltIn,
    /// Not loaded; its file in the kernel's tree.
    Loadable(String),
    /// Neither loaded nor in the kernel's tree.
    Missing,
    /// Not loaded, and the running kernel has no tree of modules at all: where it should be.
    NoTree(String),
}

/// A line that has a module loaded at boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadLine {
    pub name: String,
    pub source: String,
    pub line: u32,
}

/// The names in `/proc/modules`: `br_netfilter 32768 0 - Live 0x0000000000000000`.
pub fn parse_loaded(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split_whitespace().next())
}

/// Where a module stands in what [`AT_HAND`] prints.
pub fn parse_at_hand(text: &str, name: &str) -> Module {
    let mut found = Module::Missing;
    for line in text.lines() {
        if let Some(tree) = line.strip_prefix("absent ") {
            return Module::NoTree(tree.to_owned());
        }
        let Some((list, rest)) = line.split_once(':') else { continue };
        let file = rest.split(':').next().unwrap_or_default();
        let stem = file.rsplit('/').next().and_then(|file| file.split_once(".ko")).map(|(stem, _)| stem);
        match stem.is_some_and(|stem| same_module(stem, name)) {
            true if list.ends_with("/modules.builtin") => return Module::BuiltIn,
            true => found = Module::Loadable(file.to_owned()),
            false => {}
        }
    }
    found
}

/// modprobe takes `-` and `_` for each other.
fn same_module(one: &str, other: &str) -> bool {
    one.replace('-', "_") == other.replace('-', "_")
}

/// A name a line of `modules-load.d`; `/etc/modules` may have parameters after it.
pub fn parse_load_lines(source: &str, text: &str) -> Vec<LoadLine> {
    let line = |(line, text): (u32, &str)| {
        let name = text.split_whitespace().next().filter(|name| !name.starts_with(['#', ';']))?;
        Some(LoadLine { name: name.to_owned(), source: source.to_owned(), line })
    };
    (1u32..).zip(text.lines()).filter_map(line).collect()
}

impl Facts {
    pub fn module(&self, name: &str) -> Known<Module> {
        // A kernel built without modules has no such file.
        if let Some(loaded) = self.file(LOADED).or_absent()?
            && parse_loaded(&loaded.text).any(|loaded| same_module(loaded, name))
        {
            return Ok(Module::Loaded);
        }
        let at_hand = self.query(&AT_HAND)?;
        if matches!(at_hand.exit, Some(0) | None) {
            return Ok(parse_at_hand(&at_hand.text, name));
        }
        Err(Missing::broken(AT_HAND.name, at_hand.errors.lines().next().unwrap_or("failed")))
    }

    /// The line that has a module loaded at boot, where there is one.
    pub fn module_at_boot(&self, name: &str) -> Known<Option<LoadLine>> {
        let mut lines = Vec::new();
        for (path, capture) in self.conf_d(&LOAD_DIRS)? {
            lines.extend(parse_load_lines(&path, &capture.text));
        }
        // Debian's own list; elsewhere there is none.
        if let Some(capture) = self.file(ETC_MODULES).or_absent()? {
            lines.extend(parse_load_lines(ETC_MODULES, &capture.text));
        }
        Ok(lines.into_iter().find(|line| same_module(&line.name, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    const DEBIAN: &str = "\
/lib/modules/6.1.0-28-amd64/modules.dep:kernel/net/bridge/br_netfilter.ko: kernel/net/bridge/bridge.ko kernel/net/802/stp.ko
/lib/modules/6.1.0-28-amd64/modules.dep:kernel/fs/overlayfs/overlay.ko:
";
    const ROCKY: &str = "\
/lib/modules/5.14.0-427.el9.x86_64/modules.builtin:kernel/net/netfilter/nf-conntrack.ko
/lib/modules/5.14.0-427.el9.x86_64/modules.dep:kernel/fs/overlayfs/overlay.ko.xz:
";

    #[test]
    fn tells_built_in_from_loadable_from_missing() {
        assert_eq!(parse_at_hand(DEBIAN, "overlay"), Module::Loadable("kernel/fs/overlayfs/overlay.ko".into()));
        assert_eq!(parse_at_hand(ROCKY, "overlay"), Module::Loadable("kernel/fs/overlayfs/overlay.ko.xz".into()));
        assert_eq!(parse_at_hand(ROCKY, "nf_conntrack"), Module::BuiltIn);
        assert_eq!(parse_at_hand(DEBIAN, "vxlan"), Module::Missing);
        // What another module depends on is not the module of the line.
        assert_eq!(parse_at_hand(DEBIAN, "stp"), Module::Missing);
        assert_eq!(parse_at_hand("absent /lib/modules/6.9\n", "vxlan"), Module::NoTree("/lib/modules/6.9".into()));
    }

    #[test]
    fn a_loaded_module_needs_no_tree() {
        let loaded =
            facts().with_file(LOADED, "br_netfilter 32768 0 - Live 0x0\nbridge 311296 1 br_netfilter, Live 0x0\n");
        assert_eq!(loaded.module("br-netfilter"), Ok(Module::Loaded));
        assert!(loaded.module("overlay").is_err(), "the tree was not looked at");
        let failed = loaded.with_exit(&AT_HAND, 1, "", "grep: modules.dep: Permission denied\n");
        assert!(failed.module("overlay").unwrap_err().to_string().contains("Permission denied"));
    }

    #[test]
    fn knows_what_is_loaded_at_boot() {
        let facts = facts()
            .with_dir("/etc/modules-load.d", &[("-rw-r--r--", "k8s.conf")])
            .with_file("/etc/modules-load.d/k8s.conf", "# for Kubernetes\n;overlay\n\nbr-netfilter\n")
            .without_dir("/run/modules-load.d")
            .without_dir("/usr/lib/modules-load.d")
            .with_file(ETC_MODULES, "loop max_loop=64\n");
        let line = facts.module_at_boot("br_netfilter").unwrap().unwrap();
        assert_eq!((line.source.as_str(), line.line), ("/etc/modules-load.d/k8s.conf", 4));
        assert_eq!(facts.module_at_boot("loop").unwrap().unwrap().source, ETC_MODULES);
        assert_eq!(facts.module_at_boot("overlay"), Ok(None));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*", lines in "([a-z/_.:-]{0,30}\n){0,5}") {
            for text in [&text, &lines] {
                parse_loaded(text).count();
                parse_at_hand(text, "overlay");
                parse_load_lines("x", text);
            }
        }
    }
}
