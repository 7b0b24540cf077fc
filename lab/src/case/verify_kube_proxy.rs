//! kube-proxy runs, its pod is Ready, and it writes no rules: no join and no verify takes that for a kube-proxy. Its own healthz
//! tells, also that it answers nothing.

use std::sync::Arc;
use std::time::Duration;

use super::{Bench, Case};
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::error::Result;
use crate::join::{fresh, joins};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "verify does not take a kube-proxy that hangs, or cannot write its rules, for one that works, though its pod is Ready",
    tier: Tier::Standard,
    covers: &[Covers::Verb("verify"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// What it writes rules with, in its own container.
const TOOLS: &str = "for tool in /proc/$(pgrep -xo kube-proxy)/root/usr/sbin/xtables-*-multi /proc/$(pgrep -xo kube-proxy)/root/usr/sbin/nft; do \
    [ ! -e $tool ] || chmod @MODE@ $tool; done";
/// It calls itself unwell when a change has waited for twice its sync period of 30 s.
const UNWELL: Duration = Duration::from_mins(3);

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    let worker = fresh(bench)?;
    joins(bench, &worker)?;
    let carrick = Carrick { machine: Arc::clone(&worker) };
    carrick.ends(bench, "verify -v", 0, &["verify.kube-proxy", "Joined: "])?;

    worker.ok(["pkill", "-STOP", "-x", "kube-proxy"])?;
    carrick.ends(bench, "verify", 3, &["verify.kube-proxy", "does not write its rules", "10256"])?;
    worker.ok(["pkill", "-CONT", "-x", "kube-proxy"])?;
    carrick.ends(bench, "verify", 0, &["Joined: "])?;

    worker.ok(["sh", "-ec", &TOOLS.replace("@MODE@", "a-x")])?;
    let service = format!("lag-{}", worker.identity.name);
    cluster.kubectl(["create", "service", "clusterip", &service, "--tcp=80:80"]).ok()?;
    let told = wait_for("kube-proxy to call itself unwell", UNWELL, || {
        let done = carrick.run("verify")?;
        Ok(if done.code() == 3 { Polled::Seen(done) } else { Polled::NotYet(done.text()) })
    });
    worker.ok(["sh", "-ec", &TOOLS.replace("@MODE@", "a+x")])?;
    cluster.kubectl(["delete", "service", &service]).ok()?;
    let told = told?.text();
    bench.say(&told);
    crate::demand!(told.contains("verify.kube-proxy") && told.contains("status 503"), "another cause:\n{told}");
    wait_for("kube-proxy to be well again", UNWELL, || {
        let done = carrick.run("verify")?;
        Ok(if done.code() == 0 { Polled::Seen(()) } else { Polled::NotYet(done.text()) })
    })
}
