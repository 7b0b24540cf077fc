//! containerd's configuration: the file, and what containerd makes of it (`containerd config dump`).
//!
//! The file is TOML of version 1, 2 or 3, each with another place for the same setting. Keys outside their table are no
//! error to containerd: it passes over them without a word, so they are looked for here.

use toml::{Table, Value};

use super::evidence::Evidence;
use super::keep::USUAL;
use super::{Facts, Known, Missing, OrAbsent, Query, Source, Why};

pub const FILE: &str = "/etc/containerd/config.toml";
pub const DUMP: Query = Query { name: "containerd config dump", argv: &["containerd", "config", "dump"], keep: USUAL };

pub const SOURCES: &[Source] = &[Source::File(FILE), Source::Query(&DUMP)];

/// The plugin that answers the kubelet: its name in version 1, and in version 2.
const CRI: [&str; 2] = ["cri", "io.containerd.grpc.v1.cri"];
/// Version 3 has two in its place.
const CRI_RUNTIME: &str = "io.containerd.cri.v1.runtime";
const CRI_IMAGES: &str = "io.containerd.cri.v1.images";

/// What containerd 1.6 to 2.3 read at the top of the file.
const ROOT_KEYS: [&str; 19] = [
    "version",
    "root",
    "state",
    "temp",
    "plugin_dir",
    "grpc",
    "ttrpc",
    "debug",
    "metrics",
    "disabled_plugins",
    "required_plugins",
    "plugins",
    "oom_score",
    "cgroup",
    "proxy_plugins",
    "timeouts",
    "imports",
    "stream_processors",
    "subreaper",
];

/// What of the configuration matters for a join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerdConfig {
    /// 1 where the file does not say.
    pub version: i64,
    pub disabled_plugins: Vec<String>,
    pub imports: Vec<String>,
    pub default_runtime: Option<String>,
    /// `runtime_type` of the default runtime, where it is set.
    pub runtime_type: Option<String>,
    /// `SystemdCgroup` of the default runtime, where it is set: `true` is the systemd driver, `false` cgroupfs.
    pub systemd_cgroup: Option<bool>,
    pub sandbox_image: Option<String>,
    pub snapshotter: Option<String>,
    /// Where it keeps what lasts, images among it.
    pub root: Option<String>,
    pub cni_bin_dirs: Vec<String>,
    pub cni_conf_dir: Option<String>,
}

impl ContainerdConfig {
    /// The plugin that answers the kubelet is switched off.
    pub fn cri_disabled(&self) -> Option<&str> {
        self.disabled_plugins.iter().map(String::as_str).find(|name| is_cri(name))
    }
}

/// A name of the plugin that answers the kubelet, in any version.
pub fn is_cri(plugin: &str) -> bool {
    [CRI[0], CRI[1], CRI_RUNTIME, CRI_IMAGES].contains(&plugin)
}

/// Text that is not TOML: where, and what the parser says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    pub line: Option<u32>,
    pub message: String,
}

/// A key that containerd does not read where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrayKey {
    pub line: u32,
    pub text: String,
    /// Where it stands: `outside any table`, `in [metrics]`.
    pub place: String,
    /// It was meant to choose the cgroup driver.
    pub cgroup_driver: bool,
}

pub fn parse(text: &str) -> Result<ContainerdConfig, SyntaxError> {
    let root: Table = text.parse().map_err(|error: toml::de::Error| SyntaxError {
        line: error.span().map(|span| line_at(text, span.start)),
        message: error.message().lines().next().unwrap_or_default().to_owned(),
    })?;
    let version = root.get("version").and_then(Value::as_integer).unwrap_or(1);
    let plugin = |name: &str| root.get("plugins").and_then(|plugins| plugins.get(name));
    let (runtime, images) = plugins(version);
    let (runtime, images) = (plugin(runtime), plugin(images));
    let containerd = runtime.and_then(|runtime| runtime.get("containerd"));
    let cni = runtime.and_then(|runtime| runtime.get("cni"));
    let default_runtime = text_of(containerd, &["default_runtime_name"]);
    let runtimes = containerd.and_then(|containerd| containerd.get("runtimes"));
    let chosen = runtimes.and_then(|runtimes| runtimes.get(default_runtime.as_deref().unwrap_or("runc")));
    let mut cni_bin_dirs = texts(cni.and_then(|cni| cni.get("bin_dirs")));
    if cni_bin_dirs.is_empty() {
        cni_bin_dirs.extend(text_of(cni, &["bin_dir"]));
    }
    Ok(ContainerdConfig {
        version,
        disabled_plugins: texts(root.get("disabled_plugins")),
        imports: texts(root.get("imports")),
        runtime_type: text_of(chosen, &["runtime_type"]),
        systemd_cgroup: find(chosen, &["options", "SystemdCgroup"]).and_then(Value::as_bool),
        default_runtime,
        sandbox_image: text_of(images, &["pinned_images", "sandbox"]).or_else(|| text_of(images, &["sandbox_image"])),
        snapshotter: text_of(images, &["snapshotter"]).or_else(|| text_of(containerd, &["snapshotter"])),
        root: root.get("root").and_then(Value::as_str).filter(|path| !path.is_empty()).map(str::to_owned),
        cni_bin_dirs,
        cni_conf_dir: text_of(cni, &["conf_dir"]),
    })
}

