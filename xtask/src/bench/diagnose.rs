//! `carrick diagnose` on a large kubelet journal, beside programs that only count matching lines: ripgrep and grep.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use carrick_core::signature::{Library, Severity};

use super::extended::extended;
use super::release_binary;
use crate::target;

/// One line in so many is one that a signature recognises.
const HIT_EVERY: u64 = 200;
/// The bars: CPU time beside ripgrep's and grep's, memory, and how time grows with size (tenfold is 10).
const BESIDE_RIPGREP: f64 = 1.0;
const BESIDE_GREP: f64 = 20.0;
const MOST_MEMORY: u64 = 64 << 20;
const TENFOLD: f64 = 11.0;

/// What a healthy kubelet and containerd write, with `@` where a number stands.
const HEALTHY: &[&str] = &[
    r#"kubelet[@]: I1115 20:39:50.@    @ reconciler_common.go:251] "operationExecutor.VerifyControllerAttachedVolume started for volume \"kube-proxy\" (UniqueName: \"kubernetes.io/configmap/6e0d@-kube-proxy\") pod \"kube-proxy-x@\" (UID: \"6e0d@\") " pod="kube-system/kube-proxy-x@""#,
    r#"kubelet[@]: I1115 20:39:51.@    @ pod_startup_latency_tracker.go:104] "Observed pod startup duration" pod="kube-system/coredns-@" podStartSLOduration=@.5 podStartE2EDuration="@.5s" podCreationTimestamp="2026-11-15 20:39:49 +0000 UTC""#,
    r#"kubelet[@]: I1115 20:39:52.@    @ kubelet_getters.go:187] "Pod status updated" pod="kube-system/kube-proxy-x@" status="Running""#,
    r#"kubelet[@]: I1115 20:39:53.@    @ scope.go:117] "RemoveContainer" containerID="b2f9@e0""#,
    r#"kubelet[@]: I1115 20:39:54.@    @ kubelet.go:2421] "SyncLoop (PLEG): event for pod" pod="default/web-@" event={"ID":"ab@","Type":"ContainerStarted","Data":"c0@"}"#,
    r#"kubelet[@]: I1115 20:39:55.@    @ memory_manager.go:355] "RemoveStaleState removing state" podUID="7c@" containerName="flanneld""#,
    r#"kubelet[@]: I1115 20:39:56.@    @ desired_state_of_world_populator.go:154] "Finished populating initial desired state of world""#,
    r#"containerd[@]: time="2026-11-15T20:39:57.@Z" level=info msg="CreateContainer within sandbox \"c0@\" for container &ContainerMetadata{Name:flanneld,Attempt:0,}""#,
    r#"containerd[@]: time="2026-11-15T20:39:58.@Z" level=info msg="StartContainer for \"d1@\" returns successfully""#,
    r#"kubelet[@]: I1115 20:39:59.@    @ operation_generator.go:614] "MountVolume.SetUp succeeded for volume \"kube-api-access-x@\" (UniqueName: \"kubernetes.io/projected/7c@\") pod \"web-@\" (UID: \"7c@\") " pod="default/web-@""#,
];

