//! A machine in memory that can be changed, and that can lose its power between any two changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carrick_core::fact::mounts::is_at_or_under;
use carrick_core::fact::{Capture, Source, Why, listing};
use carrick_core::reset::chains;
use carrick_core::reset::symlinks::LINKED;
use carrick_host::{
    BoxFuture, ByteStream, CommandOutput, File, Host, Lock, Locked, Observation, PathEntry, Probe, Progress, Target,
    Trouble, WriteMode, beside,
};
use jiff::Timestamp;
use tokio::time::sleep;

/// Paths and what is there; kernel settings, swaps and units by what the tools that show them print.
#[derive(Default)]
pub struct Machine {
    inner: Arc<Mutex<Inner>>,
    script: Option<Arc<dyn Script>>,
}

/// What programs on the machine do, where files and units do not tell it all; see [`crate::Worker`].
pub trait Script: Send + Sync {
    /// A command's end; `None`: the machine knows what it does.
    fn run(&self, machine: &Machine, argv: &[&str]) -> Option<CommandOutput>;

    /// The far end of a connection; `NotFound`: nobody is there.
    fn connect(&self, target: &Target) -> io::Result<Box<dyn ByteStream>>;

    /// A file that is never twice the same, as the kernel has them.
    fn file(&self, path: &str) -> Option<String>;

    fn now(&self) -> Timestamp;
}

#[derive(Debug, Default)]
struct Inner {
    files: BTreeMap<String, PathEntry>,
    swaps: Vec<String>,
    /// `enabled UNIT` and `active UNIT`.
    units: BTreeMap<String, bool>,
    /// Every change that was made, in order.
    changes: Vec<String>,
    /// How many more changes there is power for.
    power: Option<usize>,
    /// A path that cannot be written to, and why.
    full: Option<(String, &'static str)>,
    /// How many bytes there may be below a path.
    room: Option<(String, usize)>,
    /// When a file was last written, and what time it is, in seconds since 1970.
    written: BTreeMap<String, i64>,
    now: i64,
    /// What every command and every look takes.
    delay: Duration,
    /// What `TOOL-save` prints, by `TOOL`.
    rules: BTreeMap<String, String>,
    /// How commands begin that never end.
    hangs: Vec<Vec<String>>,
    /// How paths end that cannot be looked at, and how often.
    unseen: Option<(String, usize)>,
}

/// What a probe gives a source.
const TIME_BOX: Duration = Duration::from_secs(5);
/// Until what hangs is gone, once its time is over.
const KILLED: Duration = Duration::from_millis(50);

const MOUNTS: &str = "/proc/self/mountinfo";

/// What can be seen of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSnapshot {
    pub files: BTreeMap<String, PathEntry>,
    pub swaps: Vec<String>,
    /// Those that are on: `enabled UNIT`, `active UNIT`.
    pub units: Vec<String>,
    /// Of iptables, by program.
    pub rules: BTreeMap<String, String>,
}

impl Machine {
    /// This very machine, for whoever is handed one to hold.
    pub fn shared(&self) -> Arc<dyn Host> {
        Arc::new(Machine { inner: self.inner.clone(), script: self.script.clone() })
    }

