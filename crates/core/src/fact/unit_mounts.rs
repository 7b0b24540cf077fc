//! What of the file systems a unit's processes see otherwise than the rest of the machine.
//!
//! systemd gives a unit a mount namespace of its own for a good two dozen directives (`exec_needs_mount_namespace` in
//! src/core/exec-invoke.c), and makes every mount in it a slave of the machine's first: what the unit's processes mount, nobody
//! else sees, whatever `MountFlags=` says.
//!
//! Shared: `kubelet.private-mounts`, `runtime.private-mounts`.

use super::evidence::Evidence;
use super::mounts::is_at_or_under;
use super::unit::{Directive, Unit, UnitFile};

/// What gives a unit a mount namespace of its own, where it is set to more than its default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `yes`, or a word that says how; `no` is the default.
    Switch,
    /// These words change nothing.
    Word(&'static [&'static str]),
    /// Anything.
    List,
}

const DIRECTIVES: [(&str, Kind); 28] = [
    ("PrivateTmp", Kind::Switch),
    ("PrivateDevices", Kind::Switch),
    ("PrivateMounts", Kind::Switch),
    ("PrivateIPC", Kind::Switch),
    ("ProtectSystem", Kind::Switch),
    ("ProtectHome", Kind::Switch),
    ("ProtectKernelTunables", Kind::Switch),
    ("ProtectKernelModules", Kind::Switch),
    ("ProtectKernelLogs", Kind::Switch),
    ("ProtectControlGroups", Kind::Switch),
    ("DynamicUser", Kind::Switch),
    ("ProtectProc", Kind::Word(&["default"])),
    ("ProcSubset", Kind::Word(&["all"])),
    // `shared` alone makes no namespace, and in one it does not bring the propagation back.
    ("MountFlags", Kind::Word(&["shared"])),
    ("RootDirectory", Kind::List),
    ("RootImage", Kind::List),
    ("ReadWritePaths", Kind::List),
    ("ReadOnlyPaths", Kind::List),
    ("InaccessiblePaths", Kind::List),
    ("ExecPaths", Kind::List),
    ("NoExecPaths", Kind::List),
    ("BindPaths", Kind::List),
    ("BindReadOnlyPaths", Kind::List),
    ("TemporaryFileSystem", Kind::List),
    ("MountImages", Kind::List),
    ("ExtensionImages", Kind::List),
    ("ExtensionDirectories", Kind::List),
    ("LogNamespace", Kind::List),
];

/// Directories that systemd makes for a unit, and leaves writable to it.
const OWN: [(&str, &str); 5] = [
    ("RuntimeDirectory", "/run"),
    ("StateDirectory", "/var/lib"),
    ("CacheDirectory", "/var/cache"),
    ("LogsDirectory", "/var/log"),
    ("ConfigurationDirectory", "/etc"),
];

/// A directive with its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxDirective {
    pub key: String,
    pub value: String,
    /// The file it stands in.
    pub path: String,
    pub line: u32,
}

impl SandboxDirective {
    fn of((file, it): (&UnitFile, &Directive)) -> Self {
        SandboxDirective { key: it.key.clone(), value: it.value.clone(), path: file.path.clone(), line: it.line }
    }

    pub fn cite(&self) -> Evidence {
        Evidence::at(&self.path, self.line, self.shown())
    }

    /// `ProtectSystem=strict`
    pub fn shown(&self) -> String {
        format!("{}={}", self.key, self.value)
    }

    /// Switched off: `ProtectSystem=no`, `ReadOnlyPaths=`.
    fn off(&self) -> String {
        let is_switch = DIRECTIVES.iter().any(|(name, kind)| *name == self.key && *kind == Kind::Switch);
        format!("{}={}", self.key, if is_switch { "no" } else { "" })
    }
}