pub fn diagnose(megabytes: u64, runs: usize) -> anyhow::Result<()> {
    ensure!(runs > 0 && megabytes >= 10, "--runs at least 1, --megabytes at least 10");
    let library = Library::built_in()?;
    let place = target().join("bench");
    fs::create_dir_all(&place)?;
    let (large, small) = (place.join("large.journal"), place.join("small.journal"));
    let _gone_afterwards = [Gone(large.clone()), Gone(small.clone())];
    let recognised = HEALTHY.iter().find(|line| library.finder().is_match(line.as_bytes()));
    ensure!(recognised.is_none(), "a line that is to be passed over holds a literal: {recognised:?}");
    write_journal(&large, megabytes << 20, &library)?;
    write_journal(&small, (megabytes << 20) / 10, &library)?;
    let patterns = Patterns::write(&library, &place)?;
    let (carrick, rg, grep) = (release_binary()?, ripgrep(&place)?, Path::new("grep"));

    let ours = ["diagnose", "-o", "json"].map(str::to_owned);
    let all = ["-c", "-f", &patterns.all].map(str::to_owned);
    let common = ["-c", "-f", &patterns.common].map(str::to_owned);
    let extended = ["-cE", "-f", &patterns.extended].map(str::to_owned);
    let (every, both) = (patterns.all_count, patterns.common_count);
    let mut contestants = [
        Contestant::new("carrick diagnose -o json", every, &carrick, &ours, &large),
        Contestant::new("carrick diagnose, a tenth of it", every, &carrick, &ours, &small),
        Contestant::new("rg -c -f", every, &rg, &all, &large),
        Contestant::new("rg -c -f, what grep can say too", both, &rg, &common, &large),
        Contestant::new("grep -cE -f, LC_ALL=C.UTF-8", both, grep, &extended, &large),
        Contestant { locale: "C", ..Contestant::new("grep -cE -f, LC_ALL=C", both, grep, &extended, &large) },
    ];
    // By turns: what else the machine does meets all of them.
    for _ in 0..runs {
        contestants.iter_mut().try_for_each(Contestant::run)?;
    }
    println!("{megabytes} MB of journal, 1 line in {HIT_EVERY} is a hit; CPU time, median of {runs}");
    println!("| what | patterns | CPU | peak memory |\n|---|---|---|---|");
    for one in &contestants {
        println!("| {} | {} | {:.2} s | {} MiB |", one.what, one.patterns, one.cpu(), one.memory() >> 20);
    }
    judge(&contestants)
}

fn judge([whole, tenth, by_rg, rg_common, in_utf8, in_c]: &[Contestant; 6]) -> anyhow::Result<()> {
    let counted = [rg_common, in_utf8, in_c].map(|one| one.printed.trim());
    ensure!(counted == [counted[0]; 3], "rg and grep do not look for the same: {counted:?} lines");
    // In a locale of UTF-8, which every distribution sets, and which carrick and ripgrep read as well. Bytes are less work.
    let (beside_rg, beside_grep) = (by_rg.cpu() / whole.cpu(), in_utf8.cpu() / whole.cpu());
    println!("grep's time / ours, where grep takes bytes for letters (LC_ALL=C): {:.1}", in_c.cpu() / whole.cpu());
    let growth = whole.cpu() / tenth.cpu();
    let bars = [
        ("ripgrep's time / ours", beside_rg, BESIDE_RIPGREP, beside_rg >= BESIDE_RIPGREP),
        ("grep's time / ours", beside_grep, BESIDE_GREP, beside_grep >= BESIDE_GREP),
        ("tenfold size, time", growth, TENFOLD, growth <= TENFOLD),
    ];
    for (what, value, bar, holds) in bars {
        println!("{what}: {value:.1} (bar {bar}) {}", if holds { "holds" } else { "DOES NOT HOLD" });
    }
    ensure!(whole.memory() < MOST_MEMORY, "bench diagnose: {} MiB is over 64 MiB", whole.memory() >> 20);
    if bars.iter().any(|(.., holds)| !holds) {
        bail!("bench diagnose: a bar does not hold");
    }
    println!("bench diagnose: all bars hold");
    Ok(())
}

/// A file that is taken away at the end, whatever the end.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_file(self.0.with_extension("printed"));
    }
}

fn write_journal(path: &Path, size: u64, library: &Library) -> anyhow::Result<()> {
    let bad = |severity| severity >= Severity::Warning;
    let hits: Vec<&str> = library
        .iter()
        .filter(|signature| bad(signature.severity))
        .flat_map(|signature| signature.hit.iter().map(|hit| hit.line.as_str()))
        .collect();
    let mut out = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    // The same journal every time: a plain linear congruence is random enough for digits.
    let mut state: u64 = 1;
    let mut number = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    let (mut written, mut line) = (0, 0);
    while written < size {
        line += 1;
        let text = if line % HIT_EVERY == 0 {
            format!("kubelet[1234]: {}", hits[usize::try_from(line / HIT_EVERY)? % hits.len()])
        } else {
            let template = HEALTHY[usize::try_from(number())? % HEALTHY.len()];
            template
                .split('@')
                .map(str::to_owned)
                .reduce(|text, next| format!("{text}{}{next}", number()))
                .unwrap_or_default()
        };
        let seconds = line / 100;
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let text = format!("Nov 15 {hour:02}:{minute:02}:{second:02} w1 {text}\n");
        out.write_all(text.as_bytes())?;
        written += text.len() as u64;
    }
    out.flush().map_err(Into::into)
}

