//! The pod network's configuration on this machine: what the runtime would load, the plugins it needs, and flannel's
//! state.
//!
//! The rule is containerd's (go-cni): files ending in `.conf`, `.conflist` or `.json`, sorted by name; the first is
//! loaded, and where the first is broken nothing is.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::cidr::Cidr;
use super::keep::USUAL;
use super::listing::DirectoryEntry;
use super::{Facts, Known, Missing, OrAbsent, Query, Source, Why, dir_key};
use crate::cni::{FLAVOURS, Flavour};

pub const CONF_DIR: &str = "/etc/cni/net.d";
pub const BIN_DIR: &str = "/opt/cni/bin";
pub const SUBNET_ENV: &str = "/run/flannel/subnet.env";

/// The machine's kind, then every plugin with its first 20 bytes: an ELF header says up to there which machine it is
/// for.
pub const HEADERS: Query = Query {
    name: "od -An -tx1 -N20 /opt/cni/bin/*",
    argv: &[
        "sh",
        "-c",
        "uname -m; for f in /opt/cni/bin/* /usr/lib/cni/* /usr/libexec/cni/*; do \
         if [ -f \"$f\" ]; then printf '%s\\n' \"$f\"; od -An -tx1 -N20 \"$f\"; fi; done",
    ],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[
    Source::Dir("/etc/cni"),
    Source::Tree(CONF_DIR),
    Source::Dir(BIN_DIR),
    Source::Dir("/usr/lib/cni"),
    Source::Dir("/usr/libexec/cni"),
    Source::Query(&HEADERS),
    Source::File(SUBNET_ENV),
    // Where the daemons of other pod networks leave their traces.
    Source::Dir("/var/lib/calico"),
    Source::Dir("/run/cilium"),
    Source::Dir("/run/antrea"),
    Source::Dir("/run/multus"),
    Source::Dir("/run/openvswitch"),
];

/// A configuration that can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conf {
    pub name: String,
    pub version: Option<String>,
    pub plugins: Vec<Plugin>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    pub kind: String,
    pub ipam: Option<String>,
    /// The ranges its ipam is told to give addresses from.
    pub ranges: Vec<String>,
    /// Of the plugin `bridge`: the one it puts pods on.
    pub bridge: Option<String>,
}

/// Why a file cannot be loaded, and on which line, where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniConfigError {
    pub line: Option<u32>,
    pub says: String,
}

impl fmt::Display for CniConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl<T: Into<String>> From<T> for CniConfigError {
    fn from(says: T) -> Self {
        CniConfigError { line: None, says: says.into() }
    }
}

impl Conf {
    /// Only the loopback: a node that is Ready, and whose pods have no network.
    pub fn is_loopback_only(&self) -> bool {
        self.plugins.iter().all(|plugin| plugin.kind == "loopback")
    }

    /// Every program that a pod's network needs, once each.
    pub fn programs(&self) -> Vec<&str> {
        let mut programs = vec!["loopback"];
        for plugin in &self.plugins {
            programs.push(&plugin.kind);
            programs.extend(plugin.ipam.as_deref());
            let flavours = FLAVOURS.iter().filter(|flavour| flavour.plugins.contains(&plugin.kind.as_str()));
            programs.extend(flavours.flat_map(|flavour| flavour.calls));
        }
        let mut seen = Vec::new();
        programs.retain(|program| {
            !seen.contains(program) && {
                seen.push(program);
                true
            }
        });
        programs
    }
}

/// A file that the runtime would consider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    pub path: String,
    /// What it says, why it cannot be loaded, or why it could not be read.
    pub conf: Known<Result<Conf, CniConfigError>>,
}

impl Candidate {
    /// A file of a directory, read.
    pub fn read(dir: &str, name: &str, text: &str) -> Self {
        let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        Candidate { name: name.to_owned(), path, conf: Ok(parse_conf(name, text)) }
    }

    pub fn flavour(&self) -> Option<&'static Flavour> {
        let Ok(Ok(conf)) = &self.conf else { return None };
        Flavour::of(&self.name, conf)
    }
}