    /// With these files, of root and mode 0644; the directories they are in are made.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let machine = Machine::default();
        for (path, text) in files {
            machine.inner().put(path, File::new(*text, 0o644));
        }
        machine
    }

    /// With programs that do as a script says.
    pub fn with_script(self, script: Arc<dyn Script>) -> Self {
        Machine { script: Some(script), ..self }
    }

    pub fn with_link(self, path: &str, to: &str) -> Self {
        self.inner().files.insert(path.to_owned(), PathEntry::Link(to.to_owned()));
        self
    }

    pub fn with_swap(self, device: &str) -> Self {
        self.inner().swaps.push(device.to_owned());
        self
    }

    /// With a unit that runs.
    pub fn with_running(self, unit: &str) -> Self {
        self.inner().set("active", unit, true);
        self
    }

    /// With a network interface: `cni0` is a bridge, `flannel.1` a vxlan, any other a card.
    pub fn with_card(self, name: &str) -> Self {
        let mut inner = self.inner();
        let cards = inner.text(CARDS) + &format!("{name}: 0 0\n");
        inner.put(CARDS, File::new(cards, 0o444));
        drop(inner);
        self
    }

    /// With rules of iptables, as `TOOL-save` prints them.
    pub fn with_rules(self, tool: &str, save: &str) -> Self {
        self.inner().rules.insert(tool.to_owned(), save.to_owned());
        self
    }

    /// The same machine as it was at the beginning of this call; what it does from now on does not change this one.
    pub fn copy(&self) -> Self {
        let Inner { files, swaps, units, rules, written, now, .. } = &*self.inner();
        let (files, swaps, units, rules) = (files.clone(), swaps.clone(), units.clone(), rules.clone());
        let inner = Inner { files, swaps, units, rules, written: written.clone(), now: *now, ..Inner::default() };
        Machine { inner: Arc::new(Mutex::new(inner)), script: None }
    }

    /// Power for this many changes more; `None`: for ever.
    pub fn power(&self, changes: Option<usize>) {
        self.inner().power = changes;
    }

    /// From now on nothing can be written below a path.
    pub fn fill(&self, path: &str) {
        self.inner().full = Some((path.to_owned(), "No space left on device"));
    }

    /// From now on a path is mounted read-only.
    pub fn mount_read_only(&self, path: &str) {
        self.inner().full = Some((path.to_owned(), "Read-only file system"));
    }

    /// From now on so many bytes more fit below a path: what is removed there makes room again.
    pub fn leave_room(&self, path: &str, bytes: usize) {
        let mut inner = self.inner();
        let used = inner.used(path);
        inner.room = Some((path.to_owned(), used + bytes));
    }

    /// What time it is, on a machine without a script.
    pub fn set_time(&self, now: Timestamp) {
        self.inner().now = now.as_second();
    }

    /// From now on every command, and every look at more than one file, takes so long.
    pub fn slow_down(&self, delay: Duration) {
        self.inner().delay = delay;
    }

    /// From now on no command that begins with these words ends.
    pub fn hang(&self, argv: &[&str]) {
        self.inner().hangs.push(argv.iter().map(|&word| word.to_owned()).collect());
    }

    /// The next looks at a path that ends so fail, so many of them.
    pub fn fail_looks(&self, end: &str, times: usize) {
        self.inner().unseen = Some((end.to_owned(), times));
    }

    /// What hung goes on.
    pub fn thaw(&self) {
        self.inner().hangs.clear();
    }

    fn hangs(&self, argv: &[&str]) -> bool {
        let begins =
            |words: &Vec<String>| words.iter().zip(argv).filter(|(word, at)| word == *at).count() == words.len();
        self.inner().hangs.iter().any(begins)
    }

    /// The mode of a file or a directory.
    pub fn mode(&self, path: &str) -> Option<u32> {
        match self.inner().files.get(path)? {
            PathEntry::File(File { mode, .. }) | PathEntry::Dir { mode, .. } => Some(*mode),
            PathEntry::Link(_) | PathEntry::Other(_) => None,
        }
    }

    /// The text of a file, by way of a link where it is one.
    pub fn text(&self, path: &str) -> Option<String> {
        let inner = self.inner();
        let Some(PathEntry::File(file)) = inner.files.get(inner.target(path)) else { return None };
        String::from_utf8(file.bytes.clone()).ok()
    }

    /// A program on the machine, not Carrick, makes a link.
    pub fn meddle_link(&self, path: &str, to: &str) {
        self.inner().files.insert(path.to_owned(), PathEntry::Link(to.to_owned()));
    }

    /// A program on the machine, not Carrick, makes a directory and those above it.
    pub fn meddle_dir(&self, path: &str) {
        self.inner().make_dirs(path);
    }

    /// A program on the machine, not Carrick, removes a file.
    pub fn meddle_remove(&self, path: &str) {
        self.inner().files.remove(path);
    }

    /// What a command prints and how it ends: by the script, or by the machine itself.
    fn command(&self, argv: &[&str]) -> CommandOutput {
        let scripted = self.script.as_ref().and_then(|script| script.run(self, argv));
        scripted.unwrap_or_else(|| self.inner().command(argv))
    }

    /// What an observation would give; `None` of what this machine knows nothing of.
    fn see(&self, source: &Source) -> Option<Result<Capture, Why>> {
        if let (Source::File(path), Some(script)) = (source, &self.script)
            && let Some(text) = script.file(path)
        {
            return Some(Ok(Capture::text(text)));
        }
        let Source::Query(query) = source else { return self.inner().see(source) };
        let CommandOutput { exit, out, errors, cut: _ } = self.command(query.argv);
        let capture = Capture { exit: Some(exit), errors, ..Capture::text(out) };
        Some(if exit == 127 { Err(Why::NoTool) } else { Ok(capture) })
    }

    /// Somebody else writes a file.
    pub fn meddle(&self, path: &str, text: &str) {
        self.inner().put(path, File::new(text, 0o644));
    }

    pub fn changes(&self) -> Vec<String> {
        self.inner().changes.clone()
    }

    /// All that can be seen of it but what is below a path.
    pub fn all_but(&self, hidden: &str) -> MachineSnapshot {
        let Inner { files, swaps, units, rules, .. } = &*self.inner();
        let files = files.iter().filter(|(path, _)| !path.starts_with(hidden));
        let files = files.map(|(path, entry)| (path.clone(), entry.clone())).collect();
        let units = units.iter().filter(|(_, on)| **on).map(|(unit, _)| unit.clone()).collect();
        MachineSnapshot { files, swaps: swaps.clone(), units, rules: rules.clone() }
    }

    /// What kubeadm does, one change after the other: it may be killed in between.
    fn kubeadm_reset(&self) -> Result<CommandOutput, Trouble> {
        for dir in ["/var/lib/kubelet", "/etc/kubernetes/manifests", "/etc/kubernetes/pki"] {
            self.change("clear", dir, |inner| {
                // It opens the directory by its name: a link in its place is followed.
                let dir = inner.target(dir).to_owned();
                inner.clear(&dir);
                Ok(())
            })?;
        }
        for file in ["/etc/kubernetes/kubelet.conf", "/etc/kubernetes/bootstrap-kubelet.conf"] {
            self.change("remove", file, |inner| {
                inner.files.remove(file);
                Ok(())
            })?;
        }
        Ok(CommandOutput::default())
    }

    async fn delay(&self) {
        let delay = self.inner().delay;
        if !delay.is_zero() {
            sleep(delay).await;
        }
    }

    /// What a command does, at once.
    fn run_now(&self, argv: &[&str]) -> Result<CommandOutput, Trouble> {
        if is_a_look(argv) {
            return Ok(self.command(argv));
        }
        if let ["systemd-run", .., "kubeadm", "reset", "--force", "--cri-socket", _] = argv {
            return self.kubeadm_reset();
        }
        // What a script does is noted before it is done, and the machine is free for it.
        self.change("run", &argv.join(" "), |_| Ok(())).map(|()| self.command(argv))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(script) = &self.script {
            inner.now = script.now().as_second();
        }
        inner
    }

    /// Makes one change, if there is power for it.
    fn change(
        &self,
        what: &str,
        path: &str,
        make: impl FnOnce(&mut Inner) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let mut inner = self.inner();
        if let Some(left) = inner.power.as_mut() {
            *left = left.checked_sub(1).ok_or_else(|| Trouble::new(path, "power cut"))?;
        }
        if let Some((_, why)) = inner.full.as_ref().filter(|(full, _)| path.starts_with(full)) {
            return Err(Trouble::new(path, why));
        }
        inner.changes.push(format!("{what} {path}"));
        make(&mut inner)
    }
}

