//! `carrick reset` where it must not go on, and what it must not touch where it does.

use std::sync::Arc;

use super::{Bench, Case};
use crate::build::image::BUSYBOX;
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "reset refuses control planes, foreign and busy mounts, pods nobody restarts; data, NICs and other rules stay",
    tier: Tier::Quick,
    covers: &[Covers::Verb("reset"), Covers::Verb("history"), Covers::Promise(4)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const REFUSED: &str = "refused, nothing was changed:";
const DATA: &str = "/var/lib/kubelet/data";
const MEDIA: &str = "/mnt/media";

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    let cluster = bench.cluster()?;
    let name = worker.identity.name.clone();
    cluster.join(&worker)?;
    cluster.wait_ready(&name)?;
    // Pods of DaemonSets, with volumes, are what every node has.
    cluster.pod_answers(&worker)?;
    // There is no NFS in this kernel: any other mount stands for it.
    for (place, from) in [(MEDIA, "nas:/media"), ("/srv/backup/var/lib/kubelet2", "backup")] {
        worker.ok(["mkdir", "-p", place])?;
        worker.ok(["mount", "-t", "tmpfs", from, place])?;
        worker.ok(["touch", &format!("{place}/film")])?;
    }
    refuses_marks_and_mounts(bench, &carrick)?;
    refuses_a_busy_volume(bench, &carrick)?;
    refuses_pods(bench, &carrick, &name)?;
    demand!(carrick.run("history -o json")?.out.trim().is_empty(), "something was changed by a reset that was refused");
    demand!(worker.ok(["systemctl", "is-active", "kubelet"])?.trim() == "active", "the kubelet was stopped");
    spares_the_rest(bench, &carrick, &worker)
}

fn refuses_marks_and_mounts(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    let worker = Arc::clone(&carrick.machine);
    worker.ok(["mkdir", "-p", "/var/lib/etcd/member"])?;
    carrick.ends(bench, "reset --yes", 3, &[REFUSED, "control plane (/var/lib/etcd/member)"])?;
    worker.ok(["rmdir", "/var/lib/etcd/member"])?;
    worker.ok(["touch", "/etc/kubernetes/admin.conf"])?;
    carrick.ends(bench, "reset --plan", 3, &[REFUSED, "control plane (/etc/kubernetes/admin.conf)"])?;
    worker.ok(["rm", "/etc/kubernetes/admin.conf"])?;
    worker.ok(["mkdir", DATA])?;
    worker.ok(["mount", "-t", "tmpfs", "data", DATA])?;
    worker.ok(["touch", &format!("{DATA}/mine")])?;
    carrick.ends(bench, "reset --yes --stop-pods", 3, &[REFUSED, "data on /var/lib/kubelet/data type tmpfs"])?;
    worker.ok(["test", "-e", &format!("{DATA}/mine")])?;
    worker.ok(["umount", DATA])?;
    worker.ok(["rmdir", DATA])?;
    for protected in ["/var/lib/kubelet/pods", "/etc/kubernetes", "/etc/cni/net.d/10-flannel.conflist"] {
        let line = format!("reset --yes --protect {protected}");
        carrick.ends(bench, &line, 3, &[REFUSED, &format!("--protect {protected}")])?;
    }
    carrick.ends(bench, "reset", 8, &["run kubeadm reset", "nothing was changed: there is no terminal"])?;
    Ok(())
}

fn refuses_a_busy_volume(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    let mounts = carrick.machine.ok(["cat", "/proc/mounts"])?;
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let volume = points.rfind(|point| point.starts_with("/var/lib/kubelet/pods/")).unwrap_or_default().to_owned();
    demand!(!volume.is_empty(), "no volume of a pod is mounted:\n{mounts}");
    let hold = ["systemd-run", "--unit=holder", "-p", &format!("WorkingDirectory={volume}"), "sleep", "600"];
    carrick.machine.ok(hold)?;
    carrick.ends(bench, "reset --yes --stop-pods", 3, &[REFUSED, "sleep (process ", &volume])?;
    carrick.machine.ok(["systemctl", "stop", "holder"]).map(drop)
}

