//! What is over is no cause: pull errors of a join that worked in the end, and all of a join that was taken out again.

use std::time::Duration;

use super::{Bench, Case};
use crate::build::go::KUBERNETES;
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Error, Result};
use crate::join::joins;
use crate::machine::Kind;
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "diagnose names no cause for pull errors once the image is there, nor after carrick reset",
    tier: Tier::Quick,
    covers: &[Covers::Verb("diagnose"), Covers::Verb("reset"), Covers::Family("kube-proxy")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let (cluster, worker) = (bench.cluster()?, bench.worker(Kind::Debian12)?);
    let carrick = Carrick::on(&worker, &program)?;
    let image = format!("registry.k8s.io/kube-proxy:{KUBERNETES}");
    let kept = "registry.k8s.io/kept:kube-proxy";
    worker.run(["ctr", "-n", "k8s.io", "images", "tag", &image, kept]).ok()?;
    worker.run(["ctr", "-n", "k8s.io", "images", "rm", &image]).ok()?;
    cluster.join(&worker)?;
    wait_for("the kubelet to fail to pull", Duration::from_mins(2), || {
        let journal = worker.ok(["journalctl", "-b", "-u", "kubelet", "-o", "cat", "--no-pager"])?;
        let fails = journal.contains("ErrImagePull") || journal.contains("ImagePullBackOff");
        Ok(if fails { Polled::Seen(()) } else { Polled::NotYet("no word of it".to_owned()) })
    })?;
    let named = carrick.run("diagnose")?;
    bench.say(format_args!("while it cannot be pulled: {}\n{}", named.code(), named.text()));
    demand!(named.code() == 3 && named.text().contains("kube-proxy"), "{}", named.text());
    worker.run(["ctr", "-n", "k8s.io", "images", "tag", kept, &image]).ok()?;
    // It waits for kube-proxy's pod, whose kubelet may hold back for a minute.
    joins(bench, &worker)?;
    no_cause(bench, &carrick, "once it runs")?;
    carrick.ends(bench, "reset --yes --stop-pods", 0, &["can join again"])?;
    no_cause(bench, &carrick, "after the reset")?;
    joins(bench, &worker).map(drop)
}

fn no_cause(bench: &mut Bench, carrick: &Carrick, when: &str) -> Result<()> {
    let done = carrick.run("diagnose -o json")?;
    let report: serde_json::Value = serde_json::from_str(&done.out).map_err(|_| Error::Said(done.text()))?;
    bench.say(format_args!("{when}: verdict {}, {} causes", report["verdict"], report["causes"]));
    demand!(report["causes"].as_array().is_some_and(Vec::is_empty), "{when} it names causes: {}", report["causes"]);
    demand!(done.code() != 3, "{when} it ended with 3:\n{}", done.text());
    Ok(())
}
