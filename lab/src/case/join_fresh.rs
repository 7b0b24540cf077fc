//! A fresh machine joins with carrick, whichever way it is told where to; a second run finds nothing to do.

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{bring_admin, fresh, is_joined, join, joins, line};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join by a line on stdin, by a file, by an admin's kubeconfig; the second run changes nothing",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// Whatever a join could have changed: names, modes, contents. Not what the kubelet and its pods write all the time.
const TREE: &str = "cd / && find etc opt/cni run/systemd/system run/carrick var/lib/carrick/runs var/lib/carrick/joins var/lib/kubelet/config.yaml \
    var/lib/kubelet/kubeadm-flags.env var/lib/kubelet/pki -printf '%p %y %m %U %G %l\\n' -type f -exec sha256sum {} \\; 2>/dev/null | sort";

fn run(bench: &mut Bench) -> Result<()> {
    by_line(bench)?;
    by_file(bench)?;
    by_discovery(bench)?;
    by_admin(bench)
}

fn by_line(bench: &mut Bench) -> Result<()> {
    let worker = fresh(bench)?;
    let first = joins(bench, &worker)?;
    bench.time("by a line", first.took);
    bench.cluster()?.pod_answers(&worker)?;
    let before = tree(&worker)?;
    let second = joins(bench, &worker)?;
    bench.time("again", second.took);
    let said = second.out.contains("had joined already, and it holds. Nothing was changed.");
    demand!(said, "the second run does not say so: {}", second.text());
    let after = tree(&worker)?;
    demand!(before == after, "the second run changed something:\n{before}\n---\n{after}");
    Ok(())
}

fn by_file(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let words: Vec<&str> = cluster.join.iter().map(String::as_str).collect();
    let after = |flag: &str| words.iter().skip_while(|word| **word != flag).nth(1).copied().unwrap_or_default();
    let config = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n    \
         apiServerEndpoint: {}\n    token: {}\n    caCertHashes: [\"{}\"]\n",
        after("join"),
        after("--token"),
        after("--discovery-token-ca-cert-hash")
    );
    worker.write("/root/join.yaml", &config)?;
    let done = join(&worker, &[], &["--config", "/root/join.yaml", "--label", "lab/by=file"], "")?;
    bench.say(done.text());
    bench.time("by a file", done.success()?.took);
    let name = &worker.identity.name;
    let label = cluster.get(["node", name])?["metadata"]["labels"]["lab/by"].clone();
    demand!(label == "file", "the Node has no label of ours: {label}");
    is_joined(cluster, &worker)
}

/// The cluster is told by a kubeconfig as everybody may read it in the cluster, the token beside it.
fn by_discovery(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let info = cluster.get(["configmap", "-n", "kube-public", "cluster-info"])?;
    worker.write("/root/cluster.conf", info["data"]["kubeconfig"].as_str().unwrap_or_default())?;
    let token = cluster.join.iter().skip_while(|word| *word != "--token").nth(1).cloned().unwrap_or_default();
    let config = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  file: {{kubeConfigPath: /root/cluster.conf}}\n  \
         tlsBootstrapToken: {token}\n"
    );
    worker.write("/root/join.yaml", &config)?;
    let done = join(&worker, &[], &["--config", "/root/join.yaml"], "")?;
    bench.say(done.text());
    bench.time("by discovery", done.success()?.took);
    is_joined(cluster, &worker)
}

fn by_admin(bench: &mut Bench) -> Result<()> {
    let (cluster, worker) = (bench.cluster()?, fresh(bench)?);
    let admin = bring_admin(cluster, &worker)?;
    let tokens = || -> Result<String> { cluster.control.ok(["kubeadm", "token", "list", "-o", "jsonpath={.token}\n"]) };
    let before = tokens()?;
    let done = join(&worker, &[], &["--kubeconfig", admin], "")?;
    bench.say(done.text());
    bench.time("by a kubeconfig", done.success()?.took);
    let after = tokens()?;
    demand!(after == before, "the token that was made is still there: {before} / {after}");
    is_joined(cluster, &worker)?;
    // Bad input is told before anything is looked at.
    let wrong = line(cluster).replace("sha256:", "sha257:");
    let refused = join(&worker, &[], &["-"], &wrong)?;
    demand!(refused.code() == 2, "it ended with {}: {}", refused.code(), refused.text());
    Ok(())
}

fn tree(worker: &Machine) -> Result<String> {
    worker.ok(["sh", "-c", TREE])
}
