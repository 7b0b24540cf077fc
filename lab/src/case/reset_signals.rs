//! carrick reset is told to stop at five of its steps: it finishes the one at hand and says how to go on, and the next reset
//! completes it.

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{fresh, joins};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick reset gets SIGINT, SIGTERM or SIGHUP at five of its steps: it finishes that one, says how to go on, and the next reset completes it",
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

/// What it has done by then, and the signal. It may be past the next step, too, when it hears it.
const ROWS: [(&str, &str, i32); 5] = [
    ("stop kubelet", "INT", 130),
    ("mark node", "HUP", 129),
    ("unmount", "TERM", 143),
    ("run kubeadm", "INT", 130),
    ("delete the link cni0", "HUP", 129),
];
/// Before kubeadm reset, and behind it.
const GOES_ON: [&str; 2] = ["go on: carrick reset; take back what was done: carrick undo", "finish it: carrick reset"];

fn run(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let carrick = Carrick::on(&worker, &bench.carrick()?)?;
    for (step, signal, exit) in ROWS {
        joins(bench, &worker)?;
        bench.cluster()?.pod_answers(&worker)?;
        let said = worker.ok(["bash", "-c", UNTIL, "bash", step, signal])?;
        bench.say(format_args!("SIG{signal} after {step}: {said}"));
        let plain = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let done = plain.contains("can join again");
        let told = plain.contains(&format!("exit {exit}")) && GOES_ON.iter().any(|says| plain.contains(says));
        demand!(told || done, "SIG{signal} after {step}: it neither says how to go on nor is it done:\n{said}");
        carrick.ends(bench, "reset --yes --stop-pods", 0, &[])?;
        let left = carrick.run("reset --plan")?.out;
        demand!(left.contains("nothing of a join is left"), "SIG{signal} after {step}: not finished: {left}");
    }
    Ok(())
}