impl Inner {
    fn see(&self, source: &Source) -> Option<Result<Capture, Why>> {
        match source {
            Source::File(path) => Some(match self.files.get(self.target(path)) {
                Some(PathEntry::File(file)) => Ok(Capture::text(String::from_utf8_lossy(&file.bytes))),
                _ => Err(Why::Absent),
            }),
            Source::Dir(path) | Source::Tree(path) if self.files.contains_key(*path) => {
                let inside = format!("{path}/");
                let names = self.files.iter().filter_map(|(file, entry)| Some((file.strip_prefix(&inside)?, entry)));
                let written = |name: &str| self.written.get(&format!("{inside}{name}")).copied().unwrap_or_default();
                let names = names.filter(|(name, _)| !name.contains('/'));
                let lines = names.map(|(name, entry)| listed(name, entry, written(name)));
                Some(Ok(Capture::text(lines.collect::<String>())))
            }
            Source::Dir(_) | Source::Tree(_) => Some(Err(Why::Absent)),
            Source::Query(_) | Source::Cri(_) | Source::Api(_) => None,
        }
    }

    /// Where a link leads, or the path itself.
    fn target<'a>(&'a self, path: &'a str) -> &'a str {
        match self.files.get(path) {
            Some(PathEntry::Link(to)) => to,
            _ => path,
        }
    }

