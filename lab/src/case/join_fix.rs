//! `carrick join --fix`: what `check --fix` fixes is fixed first, where somebody says yes to it.

use super::{Bench, Case};
use crate::carrick::holds;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, fresh, is_joined, join, judge, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;
use crate::tree::difference;

pub const CASE: Case = Case {
    about: "a machine that is not fit is refused, with --fix and nobody to ask too; with --fix --yes it is fixed and joins",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("history")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// A plain join only tells of it; `check --fix` fixes it.
const BREAK: &str =
    "sed -i 's/SystemdCgroup = false/SystemdCgroup = true/' /etc/containerd/config.toml; systemctl restart containerd
    systemctl -q mask kubelet";

/// Whatever fixing could have changed.
const TREE: &str = "cd / && find etc run/systemd/system var/lib/carrick var/lib/kubelet -printf '%p %y %m %l\\n' -type f -exec sha256sum {} \\; 2>/dev/null | sort";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let line = line(cluster);
    worker.ok(["sh", "-ec", BREAK])?;
    let before = tree(&worker)?;
    let plain = join(&worker, &[], &["-"], &line)?;
    bench.say(plain.text());
    judge(&Ends::Cause("kubelet.masked", 3), &plain)?;
    demand!(plain.text().contains("runtime.cgroup-driver"), "it does not tell of both:\n{}", plain.text());
    // ssh gives it no terminal.
    let unasked = join(&worker, &[], &["--fix", "-"], &line)?;
    holds(bench, "join --fix", &unasked, 8, &["nothing was changed: there is no terminal to ask on; say --yes"])?;
    nothing_left(&worker)?;
    let changed = difference(&before, &tree(&worker)?);
    demand!(changed.is_empty(), "without a yes it changed\n{}", changed.join("\n"));
    let fixed = join(&worker, &[], &["--fix", "--yes", "-"], &line)?;
    bench.time("join --fix --yes", fixed.took);
    holds(bench, "join --fix --yes", &fixed, 0, &["joined: verified after"])?;
    is_joined(cluster, &worker)?;
    let config = worker.read("/etc/containerd/config.toml")?;
    demand!(config.contains("SystemdCgroup = false"), "containerd's configuration was not fixed:\n{config}");
    // What fixing did can be taken back: it is in the journal.
    let history = worker.run(["carrick", "history"]).done()?;
    holds(bench, "history", &history, 0, &["done"])
}

fn tree(worker: &Machine) -> Result<String> {
    worker.ok(["sh", "-c", TREE])
}
