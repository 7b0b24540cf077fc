//! `carrick check --fix` on a machine of the lab: what it finds, plans, fixes and takes back, and the tree it leaves.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::carrick::{Carrick, DEADLINE, PLACE};
use crate::case::Bench;
use crate::demand;
use crate::error::{Error, Result, said};
use crate::machine::Machine;
use crate::run::{Done, Run};
use crate::tree::difference;

const TOKEN: &str = "/root/token";

/// As `--time-box` takes it, in seconds: a machine of the lab is slow while others work, and slower under strace.
const TIME_BOX: &str = "25";

/// Whatever a fix may touch, and what is around it. Times are not compared: what was put back is newer.
const TREE: &str = "cd / && find etc opt/cni var/lib/kubelet run/systemd/system run/systemd/generator \
    \\( -type f -exec sha256sum {} + \\) -o -true | sort -k2; \
    find etc opt/cni var/lib/kubelet run/systemd/system run/systemd/generator -printf '%p %y %m %U %G %l\\n' | sort";

/// A machine with much to fix, all of it in one plan.
pub const BROKEN_IN_MANY_WAYS: &str = "
    sysctl -qw net.ipv4.ip_forward=0; echo 'net.ipv4.ip_forward = 0' > /etc/sysctl.d/zz-hardening.conf
    mkdir -p /lib/modules/$(uname -r); cd /lib/modules/$(uname -r); : > modules.builtin
    echo 'kernel/net/bridge/br_netfilter.ko:' > modules.dep; rm /etc/modules-load.d/kubernetes.conf
    printf '/swapfile none swap sw 0 0\\n' >> /etc/fstab
    sed -i -e '1i SystemdCgroup = true' -e 's/SystemdCgroup = false/SystemdCgroup = true/' /etc/containerd/config.toml
    chmod 777 /etc/cni/net.d
    rm /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf
    systemctl -q disable --now kubelet; systemctl restart containerd; systemctl daemon-reload";

/// A way to break a machine that `check --fix` fixes.
pub struct State {
    pub about: &'static str,
    /// Breaks a sound machine.
    pub put_in: &'static str,
    /// What `carrick check` then finds wrong, besides what it found before.
    pub wrong: &'static [&'static str],
    /// Whether containers can start afterwards: with containerd's own defaults they cannot in the lab, where root lacks a
    /// capability.
    pub joins: bool,
}

pub const fn state(about: &'static str, put_in: &'static str, wrong: &'static [&'static str]) -> State {
    State { about, put_in, wrong, joins: true }
}

/// Breaks a machine, fixes it, takes that back byte for byte, fixes it again, and joins it.
pub fn play(bench: &mut Bench, machine: &Arc<Machine>, state: &State) -> Result<()> {
    let fixer = Fixer::on(bench, machine)?;
    let sound = fixer.wrong()?;
    machine.run(["sh", "-ec", state.put_in]).ok()?;
    let broken = fixer.wrong()?;
    bench.say(format_args!("{}\n  sound: {sound:?}\n  broken: {broken:?}", state.about));
    for id in state.wrong {
        demand!(broken.contains(*id), "{id} is not found; found are {broken:?}");
    }
    let before = fixer.tree()?;
    fixes(bench, &fixer, &sound)?;
    let undone = fixer.undo_all()?;
    demand!(undone > 0, "nothing was there to take back");
    let changed = difference(&before, &fixer.tree()?);
    demand!(changed.is_empty(), "undo gave something else back:\n{}", changed.join("\n"));
    fixes(bench, &fixer, &sound)?;
    if state.joins {
        let cluster = bench.cluster()?;
        cluster.join(machine)?;
        cluster.wait_ready(&machine.identity.name)?;
    }
    Ok(())
}

fn fixes(bench: &mut Bench, fixer: &Fixer, sound: &BTreeSet<String>) -> Result<()> {
    let done = fixer.fix()?;
    bench.say(done.text());
    let left = fixer.left(sound)?;
    demand!(left.is_empty(), "still wrong after check --fix: {left:?}\n{}", done.text());
    Ok(())
}

pub struct Fixer {
    carrick: Carrick,
    /// The cluster, as every command names it.
    target: Vec<String>,
}