    fn put(&mut self, path: &str, file: File) {
        self.make_dirs(path.rsplit_once('/').map_or("", |(parent, _)| parent));
        self.files.insert(path.to_owned(), PathEntry::File(file));
        self.written.insert(path.to_owned(), self.now);
    }

    /// The bytes of all files below a path.
    fn used(&self, path: &str) -> usize {
        let below = self.files.iter().filter(|(file, _)| file.starts_with(path));
        below.map(|(_, entry)| if let PathEntry::File(file) = entry { file.bytes.len() } else { 0 }).sum()
    }

    fn has_room(&self, path: &str, bytes: usize) -> Result<(), Trouble> {
        let is_full = |(full, most): &(String, usize)| path.starts_with(full) && self.used(full) + bytes > *most;
        if self.room.as_ref().is_some_and(is_full) {
            return Err(Trouble::new(path, "No space left on device"));
        }
        Ok(())
    }

    /// The file there is, or an empty one.
    fn file(&self, path: &str, mode: u32) -> File {
        match self.files.get(path) {
            Some(PathEntry::File(old)) => old.clone(),
            _ => File::new("", mode),
        }
    }

    fn make_dirs(&mut self, path: &str) {
        let mut dir = path;
        while !dir.is_empty() {
            self.files.entry(dir.to_owned()).or_insert(PathEntry::Dir { mode: 0o755, uid: 0, gid: 0 });
            dir = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
    }

    fn needs_parent(&self, path: &str) -> Result<(), Trouble> {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let there = parent.is_empty() || matches!(self.files.get(parent), Some(PathEntry::Dir { .. }));
        if there { Ok(()) } else { Err(Trouble::new(path, "No such file or directory")) }
    }

    fn command(&mut self, argv: &[&str]) -> CommandOutput {
        let well = |out: &str| CommandOutput { out: out.to_owned(), ..CommandOutput::default() };
        match argv {
            ["sh", "-c", script] if *script == LINKED.argv[2] => well(&self.symlinks()),
            ["sed", "-i", "-n", "-E", chains::LINES, file] => {
                let kept = self
                    .text(file)
                    .lines()
                    .filter(|line| is_of_chains(line))
                    .fold(String::new(), |all, line| all + line + "\n");
                self.put(file, File::new(kept, 0o600));
                well("")
            }
            ["systemctl", "daemon-reload"] | ["systemctl", "reset-failed", _] | ["modprobe", ..] | ["sh", "-c", _] => {
                well("")
            }
            ["systemctl", "is-enabled", unit] => {
                well(if self.is("enabled", unit) { "enabled\n" } else { "disabled\n" })
            }
            ["systemctl", "is-active", unit] => well(if self.is("active", unit) { "active\n" } else { "inactive\n" }),
            ["systemctl", verb @ ("enable" | "disable"), unit] => self.set("enabled", unit, *verb == "enable"),
            ["systemctl", verb @ ("start" | "stop"), unit] => self.set("active", unit, *verb == "start"),
            ["cat", "/proc/swaps"] => {
                let lines: String = self.swaps.iter().map(|device| format!("{device} file 65532 0 -2\n")).collect();
                well(&format!("Filename Type Size Used Priority\n{lines}"))
            }
            ["swapoff", "--", device] => {
                self.swaps.retain(|swap| swap != device);
                well("")
            }
            ["swapon", "--", device] => {
                self.swaps.push((*device).to_owned());
                well("")
            }
            ["sysctl", "-q", "-w", setting] => {
                let (key, value) = setting.split_once('=').unwrap_or_default();
                self.put(&format!("/proc/sys/{}", key.replace('.', "/")), File::new(format!("{value}\n"), 0o644));
                well("")
            }
            ["readlink", "-f", "--", path] => well(&format!("{}\n", self.target(path))),
            // What only looks, and finds nothing out of the ordinary.
            ["kubeadm", "version", ..] => well("v1.34.4\n"),
            ["ip", "-j", "route", ..] => well("[]"),
            ["ip", "-j", ..] => well(&self.links()),
            ["ip", "link", "delete", "dev", name] => {
                let cards = self.text(CARDS);
                let others = cards.lines().filter(|line| !line.starts_with(&format!("{name}:")));
                let others: String = others.map(|line| format!("{line}\n")).collect();
                self.put(CARDS, File::new(others, 0o444));
                well("")
            }
            // What runs in one has ended as soon as it was started, and well: systemd has forgotten it.
            ["systemctl", "show", .., unit] if unit.starts_with("carrick-") => {
                well(&format!("Id={unit}\nLoadState=not-found\nActiveState=inactive\n"))
            }
            ["systemctl", "show", ..] => {
                let state = if self.is("active", "kubelet") { "active" } else { "inactive" };
                well(&format!("Id=kubelet.service\nLoadState=loaded\nActiveState={state}\n"))
            }
            ["find", dir, "-xdev", "-mindepth", "1", "-delete"] => {
                self.clear(dir);
                well("")
            }
            ["find", dir, ..] => {
                let inside = format!("{dir}/");
                let files = self.files.iter().filter(|(path, entry)| path.starts_with(&inside) && is_file(entry));
                well(&files.map(|(path, _)| format!("{path}\n")).collect::<String>())
            }
            ["umount", "--", point] => self.unmount(point),
            [tool, rest @ ..] => self.iptables(tool, rest).unwrap_or_else(|| CommandOutput {
                exit: 127,
                out: String::new(),
                errors: format!("{}: not on this machine", argv.join(" ")),
                cut: false,
            }),
            [] => CommandOutput::default(),
        }
    }

    fn links(&self) -> String {
        let cards = self.text(CARDS);
        let names = cards.lines().filter_map(|line| line.split(':').next());
        let kind = |name: &str| match name {
            "cni0" => "bridge",
            "flannel.1" => "vxlan",
            _ => "",
        };
        let link = |name| serde_json::json!({"ifname": name, "linkinfo": {"info_kind": kind(name)}});
        serde_json::Value::from(names.map(link).collect::<Vec<_>>()).to_string()
    }

    /// The links where a reset deletes, as `find` prints them.
    fn symlinks(&self) -> String {
        let tops = ["/etc/kubernetes", "/var/lib/kubelet", "/etc/cni"];
        let is_there = |path: &str| tops.iter().any(|top| is_at_or_under(path, top));
        let is_of_pods = |path: &str| path.starts_with("/var/lib/kubelet/pods/");
        let links = self.files.iter().filter(|(path, _)| is_there(path) && !is_of_pods(path));
        let line = |(path, entry): (&String, &PathEntry)| match entry {
            PathEntry::Link(to) => format!("{path} -> {to}\n"),
            _ => String::new(),
        };
        links.map(line).collect()
    }

    /// Of a file; nothing where there is none.
    fn text(&self, path: &str) -> String {
        match self.files.get(path) {
            Some(PathEntry::File(file)) => String::from_utf8_lossy(&file.bytes).into_owned(),
            _ => String::new(),
        }
    }

    fn clear(&mut self, dir: &str) {
        let inside = format!("{dir}/");
        self.files.retain(|path, _| !path.starts_with(&inside));
    }

    fn unmount(&mut self, point: &str) -> CommandOutput {
        let table = self.text(MOUNTS);
        let lines: Vec<&str> = table.lines().filter(|line| line.split(' ').nth(4) != Some(point)).collect();
        if lines.len() == table.lines().count() {
            let errors = format!("umount: {point}: not mounted.");
            return CommandOutput { exit: 32, errors, ..CommandOutput::default() };
        }
        self.put(MOUNTS, File::new(lines.join("\n") + "\n", 0o644));
        CommandOutput::default()
    }

    /// `TOOL-save`, on stdout or with `-f FILE`, and `TOOL-restore … FILE` of `-D`, `-F` and `-X`.
    fn iptables(&mut self, program: &str, args: &[&str]) -> Option<CommandOutput> {
        let (tool, verb) = program.rsplit_once('-')?;
        let rules = self.rules.get(tool)?.clone();
        match (verb, args) {
            ("save", []) => return Some(CommandOutput { out: rules, ..CommandOutput::default() }),
            ("save", ["-f", file]) => self.put(file, File::new(rules, 0o644)),
            ("restore", ["--noflush", _, file]) => {
                let Some(PathEntry::File(script)) = self.files.get(*file) else { return None };
                let script = String::from_utf8_lossy(&script.bytes).into_owned();
                self.rules.insert(tool.to_owned(), restored(&rules, &script));
            }
            _ => return None,
        }
        Some(CommandOutput::default())
    }

    fn is(&self, what: &str, unit: &str) -> bool {
        self.units.get(&format!("{what} {unit}")).copied().unwrap_or_default()
    }

    fn set(&mut self, what: &str, unit: &str, value: bool) -> CommandOutput {
        self.units.insert(format!("{what} {unit}"), value);
        CommandOutput::default()
    }
}

/// Rules after a script of `iptables-restore --noflush`, in whatever table: the rules of these tests have no two alike.
fn restored(rules: &str, script: &str) -> String {
    let orders: BTreeSet<(&str, &str)> = script.lines().filter_map(|order| order.split_once(' ')).collect();
    let chain = |text: &'_ str| text.split(' ').next().unwrap_or_default().to_owned();
    let goes = |line: &&str| match (line.strip_prefix("-A "), line.strip_prefix(':')) {
        (Some(rule), _) => orders.contains(&("-D", rule)) || orders.contains(&("-F", &chain(rule))),
        (None, Some(text)) => orders.contains(&("-X", &chain(text))),
        (None, None) => false,
    };
    rules.lines().filter(|line| !goes(line)).fold(String::new(), |all, line| all + line + "\n")
}

/// What `sed` keeps by [`chains::LINES`].
fn is_of_chains(line: &str) -> bool {
    let named = |text: &str| chains::PREFIXES.iter().any(|prefix| text.contains(prefix));
    let of_ours = |rule: &str| chains::PREFIXES.iter().any(|prefix| rule.starts_with(prefix));
    line.starts_with('*')
        || line.starts_with("COMMIT")
        || line.starts_with(':') && named(line)
        || line.strip_prefix("-A ").is_some_and(|rule| !of_ours(rule) && named(rule))
}

fn listed(name: &str, entry: &PathEntry, mtime: i64) -> String {
    let mode = match entry {
        PathEntry::File(_) => "-rw-r--r--",
        PathEntry::Dir { .. } => "drwxr-xr-x",
        PathEntry::Link(_) => "lrwxrwxrwx",
        PathEntry::Other(_) => "srwxrwxrwx",
    };
    let target = match entry {
        PathEntry::Link(to) => Some(to.clone()),
        _ => None,
    };
    let (mode, name) = (mode.to_owned(), name.to_owned());
    listing::render(&listing::DirectoryEntry { mode, uid: 0, gid: 0, size: 0, mtime, name, target })
}

fn is_a_look(argv: &[&str]) -> bool {
    let saves = |program: &str| program.ends_with("tables-nft-save") || program.ends_with("tables-save");
    match argv {
        ["cat" | "readlink" | "journalctl" | "tail", ..] | ["systemctl", "is-enabled" | "is-active" | "show", ..] => {
            true
        }
        [program] => saves(program),
        _ => false,
    }
}

/// Where the kernel shows network interfaces, one a line.
const CARDS: &str = "/proc/net/dev";

fn is_file(entry: &PathEntry) -> bool {
    matches!(entry, PathEntry::File(_))
}

/// Looking needs no power of its own.
fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Probe for Machine {
    fn name(&self) -> &'static str {
        "m1"
    }

