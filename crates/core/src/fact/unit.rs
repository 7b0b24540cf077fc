//! systemd units: what they are made of (`systemctl cat`) and how they are (`systemctl show`).

use std::collections::BTreeMap;

use super::evidence::Evidence;
use super::keep::USUAL;
use super::{Facts, Known, Missing, OrAbsent, Query, Source, Why};

pub const KUBELET: Query = cat("systemctl cat kubelet", &["systemctl", "cat", "--no-pager", "kubelet.service"]);
pub const CONTAINERD: Query =
    cat("systemctl cat containerd", &["systemctl", "cat", "--no-pager", "containerd.service"]);

/// The units whose state matters, in one call: each is a block of `Key=value` lines.
pub const SHOW: Query = Query {
    name: "systemctl show",
    argv: &[
        "systemctl",
        "show",
        "--no-pager",
        "--property=Id,LoadState,ActiveState,SubState,UnitFileState,FragmentPath,DropInPaths,MainPID,NRestarts,Result,\
         ExecMainStatus,ExecMainStartTimestamp,ExecMainStartTimestampMonotonic,InvocationID,NeedDaemonReload,ConditionResult,KillMode,Environment",
        "kubelet.service",
        "containerd.service",
        "docker.service",
        "crio.service",
        "cri-docker.service",
        "firewalld.service",
        "ufw.service",
        "chrony.service",
        "chronyd.service",
        "systemd-timesyncd.service",
        "ntpsec.service",
        "systemd-resolved.service",
        "apparmor.service",
        "k3s.service",
        "k3s-agent.service",
        "rke2-agent.service",
        "rke2-server.service",
        "snap.microk8s.daemon-kubelite.service",
    ],
    keep: USUAL,
};

/// What kubeadm writes at every join, and overwrites at the next.
pub const KUBEADM_FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";
/// Where the administrator adds flags: of the deb, and of the rpm.
pub const DEFAULTS: &str = "/etc/default/kubelet";
pub const SYSCONFIG: &str = "/etc/sysconfig/kubelet";

/// Where a mask is a link to /dev/null in place of a unit: for good, and until the next boot.
const MASKS: [&str; 2] = ["/etc/systemd/system", "/run/systemd/system"];
/// How long the machine has been up, in seconds.
pub const UPTIME: &str = "/proc/uptime";

pub const SOURCES: &[Source] = &[
    Source::File(UPTIME),
    Source::Query(&KUBELET),
    Source::Query(&CONTAINERD),
    Source::Query(&SHOW),
    Source::File(KUBEADM_FLAGS),
    Source::File(DEFAULTS),
    Source::File(SYSCONFIG),
    Source::Dir(MASKS[0]),
    Source::Dir(MASKS[1]),
];

const fn cat(name: &'static str, argv: &'static [&'static str]) -> Query {
    Query { name, argv, keep: USUAL }
}

/// A unit as systemd puts it together: the packaged file and its drop-ins, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    pub files: Vec<UnitFile>,
    /// `systemctl cat` says that the unit is masked, and shows no file.
    pub masked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFile {
    pub path: String,
    pub directives: Vec<Directive>,
}

/// `Key=value` in a section. Continued lines are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Empty where a line stands before any `[Section]`: systemd ignores those.
    pub section: String,
    pub key: String,
    pub value: String,
    /// The line within its file.
    pub line: u32,
}

/// `EnvironmentFile=`: with `-` before the path it may be absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentFile {
    pub path: String,
    pub optional: bool,
}

