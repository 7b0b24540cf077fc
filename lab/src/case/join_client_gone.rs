//! Whoever joined a machine over SSH is gone for good, and the machine never hears of it: its sshd waits for hours. The next
//! run, from elsewhere, joins within a minute or so.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::join_link_cut::{POINT, RemoteCarrick, joins_again};
use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{fresh, is_joined};
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join -H is killed in mid-join and its connection never ends: the next carrick join -H gets the machine, and joins",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(7)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Nothing comes or goes any more by the connections that are there, but for this one.
const SILENCE: &str = r#"set -- $SSH_CONNECTION
for port in $(ss -tnH state established '( sport = :22 )' | awk '{print $4}' | sed 's/.*://' | grep -vx "$2"); do
    iptables -I INPUT -p tcp --dport 22 --sport "$port" -j DROP
    iptables -I OUTPUT -p tcp --sport 22 --dport "$port" -j DROP
    echo "$port"
done"#;

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let afar = RemoteCarrick::to(bench, &worker)?;
    let mut running = bench.start(afar.join(&["--events", "-"]).into_command(), &afar.line, POINT)?;
    let silenced = worker.ok(["sh", "-ec", SILENCE])?;
    demand!(!silenced.trim().is_empty(), "carrick had no connection to the machine");
    running.end_with(Signal::KILL, Duration::from_secs(10))?;
    let begun = Instant::now();
    joins_again(bench, || afar.join(&["-"]).input(afar.line.as_str()))?;
    bench.time("joined after the client was gone", begun.elapsed());
    is_joined(cluster, &worker)
}