    fn now(&self) -> Timestamp {
        let own = || Timestamp::from_second(self.inner().now).unwrap_or_default();
        self.script.as_ref().map_or_else(own, |script| script.now())
    }

    fn observe<'a>(&'a self, sources: &'a [Source], _: &'a Progress) -> BoxFuture<'a, Vec<Observation>> {
        Box::pin(async move {
            self.delay().await;
            let hangs = |source: &Source| matches!(source, Source::Query(query) if self.hangs(query.argv));
            if sources.iter().any(hangs) {
                sleep(TIME_BOX + KILLED).await;
            }
            let see = |source| if hangs(source) { Some(Err(Why::TimedOut)) } else { self.see(source) };
            let seen = sources.iter().filter_map(|source| Some((source.key(), see(source)?)));
            seen.map(|(key, capture)| Observation { key, capture, redactions: Vec::new() }).collect()
        })
    }

    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, Why>> {
        ready(Err(Why::Absent))
    }

    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let nobody = || Err(io::ErrorKind::NotFound.into());
        ready(self.script.as_ref().map_or_else(nobody, |script| script.connect(target)))
    }
}

impl Host for Machine {
    fn look<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<PathEntry>, Trouble>> {
        let mut inner = self.inner();
        if let Some((_, times)) =
            inner.unseen.as_mut().filter(|(end, times)| path.ends_with(end.as_str()) && *times > 0)
        {
            *times -= 1;
            return ready(Err(Trouble::new(path, "Input/output error")));
        }
        ready(Ok(inner.files.get(path).cloned()))
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<String>, Trouble>> {
        let inner = self.inner();
        let inside = inner.files.keys().filter_map(|file| file.strip_prefix(path)?.strip_prefix('/'));
        ready(Ok(inside.filter(|name| !name.contains('/')).map(str::to_owned).collect()))
    }

    fn write<'a>(&'a self, path: &'a str, file: &'a File, how: WriteMode) -> BoxFuture<'a, Result<(), Trouble>> {
        let written = match how {
            WriteMode::Replace => {
                let temporary = beside(path);
                let into_it = |inner: &mut Inner| {
                    inner.needs_parent(path)?;
                    inner.has_room(path, file.bytes.len())?;
                    inner.put(&temporary, file.clone());
                    Ok(())
                };
                self.change("fill", &temporary, into_it).and_then(|()| {
                    self.change("rename to", path, |inner| {
                        inner.files.remove(&temporary);
                        inner.put(path, file.clone());
                        Ok(())
                    })
                })
            }
            WriteMode::InPlace => {
                let (half, _) = file.bytes.split_at(file.bytes.len() / 2);
                let begin = |inner: &mut Inner| {
                    inner.needs_parent(path)?;
                    inner.has_room(path, file.bytes.len())?;
                    let mut there = inner.file(path, 0o600);
                    let rest = there.bytes.split_off(half.len().min(there.bytes.len()));
                    there.bytes = [half, &rest].concat();
                    inner.put(path, there);
                    Ok(())
                };
                self.change("write half of", path, begin).and_then(|()| {
                    self.change("write", path, |inner| {
                        inner.put(path, file.clone());
                        Ok(())
                    })
                })
            }
            WriteMode::Append => {
                let (half, rest) = file.bytes.split_at(file.bytes.len() / 2);
                let add = |inner: &mut Inner, bytes: &[u8]| {
                    let mut whole = inner.file(path, file.mode);
                    whole.bytes.extend_from_slice(bytes);
                    inner.put(path, whole);
                };
                let begin = |inner: &mut Inner| {
                    inner.needs_parent(path)?;
                    inner.has_room(path, file.bytes.len())?;
                    add(inner, half);
                    Ok(())
                };
                self.change("append half to", path, begin).and_then(|()| {
                    self.change("append to", path, |inner| {
                        add(inner, rest);
                        Ok(())
                    })
                })
            }
        };
        ready(written)
    }

    fn link<'a>(&'a self, path: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), Trouble>> {
        ready(self.change("link", path, |inner| {
            inner.needs_parent(path)?;
            inner.files.insert(path.to_owned(), PathEntry::Link(to.to_owned()));
            Ok(())
        }))
    }

    fn make_dir<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<(), Trouble>> {
        if matches!(self.inner().files.get(path), Some(PathEntry::Dir { .. })) {
            return ready(Ok(()));
        }
        ready(self.change("make", path, |inner| {
            inner.needs_parent(path)?;
            inner.files.insert(path.to_owned(), PathEntry::Dir { mode, uid: 0, gid: 0 });
            Ok(())
        }))
    }

    fn set_mode<'a>(&'a self, path: &'a str, new: u32) -> BoxFuture<'a, Result<(), Trouble>> {
        ready(self.change("set the mode of", path, |inner| match inner.files.get_mut(path) {
            Some(PathEntry::File(File { mode, .. }) | PathEntry::Dir { mode, .. }) => {
                *mode = new;
                Ok(())
            }
            _ => Err(Trouble::new(path, "No such file or directory")),
        }))
    }

    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), Trouble>> {
        let inside = format!("{path}/");
        if !self.inner().files.contains_key(path) {
            // What is not there is removed already.
            return ready(Ok(()));
        }
        ready(self.change("remove", path, |inner| {
            if inner.files.keys().any(|file| file.starts_with(&inside)) {
                return Err(Trouble::new(path, "Directory not empty"));
            }
            inner.files.remove(path);
            Ok(())
        }))
    }

    fn run<'a>(&'a self, argv: &'a [&'a str], limit: Duration) -> BoxFuture<'a, Result<CommandOutput, Trouble>> {
        Box::pin(async move {
            self.delay().await;
            if self.hangs(argv) {
                sleep(limit + KILLED).await;
                return Err(Trouble::new(argv.join(" "), format!("no end in {} s", limit.as_secs())));
            }
            self.run_now(argv)
        })
    }

    fn lock<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Lock, Locked>> {
        ready(Ok(Lock::new(())))
    }
}