/// The commands that take directives back: in their file where that is the administrator's, once a file; those of a package, which
/// writes its own anew, in a drop-in behind all others.
pub fn take_back(directives: &[SandboxDirective], unit: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut files: Vec<&str> = directives.iter().map(|it| it.path.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    for path in files {
        let here: Vec<&SandboxDirective> = directives.iter().filter(|it| it.path == path).collect();
        let shown: Vec<String> = here.iter().map(|it| it.shown()).collect();
        let command = if path.starts_with("/etc/") {
            let edits: String = here.iter().map(|it| format!(" -e '{}s/^/# /'", it.line)).collect();
            format!("sed -i.before{edits} {path}")
        } else {
            let dir = format!("/etc/systemd/system/{unit}.service.d");
            let lines: String = here.iter().map(|it| format!("{}\\n", it.off())).collect();
            format!("mkdir -p {dir} && printf '[Service]\\n{lines}' >>{dir}/zz-mounts.conf")
        };
        commands.push(format!("{command}    # takes back {}", shown.join(", ")));
    }
    commands.push(format!("systemctl daemon-reload && systemctl restart {unit}"));
    commands
}

impl Unit {
    /// What gives its processes a mount namespace of their own; empty where they are in the machine's.
    pub fn private_mounts(&self) -> Vec<SandboxDirective> {
        let of = |(key, kind): &(&str, Kind)| -> Vec<SandboxDirective> {
            let list = self.service_list(key);
            let counts = match kind {
                Kind::List => list,
                Kind::Switch => list.into_iter().next_back().filter(|(_, it)| !is_off(&it.value)).into_iter().collect(),
                Kind::Word(defaults) => list
                    .into_iter()
                    .next_back()
                    .filter(|(_, it)| !defaults.contains(&it.value.as_str()))
                    .into_iter()
                    .collect(),
            };
            counts.into_iter().map(SandboxDirective::of).collect()
        };
        DIRECTIVES.iter().flat_map(of).collect()
    }

    /// What keeps what is mounted outside from its processes, too: `MountFlags=private`.
    pub fn deaf_to_mounts(&self) -> Option<SandboxDirective> {
        let flags = self.service_list("MountFlags").pop().filter(|(_, it)| it.value == "private");
        flags.map(SandboxDirective::of)
    }

    /// What makes a directory read-only to its processes, or hides it from them.
    pub fn write_protection(&self, path: &str) -> Option<SandboxDirective> {
        let paths = |key: &str| -> Vec<(String, SandboxDirective)> {
            let list = self.service_list(key).into_iter();
            let words = list.flat_map(|(file, it)| {
                let of_line = it.value.split_whitespace().map(|word| word.trim_start_matches(['-', '+']).to_owned());
                of_line.map(|path| (path, SandboxDirective::of((file, it)))).collect::<Vec<_>>()
            });
            words.filter(|(dir, _)| is_at_or_under(path, dir.trim_end_matches('/')) || dir == "/").collect()
        };
        let depth = |list: &[(String, SandboxDirective)]| list.iter().map(|(dir, _)| dir.len()).max().unwrap_or(0);
        let own = OWN.iter().flat_map(|(key, base)| {
            let list = self.service_list(key).into_iter();
            list.flat_map(move |(_, it)| {
                it.value.split_whitespace().map(|name| format!("{base}/{name}")).collect::<Vec<_>>()
            })
        });
        let own = own.filter(|dir| is_at_or_under(path, dir)).map(|dir| dir.len()).max().unwrap_or(0);
        let opened = depth(&paths("ReadWritePaths")).max(depth(&paths("BindPaths"))).max(own);
        let closed = paths("ReadOnlyPaths").into_iter().chain(paths("InaccessiblePaths"));
        // The deepest decides; of two as deep, the one that closes.
        let closed = closed.filter(|(dir, _)| dir.len() >= opened).max_by_key(|(dir, _)| dir.len());
        let protected =
            self.service_list("ProtectSystem").pop().filter(|(_, it)| opened == 0 && protects(&it.value, path));
        closed.map(|(_, directive)| directive).or_else(|| protected.map(SandboxDirective::of))
    }
}

fn is_off(value: &str) -> bool {
    ["no", "n", "false", "f", "off", "0"].iter().any(|off| value.eq_ignore_ascii_case(off))
}

/// What `ProtectSystem=` makes read-only (systemd.exec(5)).
fn protects(value: &str, path: &str) -> bool {
    let of = |dirs: &[&str]| dirs.iter().any(|dir| is_at_or_under(path, dir));
    match value {
        "strict" => !of(&["/dev", "/proc", "/sys"]),
        "full" => of(&["/usr", "/boot", "/efi", "/etc"]),
        value => !is_off(value) && of(&["/usr", "/boot", "/efi"]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::unit::{parse_cat, sample};
    use super::*;

    const PATH: &str = "/etc/systemd/system/kubelet.service.d/30-hardened.conf";

    fn with(service: &str) -> Unit {
        parse_cat(&sample::and_drop_in(PATH, &format!("[Service]\n{service}")))
    }

    #[test]
    fn a_namespace_of_its_own_is_told_by_what_makes_it() {
        for (service, expected) in [
            ("", &[][..]),
            ("PrivateTmp=yes\n", &["PrivateTmp=yes"]),
            ("PrivateTmp=disconnected\n", &["PrivateTmp=disconnected"]),
            ("PrivateTmp=yes\nPrivateTmp=no\n", &[]),
            ("PrivateTmp=yes\nPrivateTmp=\n", &[]),
            ("ProtectSystem=full\nProtectHome=read-only\n", &["ProtectSystem=full", "ProtectHome=read-only"]),
            ("ProtectSystem=false\n", &[]),
            ("MountFlags=shared\n", &[]),
            ("MountFlags=slave\n", &["MountFlags=slave"]),
            ("ProtectProc=default\nProcSubset=all\n", &[]),
            ("ProtectProc=invisible\n", &["ProtectProc=invisible"]),
            (
                "ReadWritePaths=/var/lib/kubelet\nBindPaths=/a:/b\n",
                &["ReadWritePaths=/var/lib/kubelet", "BindPaths=/a:/b"],
            ),
            ("ReadWritePaths=/a\nReadWritePaths=\n", &[]),
            ("NoNewPrivileges=yes\nLimitNOFILE=65536\nPrivateNetwork=no\n", &[]),
        ] {
            let found: Vec<String> = with(service).private_mounts().iter().map(SandboxDirective::shown).collect();
            assert_eq!(found, expected, "{service}");
        }
        let outside = parse_cat(&sample::and_drop_in(PATH, "PrivateTmp=yes\n[Unit]\nPrivateMounts=yes\n"));
        assert_eq!(outside.private_mounts(), [], "only what stands in [Service] counts");
    }

    #[test]
    fn what_cannot_be_written_is_told_by_what_protects_it() {
        for (service, path, expected) in [
            ("", "/var/lib/containerd", None),
            ("ProtectSystem=yes\n", "/var/lib/containerd", None),
            ("ProtectSystem=full\n", "/var/lib/containerd", None),
            ("ProtectSystem=full\n", "/etc/kubernetes", Some("ProtectSystem=full")),
            ("ProtectSystem=strict\n", "/var/lib/containerd", Some("ProtectSystem=strict")),
            ("ProtectSystem=strict\n", "/sys/fs/cgroup", None),
            ("ProtectSystem=strict\nReadWritePaths=/var /run\n", "/var/lib/containerd", None),
            ("ProtectSystem=strict\nReadWritePaths=-/var/lib/containerd/\n", "/var/lib/containerd", None),
            (
                "ProtectSystem=strict\nReadWritePaths=/var/lib/cont\n",
                "/var/lib/containerd",
                Some("ProtectSystem=strict"),
            ),
            ("ProtectSystem=strict\nStateDirectory=containerd\n", "/var/lib/containerd", None),
            ("ReadOnlyPaths=/\n", "/run/containerd", Some("ReadOnlyPaths=/")),
            ("ReadOnlyPaths=/var\nReadWritePaths=/var/lib\n", "/var/lib/containerd", None),
            (
                "ReadWritePaths=/var\nInaccessiblePaths=/var/lib\n",
                "/var/lib/containerd",
                Some("InaccessiblePaths=/var/lib"),
            ),
        ] {
            let found = with(service).write_protection(path).map(|it| it.shown());
            assert_eq!(found.as_deref(), expected, "{service} {path}");
        }
    }

    #[test]
    fn they_are_taken_back_where_they_stand() {
        let reload = "systemctl daemon-reload && systemctl restart kubelet";
        let dir = "/etc/systemd/system/kubelet.service.d";
        let packaged = "# /usr/lib/systemd/system/kubelet.service\n[Service]\nProtectSystem=strict\nMountFlags=slave\n";
        for (unit, expected) in [
            (
                with("PrivateTmp=yes\nProtectHome=yes\n"),
                format!(
                    "sed -i.before -e '2s/^/# /' -e '3s/^/# /' {PATH}    # takes back PrivateTmp=yes, ProtectHome=yes"
                ),
            ),
            (
                parse_cat(packaged),
                format!(
                    "mkdir -p {dir} && printf '[Service]\\nProtectSystem=no\\nMountFlags=\\n' >>{dir}/zz-mounts.conf    \
                     # takes back ProtectSystem=strict, MountFlags=slave"
                ),
            ),
        ] {
            assert_eq!(take_back(&unit.private_mounts(), "kubelet"), [expected, reload.to_owned()]);
        }
    }
}
