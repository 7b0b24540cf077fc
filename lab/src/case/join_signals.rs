//! carrick join is told to stop at five points, by Ctrl-C, by systemd, by a terminal that is gone: it puts back, stays in the
//! cluster, or leaves kubeadm to its unit; one more command, join or reset, ends in the right state, with nothing of a token left.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use super::join_killed::begin;
use super::join_link_cut::RemoteCarrick;
use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{bring_admin, fresh, is_joined, join, joins, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;
use crate::tree::Tree;

pub const CASE: Case = Case {
    about: "carrick join gets SIGINT, SIGTERM or SIGHUP at five points, here and with -H: put back, in the cluster, or at work in its unit; the next join or reset ends it",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Promise(4), Covers::Promise(6), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// The first is where most is left half done.
const POINTS: [&str; 5] = ["kubelet-up", "unjoined", "prepared", "joining", "certificate-issued"];
const SIGNALS: [(&str, i32); 3] = [("INT", 130), ("TERM", 143), ("HUP", 129)];
/// Until it has put everything back, and said so.
const ENDS: Duration = Duration::from_mins(1);

fn run(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    for (at, point) in bench.tier.some(&POINTS).iter().enumerate() {
        for (signal, exit) in SIGNALS {
            stopped(bench, &worker, point, signal, exit)?;
            ended_by_one_more(bench, &worker, at % 2 == 0)?;
        }
    }
    its_token_is_revoked_by_the_next(bench, &worker)?;
    if bench.tier == Tier::Quick {
        return Ok(());
    }
    twice(bench, &worker)?;
    ended_by_one_more(bench, &worker, true)?;
    without_a_terminal(bench, &worker)?;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        from_afar(bench, &worker, signal)?;
        ended_by_one_more(bench, &worker, signal == Signal::TERM)?;
    }
    Ok(())
}

/// Stopped at a point; how the machine is then.
fn stopped(bench: &mut Bench, worker: &Machine, point: &str, signal: &str, exit: i32) -> Result<()> {
    let before = Tree::of(worker)?;
    let then = format!("kill -{signal} $join; wait $join; [ $? = {exit} ] || {{ cat /root/events; exit 8; }}");
    let at = begin(bench, worker, point, &then)?;
    bench.say(format_args!("SIG{signal} after {point}: {at}"));
    let events = worker.read("/root/events")?;
    demand!(events.contains(r#""verdict":"unknown""#), "the report does not say unknown: {events}");
    stands(bench, worker, &format!("SIG{signal} after {point}"), &before, signal == "HUP")
}

/// Put back, in the cluster, or at work: in each case nobody who comes later finds a token.
fn stands(bench: &mut Bench, worker: &Machine, what: &str, before: &Tree, may_be_at_work: bool) -> Result<()> {
    if unit(worker)? != "not-found" {
        demand!(may_be_at_work, "{what}: kubeadm is still at work");
        // Nobody comes back: the unit itself removes the token, and its exit status can be read.
        wait_for("kubeadm to end in its unit", ENDS, || {
            let state = worker.ok(["systemctl", "show", "--value", "--property=ActiveState", "carrick-kubeadm"])?;
            Ok(if state.trim() == "activating" { Polled::NotYet(state) } else { Polled::Seen(()) })
        })?;
        let gone = !worker.run(["test", "-e", "/run/carrick/join.yaml"]).done()?.status.success();
        demand!(gone, "{what}: join.yaml outlives kubeadm");
        let status = worker.ok(["systemctl", "show", "--value", "--property=ExecMainStatus", "carrick-kubeadm"])?;
        demand!(status.trim() == "0", "{what}: kubeadm ended with {status}");
        bench.say(format_args!("{what}: kubeadm went on, and ended well"));
        return Ok(());
    }
    nothing_left(worker)?;
    let in_cluster = worker.run(["test", "-e", "/etc/kubernetes/kubelet.conf"]).done()?.status.success();
    if !in_cluster {
        let mut changes = Tree::of(worker)?.changes_since(before);
        // What this case itself writes.
        changes.retain(|change| !["root/join-line", "root/events"].iter().any(|ours| change.contains(ours)));
        demand!(changes.is_empty(), "{what}: not put back: {changes:?}");
    }
    bench.say(format_args!("{what}: {}", if in_cluster { "in the cluster" } else { "put back" }));
    Ok(())
}

fn unit(worker: &Machine) -> Result<String> {
    let state = worker.ok(["systemctl", "show", "--value", "--property=LoadState", "carrick-kubeadm.service"])?;
    Ok(state.trim().to_owned())
}

/// A join, and the way back; or the way back alone.
fn ended_by_one_more(bench: &mut Bench, worker: &Arc<Machine>, by_join: bool) -> Result<()> {
    if by_join {
        joins(bench, worker)?;
    }
    let program = bench.carrick()?;
    Carrick::on(worker, &program)?.ends(bench, "reset --yes --stop-pods", 0, &[])?;
    nothing_left(worker)?;
    let name = &worker.identity.name;
    bench.cluster()?.kubectl(["delete", "node", name, "--ignore-not-found"]).ok()?;
    Ok(())
}

/// kubeadm needs the token that was made for it; whoever has the same kubeconfig next revokes it.
fn its_token_is_revoked_by_the_next(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    let cluster = bench.cluster()?;
    let admin = bring_admin(cluster, worker)?;
    let script = r#": > /root/events
        /usr/local/bin/carrick join --events --kubeconfig "$1" > /root/events 2>&1 & join=$!
        until grep -q '"event":"reached".*"state":"joining"' /root/events; do
            kill -0 $join 2>/dev/null || { cat /root/events; exit 9; }; sleep 0.01; done
        kill -HUP $join; wait $join; [ $? = 129 ] || { cat /root/events; exit 8; }"#;
    worker.ok(["bash", "-c", script, "bash", admin])?;
    let noted = worker.read("/var/lib/carrick/joins/tokens")?;
    let id = noted.split_whitespace().next().unwrap_or_default();
    let secret = format!("bootstrap-token-{id}");
    let is_there = || {
        Ok::<_, crate::error::Error>(
            cluster.kubectl(["get", "secret", "-n", "kube-system", &secret]).done()?.status.success(),
        )
    };
    demand!(is_there()?, "{secret} is not there, and kubeadm needs it: {noted:?}");
    let done = join(worker, &[], &["--kubeconfig", admin], "")?;
    demand!(done.code() == 0, "carrick join ended with {}:\n{}", done.code(), done.text());
    is_joined(cluster, worker)?;
    demand!(!is_there()?, "the token of the join before it is still there");
    worker.ok(["rm", admin])?;
    ended_by_one_more(bench, worker, false)
}

/// A second signal ends it at once; the next run completes what is left.
fn twice(bench: &mut Bench, worker: &Machine) -> Result<()> {
    let then = "kill -INT $join; sleep 0.1; kill -INT $join; wait $join; [ $? = 130 ] || { cat /root/events; exit 8; }";
    let at = begin(bench, worker, "kubelet-up", then)?;
    bench.say(format_args!("SIGINT twice: {at}"));
    Ok(())
}

/// Who is started with nohup goes on when the terminal is gone.
fn without_a_terminal(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    let script = ": > /root/events
        nohup \"$1\" join - < /root/join-line > /root/events 2>&1 & join=$!
        until grep -q 'ok  joining' /root/events; do
            kill -0 $join 2>/dev/null || { cat /root/events; exit 9; }; sleep 0.01; done
        kill -HUP $join; wait $join || { cat /root/events; exit 8; }";
    worker.ok(["bash", "-c", script, "bash", crate::join::PROGRAM])?;
    is_joined(bench.cluster()?, worker)?;
    ended_by_one_more(bench, worker, false)
}

/// carrick runs here, and reaches the machine over SSH.
fn from_afar(bench: &mut Bench, worker: &Machine, signal: Signal) -> Result<()> {
    let afar = RemoteCarrick::to(bench, worker)?;
    let before = Tree::of(worker)?;
    let command = afar.join(&["--events", "-"]).into_command();
    let mut running = bench.start(command, &afar.line, r#""state":"kubelet-up""#)?;
    let exit = running.end_with(signal, ENDS)?;
    demand!(exit == 128 + signal.as_raw(), "-H, {signal:?}: it ended with {exit}");
    stands(bench, worker, &format!("-H, {signal:?}"), &before, signal == Signal::HUP)
}