/// `systemctl cat`: each file under a `# /path` heading.
pub fn parse_cat(text: &str) -> Unit {
    let mut unit = Unit::default();
    let mut section = String::new();
    let mut heading = 0;
    let mut continued: Option<Directive> = None;
    for (number, text) in (1u32..).zip(text.lines()) {
        let trimmed = text.trim();
        let comment = trimmed.starts_with('#') || trimmed.starts_with(';');
        if let Some(path) = heading_path(text) {
            unit.push(continued.take());
            unit.files.push(UnitFile { path: path.to_owned(), directives: Vec::new() });
            section.clear();
            heading = number;
        } else if comment {
            // Also inside a continued line, as systemd does.
            unit.masked |= unit.files.is_empty() && trimmed.contains(" is masked");
        } else if let Some(mut directive) = continued.take() {
            let more = trimmed.strip_suffix('\\');
            directive.value = format!("{} {}", directive.value, more.unwrap_or(trimmed).trim());
            if more.is_some() {
                continued = Some(directive);
            } else {
                unit.push(Some(directive));
            }
        } else if let Some(name) = trimmed.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = trimmed.split_once('=') {
            let more = value.strip_suffix('\\');
            let value = more.unwrap_or(value).trim().to_owned();
            let line = number.saturating_sub(heading);
            let directive = Directive { section: section.clone(), key: key.trim().to_owned(), value, line };
            if more.is_some() {
                continued = Some(directive);
            } else {
                unit.push(Some(directive));
            }
        }
    }
    unit.push(continued);
    unit
}

/// The lines of one of the files that `systemctl cat` shows, as they stand there.
pub fn lines_of<'a>(text: &'a str, path: &str) -> Vec<&'a str> {
    let of_file = text.lines().skip_while(|line| heading_path(line) != Some(path)).skip(1);
    of_file.take_while(|line| heading_path(line).is_none()).collect()
}

/// `# /usr/lib/systemd/system/kubelet.service`. Other comments may name a path too: only systemd's own places count.
pub(crate) fn heading_path(line: &str) -> Option<&str> {
    let path = line.strip_prefix("# ").filter(|path| path.starts_with('/') && path.contains("/systemd/"))?;
    let path = path.trim_end();
    let ends_well = matches!(path.rsplit('.').next(), Some("service" | "conf"));
    (!path.contains(' ') && ends_well).then_some(path)
}

impl Unit {
    fn push(&mut self, directive: Option<Directive>) {
        if let (Some(file), Some(directive)) = (self.files.last_mut(), directive) {
            file.directives.push(directive);
        }
    }

    /// Every directive, in the order in which systemd reads them, with its file.
    pub fn directives(&self) -> impl Iterator<Item = (&UnitFile, &Directive)> {
        self.files.iter().flat_map(|file| file.directives.iter().map(move |directive| (file, directive)))
    }

    /// A key of `[Service]` that is a list: an empty assignment takes back all before it.
    pub(super) fn service_list(&self, key: &str) -> Vec<(&UnitFile, &Directive)> {
        let mut list = Vec::new();
        for (file, directive) in self.directives().filter(|(_, it)| it.section == "Service" && it.key == key) {
            if directive.value.is_empty() {
                list.clear();
            } else {
                list.push((file, directive));
            }
        }
        list
    }

    /// A key of `[Service]` of which the last assignment counts, with its place.
    pub fn setting(&self, key: &str) -> Option<(String, Evidence)> {
        let (file, directive) = self.service_list(key).pop()?;
        Some((directive.value.clone(), directive.cite(file)))
    }

    /// The command that would be started.
    pub fn exec_start(&self) -> Option<(&UnitFile, &Directive)> {
        self.service_list("ExecStart").pop()
    }

    /// `Environment=`, the last of a name winning, each with where it is set.
    fn environment(&self) -> BTreeMap<String, Variable> {
        let mut variables = BTreeMap::new();
        for (file, directive) in self.service_list("Environment") {
            for assignment in split_words(&directive.value) {
                if let Some((name, value)) = assignment.split_once('=') {
                    let seen =
                        Evidence::at(&file.path, directive.line, format!("{}={}", directive.key, directive.value));
                    variables.insert(name.to_owned(), Variable { value: value.to_owned(), seen });
                }
            }
        }
        variables
    }

    /// The variables that `Environment=` sets for it: name, value, and where.
    pub fn variables(&self) -> impl Iterator<Item = (String, String, Evidence)> {
        self.environment().into_iter().map(|(name, Variable { value, seen })| (name, value, seen))
    }

    pub fn environment_files(&self) -> Vec<EnvironmentFile> {
        let files = self.service_list("EnvironmentFile").into_iter().map(|(_, directive)| directive.value.as_str());
        files
            .map(|value| match value.strip_prefix('-') {
                Some(path) => EnvironmentFile { path: path.to_owned(), optional: true },
                None => EnvironmentFile { path: value.to_owned(), optional: false },
            })
            .collect()
    }

