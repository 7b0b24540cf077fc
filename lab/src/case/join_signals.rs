//! carrick join is told to stop at five points, by Ctrl-C, by systemd, by a terminal that is gone: it puts back, stays in the
//! cluster, or leaves kubeadm to its unit; one more command, join or reset, ends in the right state, with nothing of a token left.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::join_killed::{STAGES, begin};
use super::join_link_cut::RemoteCarrick;
use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Error, Result};
use crate::join::{bring_admin, fresh, is_joined, join, joins, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;
use crate::tree::Tree;

pub const CASE: Case = Case {
    about: "carrick join gets SIGINT, SIGTERM or SIGHUP at five points, here and with -H: put back, in the cluster, or at work in its unit, as its report says; the next join or reset ends it",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Promise(4), Covers::Promise(6), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// The first is where most is left half done.
const POINTS: [&str; 5] = ["kubelet-up", "unjoined", "prepared", "joining", "certificate-issued"];
const SIGNALS: [(&str, Signal); 3] = [("INT", Signal::INT), ("TERM", Signal::TERM), ("HUP", Signal::HUP)];
/// From another machine, where a lost link is the usual end: each point, each signal, and a lost link at both of those where
/// kubeadm is at work. In the tier full each with each.
const AFAR: [(&str, usize); 7] = [
    ("kubelet-up", 0),
    ("unjoined", 2),
    ("prepared", 1),
    ("joining", 2),
    ("certificate-issued", 0),
    ("kubelet-up", 2),
    ("joining", 1),
];
/// Until it has put everything back, and said so.
const ENDS: Duration = Duration::from_mins(1);

fn run(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    for (at, point) in bench.tier.some(&POINTS).iter().enumerate() {
        for (name, signal) in SIGNALS {
            stopped(bench, &worker, point, name, signal)?;
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
    let each: Vec<(&str, usize)> =
        POINTS.iter().flat_map(|point| (0..SIGNALS.len()).map(move |signal| (*point, signal))).collect();
    let afar = if bench.tier == Tier::Full { each.as_slice() } else { &AFAR[..] };
    for (at, (point, signal)) in afar.iter().enumerate() {
        let Some((name, signal)) = SIGNALS.get(*signal) else { continue };
        from_afar(bench, &worker, point, name, *signal)?;
        ended_by_one_more(bench, &worker, at % 2 == 0)?;
    }
    Ok(())
}

/// Stopped at a point; how the machine is then.
fn stopped(bench: &mut Bench, worker: &Machine, point: &str, name: &str, signal: Signal) -> Result<()> {
    let (before, exit) = (Tree::of(worker)?, 128 + signal.as_raw());
    let then = format!("kill -{name} $join; wait $join; [ $? = {exit} ] || {{ cat /root/events; exit 8; }}");
    let report = begin(bench, worker, point, &then)?;
    let what = format!("SIG{name} after {point}");
    bench.say(format_args!("{what}: {report}"));
    let (stands, at_work) = (Stands::of(&what, name, &report)?, goes_on(&worker.read("/root/events")?, signal));
    stands.on(bench, worker, &what, &before, at_work)
}

/// Whether kubeadm was at work by the last event, and is to go on: nobody watches any more, and nobody asked for an end.
fn goes_on(events: &str, signal: Signal) -> bool {
    let reached = |line: &&str| line.contains(r#""event":"reached""#);
    let last = events.lines().rfind(reached).unwrap_or_default();
    let works = ["joining", "kubelet-up", "certificate-requested"];
    signal == Signal::HUP && works.iter().any(|stage| last.contains(&format!(r#""state":"{stage}""#)))
}

/// How the report says that the machine stands.
struct Stands(String);

impl Stands {
    /// Whoever reads only the report is told how the machine stands, and which command goes on from there.
    fn of(what: &str, name: &str, report: &str) -> Result<Self> {
        let unfit = |why: &str| Error::Said(format!("{what}: {why}: {report}"));
        let report: Value = serde_json::from_str(report.trim()).map_err(|error| unfit(&error.to_string()))?;
        let remains = &report["remains"];
        let goes_on = remains["next"].as_array().is_some_and(|next| next.iter().any(|it| it == "carrick join"));
        demand!(report["verdict"] == "unknown", "{}", unfit("the verdict is not unknown"));
        demand!(goes_on, "{}", unfit("the report does not say how to go on"));
        demand!(remains["stopped_by"] == format!("SIG{name}"), "{}", unfit("the report does not name the signal"));
        let state = remains["state"].as_str().ok_or_else(|| unfit("the report does not say how the machine stands"))?;
        Ok(Self(state.to_owned()))
    }

    /// Put back, in the cluster, or at work, as was said: in each case nobody who comes later finds a token.
    fn on(&self, bench: &mut Bench, worker: &Machine, what: &str, before: &Tree, must_go_on: bool) -> Result<()> {
        let Stands(state) = self;
        demand!(!must_go_on || state == "at-work", "{what}: kubeadm is to go on, and it is said: {state}");
        bench.say(format_args!("{what}: {state}"));
        if state == "at-work" {
            return goes_on_by_itself(bench, worker, what);
        }
        demand!(unit(worker)? == "not-found", "{what}: said to be {state}, and kubeadm is still at work");
        nothing_left(worker)?;
        let in_cluster = worker.run(["test", "-e", "/etc/kubernetes/kubelet.conf"]).done()?.status.success();
        let said_so = if in_cluster { state == "join" } else { state == "put-back" || state == "untouched" };
        demand!(said_so, "{what}: said to be {state}; in the cluster: {in_cluster}");
        if !in_cluster {
            let mut changes = Tree::of(worker)?.changes_since(before);
            // What this case itself writes.
            changes.retain(|change| !["root/join-line", "root/events"].iter().any(|ours| change.contains(ours)));
            demand!(changes.is_empty(), "{what}: not put back: {changes:?}");
        }
        Ok(())
    }
}

/// Nobody comes back: the unit itself removes the token, and its exit status can be read.
fn goes_on_by_itself(bench: &mut Bench, worker: &Machine, what: &str) -> Result<()> {
    demand!(unit(worker)? != "not-found", "{what}: said to be at work, and there is no unit");
    wait_for("kubeadm to end in its unit", ENDS, || {
        let state = worker.ok(["systemctl", "show", "--value", "--property=ActiveState", "carrick-kubeadm"])?;
        Ok(if state.trim() == "activating" { Polled::NotYet(state) } else { Polled::Seen(()) })
    })?;
    let gone = !worker.run(["test", "-e", "/run/carrick/join.yaml"]).done()?.status.success();
    demand!(gone, "{what}: join.yaml outlives kubeadm");
    let status = worker.ok(["systemctl", "show", "--value", "--property=ExecMainStatus", "carrick-kubeadm"])?;
    demand!(status.trim() == "0", "{what}: kubeadm ended with {status}");
    bench.say(format_args!("{what}: kubeadm went on, and ended well"));
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
    let is_there =
        || Ok::<_, Error>(cluster.kubectl(["get", "secret", "-n", "kube-system", &secret]).done()?.status.success());
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
fn from_afar(bench: &mut Bench, worker: &Machine, point: &str, name: &str, signal: Signal) -> Result<()> {
    let (afar, what) = (RemoteCarrick::to(bench, worker)?, format!("-H, SIG{name} after {point}"));
    let before = Tree::of(worker)?;
    // A stage that was passed by within one look is never told of, so the next counts as well.
    let stages = STAGES.into_iter().skip_while(|stage| *stage != point);
    let words: Vec<String> = stages.map(|stage| format!(r#""event":"reached","state":"{stage}""#)).collect();
    let mut running = bench.start_until_one(afar.join(&["--events", "-"]).into_command(), &afar.line, &words)?;
    let reached = running.last_words.clone();
    let exit = running.end_with(signal, ENDS)?;
    demand!(exit == 128 + signal.as_raw(), "{what}: it ended with {exit}");
    let report = running.last_line().to_owned();
    bench.say(format_args!("{what}: {report}"));
    let stands = Stands::of(&what, name, &report)?;
    stands.on(bench, worker, &what, &before, goes_on(&reached, signal))
}
