//! `carrick cni wait` on machines whose pod network comes, stays away, or only seems to be there.

use std::thread;
use std::time::{Duration, Instant};

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{During, Error, Result};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::Run;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "cni wait ends as soon as pods get addresses, and names what they wait for where they do not, also on a Ready node",
    tier: Tier::Standard,
    covers: &[Covers::Verb("cni wait"), Covers::Verb("cni status")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const SHORT: &str = "cni wait --tries 1 --every 3";
const WITH_SANDBOX: &str = "cni wait --probe --tries 1 --every 3";

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    carrick.ends(bench, "cni status", 0, &["No pod network yet: normal before a join."])?;
    carrick.ends(bench, SHORT, 6, &["no pod network is configured in /etc/cni/net.d", "cni.config"])?;
    ends_when_it_works(bench, &carrick)?;
    seems_to_work(bench, &carrick)?;
    runtime_stopped(bench, &carrick)?;
    from_elsewhere(bench, &carrick, &program)?;
    read_only_directory(bench, &program)
}

/// Waiting begins before the join, and ends by itself with an address.
fn ends_when_it_works(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    let cluster = bench.cluster()?;
    let begun = Instant::now();
    let waited = thread::scope(|scope| {
        let waiting = scope.spawn(|| carrick.run("cni wait --probe"));
        let joined = cluster.join(&carrick.machine).and_then(|_| cluster.wait_ready(&carrick.machine.identity.name));
        let waited = waiting.join().unwrap_or_else(|_| Err(Error::Said("the waiting panicked".to_owned())));
        joined.and(waited)
    })?;
    bench.time("join to address", begun.elapsed());
    bench.say(waited.text());
    demand!(waited.code() == 0, "it ended with {}: {}", waited.code(), waited.text());
    demand!(waited.out.contains("a sandbox got 10."), "no address: {}", waited.text());
    demand!(waited.err.contains("no pod network is configured"), "no reason on the way: {}", waited.text());
    Ok(())
}

/// NetworkReady and a Ready Node, and no pod gets an address.
fn seems_to_work(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    const FULL: &str = "dir=/var/lib/cni/networks/cbr0; mkdir -p $dir; . /run/flannel/subnet.env; \
        net=${FLANNEL_SUBNET%.*}; for i in $(seq 2 254); do [ -e $dir/$net.$i ] || { printf full > $dir/$net.$i; }; done";
    for (breaks, line, id, fixes) in [
        ("mv /run/flannel/subnet.env /root/", SHORT, "cni.subnet-env", "cp /root/subnet.env /run/flannel/"),
        ("mv /opt/cni/bin/flannel /root/", SHORT, "cni.plugins", "mv /root/flannel /opt/cni/bin/"),
        (FULL, WITH_SANDBOX, "no IP addresses available", "grep -lx full /var/lib/cni/networks/cbr0/* | xargs rm"),
    ] {
        carrick.machine.run(["sh", "-ec", breaks]).ok()?;
        carrick.ends(bench, line, 6, &[id])?;
        let ready = bench.cluster()?.get(["node", &carrick.machine.identity.name])?;
        demand!(crate::cluster::condition(&ready, "Ready")["status"] == "True", "the node is not Ready: {ready}");
        none_left(carrick)?;
        carrick.machine.run(["sh", "-ec", fixes]).ok()?;
        carrick.ends(bench, WITH_SANDBOX, 0, &["a sandbox got 10."])?;
        none_left(carrick)?;
    }
    Ok(())
}

/// No sandbox of Carrick's is left in containerd.
fn none_left(carrick: &Carrick) -> Result<()> {
    let filter = "labels.\"io.carrick\"==sandbox-test";
    let left = carrick.machine.ok(["ctr", "-n", "k8s.io", "containers", "ls", "-q", filter])?;
    demand!(left.trim().is_empty(), "sandboxes are left: {left}");
    Ok(())
}

fn runtime_stopped(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    carrick.machine.ok(["systemctl", "stop", "containerd"])?;
    carrick.ends(bench, SHORT, 6, &["cri status"])?;
    carrick.machine.ok(["systemctl", "start", "containerd"])?;
    carrick.ends(bench, "cni wait", 0, &["the Node is Ready"])?;
    Ok(())
}

/// The same over SSH, the node's own credential and the sandbox included.
fn from_elsewhere(bench: &mut Bench, carrick: &Carrick, program: &std::path::Path) -> Result<()> {
    const DEADLINE: Duration = Duration::from_mins(2);
    let config = bench.logs.join("ssh_config");
    std::fs::write(&config, carrick.machine.ssh_config()).at("write", &config)?;
    let words = ["cni", "wait", "--probe", "-H", &carrick.machine.identity.name, "--ssh-config"];
    let done = Run::new(program).args(words).arg(&config).deadline(DEADLINE).done()?;
    bench.time("over ssh", done.took);
    demand!(done.code() == 0 && done.out.contains("the Node is Ready; a sandbox got 10."), "{}", done.text());
    none_left(carrick)
}

/// The configuration can never come: waiting says why, and sync says what stands in its way.
fn read_only_directory(bench: &mut Bench, program: &std::path::Path) -> Result<()> {
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, program)?;
    let read_only =
        "mkdir -p /etc/cni/net.d; mount --bind /etc/cni/net.d /etc/cni/net.d; mount -o remount,ro,bind /etc/cni/net.d";
    worker.run(["sh", "-ec", read_only]).ok()?;
    bench.cluster()?.join(&worker)?;
    let words = ["wait", "--for=create", &format!("node/{}", worker.identity.name), "--timeout=60s"];
    bench.cluster()?.kubectl(words).deadline(Duration::from_mins(2)).ok()?;
    carrick.ends(bench, SHORT, 6, &["filesystem.read-only", "no pod network is configured"])?;
    carrick.ends(bench, "cni sync --yes", 3, &["/etc/cni/net.d", "ead-only"])?;
    worker.ok(["umount", "/etc/cni/net.d"])?;
    // containerd watches what was mounted there.
    carrick.ends(bench, "cni sync --yes", 0, &["the runtime has loaded it"])?;
    carrick.ends(bench, "cni wait --probe", 0, &["a sandbox got 10."])?;
    Ok(())
}