fn refuses_pods(bench: &mut Bench, carrick: &Carrick, node: &str) -> Result<()> {
    let cluster = bench.cluster()?;
    cluster.apply(&include_str!("../../files/pod.yaml").replace("@NODE@", node).replace("@BUSYBOX@", BUSYBOX))?;
    let pod = format!("web-{node}");
    cluster.kubectl(["wait", "--for=condition=Ready", &format!("pod/{pod}"), "--timeout=60s"]).ok()?;
    let says = [REFUSED, "pods run here that no DaemonSet brings back:", &format!("default/{pod}"), "--stop-pods"];
    carrick.ends(bench, "reset --yes", 3, &says)?;
    cluster.kubectl(["delete", "pod", &pod, "--grace-period=0", "--force"]).ok()?;
    wait_for("its sandbox to go", std::time::Duration::from_mins(1), || {
        let planned = carrick.run("reset --plan")?;
        Ok(if planned.code() == 0 { Polled::Seen(()) } else { Polled::NotYet(planned.text()) })
    })
}

/// Rules that are not of Kubernetes, as they are printed.
fn other_rules(worker: &Machine, tool: &str) -> Result<String> {
    let saved = worker.ok([tool])?;
    let is_theirs = |line: &&str| ["KUBE-", "CNI-", "FLANNEL-"].iter().any(|name| line.contains(name));
    // Counters and the time of printing change by themselves.
    let plain = |line: &str| line.split(" [").next().unwrap_or_default().to_owned() + "\n";
    Ok(saved.lines().filter(|line| !line.starts_with('#') && !is_theirs(line)).map(plain).collect())
}

fn spares_the_rest(bench: &mut Bench, carrick: &Carrick, worker: &Machine) -> Result<()> {
    for tool in ["iptables", "iptables-legacy", "ip6tables"] {
        worker.ok([tool, "-N", "MINE"])?;
        worker.ok([tool, "-A", "MINE", "-m", "comment", "--comment", "goes to -j KUBE-SERVICES", "-j", "RETURN"])?;
        worker.ok([tool, "-A", "INPUT", "-p", "tcp", "--dport", "2222", "-j", "MINE"])?;
    }
    worker.ok(["iptables-legacy", "-N", "KUBE-OLD"])?;
    worker.ok(["iptables-legacy", "-A", "OUTPUT", "-j", "KUBE-OLD"])?;
    let tools = ["iptables-nft-save", "iptables-legacy-save", "ip6tables-nft-save"];
    let before = tools.map(|tool| other_rules(worker, tool));
    let links = worker.ok(["ip", "-br", "addr", "show", "dev", "host0"])?;
    carrick.ends(bench, "reset --plan -o json", 0, &["\"effect\": \"kubeadm-reset\"", "/etc/kubernetes/pki/ca.crt"])?;
    let done =
        carrick.ends(bench, "reset --yes", 0, &["delete the link cni0", "from iptables-legacy", "can join again"])?;
    bench.time("reset", done.took);
    for (tool, before) in tools.into_iter().zip(before) {
        let (before, after) = (before?, other_rules(worker, tool)?);
        demand!(before == after, "{tool} printed\n{before}and now\n{after}");
        let saved = worker.ok([tool])?;
        let left =
            saved.lines().find(|line| line.contains(":KUBE-") || line.contains(":CNI-") || line.contains(":FLANNEL-"));
        demand!(left.is_none(), "{tool} still has {left:?}");
    }
    worker.ok(["test", "-e", &format!("{MEDIA}/film")])?;
    worker.ok(["mountpoint", MEDIA])?;
    worker.ok(["mountpoint", "/srv/backup/var/lib/kubelet2"])?;
    worker.ok(["test", "-d", "/etc/cni/net.d"])?;
    demand!(worker.ok(["ls", "/etc/cni/net.d"])?.trim().is_empty(), "files are left in /etc/cni/net.d");
    demand!(worker.ok(["ip", "-br", "addr", "show", "dev", "host0"])? == links, "the network card has changed");
    demand!(worker.ok(["systemctl", "is-active", "containerd"])?.trim() == "active", "containerd was stopped");
    carrick.ends(bench, "undo --yes", 3, &["run 1 cannot be taken back", "join again"])?;
    carrick.ends(bench, "history", 0, &["reset by root", "done"]).map(drop)
}