/// Reads a file as containerd would, with its words for what is wrong, and the field.
pub fn parse_conf(name: &str, text: &str) -> Result<Conf, CniConfigError> {
    let root: Value = serde_json::from_str(text).map_err(|error| CniConfigError {
        line: u32::try_from(error.line()).ok().filter(|line| *line > 0),
        says: format!("not JSON: {error}"),
    })?;
    let is_list = name.ends_with(".conflist");
    let plugins = match (is_list, root.get("plugins"), root.get("type")) {
        (true, Some(plugins), _) => plugins.as_array().ok_or("'plugins' is not a list")?.iter().collect(),
        (true, None, Some(_)) => return Err("no 'plugins' key: a single plugin is read only from a .conf".into()),
        (true, None, None) => return Err("no 'plugins' key".into()),
        (false, Some(_), None) => return Err("no 'type': a list of plugins is read only from a .conflist".into()),
        (false, _, _) => vec![&root],
    };
    if plugins.is_empty() {
        return Err("no plugins in list".into());
    }
    let plugins = plugins.into_iter().enumerate().map(|(at, value)| {
        let place = if is_list { format!("plugins[{at}] has ") } else { String::new() };
        plugin(value).ok_or_else(|| format!("{place}no 'type'"))
    });
    let plugins = plugins.collect::<Result<Vec<Plugin>, String>>()?;
    Ok(Conf { name: text_of(&root, "name").ok_or("no 'name'")?, version: text_of(&root, "cniVersion"), plugins })
}

fn plugin(value: &Value) -> Option<Plugin> {
    let ipam = value.get("ipam");
    let subnets = |value: &Value| text_of(value, "subnet");
    let lists = ipam.and_then(|ipam| ipam.get("ranges")).and_then(Value::as_array).into_iter().flatten();
    let listed = lists.filter_map(Value::as_array).flatten().filter_map(subnets);
    let ranges = ipam.and_then(subnets).into_iter().chain(listed).collect();
    let kind = text_of(value, "type")?;
    let bridge = (kind == "bridge").then(|| text_of(value, "bridge").unwrap_or_else(|| "cni0".to_owned()));
    Some(Plugin { kind, ipam: ipam.and_then(|ipam| text_of(ipam, "type")), ranges, bridge })
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Endings of the files that a runtime looks at.
pub fn is_conf_name(name: &str) -> bool {
    [".conf", ".conflist", ".json"].iter().any(|ending| name.ends_with(ending))
}

fn is_candidate(entry: &DirectoryEntry) -> bool {
    !entry.is_dir() && is_conf_name(&entry.name)
}

/// How a plugin's program is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    Usable,
    Missing,
    /// Something of that name is there that is not a file: a directory, a link to nothing.
    NotAFile {
        path: String,
        mode: String,
    },
    NotExecutable {
        path: String,
        mode: String,
    },
    /// Its first bytes are no program's: half a download, an error page.
    NotAProgram {
        path: String,
        bytes: String,
    },
    OtherMachine {
        path: String,
        built_for: String,
        machine: String,
    },
}

/// The machine's kind and the first bytes of each plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    pub machine: String,
    pub files: BTreeMap<String, Vec<u8>>,
}

/// What [`HEADERS`] prints: `uname -m`, then a path, then its bytes in hexadecimal, indented.
pub fn parse_headers(text: &str) -> Headers {
    let mut headers = Headers::default();
    let mut path: Option<&str> = None;
    for line in text.lines() {
        if line.starts_with('/') {
            path = Some(line);
            headers.files.entry(line.to_owned()).or_default();
        } else if let Some(path) = path.filter(|_| line.starts_with(' ')) {
            let bytes = line.split_whitespace().filter_map(|byte| u8::from_str_radix(byte, 16).ok());
            headers.files.entry(path.to_owned()).or_default().extend(bytes);
        } else if headers.machine.is_empty() {
            line.trim().clone_into(&mut headers.machine);
        }
    }
    headers
}

/// What an ELF header says its program runs on, in `uname -m`'s words; `None` for what is no ELF.
pub fn elf_machine(bytes: &[u8]) -> Option<String> {
    let [0x7f, b'E', b'L', b'F', class, order, rest @ ..] = bytes else { return None };
    let (low, high) = (*rest.get(12)?, *rest.get(13)?);
    let number = if *order == 2 { u16::from_be_bytes([low, high]) } else { u16::from_le_bytes([low, high]) };
    Some(match (number, class) {
        (0x03, _) => "i686".into(),
        (0x15, _) => {
            if *order == 2 {
                "ppc64".into()
            } else {
                "ppc64le".into()
            }
        }
        (0x16, _) => "s390x".into(),
        (0x28, _) => "arm".into(),
        (0x3e, _) => "x86_64".into(),
        (0xb7, _) => "aarch64".into(),
        (0xf3, 2) => "riscv64".into(),
        (0x102, _) => "loongarch64".into(),
        (other, _) => format!("machine {other:#x}"),
    })
}