    /// The drop-ins, without the unit file itself.
    pub fn drop_ins(&self) -> impl Iterator<Item = &UnitFile> {
        self.files.iter().filter(|file| file.path.contains(".d/"))
    }

    /// The first directive that holds a text, as evidence.
    pub fn line_of(&self, needle: &str) -> Option<Evidence> {
        let found = self.directives().find(|(_, it)| it.key.contains(needle) || it.value.contains(needle));
        found.map(|(file, directive)| directive.cite(file))
    }

    /// Assignments before any `[Section]`: systemd passes over them, with one line in its log.
    pub fn outside_section(&self) -> Vec<Evidence> {
        self.directives().filter(|(_, it)| it.section.is_empty()).map(|(file, it)| it.cite(file)).collect()
    }
}

impl Directive {
    pub fn cite(&self, file: &UnitFile) -> Evidence {
        Evidence::at(&file.path, self.line, format!("{}={}", self.key, self.value))
    }
}

struct Variable {
    value: String,
    seen: Evidence,
}

/// The command line a unit would start, its variables filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub words: Vec<Word>,
    /// Environment files that could not be read: what they add is not known.
    pub unread: Vec<Missing>,
}

/// One argument, and the place it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub seen: Evidence,
}

impl CommandLine {
    /// The program's name, without its path.
    pub fn program(&self) -> &str {
        let program = self.words.first().map_or("", |word| word.text.as_str());
        program.rsplit('/').next().unwrap_or(program)
    }

    /// A flag's value (`--name=value` or `--name value`) and where it is set. The last one counts.
    pub fn flag(&self, name: &str) -> Option<(&str, &Word)> {
        let at = self.words.iter().rposition(|word| word.flag_name() == Some(name))?;
        let word = self.words.get(at)?;
        let value = match word.text.split_once('=') {
            Some((_, value)) => value,
            None => self.words.get(at + 1).map_or("", |next| next.text.as_str()),
        };
        Some((value, word))
    }

    /// Has the flag, with a value.
    pub fn has_flag(&self, name: &str) -> bool {
        self.flag(name).is_some_and(|(value, _)| !value.is_empty() && !value.starts_with("--"))
    }
}

impl Word {
    /// `--name` of `--name=value`.
    pub fn flag_name(&self) -> Option<&str> {
        let name = self.text.split('=').next().unwrap_or_default();
        name.starts_with("--").then_some(name)
    }
}

/// Splits as systemd does: at spaces, with quotes anywhere in a word, and backslashes.
pub fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(unescape(chars.next())),
            (_, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, None) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What a backslash and a character stand for; of what systemd does not know, both stay.
fn unescape(c: Option<char>) -> Vec<char> {
    match c {
        Some('n') => vec!['\n'],
        Some('t') => vec!['\t'],
        Some('s') => vec![' '],
        Some(c @ ('\\' | '"' | '\'')) => vec![c],
        Some(c) => vec!['\\', c],
        None => Vec::new(),
    }
}

/// An environment file: `NAME=value` lines as a shell would read them; `(line, name, value)`.
pub fn parse_environment_file(text: &str) -> Vec<(u32, String, String)> {
    let mut assignments = Vec::new();
    let mut lines = (1u32..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let mut line = line.trim().to_owned();
        if line.starts_with('#') || line.starts_with(';') {
            continue;
        }
        while let Some(more) = line.strip_suffix('\\') {
            let next = lines.next().map_or("", |(_, next)| next);
            line = format!("{more}{next}");
        }
        if let Some((name, value)) = line.split_once('=') {
            assignments.push((number, name.trim().to_owned(), unquote(value.trim())));
        }
    }
    assignments
}

/// A value without its quotes; spaces within stay.
fn unquote(value: &str) -> String {
    let mut out = String::new();
    let mut quote: Option<char> = None;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', Some('"') | None) => out.extend(chars.next()),
            (_, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            _ => out.push(c),
        }
    }
    out
}

