//! The lab's tests: one file each, found by build.rs. A case gets fresh machines and a cluster, and says what it expects
//! of real programs. What it measures on the way is printed with its result.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::build::Parts;
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::error::{During, Error, Result};
use crate::fault::{self, Fault, KubeadmTimeouts, Scene};
use crate::lab::Lab;
use crate::machine::{Kind, Machine, net};
use crate::need::Need;
use crate::run::{Done, OWN, Run, open_log};
use crate::sighting::ToldCause;
use crate::tier::Tier;
use crate::{demand, up};

pub struct Case {
    /// What holds when it passes.
    pub about: &'static str,
    /// From which tier on it is played.
    pub tier: Tier,
    /// What it is a representative of; of the lab's own cases, nothing.
    pub covers: &'static [Covers],
    pub needs: &'static [Need],
    pub run: fn(&mut Bench) -> Result<()>,
}

pub struct RegisteredCase {
    pub name: &'static str,
    pub case: &'static Case,
}

include!(concat!(env!("OUT_DIR"), "/cases.rs"));

pub use api_fixture_orphaned::{HOLD, hold as hold_api};

/// A lab of its own: build looks around, a control plane comes up, perhaps while others do.
const OWN_LAB_DEADLINE: Duration = Duration::from_mins(8);

/// A program, running beside.
pub struct BackgroundProcess {
    child: Child,
    /// The line that was waited for.
    pub last_words: String,
    lines: mpsc::Receiver<String>,
}

impl BackgroundProcess {
    /// The last line that it has printed, once it has ended.
    pub fn last_line(&mut self) -> &str {
        // Something that it left running may hold its pipe.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
            self.last_words = line;
        }
        &self.last_words
    }

    /// Sends it a signal and waits for its end; its exit status, or 128 and the signal it died of.
    pub fn end_with(&mut self, signal: Signal, within: Duration) -> Result<i32> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, signal).during(|| "cannot signal this program".to_owned())?;
        }
        let begun = Instant::now();
        loop {
            let ended = self.child.try_wait().during(|| "cannot wait for this program".to_owned())?;
            if let Some(status) = ended {
                return Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()));
            }
            if begun.elapsed() > within {
                self.child.kill().and_then(|()| self.child.wait()).during(|| "cannot end this program".to_owned())?;
                return crate::error::said(format!("{} s after {signal:?} it still ran", within.as_secs()));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// How a case is played.
#[derive(Clone, Copy)]
pub struct Schedule {
    pub tier: Tier,
    /// No other case runs beside it.
    pub alone: bool,
}

/// What a case works with.
pub struct Bench<'a> {
    pub cache: &'a Cache,
    pub parts: &'a Parts,
    pub lab: &'a Lab,
    /// How many repeats, and whether a representative will do.
    pub tier: Tier,
    /// The folder for whatever it wants to keep; it stays where the case fails.
    pub logs: PathBuf,
    pub times: Vec<(String, Duration)>,
    /// Causes that were told.
    pub sightings: Vec<ToldCause>,
    /// No other case runs beside it.
    alone: bool,
    cluster: Option<&'a Cluster>,
    machines: Vec<Arc<Machine>>,
    log: File,
}

impl<'a> Bench<'a> {
    pub fn new(
        cache: &'a Cache,
        parts: &'a Parts,
        lab: &'a Lab,
        cluster: Option<&'a Cluster>,
        manner: Schedule,
        logs: &Path,
    ) -> Result<Self> {
        std::fs::create_dir_all(logs).at("make", logs)?;
        let log = open_log(&logs.join("log"))?;
        let (times, sightings, machines) = (Vec::new(), Vec::new(), Vec::new());
        let (logs, Schedule { tier, alone }) = (logs.to_owned(), manner);
        Ok(Self { cache, parts, lab, tier, logs, times, sightings, alone, cluster, machines, log })
    }