/// A 64-bit kernel also runs the 32-bit programs of its family.
fn runs(machine: &str, built_for: &str) -> bool {
    machine == built_for
        || matches!((machine, built_for), ("x86_64", "i686") | ("aarch64", "arm"))
        || (machine.starts_with("arm") && built_for == "arm")
        || (machine.starts_with('i') && machine.ends_with("86") && built_for == "i686")
}

/// flannel's word on this machine's pod network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubnetEnv {
    pub network: Option<Cidr>,
    /// The bridge's address within this machine's range: `10.244.1.1/24`.
    pub subnet: Option<Cidr>,
    /// The same of IPv6: alone, or beside the other.
    pub network_v6: Option<Cidr>,
    pub subnet_v6: Option<Cidr>,
    pub mtu: Option<u64>,
}

pub fn parse_subnet_env(text: &str) -> SubnetEnv {
    let value = |key: &str| {
        let lines = text.lines().filter_map(|line| line.trim().split_once('='));
        lines.filter(|(name, _)| *name == key).map(|(_, value)| value.trim()).next_back()
    };
    let first = |text: &str| text.split(',').next().and_then(|cidr| cidr.parse().ok());
    SubnetEnv {
        network: value("FLANNEL_NETWORK").and_then(first),
        subnet: value("FLANNEL_SUBNET").and_then(first),
        network_v6: value("FLANNEL_IPV6_NETWORK").and_then(first),
        subnet_v6: value("FLANNEL_IPV6_SUBNET").and_then(first),
        mtu: value("FLANNEL_MTU").and_then(|mtu| mtu.parse().ok()),
    }
}

impl Facts {
    /// Where the runtime looks for configurations: by its own word, else by containerd's configuration, else where every
    /// runtime does.
    pub fn cni_conf_dir(&self) -> String {
        let own = match self.runtime_status() {
            Ok(status) => status.cni_conf_dir,
            Err(_) => self.containerd_config().ok().and_then(|effective| effective.config.cni_conf_dir),
        };
        own.map_or_else(|| CONF_DIR.to_owned(), |dir| dir.trim_end_matches('/').to_owned())
    }

    /// Where the runtime looks for plugins, in order.
    pub fn cni_bin_dirs(&self) -> Vec<String> {
        let own = match self.runtime_status() {
            Ok(status) => status.cni_bin_dirs,
            Err(_) => self.containerd_config().map(|effective| effective.config.cni_bin_dirs).unwrap_or_default(),
        };
        if own.is_empty() {
            return vec![BIN_DIR.to_owned()];
        }
        own.iter().map(|dir| dir.trim_end_matches('/').to_owned()).collect()
    }

    /// How many files are loaded, from the first: one, unless the runtime is set to more; 0 there means all.
    pub fn cni_loads(&self) -> usize {
        let set = self.runtime_status().ok().and_then(|status| status.cni_max_conf).unwrap_or(1);
        if set == 0 { usize::MAX } else { usize::try_from(set).unwrap_or(usize::MAX) }
    }

    /// The files that the runtime would consider, in its order; none where the directory is not there.
    pub fn cni_candidates(&self) -> Known<Vec<Candidate>> {
        let dir = self.cni_conf_dir();
        let entries = self.dir(&dir).or_absent()?.unwrap_or_default();
        let candidates = entries.into_iter().filter(is_candidate).map(|entry| {
            let path = format!("{dir}/{}", entry.name);
            let conf = self.file(&path).map(|capture| parse_conf(&entry.name, &capture.text));
            Candidate { name: entry.name, path, conf }
        });
        Ok(candidates.collect())
    }

    /// The file that is loaded, understood; `None` where there is none. A broken one is a missing fact.
    pub fn cni_winner(&self) -> Known<Option<(Candidate, Conf)>> {
        let Some(first) = self.cni_candidates()?.into_iter().next() else { return Ok(None) };
        let conf = first.conf.clone()?.map_err(|detail| Missing::broken(&first.path, detail))?;
        Ok(Some((first, conf)))
    }