/// Fills variables in: `$NAME` as a word of its own becomes any number of words, `${NAME}` stays within its word.
fn expand(directive: &Evidence, value: &str, variables: &BTreeMap<String, Variable>) -> Vec<Word> {
    let mut words = Vec::new();
    for (at, raw) in split_words(value).into_iter().enumerate() {
        // `-`, `@`, `+` … before the program are systemd's, not part of its name.
        let raw = if at == 0 { raw.trim_start_matches(['-', '@', ':', '+', '!', '|']).to_owned() } else { raw };
        let name = raw.strip_prefix('$').filter(|name| !name.starts_with(['$', '{']));
        if let Some(name) = name {
            let Some(variable) = variables.get(name) else { continue };
            let parts = split_words(&variable.value).into_iter();
            words.extend(parts.map(|text| Word { text, seen: variable.seen.clone() }));
        } else {
            words.push(fill_in(directive, &raw, variables));
        }
    }
    words
}

fn fill_in(directive: &Evidence, raw: &str, variables: &BTreeMap<String, Variable>) -> Word {
    let mut word = Word { text: String::new(), seen: directive.clone() };
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('$') {
        word.text.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            word.text.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            if let Some(variable) = variables.get(name) {
                word.text.push_str(&variable.value);
                word.seen = variable.seen.clone();
            }
            rest = after;
        } else {
            word.text.push('$');
        }
    }
    word.text.push_str(rest);
    word
}

/// How a unit is. systemd answers for units it has never heard of too: see [`UnitState::is_there`] first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitState {
    pub id: String,
    /// `loaded`, `not-found`, `masked`, `bad-setting`, `error`.
    pub load_state: String,
    pub active_state: String,
    pub sub_state: String,
    /// `enabled`, `disabled`, `static`, `masked` …
    pub unit_file_state: String,
    pub main_pid: Option<u32>,
    pub restarts: Option<u64>,
    pub result: String,
    pub exec_main_status: Option<i32>,
    /// When its process was started, in microseconds after the boot.
    pub started_after_boot: Option<u64>,
    pub invocation_id: Option<String>,
    pub environment: Vec<String>,
    pub need_daemon_reload: bool,
    /// False where a `Condition…=` kept the unit from starting.
    pub condition_result: bool,
    /// What systemd ends with the unit: `process` is its main process alone, `control-group` all of them.
    pub kill_mode: Option<String>,
    pub drop_in_paths: Vec<String>,
    pub fragment_path: Option<String>,
    /// The line that says so, where it is one of `systemctl status`.
    pub cited: Option<Evidence>,
}

impl UnitState {
    /// An unknown unit reports `Result=success` and `ExecMainStatus=0` as well.
    pub fn is_there(&self) -> bool {
        !matches!(self.load_state.as_str(), "not-found" | "")
    }

    pub fn is_active(&self) -> bool {
        self.is_there() && matches!(self.active_state.as_str(), "active" | "reloading")
    }

    pub fn is_masked(&self) -> bool {
        self.load_state == "masked" || self.unit_file_state.starts_with("masked")
    }

    pub fn is_enabled(&self) -> bool {
        matches!(
            self.unit_file_state.as_str(),
            "enabled" | "enabled-runtime" | "alias" | "static" | "generated" | "indirect"
        )
    }

    /// `ActiveState=failed SubState=failed Result=exit-code`, as evidence.
    pub fn cite(&self) -> Evidence {
        if let Some(cited) = &self.cited {
            return cited.clone();
        }
        let UnitState { load_state, active_state, sub_state, unit_file_state, result, .. } = self;
        let text = format!(
            "LoadState={load_state} ActiveState={active_state} SubState={sub_state} UnitFileState={unit_file_state} \
             Result={result}"
        );
        Evidence::of(format!("systemctl show {}", self.id.trim_end_matches(".service")), text)
    }
}

/// `systemctl show` of several units: blocks of `Key=value`, a blank line between.
pub fn parse_show(text: &str) -> Vec<UnitState> {
    let mut states = vec![UnitState::default()];
    for line in text.lines() {
        if line.trim().is_empty() {
            states.push(UnitState::default());
        } else if let (Some((key, value)), Some(state)) = (line.split_once('='), states.last_mut()) {
            state.set(key, value.trim());
        }
    }
    states.retain(|state| !state.id.is_empty());
    states
}

