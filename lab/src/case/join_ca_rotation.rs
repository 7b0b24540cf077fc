//! A cluster whose CA is being rotated: two of them at once, in cluster-info, in kubelet.conf, for clients and for signing. Any of
//! them may have signed, and any may be pinned.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::join_renamed::kubelet;
use super::{Bench, Case};
use crate::carrick::{Carrick, holds};
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Error, Result};
use crate::join::{fresh, is_joined, join, joins, line};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "two CAs at once: joined with the old one pinned and the new one signing, whichever cluster-info shows; a node of the old one is verified, not told to reset",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("verify")],
    // It changes the control plane that all share.
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12), Need::Alone],
    run,
};

const ROTATE: &str = include_str!("../../files/rotate-ca.sh");
/// The API server and the controller-manager start anew, and the latter waits for its lease.
const ROTATED: Duration = Duration::from_mins(3);
const NEXT: &str = "/etc/kubernetes/pki/next.crt";

fn run(bench: &mut Bench) -> Result<()> {
    let (cluster, before) = (bench.cluster()?, fresh(bench)?);
    joins(bench, &before)?;
    let shown = cluster_info(cluster)?;
    let rotated = rotate(cluster, "begin").and_then(|()| during(bench, &before, &shown));
    // Whatever came of it: the next case finds the cluster as it was.
    let back = show(cluster, &shown.0).and_then(|()| rotate(cluster, "end"));
    rotated.and(back)?;
    cluster.wait_ready(&cluster.control.identity.name)?;
    // A kubelet whose API server was away renews its lease later than usual: until then verify is right to say so.
    let carrick = Carrick { machine: before };
    wait_for("the first node to be verified", ROTATED, || {
        let done = carrick.run("verify")?;
        Ok(if done.code() == 0 { Polled::Seen(()) } else { Polled::NotYet(done.text()) })
    })
}

fn during(bench: &mut Bench, before: &std::sync::Arc<Machine>, shown: &(String, String)) -> Result<()> {
    let cluster = bench.cluster()?;
    let next = cluster.control.read(NEXT)?;
    // The new one first: whoever looks at the first alone takes the old one's certificates for another cluster's.
    show(cluster, &with_cas(shown, &[&next, &shown.1]))?;
    let api = format!("verify -v --api {}:6443", bench.lab.site().control());
    still_a_node(bench, before, &api)?;
    let worker = fresh(bench)?;
    let done = joins(bench, &worker)?;
    bench.time("both are shown", done.took);
    is_signed_by(&worker, &next)?;
    still_a_node(bench, &worker, &api)?;
    // Not told yet: the certificate is of a CA that only the API server knows.
    show(cluster, &shown.0)?;
    let early = fresh(bench)?;
    let done = joins(bench, &early)?;
    bench.time("the old one is shown", done.took);
    is_signed_by(&early, &next)?;
    still_a_node(bench, &early, &api)
}

/// It is verified, also against the cluster that is asked for, and neither a join nor a check finds anything stale about it.
fn still_a_node(bench: &mut Bench, worker: &std::sync::Arc<Machine>, api: &str) -> Result<()> {
    let (cluster, pid) = (bench.cluster()?, kubelet(worker)?);
    let carrick = Carrick { machine: worker.clone() };
    carrick.ends(bench, api, 0, &["it is the cluster that was asked for", "Joined"])?;
    let done = join(worker, &[], &["-"], &line(cluster))?;
    holds(bench, "join -", &done, 0, &["had joined already, and it holds. Nothing was changed."])?;
    demand!(kubelet(worker)? == pid, "it is another kubelet");
    let check = carrick.run(&format!("check --api {}:6443", bench.lab.site().control()))?;
    bench.say(check.text());
    let stale = check.text().lines().any(|line| line.contains("FAIL") && line.contains("stale."));
    demand!(!stale, "something of a live node is called stale:\n{}", check.text());
    is_joined(cluster, worker)
}

fn rotate(cluster: &Cluster, how: &str) -> Result<()> {
    cluster.control.run(["sh", "-ec", ROTATE, "lab", how]).deadline(ROTATED).ok().map(drop)
}

/// The kubeconfig of cluster-info, and the CA in it.
fn cluster_info(cluster: &Cluster) -> Result<(String, String)> {
    let info = cluster.get(["configmap", "-n", "kube-public", "cluster-info"])?;
    let text = info["data"]["kubeconfig"].as_str().unwrap_or_default().to_owned();
    let data = data(&text).ok_or_else(|| Error::Said(format!("no CA in cluster-info: {text}")))?;
    let pem = BASE64_STANDARD.decode(data).ok().and_then(|pem| String::from_utf8(pem).ok());
    Ok((text, pem.ok_or_else(|| Error::Said("the CA in cluster-info is no text".to_owned()))?))
}

fn data(kubeconfig: &str) -> Option<&str> {
    kubeconfig.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data: "))
}

/// The same kubeconfig with these CAs.
fn with_cas((text, _): &(String, String), cas: &[&str]) -> String {
    let bundle = BASE64_STANDARD.encode(cas.concat());
    data(text).map_or_else(String::new, |old| text.replace(old, &bundle))
}

/// Puts a kubeconfig into cluster-info, and waits until it is signed for the token anew.
fn show(cluster: &Cluster, kubeconfig: &str) -> Result<()> {
    let token = cluster.join.iter().skip_while(|word| *word != "--token").nth(1).cloned().unwrap_or_default();
    let key = format!("jws-kubeconfig-{}", token.split('.').next().unwrap_or_default());
    let get = || cluster.get(["configmap", "-n", "kube-public", "cluster-info"]);
    let before = get()?;
    if before["data"]["kubeconfig"] == kubeconfig {
        return Ok(());
    }
    let patch = json!({ "data": { "kubeconfig": kubeconfig } }).to_string();
    cluster.kubectl(["patch", "configmap", "-n", "kube-public", "cluster-info", "--type=merge", "-p", &patch]).ok()?;
    wait_for("cluster-info to be signed anew", Duration::from_mins(1), || {
        let now = get()?;
        let is_new = now["data"][&key] != before["data"][&key] && now["data"][&key].is_string();
        Ok(if is_new { Polled::Seen(()) } else { Polled::NotYet(now.to_string()) })
    })
    .map(drop)
}

fn is_signed_by(worker: &Machine, ca: &str) -> Result<()> {
    worker.write("/root/next.crt", ca)?;
    let client = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    worker.ok(["openssl", "verify", "-CAfile", "/root/next.crt", client]).map(drop)
}