    /// The pod network that is set up here; `None` where there is none, or none that is known.
    pub fn cni_flavour(&self) -> Known<Option<&'static Flavour>> {
        Ok(self.cni_winner()?.and_then(|(winner, _)| winner.flavour()))
    }

    /// The plugins' first bytes.
    pub fn cni_headers(&self) -> Known<Headers> {
        let headers = parse_headers(&self.query(&HEADERS)?.text);
        if headers.machine.is_empty() {
            return Err(Missing::broken(HEADERS.name, "does not begin with the machine's kind"));
        }
        Ok(headers)
    }

    /// How the program of a plugin is. Looked for as CNI does: the first regular file of that name in the directories.
    pub fn cni_program(&self, name: &str) -> Known<Program> {
        self.cni_program_in(self.cni_bin_dirs(), name)
    }

    /// As [`Facts::cni_program`], looked for elsewhere than where the runtime does.
    pub fn cni_program_in(&self, dirs: impl IntoIterator<Item = String>, name: &str) -> Known<Program> {
        let mut found = Program::Missing;
        for dir in dirs {
            let Some(entries) = self.dir(&dir).or_absent()? else { continue };
            let Some(entry) = entries.into_iter().find(|entry| entry.name == name) else { continue };
            let path = format!("{dir}/{name}");
            // What is in no list is missing, whatever the headers say.
            let headers = self.cni_headers()?;
            let header = headers.files.get(&path);
            // The headers were read through links: one that leads nowhere, and a directory, have none.
            match header {
                None if entry.is_file() => return Err(Missing { source_name: dir_key(&dir), why: Why::NotCollected }),
                None => found = Program::NotAFile { path, mode: entry.mode },
                Some(bytes) if bytes.is_empty() && entry.is_file() && entry.size > 0 => {
                    return Err(Missing { source_name: path, why: Why::Denied });
                }
                Some(bytes) => return Ok(program(path, &entry, bytes, &headers.machine)),
            }
        }
        Ok(found)
    }

    /// flannel's state; `None` where flannel has not written it since the machine started.
    pub fn flannel(&self) -> Known<Option<SubnetEnv>> {
        Ok(self.file(SUBNET_ENV).or_absent()?.map(|capture| parse_subnet_env(&capture.text)))
    }
}