impl UnitState {
    fn set(&mut self, key: &str, value: &str) {
        let filled = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match key {
            "Id" => value.clone_into(&mut self.id),
            "LoadState" => value.clone_into(&mut self.load_state),
            "ActiveState" => value.clone_into(&mut self.active_state),
            "SubState" => value.clone_into(&mut self.sub_state),
            "UnitFileState" => value.clone_into(&mut self.unit_file_state),
            "MainPID" => self.main_pid = value.parse().ok().filter(|pid| *pid != 0),
            "NRestarts" => self.restarts = value.parse().ok(),
            "Result" => value.clone_into(&mut self.result),
            "ExecMainStatus" => self.exec_main_status = value.parse().ok(),
            "ExecMainStartTimestampMonotonic" => self.started_after_boot = value.parse().ok().filter(|time| *time != 0),
            "InvocationID" => self.invocation_id = filled(),
            "Environment" => self.environment = split_words(value),
            "NeedDaemonReload" => self.need_daemon_reload = value == "yes",
            "ConditionResult" => self.condition_result = value == "yes",
            "KillMode" => self.kill_mode = filled(),
            "DropInPaths" => self.drop_in_paths = value.split_whitespace().map(str::to_owned).collect(),
            "FragmentPath" => self.fragment_path = filled(),
            _ => {}
        }
    }
}

impl Facts {
    /// `kubelet` or `containerd`, as systemd puts it together. A unit without any file is `Absent`.
    pub fn unit(&self, name: &str) -> Known<Unit> {
        let query = match name {
            "kubelet" => &KUBELET,
            "containerd" => &CONTAINERD,
            _ => return Err(Missing { source_name: format!("systemctl cat {name}"), why: Why::NotCollected }),
        };
        let said = match (self.query(query), self.unit_status(name)) {
            // Its status shows no file, but says where there is none, and where it is masked.
            (Err(Missing { why: Why::NotCollected, .. }), Ok(status)) if status.state.is_masked() => {
                return Ok(Unit { masked: true, ..Unit::default() });
            }
            (Err(Missing { why: Why::NotCollected, source_name }), Ok(status)) if !status.state.is_there() => {
                return Err(Missing { source_name, why: Why::Absent });
            }
            (said, _) => said?,
        };
        let unit = parse_cat(&said.text);
        if !unit.files.is_empty() || unit.masked {
            return Ok(unit);
        }
        let absent = ["No files found for", "could not be found"].iter().any(|words| said.errors.contains(words));
        let why = if absent { Why::Absent } else { Why::of_systemd(&said.errors, "it shows no unit file") };
        Err(Missing { source_name: query.name.to_owned(), why })
    }

    /// How a unit is; of a unit nobody has heard of, `is_there()` is false.
    pub fn unit_state(&self, name: &str) -> Known<UnitState> {
        let said = match self.query(&SHOW) {
            Err(missing) if missing.why == Why::NotCollected => {
                let status = self.unit_status(name).map(|status| status.state);
                return status.map_err(|status| if status.why == Why::NotCollected { missing } else { status });
            }
            said => said?,
        };
        let id = format!("{name}.service");
        let states = parse_show(&said.text);
        if states.is_empty() {
            let why = Why::of_systemd(&said.errors, "it shows no unit");
            return Err(Missing { source_name: SHOW.name.to_owned(), why });
        }
        let missing = || Missing { source_name: format!("systemctl show {name}"), why: Why::Absent };
        states.into_iter().find(|state| state.id == id).ok_or_else(missing)
    }

    /// The link to /dev/null that masks a unit. An empty file in the unit's place masks it too, and is none.
    pub fn mask_of(&self, name: &str) -> Known<Option<String>> {
        let id = format!("{name}.service");
        for dir in MASKS {
            let entry = self.entry(dir, &id)?;
            if entry.is_some_and(|entry| entry.target.as_deref() == Some("/dev/null")) {
                return Ok(Some(format!("{dir}/{id}")));
            }
        }
        Ok(None)
    }

    /// The command line systemd would start the kubelet with.
    pub fn kubelet_command(&self) -> Known<CommandLine> {
        let unit = self.unit("kubelet")?;
        self.command_line(&unit).ok_or_else(|| Missing::broken(KUBELET.name, "there is no ExecStart"))
    }

