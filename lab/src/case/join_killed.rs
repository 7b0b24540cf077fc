//! carrick is killed in mid-join, at five points: the next run joins.

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::error::Result;
use crate::join::{PROGRAM, install, joins, line};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join gets SIGKILL after it looked, prepared, started kubeadm, saw the kubelet, saw the certificate: a second run joins",
    tier: Tier::Quick,
    covers: &[Covers::Verb("join"), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// As the events name them; a stage that was passed by within one look is never told of, so the next counts as well. The
/// first is where most is left half done.
const POINTS: [&str; 5] = ["kubelet-up", "unjoined", "prepared", "joining", "certificate-issued"];
pub const STAGES: [&str; 8] = [
    "unjoined",
    "probed",
    "prepared",
    "joining",
    "kubelet-up",
    "certificate-requested",
    "certificate-issued",
    "registered",
];

fn run(bench: &mut Bench) -> Result<()> {
    for point in bench.tier.some(&POINTS) {
        let worker = bench.worker(Kind::Debian12)?;
        install(bench, &worker)?;
        let at = killed_at(bench, &worker, point)?;
        bench.say(format_args!("killed after {at}"));
        let done = joins(bench, &worker)?;
        bench.time(format!("after {point}"), done.took);
    }
    Ok(())
}

/// Starts a join and kills it as soon as it tells of the stage; which it was.
pub fn killed_at(bench: &mut Bench, worker: &Machine, point: &str) -> Result<String> {
    // 128 and SIGKILL: it was at work until then.
    begin(bench, worker, point, "kill -KILL $join; wait $join; [ $? = 137 ] || { cat /root/events; exit 8; }")
}

/// Starts a join, waits until it tells of the stage or one behind it, and then does something with `$join`.
pub fn begin(bench: &mut Bench, worker: &Machine, point: &str, then: &str) -> Result<String> {
    let cluster = bench.cluster()?;
    worker.write("/root/join-line", &line(cluster))?;
    let stages: Vec<&str> = STAGES.into_iter().skip_while(|stage| *stage != point).collect();
    let pattern = format!(r#""state":"({})""#, stages.join("|"));
    let script = format!(
        ": > /root/events
        \"$1\" join --events - < /root/join-line > /root/events 2>&1 & join=$!
        until grep -Eo '\"event\":\"reached\".*' /root/events | grep -qE \"$2\"; do
            kill -0 $join 2>/dev/null || {{ cat /root/events; exit 9; }}; sleep 0.01; done
        {then}; tail -n 1 /root/events; exit 0"
    );
    worker.run(["bash", "-c", &script, "bash", PROGRAM, &pattern]).ok()
}
