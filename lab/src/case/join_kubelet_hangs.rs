//! A kubelet that hangs (SIGSTOP) in the middle of a join is told as not answering within 5 s; it goes on, and so does the join.
//! On a node that has joined, live `diagnose` sees it, also by its lease. A `kubeadm reset` by hand in mid-join is noticed.

use std::sync::Arc;
use std::time::Duration;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::fault::{KubeadmTimeouts, Scene};
use crate::join::{Ends, fresh, is_joined, joins, judge, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::pause;
use crate::sighting::{MeasuredAt, ToldCause, written};
use crate::stamped;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join with a kubelet that is SIGSTOPped, and with a kubeadm reset by hand, in mid-join: each told within 5 s; diagnose sees a kubelet that hangs, by its port and by its lease",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("diagnose"), Covers::Promise(2), Covers::Promise(3)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const WITHIN: Duration = Duration::from_mins(4);
/// A lease is good for 40 s.
const STALE: Duration = Duration::from_secs(48);

fn signal(name: &str) -> String {
    format!("kill -{name} $(systemctl show --value --property=MainPID kubelet)")
}

fn run(bench: &mut Bench) -> Result<()> {
    let worker = hangs(bench)?;
    diagnosed(bench, &worker)?;
    reset(bench)
}

/// Stopped for eight seconds, once it has its certificate.
fn hangs(bench: &mut Bench) -> Result<Arc<Machine>> {
    let (worker, cluster) = (fresh(bench)?, bench.cluster()?);
    let then = format!("{}; touch /root/meddled; sleep 8; {}", signal("STOP"), signal("CONT"));
    let joined = stamped::join(&worker, &line(cluster), "ok  kubelet", &then, WITHIN)?;
    bench.say(format_args!("SIGSTOP: ended with {}\n{}", joined.done.code(), joined.done.text()));
    demand!(joined.done.code() == 0, "it ended with {}:\n{}", joined.done.code(), joined.done.text());
    is_joined(cluster, &worker)?;
    let at = MeasuredAt {
        started: joined.began(),
        seen: meddled(&worker)?,
        told: joined.told("the kubelet does not answer")?,
    };
    bench.told(ToldCause::measured("kubelet-hangs", "kubelet.not-answering, waited for", &at, "SIGSTOP"))?;
    Ok(worker)
}

fn diagnosed(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    let carrick = Carrick { machine: Arc::clone(worker) };
    // A kubelet makes its lease ten seconds after its Node: one that is stopped before has none that could grow old.
    let lease = format!("lease/{}", worker.identity.name);
    let made = ["wait", "--for=create", "-n", "kube-node-lease", &lease, "--timeout=30s"];
    bench.cluster()?.kubectl(made).ok()?;
    worker.ok(["sh", "-ec", &signal("STOP")])?;
    let seen = carrick.ends(bench, "diagnose", 3, &["the kubelet runs, and does not answer"]).and_then(|_| {
        pause(STALE)?;
        carrick.ends(bench, "diagnose", 3, &["the kubelet runs, and does not answer", "not renewed for"])
    });
    worker.ok(["sh", "-ec", &signal("CONT")])?;
    seen.map(drop)
}

/// Somebody takes the machine out while its kubelet waits for a certificate that nobody signs.
fn reset(bench: &mut Bench) -> Result<()> {
    let (worker, cluster) = (fresh(bench)?, bench.cluster()?);
    let mut scene = Scene::new(bench.lab, bench.parts, cluster, Arc::clone(&worker), KubeadmTimeouts::Short)?;
    scene.use_token_without_approval()?;
    let line = scene.plain_join_line();
    scene.clear()?;
    let then = "touch /root/meddled; kubeadm reset --force";
    let joined = stamped::join(&worker, &line, "ok  requested", then, WITHIN)?;
    bench.say(format_args!("kubeadm reset: ended with {}\n{}", joined.done.code(), joined.done.text()));
    judge(&Ends::Cause("join.reset-meanwhile", 3), &joined.done)?;
    nothing_left(&worker)?;
    let at = MeasuredAt { started: joined.began(), seen: meddled(&worker)?, told: joined.ended() };
    bench.told(ToldCause::measured("reset-meanwhile", "join.reset-meanwhile, exit 3", &at, "kubeadm reset begun"))?;
    joins(bench, &worker).map(drop)
}

fn meddled(worker: &Machine) -> Result<jiff::Timestamp> {
    written(&worker.ok(["stat", "--format=%.6Y", "/root/meddled"])?)
}
