//! `carrick join` on the lab's machines: typed as a person would, and held to how it ends and to what it leaves. Every fault
//! is put in before one (`join-with-NAME`), and must be named: the table says how.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;

use crate::case::Bench;
use crate::cluster::Cluster;
use crate::demand;
use crate::error::{Error, Result, said};
use crate::fault::{self, Patience, Scene, csr_by};
use crate::machine::{Kind, Machine};
use crate::run::{Done, Run};
use crate::sighting::{self, Shows, Sighting};

pub const PROGRAM: &str = "/usr/local/bin/carrick";
/// Longer than the longest of its own waits: it must be the one that gives up.
const DEADLINE: Duration = Duration::from_mins(8);

/// One attempt, and half a minute for a certificate: what is named after that would be named after four, too.
const SHORT: [&str; 3] = ["env", "MAX_RETRIES=1", "JOIN_TIMEOUT=30"];

/// Where carrick writes down what a join did, and what kubeadm printed.
pub const JOINS: &str = "/var/lib/carrick/joins";

/// What holds a token, or holds the kubelet back: none of it may be there after a join, however it ended.
const GONE: [&str; 3] = [
    "/run/carrick/join.yaml",
    "/run/systemd/system/kubelet.service.d/90-carrick-join.conf",
    "/etc/kubernetes/bootstrap-kubelet.conf",
];

/// Puts the program of this tree on a machine.
pub fn install(bench: &mut Bench, machine: &Machine) -> Result<()> {
    let program = bench.carrick()?;
    machine.replace(PROGRAM, &program)
}

/// A fresh machine with the program of this tree on it.
pub fn fresh(bench: &mut Bench) -> Result<Arc<Machine>> {
    let worker = bench.worker(Kind::Debian12)?;
    install(bench, &worker)?;
    Ok(worker)
}

/// Puts an admin's kubeconfig on a machine; where it is.
pub fn bring_admin(cluster: &Cluster, machine: &Machine) -> Result<&'static str> {
    const PLACE: &str = "/root/admin.conf";
    machine.write(PLACE, &cluster.control.read("/etc/kubernetes/admin.conf")?)?;
    Ok(PLACE)
}

/// `carrick join` with the words behind it and this on stdin, to its end; `before` may run it as somebody else.
pub fn join(machine: &Machine, before: &[&str], words: &[&str], input: &str) -> Result<Done> {
    command(machine, before, words, input).done()
}

fn command(machine: &Machine, before: &[&str], words: &[&str], input: &str) -> Run {
    let argv = before.iter().chain(&[PROGRAM, "join"]).chain(words);
    machine.run(argv).input(input).deadline(DEADLINE)
}

/// The line kubeadm printed for the cluster.
pub fn line(cluster: &Cluster) -> String {
    cluster.join.join(" ")
}

