//! An attempt that fails for what may pass is followed by another, which joins: the API server is out of reach for a while,
//! kubeadm is killed.

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{JOINS, PROGRAM, fresh, is_joined, line};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::Done;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "the first attempt finds the API server out of reach, or its kubeadm killed: the second joins, and the log has both",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Joins, and does something once these words were said; ends as the join does.
const MEANWHILE: &str = r#""$1" join - < /root/join-line > /root/said 2>&1 & join=$!
until grep -q "$2" /root/said; do kill -0 $join 2>/dev/null || break; sleep 0.05; done
sh -ec "$3" >&2
wait $join; ended=$?; cat /root/said; exit $ended"#;

fn run(bench: &mut Bench) -> Result<()> {
    out_of_reach(bench)?;
    kubeadm_killed(bench)
}

fn out_of_reach(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let rule = format!("OUTPUT -d {} -p tcp --dport 6443 -j DROP", bench.lab.site().control());
    worker.ok(["sh", "-ec", &format!("iptables -I {rule}")])?;
    let done = joins_later(bench, &worker, "again in", &format!("iptables -D {rule}"))?;
    bench.time("API server back", done.took);
    Ok(())
}

/// Before it has started the kubelet: what the attempt has left is taken away, and the next begins anew.
fn kubeadm_killed(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let done = joins_later(bench, &worker, "  ok  joining", "systemctl kill --signal=KILL carrick-kubeadm")?;
    bench.time("kubeadm killed", done.took);
    let logs = worker.ok(["ls", JOINS])?;
    for attempt in ["-kubeadm-1.log", "-kubeadm-2.log"] {
        demand!(logs.contains(attempt), "no {attempt}, but:\n{logs}");
    }
    Ok(())
}

/// A join whose first attempt fails, with the default of three; something is done once words were said.
fn joins_later(bench: &mut Bench, worker: &Machine, words: &str, then: &str) -> Result<Done> {
    /// An attempt that fails, a pause of 8 s at most, and one that joins, on a machine that is busy.
    const DEADLINE: std::time::Duration = std::time::Duration::from_mins(3);
    let cluster = bench.cluster()?;
    worker.write("/root/join-line", &line(cluster))?;
    let done = worker.run(["bash", "-c", MEANWHILE, "bash", PROGRAM, words, then]).deadline(DEADLINE).done()?;
    let text = done.text();
    bench.say(format_args!("carrick join ended with {}\n{text}", done.code()));
    demand!(done.code() == 0 && text.contains("joined: verified after"), "it ended with {}:\n{text}", done.code());
    demand!(text.contains("  !!  attempt 1: "), "it does not tell of the attempt that failed:\n{text}");
    demand!(!text.contains("attempt 2: "), "a second attempt failed, too:\n{text}");
    is_joined(cluster, worker)?;
    let log = worker.ok(["sh", "-c", &format!("cat $(ls {JOINS}/*.log | grep -v kubeadm)")])?;
    for attempt in [" attempt 1 failed: ", " joined: verified"] {
        demand!(log.contains(attempt), "the log does not hold {attempt:?}:\n{log}");
    }
    Ok(done)
}