fn program(path: String, entry: &DirectoryEntry, bytes: &[u8], machine: &str) -> Program {
    let is_link = entry.mode.starts_with('l');
    if !is_link && !entry.is_executable() {
        return Program::NotExecutable { path, mode: entry.mode.clone() };
    }
    match elf_machine(bytes) {
        Some(built_for) if runs(machine, &built_for) => Program::Usable,
        Some(built_for) => Program::OtherMachine { path, built_for, machine: machine.to_owned() },
        None if bytes.starts_with(b"#!") => Program::Usable,
        None => {
            let bytes = String::from_utf8_lossy(bytes).escape_debug().to_string();
            Program::NotAProgram { path, bytes }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    const FLANNEL: &str = r#"{"name": "cbr0", "cniVersion": "0.3.1", "plugins": [
        {"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}},
        {"type": "portmap", "capabilities": {"portMappings": true}}]}"#;
    const AMD64: &str = " 7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00\n 02 00 3e 00\n";

    #[test]
    fn reads_a_list_and_a_single_plugin() {
        let conf = parse_conf("10-flannel.conflist", FLANNEL).unwrap();
        assert_eq!((conf.name.as_str(), conf.version.as_deref()), ("cbr0", Some("0.3.1")));
        assert_eq!(conf.programs(), ["loopback", "flannel", "bridge", "host-local", "portmap"]);
        let single = r#"{"name":"mynet","type":"bridge","ipam":{"type":"host-local","subnet":"10.88.0.0/16"}}"#;
        let conf = parse_conf("10-mynet.conf", single).unwrap();
        assert_eq!(conf.programs(), ["loopback", "bridge", "host-local"]);
        assert_eq!((conf.version, conf.plugins[0].ranges.as_slice()), (None, ["10.88.0.0/16".to_owned()].as_slice()));
        let ranges = r#"{"name":"x","type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00::/64"},1]]}}"#;
        assert_eq!(parse_conf("a.conf", ranges).unwrap().plugins[0].ranges, ["10.1.0.0/24", "fd00::/64"]);
        assert!(parse_conf("99-loopback.conf", r#"{"name":"lo","type":"loopback"}"#).unwrap().is_loopback_only());
    }

    #[test]
    fn says_why_a_file_cannot_be_loaded() {
        for (name, text, expected) in [
            ("a.conflist", "not json", "not JSON"),
            ("a.conflist", r#"{"name":"x"}"#, "no 'plugins' key"),
            ("a.conflist", r#"{"name":"x","type":"bridge"}"#, "no 'plugins' key: a single plugin"),
            ("a.conflist", r#"{"name":"x","plugins":{}}"#, "'plugins' is not a list"),
            ("a.conflist", r#"{"name":"x","plugins":[]}"#, "no plugins in list"),
            ("a.conflist", r#"{"name":"x","plugins":[{"type":"a"},{"type":""}]}"#, "plugins[1] has no 'type'"),
            ("a.conflist", r#"{"plugins":[{"type":"bridge"}]}"#, "no 'name'"),
            ("a.conf", FLANNEL, "no 'type': a list of plugins is read only from a .conflist"),
            ("a.json", "{}", "no 'type'"),
        ] {
            assert!(parse_conf(name, text).unwrap_err().says.starts_with(expected), "{name} {text}");
        }
        assert_eq!(parse_conf("a.conf", "{\n\"name\": \"x\",\n}").unwrap_err().line, Some(3));
    }

    #[test]
    fn considers_what_containerd_considers() {
        let entries = [
            ("-rw-r--r--", "10-flannel.conflist"),
            ("-rw-r--r--", "05-cilium.conflist.cilium_bak"),
            ("-rw-r--r--", "calico-kubeconfig"),
            ("drwxr-xr-x", "00-old.conf"),
            ("-rw-r--r--", "00-placeholder.json"),
            ("-rw-r--r--", "99-loopback.conf"),
        ];
        let facts = facts().with_dir(CONF_DIR, &entries).with_file("/etc/cni/net.d/10-flannel.conflist", FLANNEL);
        let candidates = facts.cni_candidates().unwrap();
        let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        assert_eq!(names, ["00-placeholder.json", "10-flannel.conflist", "99-loopback.conf"]);
        assert_eq!(candidates[1].flavour().map(|flavour| flavour.name), Some("flannel"));
        assert_eq!(facts.cni_winner().unwrap_err().why, Why::NotCollected, "the first was not read");
    }

    #[test]
    fn looks_where_the_runtime_looks() {
        assert_eq!(facts().cni_conf_dir(), "/etc/cni/net.d");
        assert_eq!(facts().cni_bin_dirs(), ["/opt/cni/bin"]);
        let info = r#"{"status":{"conditions":[]},"cniconfig":{"PluginDirs":["/usr/lib/cni/"],"PluginConfDir":"/etc/cni/k8s/"}}"#;
        let own = facts().with_cri("status", info);
        assert_eq!(own.cni_conf_dir(), "/etc/cni/k8s");
        assert_eq!(own.cni_bin_dirs(), ["/usr/lib/cni"]);
        let loads = |number: &str| {
            facts()
                .with_cri(
                    "status",
                    &info.replace("{\"PluginDirs", &format!("{{\"PluginMaxConfNum\":{number},\"PluginDirs")),
                )
                .cni_loads()
        };
        assert_eq!([own.cni_loads(), loads("1"), loads("2"), loads("0")], [1, 1, 2, usize::MAX]);
        assert_eq!(own.cni_candidates().unwrap_err().why, Why::NotCollected, "nobody looked there");
    }

    #[test]
    fn reads_headers_of_programs() {
        let headers = parse_headers(&format!(
            "x86_64\n/opt/cni/bin/bridge\n{AMD64}/opt/cni/bin/empty\n/opt/cni/bin/page\n 3c 21\n"
        ));
        assert_eq!(headers.machine, "x86_64");
        assert_eq!(headers.files["/opt/cni/bin/bridge"].len(), 20);
        assert_eq!(elf_machine(&headers.files["/opt/cni/bin/bridge"]).as_deref(), Some("x86_64"));
        assert!(headers.files["/opt/cni/bin/empty"].is_empty());
        assert_eq!(elf_machine(&headers.files["/opt/cni/bin/page"]), None);
    }

    #[test]
    fn knows_the_machines_of_elf() {
        let elf = |class: u8, order: u8, low: u8, high: u8| {
            let mut bytes = vec![0x7f, b'E', b'L', b'F', class, order];
            bytes.extend([0; 12]);
            bytes.extend([low, high]);
            elf_machine(&bytes).unwrap()
        };
        for (number, expected) in [
            (0x03, "i686"),
            (0x15, "ppc64le"),
            (0x28, "arm"),
            (0x3e, "x86_64"),
            (0xb7, "aarch64"),
            (0xf3, "riscv64"),
            (0x99, "machine 0x99"),
        ] {
            assert_eq!(elf(2, 1, number, 0), expected);
        }
        assert_eq!(elf(2, 2, 0, 0x16), "s390x");
        assert_eq!(elf(2, 2, 0, 0x15), "ppc64");
        assert_eq!(elf(2, 1, 2, 1), "loongarch64");
        assert_eq!(elf(1, 1, 0xf3, 0), "machine 0xf3");
        for (machine, built_for, expected) in [
            ("x86_64", "x86_64", true),
            ("x86_64", "i686", true),
            ("i586", "i686", true),
            ("i686", "x86_64", false),
            ("aarch64", "arm", true),
            ("armv7l", "arm", true),
            ("ia64", "i686", false),
            ("aarch64", "x86_64", false),
            ("x86_64", "arm", false),
        ] {
            assert_eq!(runs(machine, built_for), expected, "{built_for} on {machine}");
        }
    }

    #[test]
    fn finds_the_program_as_cni_does() {
        let both = r#"{"status":{"conditions":[]},"cniconfig":{"PluginDirs":["/opt/cni/bin","/usr/lib/cni","/usr/libexec/cni"]}}"#;
        let listed = |headers: &str| {
            facts()
                .with_cri("status", both)
                .with_dir(
                    "/opt/cni/bin",
                    &[
                        ("drwxr-xr-x", "flannel"),
                        ("-rwxr-xr-x", "bridge"),
                        ("lrwxrwxrwx", "ptp -> cni"),
                        ("-rw-r--r--", "vlan"),
                    ],
                )
                .with_dir("/usr/lib/cni", &[("-rwxr-xr-x", "flannel")])
                .without_dir("/usr/libexec/cni")
                .with_query(&HEADERS, &format!("x86_64\n{headers}"))
        };
        let facts = listed(&format!(
            "/opt/cni/bin/bridge\n 3c 21 44\n/opt/cni/bin/ptp\n{AMD64}/opt/cni/bin/vlan\n{AMD64}/usr/lib/cni/flannel\n 23 21 2f\n"
        ));
        let state = |name: &str| facts.cni_program(name).unwrap();
        assert_eq!(state("flannel"), Program::Usable, "past the directory, to the script");
        assert_eq!(state("bridge"), Program::NotAProgram { path: "/opt/cni/bin/bridge".into(), bytes: "<!D".into() });
        assert_eq!(state("ptp"), Program::Usable);
        assert_eq!(
            state("vlan"),
            Program::NotExecutable { path: "/opt/cni/bin/vlan".into(), mode: "-rw-r--r--".into() }
        );
        assert_eq!(state("portmap"), Program::Missing);
        assert_eq!(listed("/opt/cni/bin/bridge\n").cni_program("bridge").unwrap_err().why, Why::Denied);
        let bare = listed("/usr/lib/cni/other\n");
        assert_eq!(
            bare.cni_program("ptp"),
            Ok(Program::NotAFile { path: "/opt/cni/bin/ptp".into(), mode: "lrwxrwxrwx".into() })
        );
        assert!(bare.cni_program("bridge").is_err(), "its bytes were not read");
        let arm = listed(&format!("/opt/cni/bin/bridge\n{}", AMD64.replace("3e", "b7")));
        assert_eq!(
            arm.cni_program("bridge"),
            Ok(Program::OtherMachine {
                path: "/opt/cni/bin/bridge".into(),
                built_for: "aarch64".into(),
                machine: "x86_64".into()
            })
        );
        assert!(listed("").with_query(&HEADERS, "").cni_program("bridge").is_err());
    }

    #[test]
    fn reads_subnet_env() {
        let env = parse_subnet_env(
            "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
        );
        assert_eq!(env.network, "10.244.0.0/16".parse().ok());
        assert_eq!(env.subnet, "10.244.1.1/24".parse().ok());
        assert_eq!(env.mtu, Some(1450));
        assert_eq!(parse_subnet_env(r#"{"Network": "10.244.0.0/16"}"#), SubnetEnv::default());
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_not(text in ".*", bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            let _ = parse_conf("a.conflist", &text);
            let _ = parse_conf("a.conf", &text);
            parse_headers(&text);
            parse_subnet_env(&text);
            let _ = elf_machine(&bytes);
        }
    }
}