/// Files of expressions, one a line.
struct Patterns {
    /// The signatures', without the names of their groups, which may not come twice in one expression.
    all: String,
    /// Those of them that grep can say too.
    common: String,
    /// The same as grep says them.
    extended: String,
    all_count: usize,
    common_count: usize,
}

impl Patterns {
    fn write(library: &Library, place: &Path) -> anyhow::Result<Self> {
        let bad = library.iter().filter(|signature| signature.severity >= Severity::Warning);
        let one_line = bad.map(|signature| signature.regex.as_str()).filter(|regex| !regex.contains('\n'));
        let all: Vec<String> = one_line.map(unnamed).collect();
        let (common, said): (Vec<&str>, Vec<String>) =
            all.iter().filter_map(|pattern| Some((pattern.as_str(), extended(pattern)?))).unzip();
        let write = |name: &str, patterns: String| {
            let path = place.join(name);
            fs::write(&path, patterns + "\n").map(|()| path.to_string_lossy().into_owned())
        };
        Ok(Patterns {
            all_count: all.len(),
            common_count: common.len(),
            all: write("patterns", all.join("\n"))?,
            common: write("patterns-of-both", common.join("\n"))?,
            extended: write("patterns-for-grep", said.join("\n"))?,
        })
    }
}

/// `(?P<name>x)` as `(x)`.
fn unnamed(pattern: &str) -> String {
    let mut parts = pattern.split("(?P<");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + "(" + part.split_once('>').map_or("", |(_, rest)| rest))
}

/// The newest ripgrep of the registry, built once.
fn ripgrep(place: &Path) -> anyhow::Result<PathBuf> {
    let root = place.join("ripgrep");
    let rg = root.join("bin/rg");
    if !rg.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo).args(["install", "--quiet", "ripgrep", "--root"]).arg(&root).status()?;
        ensure!(built.success(), "cargo install ripgrep failed");
    }
    let version = Command::new(&rg).arg("--version").output()?;
    print!("{}", String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default());
    println!();
    Ok(rg)
}

/// A program on a text, and what it cost.
struct Contestant<'p> {
    what: &'static str,
    patterns: usize,
    program: &'p Path,
    args: &'p [String],
    text: &'p Path,
    locale: &'static str,
    cpu: Vec<Duration>,
    memory: Vec<u64>,
    printed: String,
}

impl<'p> Contestant<'p> {
    fn new(what: &'static str, patterns: usize, program: &'p Path, args: &'p [String], text: &'p Path) -> Self {
        let (cpu, memory, printed) = (Vec::new(), Vec::new(), String::new());
        Contestant { what, patterns, program, args, text, locale: "C.UTF-8", cpu, memory, printed }
    }

    /// Seconds, of the run in the middle.
    fn cpu(&self) -> f64 {
        let mut cpu = self.cpu.clone();
        cpu.sort();
        cpu.get(cpu.len() / 2).map_or(0.0, Duration::as_secs_f64)
    }

    fn memory(&self) -> u64 {
        self.memory.iter().copied().max().unwrap_or_default()
    }

    /// Runs the program to its end: what it took of the processor, and of memory at its peak.
    fn run(&mut self) -> anyhow::Result<()> {
        let Contestant { program, args, text, locale, .. } = *self;
        let before = children_cpu()?;
        // Into a file: grep stops at its first hit where nobody reads what it prints.
        let printed = text.with_extension("printed");
        let mut command = Command::new(program);
        command.args(args).arg(text).env("LC_ALL", locale).stdout(File::create(&printed)?);
        let mut child = command.spawn().with_context(|| program.display().to_string())?;
        let mut memory = 0;
        let status = loop {
            // The high-water mark of a process goes with it: the last one read is the one that counts.
            memory = peak_memory(child.id()).unwrap_or(memory).max(memory);
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        ensure!(matches!(status.code(), Some(0 | 3 | 4)), "{} ended with {status}", program.display());
        self.cpu.push(children_cpu()?.saturating_sub(before));
        self.memory.push(memory);
        self.printed = fs::read_to_string(printed)?;
        Ok(())
    }
}

fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    kilobytes.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The processor time of children that have ended: fields 16 and 17 of /proc/self/stat, in hundredths of a second.
fn children_cpu() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<u64>().ok()).context("/proc/self/stat");
    Ok(Duration::from_millis((ticks(13)? + ticks(14)?) * 10))
}
