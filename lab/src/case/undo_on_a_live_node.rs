//! What was changed before a machine joined is taken back after it: what its node needs stays, unless somebody insists. What a person
//! joined by hand where a join was cut off is not Carrick's to end. Where nothing can be written down, nothing is changed.

use std::sync::Arc;
use std::time::Duration;

use super::join_killed::killed_at;
use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::fix::Fixer;
use crate::join::{fresh, is_joined, join, joins, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::pause;
use crate::tier::Tier;
use crate::tree::Tree;

pub const CASE: Case = Case {
    about: "undo on a node that joined since warns and keeps what the node needs, but for --force; a person's own kubeadm join after one that was cut off stays; a full /var/lib/carrick is refused before the first change",
    tier: Tier::Standard,
    covers: &[
        Covers::Verb("undo"),
        Covers::Verb("history"),
        Covers::Verb("check"),
        Covers::Verb("join"),
        Covers::Promise(4),
        Covers::Promise(7),
    ],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// What a machine lacks that nobody has prepared: the kernel's setting, and the file that would make it stay.
const UNPREPARED: &str = "sysctl -qw net.ipv4.ip_forward=0";
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
const FILE: &str = "/etc/sysctl.d/zzz-carrick.conf";

/// Times of files are told by the second: what comes after this is newer.
const NEWER: Duration = Duration::from_millis(2100);

fn run(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    nowhere_to_write(bench, &worker)?;
    needed_by_the_node(bench, &worker)?;
    somebody_elses(bench, &worker)
}

/// A disk for Carrick's records that has no room for one more.
const FULL: &str = "mkdir -p /var/lib/carrick && mount -t tmpfs -o size=64k,mode=700 tmpfs /var/lib/carrick
    head -c 1000000 /dev/zero > /var/lib/carrick/of-somebody-else || true";
const ROOM_AGAIN: &str = "umount /var/lib/carrick && rmdir /var/lib/carrick";

fn nowhere_to_write(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    let fixer = Fixer::on(bench, worker)?;
    worker.ok(["sh", "-c", UNPREPARED])?;
    worker.ok(["sh", "-c", FULL])?;
    let before = Tree::of(worker)?;
    let typed = line(bench.cluster()?);
    for (what, done) in [
        ("check --fix", fixer.check(&["--fix", "--yes"]).done()?),
        ("join", join(worker, &["env", "MAX_RETRIES=1"], &["-"], &typed)?),
    ] {
        bench.say(format_args!("{what} with a full /var/lib/carrick ended with {}\n{}", done.code(), done.text()));
        let said = done.text().split_whitespace().collect::<Vec<_>>().join(" ");
        demand!(done.code() == 3, "{what} ended with {}:\n{}", done.code(), done.text());
        demand!(said.contains("No space left on device"), "{what} does not say why:\n{}", done.text());
        let changes = Tree::of(worker)?.changes_since(&before);
        demand!(changes.is_empty(), "{what} could record nothing, and changed {changes:?}");
    }
    worker.ok(["sh", "-c", ROOM_AGAIN])?;
    Ok(())
}

fn needed_by_the_node(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    let fixer = Fixer::on(bench, worker)?;
    let carrick = Carrick::on(worker, &bench.carrick()?)?;
    let before = Tree::of(worker)?;
    fixer.fix()?;
    demand!(worker.ok(["cat", FORWARDING])?.trim() == "1", "check --fix did not turn forwarding on");
    demand!(!Tree::of(worker)?.changes_since(&before).is_empty(), "check --fix changed nothing");
    let is_there = || Ok::<_, crate::error::Error>(worker.run(["test", "-e", FILE]).done()?.status.success());
    demand!(is_there()?, "check --fix did not write {FILE}");
    joins(bench, worker)?;
    let name = worker.identity.name.clone();
    // The first run is that of check --fix: a join prepares in one of its own.
    let since = "this machine has joined a cluster since";
    let done = carrick.run("undo 1 --yes")?;
    bench.say(format_args!("undo 1 ended with {}\n{}", done.code(), done.text()));
    let said = done.text().split_whitespace().collect::<Vec<_>>().join(" ");
    demand!(matches!(done.code(), 3 | 4), "undo 1 ended with {}:\n{}", done.code(), done.text());
    demand!(said.contains(since) && said.contains("(--force)"), "undo 1 does not warn:\n{}", done.text());
    demand!(worker.ok(["cat", FORWARDING])?.trim() == "1" && is_there()?, "undo 1 took back what the node needs");
    let cluster = bench.cluster()?;
    cluster.wait_ready(&name)?;
    cluster.pod_answers(worker)?;
    let done = carrick.run("undo 1 --yes --force")?;
    bench.say(format_args!("undo 1 --force ended with {}\n{}", done.code(), done.text()));
    let said = done.text().split_whitespace().collect::<Vec<_>>().join(" ");
    demand!(done.code() == 0, "undo 1 --force ended with {}:\n{}", done.code(), done.text());
    demand!(said.contains(&format!("Warning: {since}")), "undo 1 --force does not warn:\n{}", done.text());
    demand!(!is_there()?, "undo 1 --force left {FILE}");
    // Whoever runs pods has turned it on again, or does so now.
    worker.ok(["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
    leaves(bench, worker)
}

fn leaves(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    Carrick::on(worker, &bench.carrick()?)?.ends(bench, "reset --yes --stop-pods", 0, &[])?;
    nothing_left(worker)?;
    let name = &worker.identity.name;
    bench.cluster()?.kubectl(["delete", "node", name, "--ignore-not-found"]).ok()?;
    Ok(())
}

/// How the node is that a person has joined: its credentials, its Node, its kubelet's process.
fn of_the_node(bench: &mut Bench, worker: &Machine) -> Result<[String; 3]> {
    let name = &worker.identity.name;
    let files = worker.ok(["sha256sum", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/pki/ca.crt"])?;
    let uid = bench.cluster()?.kubectl(["get", "node", name, "-o", "jsonpath={.metadata.uid}"]).ok()?;
    let kubelet = worker.ok(["systemctl", "show", "--value", "--property=MainPID", "kubelet"])?;
    Ok([files, uid, kubelet])
}

/// A join is killed while kubeadm works, its unit with it; somebody cleans up by hand, and joins with kubeadm alone.
fn somebody_elses(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    let at = killed_at(bench, worker, "joining")?;
    bench.say(format_args!("killed after {at}"));
    worker.ok([
        "sh",
        "-c",
        "systemctl stop carrick-kubeadm kubelet; systemctl reset-failed carrick-kubeadm || true",
    ])?;
    worker.ok(["kubeadm", "reset", "--force"])?;
    let name = worker.identity.name.clone();
    let cluster = bench.cluster()?;
    cluster.kubectl(["delete", "node", &name, "--ignore-not-found"]).ok()?;
    pause(NEWER)?;
    cluster.join(worker)?;
    cluster.wait_ready(&name)?;
    let before = of_the_node(bench, worker)?;
    let done = join(worker, &[], &["-"], &line(bench.cluster()?))?;
    bench.say(format_args!("the next carrick join ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == 0, "the next carrick join ended with {}:\n{}", done.code(), done.text());
    is_joined(bench.cluster()?, worker)?;
    let after = of_the_node(bench, worker)?;
    demand!(before == after, "the node of somebody else was {before:?}, and is {after:?}");
    leaves(bench, worker)
}