/// The plugins that start containers and that keep images, by the version of the file.
pub fn plugins(version: i64) -> (&'static str, &'static str) {
    match version {
        3.. => (CRI_RUNTIME, CRI_IMAGES),
        2 => (CRI[1], CRI[1]),
        _ => (CRI[0], CRI[0]),
    }
}

fn find<'a>(value: Option<&'a Value>, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value?, |value, key| value.get(key))
}

fn text_of(value: Option<&Value>, path: &[&str]) -> Option<String> {
    find(value, path).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn line_at(text: &str, offset: usize) -> u32 {
    let newlines = text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    u32::try_from(newlines).unwrap_or(u32::MAX - 1).saturating_add(1)
}

/// The keys that stand where containerd does not look. By lines, so that a file that is not TOML is looked at too.
pub fn stray_keys(text: &str) -> Vec<StrayKey> {
    let version = parse(text).map_or(0, |config| config.version);
    let mut table: Option<&str> = None;
    let mut strays = Vec::new();
    for (number, line) in (1u32..).zip(text.lines().map(str::trim)) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            table = Some(name.trim_start_matches('['));
            continue;
        }
        let Some(key) = line.split_once('=').map(|(key, _)| key.trim()).filter(|key| is_bare(key)) else { continue };
        let driver = key.eq_ignore_ascii_case("SystemdCgroup");
        let unread = match table {
            None => !ROOT_KEYS.contains(&key),
            Some(table) if driver => !table.ends_with("options") || moved_away(version, table),
            // Refused by every runtime since containerd 1.3, and the CRI plugin with it.
            Some(_) if key == "systemd_cgroup" => line.ends_with("true"),
            Some(table) => key == "sandbox_image" && moved_away(version, table),
        };
        if unread {
            let place = table.map_or_else(|| "outside any table".to_owned(), |table| format!("in [{table}]"));
            let cgroup_driver = driver || key == "systemd_cgroup";
            strays.push(StrayKey { line: number, text: line.to_owned(), place, cgroup_driver });
        }
    }
    strays
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// From version 3 on the old CRI plugin no longer holds these settings.
fn moved_away(version: i64, table: &str) -> bool {
    version >= 3 && table.contains(CRI[1])
}

/// The configuration that counts, and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveConfig {
    pub config: ContainerdConfig,
    pub source: &'static str,
}

impl Facts {
    /// The file as it is written; `None` where there is none and containerd goes by its defaults.
    pub fn containerd_file(&self) -> Known<Option<ContainerdConfig>> {
        let Some(capture) = self.file(FILE).or_absent()? else { return Ok(None) };
        let config = parse(&capture.text).map_err(|error| Missing::broken(FILE, error))?;
        Ok(Some(config))
    }

    /// What containerd goes by: its own dump, with defaults and imports; where that cannot be had, the file.
    pub fn containerd_config(&self) -> Known<EffectiveConfig> {
        match self.containerd_dump() {
            Ok(config) => Ok(EffectiveConfig { config, source: DUMP.name }),
            Err(missing) => match self.containerd_file() {
                Ok(Some(config)) => Ok(EffectiveConfig { config, source: FILE }),
                _ => Err(missing),
            },
        }
    }

    /// What containerd makes of its file, defaults and imports filled in.
    pub fn containerd_dump(&self) -> Known<ContainerdConfig> {
        let said = self.query(&DUMP)?;
        if said.exit.is_some_and(|exit| exit != 0) || said.text.trim().is_empty() {
            let error = said.errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it prints nothing");
            return Err(Missing { source_name: DUMP.name.to_owned(), why: Why::Broken(error.trim().to_owned()) });
        }
        parse(&said.text).map_err(|error| Missing::broken(DUMP.name, error))
    }

