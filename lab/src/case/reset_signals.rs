//! carrick reset is told to stop while it looks and at five of its steps, here and over SSH: it finishes the one at hand and says how
//! to go on, and the next reset completes it.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use super::join_link_cut::RemoteCarrick;
use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{fresh, joins, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick reset gets SIGINT, SIGTERM and SIGHUP while it looks and at five of its steps, here and with -H: it finishes that one, says how to go on, and the next reset completes it",
    tier: Tier::Standard,
    covers: &[Covers::Verb("reset"), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Runs a reset until it has said a word, and sends it a signal then; how it ended.
const UNTIL: &str = r#"carrick reset --yes --stop-pods >/run/said 2>&1 & pid=$!
until grep -q "ok  $1" /run/said; do kill -0 $pid || { cat /run/said >&2; exit 1; }; done
kill -$2 $pid
wait $pid
echo "exit $?"
cat /run/said"#;

/// The same while it looks: it has the lock, and has said nothing of what it will do.
const LOOKS: &str = r#": > /run/carrick.lock
carrick reset --yes --stop-pods >/run/said 2>&1 & pid=$!
until [ -s /run/carrick.lock ]; do kill -0 $pid || { cat /run/said >&2; exit 1; }; done
kill -$1 $pid
wait $pid
echo "exit $?"
cat /run/said"#;

/// What it has done by then. It may be past the next step, too, when it hears the signal; it is never past the look for what is left.
const STEPS: [&str; 5] = ["stop kubelet", "mark node", "unmount", "run kubeadm", "delete the link cni0"];
const SIGNALS: [(&str, Signal); 3] = [("INT", Signal::INT), ("TERM", Signal::TERM), ("HUP", Signal::HUP)];
/// Over SSH each signal once: before the point of no return, and behind it.
const AFAR: [(&str, usize); 3] = [("stop kubelet", 2), ("unmount", 0), ("run kubeadm", 1)];
/// Before kubeadm reset, and behind it.
const GOES_ON: [&str; 2] = ["go on: carrick reset; take back what was done: carrick undo", "finish it: carrick reset"];
/// Until the step at hand is finished: `kubeadm reset` stops every pod.
const ENDS: Duration = Duration::from_mins(2);

fn run(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let carrick = Carrick::on(&worker, &bench.carrick()?)?;
    bring_up(bench, &worker)?;
    for (name, signal) in SIGNALS {
        let said = worker.ok(["bash", "-c", LOOKS, "bash", name])?;
        let what = format!("SIG{name} while it looks");
        says(bench, &what, &said, signal, &["nothing was changed"])?;
    }
    for step in STEPS {
        for (name, signal) in SIGNALS {
            let said = worker.ok(["bash", "-c", UNTIL, "bash", step, name])?;
            let what = format!("SIG{name} after {step}");
            says(bench, &what, &said, signal, &GOES_ON)?;
            completed(bench, &carrick, &what)?;
            bring_up(bench, &worker)?;
        }
    }
    for (step, signal) in AFAR {
        let Some((name, signal)) = SIGNALS.get(signal) else { continue };
        let (afar, what) = (RemoteCarrick::to(bench, &worker)?, format!("-H, SIG{name} after {step}"));
        let command = afar.says("reset", &["--yes", "--stop-pods"]).into_command();
        let mut running = bench.start(command, "", &format!("ok  {step}"))?;
        let exit = running.end_with(*signal, ENDS)?;
        let said = format!("exit {exit}\n{}", running.last_line());
        says(bench, &what, &said, *signal, &GOES_ON)?;
        completed(bench, &carrick, &what)?;
        bring_up(bench, &worker)?;
    }
    carrick.ends(bench, "reset --yes --stop-pods", 0, &[])?;
    Ok(())
}

/// Joined, with a pod on it.
fn bring_up(bench: &mut Bench, worker: &Arc<Machine>) -> Result<()> {
    joins(bench, worker)?;
    bench.cluster()?.pod_answers(worker).map(drop)
}

/// It ended by the signal, and says one of these: a reset that had gone on to its end would say that the machine can join again.
fn says(bench: &mut Bench, what: &str, said: &str, signal: Signal, one_of: &[&str]) -> Result<()> {
    bench.say(format_args!("{what}: {said}"));
    let plain = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let exit = format!("exit {} ", 128 + signal.as_raw());
    demand!(plain.starts_with(&exit), "{what}: it did not end by the signal:\n{said}");
    demand!(one_of.iter().any(|says| plain.contains(says)), "{what}: it does not say {one_of:?}:\n{said}");
    Ok(())
}

fn completed(bench: &mut Bench, carrick: &Carrick, what: &str) -> Result<()> {
    carrick.ends(bench, "reset --yes --stop-pods", 0, &[])?;
    let left = carrick.run("reset --plan")?.out;
    demand!(left.contains("nothing of a join is left"), "{what}: not finished: {left}");
    nothing_left(&carrick.machine)
}