impl Fixer {
    /// Puts the program of this tree on a machine, with what it needs to ask the cluster.
    pub fn on(bench: &mut Bench, machine: &Arc<Machine>) -> Result<Self> {
        let program = bench.carrick()?;
        let carrick = Carrick::on(machine, &program)?;
        let join = &bench.cluster()?.join;
        let word = |before: &str| {
            let at = join.iter().position(|word| word == before);
            let found = at.and_then(|at| join.get(at + 1)).cloned();
            found.ok_or_else(|| Error::Said(format!("kubeadm printed no {before}")))
        };
        let (api, token, pin) = (word("join")?, word("--token")?, word("--discovery-token-ca-cert-hash")?);
        machine.write(TOKEN, &format!("{token}\n"))?;
        let target = ["--api", &api, "--token-file", TOKEN, "--ca-hash", &pin, "--time-box", TIME_BOX];
        let target = target.map(str::to_owned).to_vec();
        Ok(Fixer { carrick, target })
    }

    /// `carrick check` with these words behind it.
    pub fn check(&self, more: &[&str]) -> Run {
        self.under(&[], more)
    }

    /// The same under another program, such as strace.
    pub fn under(&self, before: &[&str], more: &[&str]) -> Run {
        let words = before.iter().copied().chain([PLACE, "check"]).map(str::to_owned);
        let words = words.chain(self.target.iter().cloned()).chain(more.iter().map(|&word| word.to_owned()));
        self.carrick.machine.run(words).deadline(DEADLINE)
    }

    /// The ids of the checks that fail or warn.
    pub fn wrong(&self) -> Result<BTreeSet<String>> {
        let report = json(&self.check(&["-o", "json"]).done()?)?;
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        demand!(!findings.is_empty(), "carrick found nothing at all: {report}");
        let wrong = findings.iter().filter(|finding| matches!(finding["verdict"].as_str(), Some("fail" | "warn")));
        Ok(wrong.filter_map(|finding| finding["id"].as_str().map(str::to_owned)).collect())
    }

    /// What is wrong that was not wrong before, at every look: the API server of a busy lab may be slow once.
    pub fn left(&self, sound: &BTreeSet<String>) -> Result<Vec<String>> {
        const LOOKS: usize = 3;
        let mut left: Vec<String> = self.wrong()?.difference(sound).cloned().collect();
        for _ in 1..LOOKS {
            if !left.is_empty() {
                let again = self.wrong()?;
                left.retain(|id| again.contains(id));
            }
        }
        Ok(left)
    }

    /// What `--fix` would do: its steps.
    pub fn plan(&self) -> Result<Vec<Value>> {
        let plan = json(&self.check(&["--fix", "--plan", "-o", "json"]).done()?)?;
        Ok(plan["steps"].as_array().cloned().unwrap_or_default())
    }

    /// Fixes what can be fixed, without asking. The machine may still have what was wrong before.
    pub fn fix(&self) -> Result<Done> {
        let done = self.check(&["--fix", "--yes"]).done()?;
        demand!(matches!(done.code(), 0 | 3 | 4), "check --fix ended with {}: {}", done.status, done.text());
        demand!(!done.text().contains("carrick: "), "check --fix gave up: {}", done.text());
        Ok(done)
    }

    /// Takes back every run, the newest first.
    pub fn undo_all(&self) -> Result<usize> {
        /// More runs than any case makes.
        const MOST: usize = 40;
        for undone in 0..MOST {
            let done = self.carrick.run("undo --yes")?;
            if done.text().contains("there is no run to take back") {
                return Ok(undone);
            }
            done.success()?;
        }
        said("there was always another run to take back")
    }

    /// Every file, link and directory that a fix could have touched: its mode, its owner, its content.
    pub fn tree(&self) -> Result<String> {
        self.carrick.machine.ok(["sh", "-c", TREE])
    }
}

fn json(done: &Done) -> Result<Value> {
    serde_json::from_str(&done.out).map_err(|error| Error::Said(format!("no JSON ({error}): {}", done.text())))
}

/// Puts a program of this machine, with the libraries it needs, on a machine of the lab.
pub fn bring(machine: &Machine, program: &Path) -> Result<()> {
    let listed = Run::new("ldd").arg(program).ok()?;
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    for library in libraries {
        if machine.run(["test", "-e", library]).done()?.code() != 0 {
            machine.replace(library, Path::new(library))?;
        }
    }
    machine.replace(&program.display().to_string(), program)
}