    /// The line that sets something in the file, as evidence.
    pub fn containerd_line(&self, needle: &str) -> Option<Evidence> {
        let capture = self.file(FILE).ok()?;
        let mut lines = capture.lines().filter(|(_, line)| !line.trim_start().starts_with('#'));
        lines.find(|(_, line)| line.contains(needle)).map(|(number, line)| Evidence::at(FILE, number, line.trim()))
    }
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Configurations as they are met, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    /// The file containerd.io ships, with a line appended by a tool that edits lines.
    pub const STUB_WITH_STRAY: &str = "\
#   Licensed under the Apache License, Version 2.0 (the \"License\");

disabled_plugins = []

#root = \"/var/lib/containerd\"
#state = \"/run/containerd\"
#subreaper = true
#oom_score = 0

#[grpc]
#  address = \"/run/containerd/containerd.sock\"
          SystemdCgroup = true
";

    /// Version 2, as `containerd config dump` of 1.6 prints it, shortened.
    pub fn version_2(systemd_cgroup: bool) -> String {
        format!(
            "disabled_plugins = []
imports = [\"/etc/containerd/config.toml\"]
oom_score = 0
root = \"/var/lib/containerd\"
state = \"/run/containerd\"
version = 2

[plugins]

  [plugins.\"io.containerd.grpc.v1.cri\"]
    sandbox_image = \"registry.k8s.io/pause:3.6\"
    systemd_cgroup = false

    [plugins.\"io.containerd.grpc.v1.cri\".cni]
      bin_dir = \"/opt/cni/bin\"
      conf_dir = \"/etc/cni/net.d\"
      max_conf_num = 1

    [plugins.\"io.containerd.grpc.v1.cri\".containerd]
      default_runtime_name = \"runc\"
      snapshotter = \"overlayfs\"

      [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes]

        [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]
          runtime_type = \"io.containerd.runc.v2\"

          [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]
            BinaryName = \"\"
            SystemdCgroup = {systemd_cgroup}
"
        )
    }

    /// Version 3, as `containerd config dump` of 2.x prints it, shortened.
    pub fn version_3(systemd_cgroup: bool) -> String {
        format!(
            "version = 3
root = '/var/lib/containerd'
state = '/run/containerd'
disabled_plugins = []
imports = ['/etc/containerd/config.toml']

[plugins]
  [plugins.'io.containerd.cri.v1.images']
    snapshotter = 'overlayfs'

    [plugins.'io.containerd.cri.v1.images'.pinned_images]
      sandbox = 'registry.k8s.io/pause:3.10'

  [plugins.'io.containerd.cri.v1.runtime']
    enable_selinux = false

    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      default_runtime_name = 'runc'

      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
          runtime_type = 'io.containerd.runc.v2'

          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
            SystemdCgroup = {systemd_cgroup}

    [plugins.'io.containerd.cri.v1.runtime'.cni]
      bin_dir = ''
      bin_dirs = ['/opt/cni/bin', '/usr/lib/cni']
      conf_dir = '/etc/cni/net.d'
"
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::facts;

    #[test]
    fn reads_version_2() {
        let read = parse(&sample::version_2(true)).expect("TOML");
        assert_eq!((read.version, read.systemd_cgroup), (2, Some(true)));
        assert_eq!(read.sandbox_image.as_deref(), Some("registry.k8s.io/pause:3.6"));
        assert_eq!(read.snapshotter.as_deref(), Some("overlayfs"));
        assert_eq!(
            (read.cni_bin_dirs.as_slice(), read.cni_conf_dir.as_deref()),
            (["/opt/cni/bin".to_owned()].as_slice(), Some("/etc/cni/net.d"))
        );
        assert_eq!(read.imports, ["/etc/containerd/config.toml"]);
        assert_eq!(read.cri_disabled(), None);
    }

    #[test]
    fn reads_version_3() {
        let read = parse(&sample::version_3(false)).expect("TOML");
        assert_eq!((read.version, read.systemd_cgroup), (3, Some(false)));
        assert_eq!(read.sandbox_image.as_deref(), Some("registry.k8s.io/pause:3.10"));
        assert_eq!(read.snapshotter.as_deref(), Some("overlayfs"));
        assert_eq!(read.cni_bin_dirs, ["/opt/cni/bin", "/usr/lib/cni"]);
    }

    #[test]
    fn reads_version_1_and_another_default_runtime() {
        let read = parse("[plugins.cri.containerd]\ndefault_runtime_name = \"kata\"\n[plugins.cri.containerd.runtimes.runc.options]\nSystemdCgroup = true\n[plugins.cri.containerd.runtimes.kata.options]\nSystemdCgroup = false\n").expect("TOML");
        assert_eq!(
            (read.version, read.systemd_cgroup, read.default_runtime.as_deref()),
            (1, Some(false), Some("kata"))
        );
        let read =
            parse("version = 2\n[plugins.cri.containerd.runtimes.runc.options]\nSystemdCgroup = true\n").expect("TOML");
        assert_eq!(read.systemd_cgroup, None, "version 2 does not look there");
    }

    #[test]
    fn the_stub_sets_nothing_and_the_line_at_its_end_is_stray() {
        assert_eq!(parse(sample::STUB_WITH_STRAY).expect("TOML").systemd_cgroup, None);
        let strays = stray_keys(sample::STUB_WITH_STRAY);
        assert_eq!(strays.len(), 1);
        assert_eq!(
            (strays[0].line, strays[0].text.as_str(), strays[0].place.as_str()),
            (12, "SystemdCgroup = true", "outside any table")
        );
        assert!(strays[0].cgroup_driver);
    }

    #[test]
    fn a_key_in_the_wrong_table_is_stray() {
        let strays = |text: &str| {
            stray_keys(text).into_iter().map(|it| (it.line, it.cgroup_driver, it.place)).collect::<Vec<_>>()
        };
        assert_eq!(strays("version = 2\n[metrics]\nSystemdCgroup = true\n"), [(3, true, "in [metrics]".to_owned())]);
        assert_eq!(strays("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsystemd_cgroup = true\n").len(), 1);
        assert_eq!(strays("sandbox_image = \"x\"\n"), [(1, false, "outside any table".to_owned())]);
        assert_eq!(strays("systemd_cgroup = true\n"), [(1, true, "outside any table".to_owned())]);
        let moved = sample::version_2(true).replace("version = 2", "version = 3");
        assert_eq!(strays(&moved).iter().map(|it| it.1).collect::<Vec<_>>(), [false, true]);
        assert_eq!(strays(&sample::version_2(true)), []);
        assert_eq!(strays(&sample::version_3(true)), []);
        assert_eq!(strays("#[x]\n# SystemdCgroup = true\n\"quoted\" = 1\n"), []);
    }

    #[test]
    fn a_disabled_cri_is_seen_under_every_name() {
        for name in ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"]
        {
            let read = parse(&format!("disabled_plugins = [\"aufs\", {name:?}]\n")).expect("TOML");
            assert_eq!(read.cri_disabled(), Some(name));
        }
        assert_eq!(parse("disabled_plugins = [\"zfs\"]\n").expect("TOML").cri_disabled(), None);
    }

    #[test]
    fn an_error_names_its_line() {
        let error = parse("version = 2\n\n[plugins\nx = 1\n").expect_err("not TOML");
        assert_eq!(error.line, Some(3));
        assert!(error.to_string().starts_with("line 3: "), "{error}");
        assert_eq!(parse("a = 1\na = 2\n").expect_err("twice").line, Some(2));
    }

    #[test]
    fn the_dump_counts_before_the_file() {
        let both = facts().with_file(FILE, &sample::version_2(false)).with_query(&DUMP, &sample::version_2(true));
        let read = both.containerd_config().expect("known");
        assert_eq!((read.config.systemd_cgroup, read.source), (Some(true), DUMP.name));
        let failed = both.with_exit(&DUMP, 1, "", "containerd: failed to load TOML: (31, 3)\n");
        let read = failed.containerd_config().expect("known");
        assert_eq!((read.config.systemd_cgroup, read.source), (Some(false), FILE));
        let neither = failed.without_file(FILE).containerd_config().expect_err("neither");
        assert_eq!(neither.to_string(), "containerd config dump: containerd: failed to load TOML: (31, 3)");
        assert!(facts().with_query(&DUMP, "\n").containerd_config().is_err());
        assert_eq!(facts().without_file(FILE).containerd_file(), Ok(None));
    }

    #[test]
    fn a_line_is_cited_unless_it_is_a_comment() {
        let known = facts().with_file(FILE, "# snapshotter = \"a\"\nsnapshotter = \"b\"\n");
        assert_eq!(known.containerd_line("snapshotter"), Some(Evidence::at(FILE, 2, "snapshotter = \"b\"")));
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error(text in "(\\[|\\]|=|\"|'|#|\n|SystemdCgroup|plugins|version|[0-9]|.)*") {
            let _ = parse(&text);
            stray_keys(&text);
        }

        #[test]
        fn a_line_number_is_within_the_text(text in "[a\n]{0,50}", offset in 0usize..100) {
            let line = line_at(&text, offset);
            prop_assert!(line >= 1 && line as usize <= text.matches('\n').count() + 1);
        }
    }
}