    fn command_line(&self, unit: &Unit) -> Option<CommandLine> {
        let (file, directive) = unit.exec_start()?;
        let mut variables = unit.environment();
        let mut unread = Vec::new();
        for wanted in unit.environment_files() {
            // What a file sets wins over `Environment=`; of two files, the later one.
            match self.file(&wanted.path).or_absent() {
                Ok(Some(capture)) => {
                    for (line, name, value) in parse_environment_file(&capture.text) {
                        let seen = Evidence::at(&wanted.path, line, format!("{name}={value}"));
                        variables.insert(name, Variable { value, seen });
                    }
                }
                Ok(None) => {}
                Err(missing) => unread.push(missing),
            }
        }
        let words = expand(&directive.cite(file), &directive.value, &variables);
        Some(CommandLine { words, unread })
    }
}

/// The kubelet's unit and drop-in as the packages ship them, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    pub const UNIT_PATH: &str = "/usr/lib/systemd/system/kubelet.service";
    pub const DROP_IN_PATH: &str = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf";

    const UNIT: &str = "\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
";

    const DROP_IN: &str = "\
# Note: This dropin only works with kubeadm and kubelet v1.11+
[Service]
Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"
Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"
# This is a file that \"kubeadm init\" and \"kubeadm join\" generates at runtime, populating the KUBELET_KUBEADM_ARGS variable dynamically
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
# This is a file that the user can use for overrides of the kubelet args as a last resort. Preferably, the user should use
# the .NodeRegistration.KubeletExtraArgs object in the configuration files instead. KUBELET_EXTRA_ARGS should be sourced from this file.
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
";

    /// `systemctl cat kubelet` of a fresh installation.
    pub fn packaged() -> String {
        with_drop_in(DROP_IN_PATH, DROP_IN)
    }

    /// The drop-in deleted.
    pub fn bare() -> String {
        format!("# {UNIT_PATH}\n{UNIT}")
    }

    /// The unit with another drop-in in place of the packaged one.
    pub fn with_drop_in(path: &str, text: &str) -> String {
        format!("{}\n# {path}\n{text}", bare())
    }

    /// The packaged unit and drop-in, and one more drop-in after them.
    pub fn and_drop_in(path: &str, text: &str) -> String {
        format!("{}\n# {path}\n{text}", packaged())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::sample as kubelet;
    use super::*;
    use crate::testing::facts;

    #[test]
    fn reads_the_packaged_unit_and_its_drop_in() {
        let unit = parse_cat(&kubelet::packaged());
        let paths: Vec<&str> = unit.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [kubelet::UNIT_PATH, kubelet::DROP_IN_PATH]);
        let (file, exec) = unit.exec_start().expect("there is one");
        assert_eq!((file.path.as_str(), exec.line), (kubelet::DROP_IN_PATH, 11));
        assert!(exec.value.starts_with("/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS"));
        assert_eq!(unit.drop_ins().count(), 1);
        assert!(unit.outside_section().is_empty());
        let files = unit.environment_files();
        assert_eq!(files.first(), Some(&EnvironmentFile { path: KUBEADM_FLAGS.into(), optional: true }));
    }

    #[test]
    fn a_mask_is_a_link_to_nowhere() {
        let bare = || facts().without_dir(MASKS[0]).without_dir(MASKS[1]);
        assert_eq!(bare().mask_of("kubelet"), Ok(None));
        let empty = bare().with_dir(MASKS[0], &[("-rw-r--r--", "kubelet.service")]);
        assert_eq!(empty.mask_of("kubelet"), Ok(None));
        let masked = bare().with_dir(MASKS[1], &[("lrwxrwxrwx", "kubelet.service -> /dev/null")]);
        assert_eq!(masked.mask_of("kubelet"), Ok(Some("/run/systemd/system/kubelet.service".into())));
        assert!(facts().mask_of("kubelet").is_err());
    }

    #[test]
    fn the_lines_of_one_file_are_told_from_the_next_ones() {
        let text = format!("{}\n# /etc/systemd/system/kubelet.service.d/20-a.conf\n  A=1\n", kubelet::packaged());
        assert_eq!(lines_of(&text, "/etc/systemd/system/kubelet.service.d/20-a.conf"), ["  A=1"]);
        assert_eq!(lines_of(&text, kubelet::UNIT_PATH).first(), Some(&"[Unit]"));
        assert!(lines_of(&text, "/no/such").is_empty());
    }

    #[test]
    fn an_empty_assignment_takes_back_what_was_before() {
        let unit = parse_cat("# /etc/systemd/system/x.service\n[Service]\nExecStart=/bin/a\nExecStart=\n");
        assert_eq!(unit.exec_start(), None);
    }

    #[test]
    fn continued_lines_are_one_and_comments_between_them_are_passed_over() {
        let text = "# /etc/systemd/system/kubelet.service\n[Service]\nExecStart=/usr/bin/kubelet \\\n# why\n  --a=1 \\\n  --b=2\nRestart=always\n";
        let unit = parse_cat(text);
        let (_, exec) = unit.exec_start().expect("there is one");
        assert_eq!((exec.value.as_str(), exec.line), ("/usr/bin/kubelet --a=1 --b=2", 2));
        assert_eq!(unit.directives().count(), 2);
    }

    #[test]
    fn a_comment_that_names_a_path_is_no_heading() {
        let unit = parse_cat(
            "# /usr/lib/systemd/system/kubelet.service\n# /etc/default/kubelet is read too\n# /etc/x.conf\n[Service]\n",
        );
        assert_eq!(unit.files.len(), 1);
    }

    #[test]
    fn a_line_outside_any_section_is_told_with_file_and_line() {
        let path = "/etc/systemd/system/kubelet.service.d/20-join-config.conf";
        let text = format!("{}\n# {path}\nEnvironment=\"A=b\"\n", kubelet::packaged());
        let stray = parse_cat(&text).outside_section();
        assert_eq!(stray, [Evidence::at(path, 1, "Environment=\"A=b\"")]);
    }

    #[test]
    fn variables_are_filled_in_as_systemd_does() {
        let text = "# /etc/systemd/system/kubelet.service\n[Service]\n\
                    Environment=\"A=--one --two=2\" B=three 'C=x y'\n\
                    ExecStart=-/usr/bin/kubelet $A --b=${B} ${C} $NONE ${NONE} a$B $$x\n";
        let seen = facts().with_query(&KUBELET, text).kubelet_command().expect("known");
        let words: Vec<&str> = seen.words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(words, ["/usr/bin/kubelet", "--one", "--two=2", "--b=three", "x y", "", "a$B", "$x"]);
        assert_eq!(seen.program(), "kubelet");
        assert_eq!(seen.words[1].seen.line, Some(2));
    }

    #[test]
    fn an_environment_file_wins_over_environment_and_the_flag_says_where_it_is_set() {
        let seen = facts()
            .with_query(&KUBELET, &kubelet::packaged())
            .with_file(KUBEADM_FLAGS, "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.21 --v=2\"\n")
            .with_file(DEFAULTS, "# mine\nKUBELET_EXTRA_ARGS=--v=4\nKUBELET_CONFIG_ARGS=--config=/etc/other.yaml\n")
            .kubelet_command()
            .expect("known");
        assert_eq!(seen.flag("--config").map(|(value, _)| value), Some("/etc/other.yaml"));
        let (value, word) = seen.flag("--v").expect("it is set");
        assert_eq!((value, word.seen.to_string().as_str()), ("4", "/etc/default/kubelet:2  KUBELET_EXTRA_ARGS=--v=4"));
        assert!(seen.unread.is_empty());
    }

    #[test]
    fn an_environment_file_that_cannot_be_read_is_told() {
        let seen = facts()
            .with_query(&KUBELET, &kubelet::packaged())
            .without(Source::File(KUBEADM_FLAGS), Why::Denied)
            .without_file(DEFAULTS)
            .kubelet_command()
            .expect("known");
        assert_eq!(seen.unread.len(), 1);
        assert_eq!(seen.unread[0].why, Why::Denied);
    }

    #[test]
    fn an_empty_flag_is_no_flag() {
        let seen = |exec: &str| {
            let text = format!("# /etc/systemd/system/kubelet.service\n[Service]\nExecStart={exec}\n");
            facts().with_query(&KUBELET, &text).kubelet_command().expect("known")
        };
        assert!(seen("/usr/bin/kubelet --kubeconfig /a --config=/b").has_flag("--kubeconfig"));
        assert!(!seen("/usr/bin/kubelet --kubeconfig= --config=/b").has_flag("--kubeconfig"));
        assert!(!seen("/usr/bin/kubelet --kubeconfig --config=/b").has_flag("--kubeconfig"));
        assert!(!seen("/usr/bin/kubelet --bootstrap-kubeconfig=/a").has_flag("--kubeconfig"));
    }

    #[test]
    fn environment_files_are_read_like_a_shell_would() {
        let read = parse_environment_file("# c\n; c\nA=\"one two\"\nB='it''s'\nC=a\\\nb\n\nnothing\nD=\"x\\\"y\"\n");
        let pairs: Vec<(u32, &str, &str)> =
            read.iter().map(|(line, name, value)| (*line, name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [(3, "A", "one two"), (4, "B", "its"), (5, "C", "ab"), (9, "D", "x\"y")]);
    }

    #[test]
    fn systemctl_that_cannot_tell_says_why() {
        let say = |exit, text: &str, errors: &str| facts().with_exit(&KUBELET, exit, text, errors).unit("kubelet");
        assert_eq!(say(1, "", "No files found for kubelet.service.\n").unwrap_err().why, Why::Absent);
        let no_systemd = "System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to bus: Host is down\n";
        assert_eq!(say(1, "", no_systemd).unwrap_err().why, Why::NoSystemd);
        let denied = "\n  Failed to connect to bus: Permission denied\n";
        assert_eq!(
            say(1, "", denied).unwrap_err().why,
            Why::Broken("Failed to connect to bus: Permission denied".to_owned())
        );
        assert!(say(0, "# Unit kubelet.service is masked.\n", "").expect("known").masked);
        assert_eq!(facts().unit("sshd").unwrap_err().why, Why::NotCollected);
    }

    const SHOWN: &str = "MainPID=812\nNRestarts=3\nResult=success\nExecMainStatus=0\nId=containerd.service\nLoadState=loaded\n\
        ActiveState=active\nSubState=running\nFragmentPath=/lib/systemd/system/containerd.service\nUnitFileState=enabled\n\
        NeedDaemonReload=no\nConditionResult=yes\nInvocationID=0f4c\nEnvironment=HTTPS_PROXY=http://p:3128 \"NO_PROXY=a b\"\n\
        DropInPaths=/etc/systemd/system/containerd.service.d/http-proxy.conf\n\nMainPID=0\nResult=success\nExecMainStatus=0\n\
        Id=crio.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n";

    #[test]
    fn reads_the_state_of_each_unit() {
        let known = facts().with_query(&SHOW, SHOWN);
        let containerd = known.unit_state("containerd").expect("known");
        assert!(containerd.is_there() && containerd.is_active() && containerd.is_enabled() && !containerd.is_masked());
        assert_eq!(
            (containerd.main_pid, containerd.restarts, containerd.exec_main_status),
            (Some(812), Some(3), Some(0))
        );
        assert_eq!(containerd.environment, ["HTTPS_PROXY=http://p:3128", "NO_PROXY=a b"]);
        assert_eq!(containerd.invocation_id.as_deref(), Some("0f4c"));
        assert_eq!(containerd.fragment_path.as_deref(), Some("/lib/systemd/system/containerd.service"));
        assert_eq!(containerd.drop_in_paths, ["/etc/systemd/system/containerd.service.d/http-proxy.conf"]);
        assert!(containerd.condition_result && !containerd.need_daemon_reload);
        let crio = known.unit_state("crio").expect("known");
        assert!(!crio.is_there() && !crio.is_active() && !crio.is_enabled());
        assert_eq!(crio.main_pid, None);
        assert_eq!(known.unit_state("kubelet").unwrap_err().why, Why::Absent);
    }

    proptest! {
        #[test]
        fn any_text_is_a_unit(text in "([#/=\\[\\]\\\\$\"' a-zA-Z{}\n]|.)*") {
            let known = facts().with_query(&KUBELET, &text).with_query(&SHOW, &text).with_file(DEFAULTS, &text);
            let _ = (known.unit("kubelet"), known.kubelet_command(), known.unit_state("kubelet"));
            parse_environment_file(&text);
            expand(&Evidence::of("", ""), &text, &BTreeMap::new());
        }
    }
}
