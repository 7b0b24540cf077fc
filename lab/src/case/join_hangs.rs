//! Something hangs in the middle of a join: the CNI plugin, systemctl, containerd. Nobody waits for more than ten seconds without a
//! word, the join ends by itself within what its stages may take, and names the cause; the machine is put back, or carrick says
//! what is not.

use std::time::Duration;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, fresh, joins, judge, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::Done;
use crate::stamped;
use crate::tier::Tier;
use crate::tree::Tree;

pub const CASE: Case = Case {
    about: "carrick join with a CNI plugin that hangs, a systemctl that hangs, a containerd that is SIGSTOPped: a word within every 10 s, an end within its stages, the cause, and the machine put back or what is left told",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Between any two lines, before the first, and after the last.
const SILENCE: Duration = Duration::from_secs(10);

/// Never reached: whoever calls it waits until it is killed.
const SLEEPS: &str = "#!/bin/sh\nexec sleep 100000\n";
/// On PATH before the real one.
const SYSTEMCTL: &str = "/usr/local/sbin/systemctl";
const HANGS_ON_RELOAD: &str = r#"#!/bin/sh
case " $* " in *" daemon-reload "*) exec sleep 100000;; esac
exec /usr/bin/systemctl "$@"
"#;

fn run(bench: &mut Bench) -> Result<()> {
    containerd(bench)?;
    systemctl(bench)?;
    plugin(bench)
}

/// It takes connections and answers none of them, from the moment kubeadm is at work.
fn containerd(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let before = Tree::of(&worker)?;
    let signal = |name: &str| format!("kill -{name} $(systemctl show --value --property=MainPID containerd)");
    // To look, 20 s of silence, to end kubeadm and the kubelet, and to put back.
    let within = Duration::from_secs(150);
    let joined = joined_with(bench, &worker, "containerd is SIGSTOPped", "ok  joining", &signal("STOP"), within)?;
    worker.ok(["sh", "-ec", &signal("CONT")])?;
    judge(&Ends::Cause("runtime.socket", 3), &joined)?;
    // A kubelet that had its certificate before the runtime was stopped is in the cluster: then the machine stays as it is.
    let certificate = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    if worker.run(["test", "-e", certificate]).done()?.status.success() {
        let says = "carrick join goes on from there";
        demand!(joined.text().contains(says), "it does not say {says:?}:\n{}", joined.text());
        nothing_left(&worker)?;
    } else {
        is_put_back(&worker, &before)?;
    }
    joins(bench, &worker).map(drop)
}

/// Preparation has to make systemd read the kubelet's drop-in, and so has whoever puts that back.
fn systemctl(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    worker.write(SYSTEMCTL, HANGS_ON_RELOAD)?;
    worker.ok(["chmod", "755", SYSTEMCTL])?;
    // 30 s for systemctl, forth and back, beside what a join takes.
    let within = Duration::from_secs(150);
    let joined = joined_with(bench, &worker, "systemctl daemon-reload hangs", "never", "", within)?;
    judge(&Ends::Cause("join.not-begun", 3), &joined)?;
    let text = joined.text().split_whitespace().collect::<Vec<_>>().join(" ");
    for says in ["systemctl daemon-reload: no end in", "not all of it could be cleaned up"] {
        demand!(text.contains(says), "it does not say {says:?}:\n{}", joined.text());
    }
    let token = worker.run(["test", "-e", "/run/carrick/join.yaml"]).done()?.status.success();
    demand!(!token, "the token is still there");
    // What could not be put back the next join ends.
    worker.ok(["rm", SYSTEMCTL])?;
    joins(bench, &worker).map(drop)
}

/// The node is in the cluster by then, and stays there; no pod can start on it.
fn plugin(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    worker.ok(["cp", "-a", "/opt/cni/bin/flannel", "/root/flannel"])?;
    worker.write("/opt/cni/bin/flannel", SLEEPS)?;
    worker.ok(["chmod", "755", "/opt/cni/bin/flannel"])?;
    // Two sandboxes of 40 s each; before them a join, which may have to wait for flannel's image.
    let within = Duration::from_mins(5);
    let joined = joined_with(bench, &worker, "the CNI plugin hangs", "never", "", within)?;
    judge(&Ends::Cause("runtime.slow", 3), &joined)?;
    nothing_left(&worker)?;
    worker.ok(["test", "-e", "/etc/kubernetes/kubelet.conf"])?;
    worker.ok([
        "sh",
        "-ec",
        "pkill -f '[s]leep 100000' || true; cp -a /root/flannel /opt/cni/bin/flannel; rm /root/flannel",
    ])?;
    joins(bench, &worker).map(drop)
}

/// A join of one attempt in which `then` is done once `words` were said. Held to its end and its words.
fn joined_with(
    bench: &mut Bench,
    worker: &Machine,
    what: &str,
    words: &str,
    then: &str,
    within: Duration,
) -> Result<Done> {
    let cluster = bench.cluster()?;
    let joined = stamped::join(worker, &line(cluster), words, then, within)?;
    let (longest, done) = (joined.longest_silence(), joined.done);
    bench.say(format_args!("{what}: ended with {}, longest silence {longest:.1?}\n{}", done.code(), done.text()));
    bench.time(what, done.took);
    demand!(longest <= SILENCE, "{what}: nothing was said for {longest:.1?}:\n{}", done.text());
    Ok(done)
}

fn is_put_back(worker: &Machine, before: &Tree) -> Result<()> {
    nothing_left(worker)?;
    let changes = Tree::of(worker)?.changes_since(before);
    demand!(changes.is_empty(), "it did not put everything back:\n{}", changes.join("\n"));
    Ok(())
}
