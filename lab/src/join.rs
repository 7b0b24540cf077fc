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
use crate::fault::{self, KubeadmTimeouts, Scene, csr_by};
use crate::machine::{Kind, Machine};
use crate::remedy;
use crate::run::{Done, Run};
use crate::sighting::{self, Shows, ToldCause};
use crate::tier::Tier;
use crate::tree::Tree;

pub const PROGRAM: &str = "/usr/local/bin/carrick";
/// Longer than the longest of its own waits: it must be the one that gives up.
const DEADLINE: Duration = Duration::from_mins(8);

/// carrick's exit codes where it failed, and where the time was up.
const FAILED: i32 = 3;
const TIMED_OUT: i32 = 6;

/// One attempt, and half a minute for a certificate: what is named after that would be named after four, too.
pub const SHORT: [&str; 3] = ["env", "MAX_RETRIES=1", "JOIN_TIMEOUT=30"];

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
    /// Not joined, with this cause first; whether before its stage's time was over is luck.
    CauseAtSomeTime(&'static str),
    /// Nothing is tried: one line with these words, and this exit code.
    Line(&'static str, i32),
    /// Joined all the same; why that is right.
    Joined(&'static str),
    /// Not joined, with another cause first today and this exit code: `cause` is to be named, and is not yet.
    #[expect(dead_code, reason = "no row is owed today; one that is takes this line out")]
    Owed { today: &'static str, exit: i32, cause: &'static str },
    /// Not played; why.
    Elsewhere(&'static str),
}

/// What a join that failed leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// All as it was: it failed before the kubelet had its certificate.
    Everything,
    /// All as it was, on a machine that had joined before: its kubelet and its pods go on meanwhile.
    Alive,
    /// A node of the cluster, with nothing of the join itself.
    Node,
}

pub struct Row {
    pub fault: &'static str,
    /// From which tier on it is played.
    pub tier: Tier,
    /// From which tier on it is played alone, so that how soon it is told says something of carrick.
    pub alone: Tier,
    pub ends: Ends,
    /// Since when the cause could be seen. Most stood before the join; no other is as strict.
    shows: Shows,
    /// What the machine is like after it.
    leaves: Leaves,
    /// What its remedy says is done, and the machine joins.
    fixed: bool,
    /// The words that tell it, where it may pass and is waited for: else it is told at the end.
    told_by: Option<&'static str>,
}

const fn row(fault: &'static str, tier: Tier, ends: Ends) -> Row {
    Row {
        fault,
        tier,
        alone: Tier::Full,
        ends,
        shows: Shows::Beforehand,
        leaves: Leaves::Everything,
        fixed: false,
        told_by: None,
    }
}

impl Row {
    /// Its time is taken in every CI, too.
    const fn timed(self) -> Self {
        Self { alone: Tier::Quick, ..self }
    }

    const fn shown_by(self, shows: Shows) -> Self {
        Self { shows, ..self }
    }

    /// The machine had joined before.
    const fn alive(self) -> Self {
        Self { leaves: Leaves::Alive, ..self }
    }

    /// It goes wrong once the kubelet has its certificate.
    const fn stays(self) -> Self {
        Self { leaves: Leaves::Node, ..self }
    }

    /// Doing what is told is enough: it is done, as it was printed, and the machine joins.
    const fn fixed(self) -> Self {
        Self { fixed: true, ..self }
    }

    const fn told_by(self, words: &'static str) -> Self {
        Self { told_by: Some(words), ..self }
    }
}

/// Goes wrong on a node that has joined.
const LATER: Ends = Ends::Elsewhere("it goes wrong after the join: for carrick verify");

#[rustfmt::skip] // A table: one line a fault.
pub static ROWS: &[Row] = &[
    row("api-cut-in-mid-join", Tier::Quick, Ends::Cause("api.tcp", 6)).shown_by(Shows::File("/run/cut")).told_by("the API server does not answer any more"),
    row("api-refused", Tier::Quick, Ends::Cause("api.tcp", 3)),
    // The connection is taken at once and answered after 20 s: carrick does not wait for that, and says slow, not unreachable.
    row("api-slow", Tier::Standard, Ends::Cause("api.slow", 3)),
    row("api-unreachable", Tier::Standard, Ends::Cause("api.tcp", 3)),
    row("bad-node-name", Tier::Standard, Ends::Line("--node-name: \"Bad_Host\"", 2)),
    row("cgroup-driver-mismatch", Tier::Standard, Ends::Cause("runtime.cgroup-driver", 3)),
    row("clock-behind", Tier::Quick, Ends::Cause("time.skew", 3)),
    row("cni-conf-invalid", Tier::Quick, Ends::Cause("cni.config", 3)),
    row("cni-conf-moved", Tier::Standard, LATER),
    row("cni-conf-never-written", Tier::Standard, Ends::Cause("filesystem.read-only", 3)),
    // The file is of a network that is not here, neither its programs nor its pods: it was left, and will win over the cluster's own.
    row("cni-conf-shadowed", Tier::Standard, Ends::Cause("cni.first-file-wins", 3)),
    row("cni-folder-removed", Tier::Standard, LATER),
    row("cni-watch-lost", Tier::Standard, LATER),
    row("containerd-disk-full", Tier::Standard, Ends::Cause("filesystem.space", 3)),
    row("containerd-elsewhere", Tier::Standard, Ends::Cause("runtime.socket", 3)),
    row("containerd-restarted-in-mid-join", Tier::Standard, Ends::Joined("a runtime that comes back is no fault")),
    row("containerd-started-too-late", Tier::Standard, Ends::Joined("what kubeadm left is taken away first")),
    row("containerd-stopped", Tier::Quick, Ends::Cause("runtime.unit", 3)),
    row("containerd-stopped-later", Tier::Standard, LATER),
    row("cri-disabled", Tier::Standard, Ends::Cause("runtime.cri-plugin", 3)),
    row("csr-denied", Tier::Quick, Ends::Cause("csr.denied", 3)).shown_by(Shows::Denied).timed(),
    row("csr-never-approved", Tier::Standard, Ends::Cause("csr.pending", 6)).shown_by(Shows::Unsigned).told_by("nobody has signed the certificate request"),
    row("cut-off-later", Tier::Standard, LATER),
    row("dropin-missing", Tier::Standard, Ends::Cause("kubelet.standalone", 3)),
    row("dropin-missing-running", Tier::Standard, Ends::Cause("kubelet.standalone", 3)),
    row("expired-token", Tier::Quick, Ends::Cause("api.token", 3)).fixed(),
    row("firewalld-on", Tier::Quick, Ends::Cause("firewall.kubelet", 3)),
    row("flannel-crash-looping", Tier::Standard, Ends::CauseAtSomeTime("cni.daemon-crash-loop")).shown_by(Shows::Kubelet("restarting failed container=kube-flannel")).told_by("kube-flannel of pod kube-flannel").stays(),
    // Only the configuration that the network's own pod writes says which plugins are needed.
    row("flannel-plugin-missing", Tier::Quick, Ends::Cause("cni.plugins", 3)).shown_by(Shows::File("/etc/cni/net.d/10-flannel.conflist")).stays().timed(),
    row("ip-forward-off", Tier::Quick, Ends::Joined("it is set for this join; check goes on saying that no file does")),
    row("junk-manifest", Tier::Standard, Ends::Joined("the kubelet passes it by; check goes on saying it")),
    row("kube-proxy-crash-looping", Tier::Standard, Ends::Cause("kube-proxy.crash-loop", 6)).shown_by(Shows::Kubelet("kube-proxy.* with (RunContainerError|CrashLoopBackOff)")).told_by("kube-system/kube-proxy-").stays(),
    row("kubeadm-killed", Tier::Standard, Ends::Joined("what kubeadm left is taken away first")),
    row("kubeadm-missing", Tier::Quick, Ends::Cause("kubeadm.installed", 3)),
    row("kubelet-disk-full", Tier::Standard, Ends::Cause("filesystem.space", 3)),
    row("kubelet-masked", Tier::Quick, Ends::Cause("kubelet.masked", 3)),
    row("kubelet-missing", Tier::Standard, Ends::Cause("kubelet.installed", 3)),
    row("kubelet-stopped-later", Tier::Standard, Ends::Joined("the kubelet is started")),
    row("kubelet-too-old", Tier::Standard, Ends::Cause("kubeadm.same-minor", 3)),
    row("name-of-the-dead", Tier::Standard, Ends::Cause("api.node-name", 3)),
    row("name-taken", Tier::Quick, Ends::Cause("api.node-name", 3)),
    row("node-deleted-later", Tier::Quick, Ends::Cause("node.deleted", 3)).alive(),
    row("not-root", Tier::Quick, Ends::Cause("machine.privileges", 3)),
    row("pause-image-missing", Tier::Standard, Ends::Cause("runtime.sandbox-image", 3)),
    row("port-in-use", Tier::Quick, Ends::Cause("network.ports", 3)),
    row("reset-without-delete", Tier::Standard, Ends::Joined("the old Node is waited for until it is no longer Ready")),
    row("root-read-only", Tier::Quick, Ends::Cause("filesystem.read-only", 3)),
    // Which range the node has now is known once flannel has written it down.
    row("stale-bridge", Tier::Standard, Ends::Cause("cni.stale-bridge", 3)).shown_by(Shows::File("/run/flannel/subnet.env")).stays(),
    row("stale-files", Tier::Quick, Ends::Joined("what is of a join that is over is taken away first")),
    row("subnet-env-missing", Tier::Standard, LATER),
    row("swap-on", Tier::Quick, Ends::Cause("machine.swap", 3)).timed(),
    row("token-without-authentication", Tier::Standard, Ends::Cause("api.auth", 3)).fixed(),
    row("token-without-group", Tier::Quick, Ends::Cause("api.token-group", 3)).fixed(),
    row("token-without-signing", Tier::Standard, Ends::Cause("api.token", 3)).fixed(),
    row("ufw-on", Tier::Standard, Ends::Cause("firewall.kubelet", 3)),
    row("unknown-token", Tier::Standard, Ends::Cause("api.token", 3)).fixed(),
    // Which port the overlay uses is known once its link is there.
    row("vxlan-blocked", Tier::Standard, Ends::Cause("firewall.vxlan", 3)).shown_by(Shows::File("/run/flannel/subnet.env")).stays(),
    row("wrong-ca-hash", Tier::Quick, Ends::Cause("api.ca-pin", 3)),
    row("wrong-token-secret", Tier::Standard, Ends::Cause("api.token", 3)).fixed(),
];

impl Row {
    pub fn is_played(&self) -> bool {
        !matches!(self.ends, Ends::Elsewhere(_))
    }

    /// Whether it tells a cause, so that how soon can be asked.
    pub fn tells(&self) -> bool {
        matches!(self.ends, Ends::Cause(..) | Ends::CauseAtSomeTime(_) | Ends::Line(..) | Ends::Owed { .. })
    }

    /// Whether it ends because the time was up.
    pub fn waits_out_a_deadline(&self) -> bool {
        matches!(self.ends, Ends::Cause(_, TIMED_OUT) | Ends::CauseAtSomeTime(_))
    }

    /// Whether the whole machine is compared.
    pub fn leaves_everything(&self) -> bool {
        self.tells() && self.leaves == Leaves::Everything
    }

    /// What it is to do, and does not yet.
    pub fn owes(&self) -> Option<String> {
        match self.ends {
            Ends::Owed { today, cause, .. } => Some(format!("names {today} first, is to name {cause}")),
            Ends::Cause(..) | Ends::CauseAtSomeTime(_) | Ends::Line(..) | Ends::Joined(_) | Ends::Elsewhere(_) => None,
        }
    }

    /// How soon it was told.
    fn sighting(&self, scene: &Scene, done: &Done, started: Timestamp) -> Result<ToldCause> {
        let what = match self.ends {
            Ends::Cause(cause, exit) | Ends::Owed { today: cause, exit, .. } => format!("{cause}, exit {exit}"),
            Ends::CauseAtSomeTime(cause) => format!("{cause}, exit {}", done.code()),
            Ends::Line(_, exit) => format!("one line, exit {exit}"),
            Ends::Joined(_) | Ends::Elsewhere(_) => return said("nothing was to be told"),
        };
        let told = match self.told_by {
            None => done.took,
            Some(words) => done.heard.ok_or_else(|| Error::Said(format!("it did not say {words:?}")))?,
        };
        ToldCause::of(self.fault, what, self.shows, &sighting::ToldAt { started, told }, scene)
    }
}

/// Breaks a fresh machine, joins it with carrick, and compares how that ends with the row.
pub fn play(bench: &mut Bench, row: &Row) -> Result<()> {
    let cluster = bench.cluster()?;
    let fault = fault::find(row.fault)?.fault;
    let machine = bench.worker(fault.on)?;
    install(bench, &machine)?;
    let mut scene = Scene::new(bench.lab, bench.parts, cluster, Arc::clone(&machine), KubeadmTimeouts::Short)?;
    let played = (fault.put_in)(&mut scene).and_then(|()| {
        let before = row.tells().then(|| Tree::of(&machine)).transpose()?;
        let (done, started) = joined_meanwhile(&scene, row)?;
        bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
        bench.time("carrick", done.took);
        judge(&row.ends, &done)?;
        let Some(before) = before else {
            if let Ends::Joined(why) = row.ends {
                bench.say(format_args!("joined all the same: {why}"));
            }
            return is_joined(cluster, &machine);
        };
        let sighting = row.sighting(&scene, &done, started)?;
        is_left(row.leaves, &scene, &before)?;
        if row.fixed {
            mend(bench, &scene, &done)?;
        }
        bench.told(sighting)
    });
    played.and(scene.clear())
}

/// What the remedy says is done, and the machine joins: by the line that was printed, where one was.
fn mend(bench: &mut Bench, scene: &Scene, done: &Done) -> Result<()> {
    remedy::bring_kubectl(scene.cluster)?;
    let line = remedy::carry_out(scene.cluster, &scene.machine, &done.text())?;
    let joined = join(&scene.machine, &[], &["-"], &line.unwrap_or_else(|| scene.plain_join_line()))?;
    bench.say(format_args!("fixed as told: {}\n{}", joined.code(), joined.text()));
    demand!(joined.code() == 0, "what the remedy says is not enough:\n{}", joined.text());
    is_joined(scene.cluster, &scene.machine)
}

/// Nothing of the join is left; the rest is as it was, or a node that works for all but what is wrong with it.
fn is_left(leaves: Leaves, scene: &Scene, before: &Tree) -> Result<()> {
    nothing_left(&scene.machine)?;
    let changes = || Ok(Tree::of(&scene.machine)?.changes_since(before));
    match leaves {
        Leaves::Everything => return is_as_before(&changes()?),
        Leaves::Alive => return is_as_before(&without_a_nodes_own(changes()?)),
        Leaves::Node => {}
    }
    let node = scene.node()?.unwrap_or_default();
    let own = node["status"]["nodeInfo"]["systemUUID"] == scene.machine.identity.system_uuid;
    demand!(own, "the machine is no longer in the cluster: {node}");
    scene.on(&["systemctl", "is-active", "--quiet", "kubelet"])?;
    scene.on(&["test", "-e", "/var/lib/kubelet/pki/kubelet-client-current.pem"]).map(drop)
}

/// Without what the kubelet and the pods of a node change by themselves.
pub fn without_a_nodes_own(mut changes: Vec<String>) -> Vec<String> {
    const OWN: [&str; 10] = [
        // What it is about to put in the place of another file.
        "/kubelet/.",
        "/kubelet/pods/",
        "/kubelet/actuated_pods_state",
        "/kubelet/allocated_pods_state",
        "run/flannel",
        " container ",
        " link ",
        " route ",
        " mount ",
        " sysctl net.",
    ];
    changes.retain(|line| !OWN.iter().any(|own| line.contains(own)));
    changes
}

fn is_as_before(changes: &[String]) -> Result<()> {
    demand!(changes.is_empty(), "it did not put everything back:\n{}", changes.join("\n"));
    Ok(())
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

/// It is not joined, for this first of all.
fn names(cause: &str, text: &str) -> Result<()> {
    let named = first_cause(text);
    demand!(named == Some(cause), "it names {} first, not {cause}:\n{text}", named.unwrap_or("no cause"));
    let ends = ["Not joined.", "Registered, not verified."];
    demand!(ends.iter().any(|end| text.contains(end)), "it does not say that it is not joined:\n{text}");
    Ok(())
}

/// It ended so, and said what belongs to that.
pub fn judge(ends: &Ends, done: &Done) -> Result<()> {
    let (exit, text) = (done.code(), done.text());
    match ends {
        Ends::Cause(cause, expected) | Ends::Owed { today: cause, exit: expected, .. } => {
            demand!(exit == *expected, "it ended with {exit}, not {expected}:\n{text}");
            names(cause, &text)?;
        }
        Ends::CauseAtSomeTime(cause) => {
            demand!([FAILED, TIMED_OUT].contains(&exit), "it ended with {exit}:\n{text}");
            names(cause, &text)?;
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

/// The commands under the cause that stands first: what it says to do.
pub fn first_fixes(text: &str) -> Vec<String> {
    let under = text.lines().skip_while(|line| !line.starts_with("  !!  ")).skip(1);
    // The first cause's id, and what is indented below it.
    let of_first = under.skip_while(|line| !is_cause(line)).skip(1).take_while(|line| line.starts_with("        "));
    of_first.filter_map(|line| line.trim_start().strip_prefix("fix    ")).map(str::to_owned).collect()
}

fn is_cause(line: &str) -> bool {
    line.strip_prefix("      ").is_some_and(|rest| !rest.starts_with(' '))
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
    fn a_row_names_the_fault_s_own_cause_or_owes_it() {
        for row in ROWS {
            let own = fault::find(row.fault).unwrap().fault.cause;
            match row.ends {
                Ends::Cause(cause, _) | Ends::CauseAtSomeTime(cause) => {
                    assert_eq!(cause, own, "{}: what it is to name is owed", row.fault);
                }
                Ends::Owed { today, cause, .. } => {
                    assert_eq!(cause, own, "{}", row.fault);
                    assert_ne!(today, own, "{}: it is paid", row.fault);
                }
                // Why it names none.
                Ends::Line(why, _) | Ends::Joined(why) | Ends::Elsewhere(why) => assert!(!why.is_empty()),
            }
        }
    }

    #[test]
    fn the_first_cause_is_the_one_under_the_failure() {
        let text =
            "  ok  looked  x\n      said\n  !!  joining   why\n      runtime.unit certain\n        why\n      x y\n";
        assert_eq!(first_cause(text), Some("runtime.unit"));
        assert_eq!(first_cause("carrick: nothing\n"), None);
        let fixes = text.replace("        why\n", "        seen   x\n        fix    a b\n        fix    c    # d\n");
        assert_eq!(first_fixes(&fixes), ["a b", "c    # d"]);
    }
}