/// A join by that line that has to work; the Node is Ready and nothing of ours is left on the machine.
pub fn joins(bench: &mut Bench, machine: &Machine) -> Result<Done> {
    let cluster = bench.cluster()?;
    let done = join(machine, &[], &["-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == 0, "carrick join ended with {}:\n{}", done.code(), done.text());
    is_joined(cluster, machine)?;
    Ok(done)
}

/// What carrick said is so: the Node is Ready, and nothing of ours is left.
pub fn is_joined(cluster: &Cluster, machine: &Machine) -> Result<()> {
    cluster.wait_ready(&machine.identity.name)?;
    nothing_left(machine)
}

pub fn nothing_left(machine: &Machine) -> Result<()> {
    for path in GONE {
        let there = machine.run(["test", "-e", path]).done()?.status.success();
        demand!(!there, "{path} is still there");
    }
    let unit = machine.ok(["systemctl", "show", "--property=LoadState", "carrick-kubeadm.service"])?;
    demand!(unit.trim() == "LoadState=not-found", "kubeadm's unit is still there: {unit}");
    Ok(())
}

/// How a join with a fault ends.
pub enum Ends {
    /// Not joined: this cause comes first, with this exit code.
    Cause(&'static str, i32),
    /// Nothing is tried: one line with these words, and this exit code.
    Line(&'static str, i32),
    /// Joined all the same; why that is right.
    Joined(&'static str),
    /// Not played; why.
    Elsewhere(&'static str),
}

pub struct Row {
    pub fault: &'static str,
    pub ends: Ends,
    /// Since when the cause could be seen. Most stood before the join; no other is as strict.
    shows: Shows,
    /// The words that tell it, where it may pass and is waited for: else it is told at the end.
    told_by: Option<&'static str>,
}

const fn row(fault: &'static str, ends: Ends) -> Row {
    Row { fault, ends, shows: Shows::Beforehand, told_by: None }
}

impl Row {
    const fn shown_by(self, shows: Shows) -> Self {
        Self { shows, ..self }
    }

    const fn told_by(self, words: &'static str) -> Self {
        Self { told_by: Some(words), ..self }
    }
}

/// Goes wrong on a node that has joined.
const LATER: Ends = Ends::Elsewhere("it goes wrong after the join: for carrick verify");

#[rustfmt::skip] // A table: one line a fault.
pub static ROWS: &[Row] = &[
    row("api-cut-in-mid-join", Ends::Cause("api.tcp", 6)).shown_by(Shows::File("/run/cut")).told_by("the API server does not answer any more"),
    row("api-refused", Ends::Cause("api.tcp", 3)),
    // A handshake that takes 20 s is one that does not come: nobody waits for it so long.
    row("api-slow", Ends::Cause("api.tls", 3)),
    row("api-unreachable", Ends::Cause("api.tcp", 3)),
    row("bad-node-name", Ends::Line("--node-name: \"Bad_Host\"", 2)),
    row("cgroup-driver-mismatch", Ends::Cause("runtime.cgroup-driver", 3)),
    row("clock-behind", Ends::Cause("time.skew", 3)),
    row("cni-conf-invalid", Ends::Cause("cni.config", 3)),
    row("cni-conf-moved", LATER),
    row("cni-conf-never-written", Ends::Cause("filesystem.read-only", 3)),
    // Before the pod network has written its own file there is none to be shadowed: what is wrong is that this one cannot work.
    row("cni-conf-shadowed", Ends::Cause("cni.plugins", 3)),
    row("cni-folder-removed", LATER),
    row("cni-watch-lost", LATER),
    row("containerd-disk-full", Ends::Cause("filesystem.space", 3)),
    row("containerd-elsewhere", Ends::Cause("runtime.socket", 3)),
    row("containerd-restarted-in-mid-join", Ends::Joined("a runtime that comes back is no fault")),
    row("containerd-started-too-late", Ends::Joined("what kubeadm left is taken away first")),
    row("containerd-stopped", Ends::Cause("runtime.unit", 3)),
    row("containerd-stopped-later", LATER),
    row("cri-disabled", Ends::Cause("runtime.cri-plugin", 3)),
    row("csr-denied", Ends::Cause("csr.denied", 3)).shown_by(Shows::Denied),
    row("csr-never-approved", Ends::Cause("csr.pending", 6)).shown_by(Shows::Unsigned).told_by("nobody has signed the certificate request"),
    row("cut-off-later", LATER),
    row("dropin-missing", Ends::Cause("kubelet.standalone", 3)),
    row("dropin-missing-running", Ends::Cause("kubelet.standalone", 3)),
    row("expired-token", Ends::Cause("api.token", 3)),
    row("firewalld-on", Ends::Joined("the node works; that nobody reaches its kubelet is a warning")),
    row("flannel-crash-looping", Ends::Elsewhere("Ready, and sandboxes start, between two crashes: for carrick verify --soak")),
    // Only the configuration that the network's own pod writes says which plugins are needed.
    row("flannel-plugin-missing", Ends::Cause("cni.plugins", 3)).shown_by(Shows::File("/etc/cni/net.d/10-flannel.conflist")),
    row("ip-forward-off", Ends::Joined("it is set for this join; check goes on saying that no file does")),
    row("junk-manifest", Ends::Joined("the kubelet passes it by; check goes on saying it")),
    row("kube-proxy-crash-looping", Ends::Elsewhere("it shows only in the restarts of a pod: for carrick verify --soak")),
    row("kubeadm-killed", Ends::Joined("what kubeadm left is taken away first")),
    row("kubeadm-missing", Ends::Cause("kubeadm.installed", 3)),
    row("kubelet-disk-full", Ends::Cause("filesystem.space", 3)),
    row("kubelet-masked", Ends::Cause("kubelet.masked", 3)),
    row("kubelet-missing", Ends::Cause("kubelet.installed", 3)),
    row("kubelet-stopped-later", Ends::Joined("the kubelet is started")),
    row("kubelet-too-old", Ends::Cause("kubeadm.same-minor", 3)),
    row("name-of-the-dead", Ends::Cause("api.node-name", 3)),
    row("name-taken", Ends::Cause("api.node-name", 3)),
    row("node-deleted-later", Ends::Cause("node.deleted", 3)),
    row("not-root", Ends::Line("nothing was changed: /run/carrick.lock: Permission denied; try as root", 3)),
    row("pause-image-missing", Ends::Cause("runtime.sandbox-image", 3)),
    row("port-in-use", Ends::Cause("network.ports", 3)),
    row("reset-without-delete", Ends::Joined("the old Node is waited for until it is no longer Ready")),
    row("root-read-only", Ends::Cause("filesystem.read-only", 3)),
    // Which range the node has now is known once flannel has written it down.
    row("stale-bridge", Ends::Cause("cni.stale-bridge", 3)).shown_by(Shows::File("/run/flannel/subnet.env")),
    row("stale-files", Ends::Joined("what is of a join that is over is taken away first")),
    row("subnet-env-missing", LATER),
    row("swap-on", Ends::Cause("machine.swap", 3)),
    row("ufw-on", Ends::Joined("the node works; that nobody reaches its kubelet is a warning")),
    row("unknown-token", Ends::Cause("api.token", 3)),
    row("vxlan-blocked", Ends::Joined("the node works; whether other nodes reach its pods only they can tell")),
    row("wrong-ca-hash", Ends::Cause("api.ca-pin", 3)),
    row("wrong-token-secret", Ends::Cause("api.token", 3)),
];

impl Row {
    pub fn is_played(&self) -> bool {
        !matches!(self.ends, Ends::Elsewhere(_))
    }

    /// How soon it was told.
    fn sighting(&self, scene: &Scene, done: &Done, started: Timestamp) -> Result<Sighting> {
        let what = match self.ends {
            Ends::Cause(cause, exit) => format!("{cause}, exit {exit}"),
            Ends::Line(_, exit) => format!("one line, exit {exit}"),
            Ends::Joined(why) | Ends::Elsewhere(why) => return said(format!("nothing was to be told: {why}")),
        };
        let told = match self.told_by {
            None => done.took,
            Some(words) => done.heard.ok_or_else(|| Error::Said(format!("it did not say {words:?}")))?,
        };
        Sighting::of(self.fault, what, self.shows, &sighting::Run { started, told }, scene)
    }
}

/// Breaks a fresh machine, joins it with carrick, and compares how that ends with the row.
pub fn play(bench: &mut Bench, row: &Row) -> Result<()> {
    let cluster = bench.cluster()?;
    let fault = fault::find(row.fault)?.fault;
    let machine = bench.worker(fault.on)?;
    install(bench, &machine)?;
    let mut scene = Scene::new(bench.lab, bench.parts, cluster, Arc::clone(&machine), Patience::Short)?;
    let played = (fault.put_in)(&mut scene).and_then(|()| {
        let (done, started) = joined_meanwhile(&scene, row)?;
        bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
        bench.time("carrick", done.took);
        judge(&row.ends, &done)?;
        if let Ends::Joined(why) = row.ends {
            bench.say(format_args!("joined all the same: {why}"));
            return is_joined(cluster, &machine);
        }
        nothing_left(&machine)?;
        bench.told(row.sighting(&scene, &done, started)?)
    });
    played.and(scene.clear())
}

/// The join and when it began, and what somebody does to it while it goes on.
fn joined_meanwhile(scene: &Scene, row: &Row) -> Result<(Done, Timestamp)> {
    let other_user: &[&str] = if scene.plan.as_root { &[] } else { &["runuser", "-u", "nobody", "--"] };
    let before: Vec<&str> = other_user.iter().chain(&SHORT).copied().collect();
    let (machine, cluster, token) = (Arc::clone(&scene.machine), scene.cluster, scene.plan.token.clone());
    let line = scene.plain_join_line();
    thread::scope(|scope| {
        let denying = (row.fault == "csr-denied").then(|| {
            scope.spawn(|| -> Result<()> {
                let request = csr_by(cluster, &token)?;
                let name = request["metadata"]["name"].as_str().unwrap_or_default();
                cluster.kubectl(["certificate", "deny", name]).ok().map(drop)
            })
        });
        let command = command(&machine, &before, &["-"], &line);
        let started = Timestamp::now();
        let done = row.told_by.into_iter().fold(command, Run::listen_for).done();
        denying.map_or(Ok(()), |denying| denying.join().unwrap_or_else(|_| said("denying panicked")))?;
        Ok((done?, started))
    })
}

/// It ended so, and said what belongs to that.
pub fn judge(ends: &Ends, done: &Done) -> Result<()> {
    let (exit, text) = (done.code(), done.text());
    match ends {
        Ends::Cause(cause, expected) => {
            let named = first_cause(&text);
            demand!(exit == *expected, "it ended with {exit}, not {expected}:\n{text}");
            demand!(named == Some(cause), "it names {} first, not {cause}:\n{text}", named.unwrap_or("no cause"));
            demand!(text.contains("Not joined."), "it does not say that it is not joined:\n{text}");
        }
        Ends::Line(words, expected) => {
            demand!(exit == *expected && text.trim().lines().count() == 1, "it ended with {exit}:\n{text}");
            demand!(text.contains(words), "it does not say {words:?}:\n{text}");
        }
        Ends::Joined(_) => {
            demand!(exit == 0 && text.contains("joined: verified after"), "it ended with {exit}:\n{text}");
        }
        Ends::Elsewhere(why) => return said(format!("not to be played: {why}")),
    }
    Ok(())
}

/// The id of the cause that stands first on the screen: under the line with the failure.
fn first_cause(text: &str) -> Option<&str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("  !!  ")).skip(1);
    lines.find_map(|line| line.strip_prefix("      ").filter(|rest| !rest.starts_with(' ')))?.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_one_row() {
        let rows: Vec<&str> = ROWS.iter().map(|row| row.fault).collect();
        let faults: Vec<&str> = fault::FAULTS.iter().map(|fault| fault.name).collect();
        assert_eq!(rows, faults);
    }

    #[test]
    fn the_first_cause_is_the_one_under_the_failure() {
        let text =
            "  ok  looked  x\n      said\n  !!  joining   why\n      runtime.unit certain\n        why\n      x y\n";
        assert_eq!(first_cause(text), Some("runtime.unit"));
        assert_eq!(first_cause("carrick: nothing\n"), None);
    }
}