    pub fn cluster(&self) -> Result<&'a Cluster> {
        self.cluster.ok_or_else(|| Error::Said("this case did not say that it needs the cluster".to_owned()))
    }

    /// A fresh worker, booted, not joined. It is taken away when the case ends.
    pub fn worker(&mut self, kind: Kind) -> Result<Arc<Machine>> {
        let machine = up::worker(self.lab, self.parts, kind)?;
        self.say(format_args!("{} is up: {:?}", machine.identity.name, machine.identity));
        self.machines.push(Arc::clone(&machine));
        Ok(machine)
    }

    /// A fresh worker of a kind joins, is Ready, and runs a pod that answers; its Node says what it runs.
    pub fn joins(&mut self, kind: Kind, kubelet: &str, runtime: &str) -> Result<()> {
        let cluster = self.cluster()?;
        let begun = Instant::now();
        let worker = self.worker(kind)?;
        self.time("fresh machine", begun.elapsed());
        let name = &worker.identity.name;
        self.time("of that boot", worker.boot);
        let joined = cluster.join(&worker)?;
        self.time("join", joined);
        let ready = cluster.wait_ready(name)?;
        self.time("Ready", ready);
        let answered = cluster.pod_answers(&worker)?;
        self.time("pod answers", answered);
        let node = cluster.get(["node", name])?;
        let info = &node["status"]["nodeInfo"];
        demand!(info["kubeletVersion"] == kubelet, "the kubelet is {}, not {kubelet}", info["kubeletVersion"]);
        let running = info["containerRuntimeVersion"].as_str().unwrap_or_default();
        demand!(running.starts_with(runtime), "the runtime is {running}, not {runtime}");
        let bridged = &cluster.get(["daemonset", "-n", "kube-flannel", "kube-flannel-ds"])?["status"]["numberReady"];
        demand!(bridged.as_u64() >= Some(2), "flannel runs on {bridged} nodes only");
        Ok(())
    }

    /// A fresh worker is broken, and shows what it must.
    pub fn plays(&mut self, fault: &Fault) -> Result<BTreeSet<String>> {
        let cluster = self.cluster()?;
        let worker = self.worker(fault.on)?;
        let mut scene = Scene::new(self.lab, self.parts, cluster, worker, KubeadmTimeouts::Short)?;
        fault::play(&mut scene, fault)
    }

    /// This program itself, on a lab of its own, to its end.
    pub fn own_lab(&mut self, lab: &str, words: &[&str]) -> Result<Done> {
        let done = Run::new(OWN).args(["--lab", lab]).args(words).deadline(OWN_LAB_DEADLINE).done()?;
        self.say(format_args!("lab {} ended with {}\n{}", words.join(" "), done.status, done.text()));
        Ok(done)
    }

    /// This program itself, killed without warning some time after it said a word.
    pub fn kill_after(&mut self, word: &str, after: Duration, lab: &str, words: &[&str]) -> Result<()> {
        let mut child = self.start_until(word, lab, words)?;
        thread::sleep(after);
        child.end_with(Signal::KILL, Duration::from_secs(10)).map(drop)
    }

    /// This program itself, running, once it has said a word.
    pub fn start_until(&mut self, word: &str, lab: &str, words: &[&str]) -> Result<BackgroundProcess> {
        let command = Run::new(OWN).args(["--lab", lab]).args(words).into_command();
        self.start(command, "", word)
    }

    /// A command with this on its stdin, running, once it has said a word.
    pub fn start(&mut self, command: Command, input: &str, word: &str) -> Result<BackgroundProcess> {
        self.start_until_one(command, input, &[word])
    }

    /// The same, for who waits for one of several words.
    pub fn start_until_one<W: AsRef<str>>(
        &mut self,
        mut command: Command,
        input: &str,
        words: &[W],
    ) -> Result<BackgroundProcess> {
        let name = command.get_program().display().to_string();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.during(|| format!("cannot run {name}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // Who does not want it closes the pipe.
            let _ = stdin.write_all(input.as_bytes());
        }
        let out = child.stdout.take();
        let (tell, lines) = mpsc::channel();
        // It may have more to say after the word, and must find somebody who reads it.
        thread::spawn(move || {
            let lines = out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(io::Result::ok);
            lines.for_each(|line| drop(tell.send(line)));
        });
        let begun = Instant::now();
        let next = || lines.recv_timeout(OWN_LAB_DEADLINE.saturating_sub(begun.elapsed())).ok();
        let has_a_word = |line: &String| words.iter().any(|word| line.contains(word.as_ref()));
        let said = std::iter::from_fn(next).inspect(|line| self.say(line)).find(has_a_word);
        let mut running = BackgroundProcess { child, last_words: said.clone().unwrap_or_default(), lines };
        if said.is_none() {
            running.end_with(Signal::KILL, Duration::from_secs(10))?;
            let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
            return crate::error::said(format!("{name} ended, or took too long, before it said {words:?}"));
        }
        Ok(running)
    }

    /// The program as it is now, built beside this one: once, however many ask.
    pub fn carrick(&mut self) -> Result<PathBuf> {
        static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if built.is_none() {
            *built = Some(self.build_carrick()?);
        }
        built.clone().ok_or_else(|| Error::Said("carrick was not built".to_owned()))
    }

    fn build_carrick(&mut self) -> Result<PathBuf> {
        const BUILD_DEADLINE: Duration = Duration::from_mins(15);
        let begun = Instant::now();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // Crates that are not there yet come from outside the lab.
        net::enter_outer()?;
        let built = Run::new(cargo)
            // With this program, as `cargo xtask lab test` has built both.
            .args(["build", "--quiet", "--locked", "--package", "carrick", "--package", "carrick-lab"])
            .within(&workspace())
            .deadline(BUILD_DEADLINE)
            .narrated("building carrick")
            .ok();
        self.lab.enter()?;
        built?;
        self.time("carrick built", begun.elapsed());
        let own = std::env::current_exe().during(|| "cannot find this program".to_owned())?;
        let carrick = own.with_file_name("carrick");
        demand!(carrick.is_file(), "cargo built carrick, and not as {}", carrick.display());
        Ok(carrick)
    }

    /// Writes to the case's log.
    pub fn say(&mut self, words: impl Display) {
        let _ = writeln!(self.log, "{words}");
    }

    pub fn time(&mut self, what: impl Into<String>, took: Duration) {
        self.times.push((what.into(), took));
    }

    /// Keeps how soon a cause was told, and judges whether that was in time.
    pub fn told(&mut self, sighting: ToldCause) -> Result<()> {
        let sighting = sighting.held_to(self.alone);
        let in_time = sighting.in_time();
        self.sightings.push(sighting);
        in_time
    }

    /// Keeps what the machines and the API server have to say, for whoever looks into a failure.
    pub fn keep_evidence(&mut self) {
        for machine in self.machines.clone() {
            let name = &machine.identity.name;
            let journal = machine.run(["journalctl", "-b", "--no-pager", "-o", "short-iso"]).done();
            self.keep(&format!("{name}.journal"), journal.map(|done| done.text()));
        }
        if let Some(cluster) = self.cluster {
            for (file, words) in
                [("nodes", "get nodes -o yaml"), ("pods", "get pods -A -o wide"), ("events", "get events -A")]
            {
                let said = cluster.kubectl(words.split(' ')).done();
                self.keep(file, said.map(|done| done.text()));
            }
        }
    }

    fn keep(&mut self, file: &str, text: Result<String>) {
        let written = text.map(|text| std::fs::write(self.logs.join(file), text));
        if let Err(error) = written {
            self.say(format_args!("cannot keep {file}: {error}"));
        }
    }

    /// Takes the case's machines, and their nodes, away.
    pub fn clear(&mut self) -> Result<()> {
        for machine in std::mem::take(&mut self.machines) {
            machine.remove()?;
            if let Some(cluster) = self.cluster {
                cluster.delete_node(&machine.identity.name)?;
            }
        }
        Ok(())
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
