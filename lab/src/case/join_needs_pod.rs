//! A pod network whose plugin serves nobody but the cluster's Pods: a stand-in that asks the API server for the Pod, as multus,
//! calico and cilium do, and flannel behind it. What proves it is a pod younger than the kubelet and the network's agent, else a
//! throw-away Pod, else nothing.

use std::sync::Arc;
use std::time::Duration;

use super::{Bench, Case};
use crate::build::image::BUSYBOX;
use crate::carrick::Carrick;
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Error, Result};
use crate::join::{bring_admin, fresh, is_joined, join, line, nothing_left};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "where only Pods are served, old pods prove nothing: join says not proven, a throw-away Pod proves it, and is gone",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Verb("verify"), Covers::Promise(1)],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

const PLUGIN: &str = "/opt/cni/bin/multus";
/// What the stand-in looks for: `down`, `slow`, `refuse`.
const SWITCHES: &str = "/run/lab-multus";
const LABEL: [&str; 2] = ["--label", "network=multus"];
const NOT_PROVEN: &str = "Registered, network ready, pods not proven.";
const UNKNOWN: &str = "none has started here since the kubelet and the network's agent did";
/// Until a Pod that was deleted has gone, or an agent is Ready.
const SOON: Duration = Duration::from_mins(1);

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    cluster.apply(&include_str!("../../files/multus.yaml").replace("@BUSYBOX@", BUSYBOX))?;
    let played = without_an_admin(bench, cluster).and_then(|()| with_an_admin(bench, cluster));
    played.and(cluster.kubectl(["delete", "daemonset", "-n", "kube-system", "kube-multus-ds"]).ok().map(drop))
}

/// A fresh worker with the plugin, and without the network's agent, which comes with the join.
fn prepared(bench: &mut Bench) -> Result<Arc<Machine>> {
    let worker = fresh(bench)?;
    let address = bench.lab.site().control().to_string();
    worker.write(PLUGIN, &include_str!("../../files/multus.sh").replace("@ADDRESS@", &address))?;
    worker.ok(["sh", "-ec", &format!("chmod 755 {PLUGIN}; mkdir -p {SWITCHES}")])?;
    Ok(worker)
}

/// Nobody may make a Pod: it is in the cluster, and that is all that is known, until one comes by itself.
fn without_an_admin(bench: &mut Bench, cluster: &Cluster) -> Result<()> {
    let worker = prepared(bench)?;
    let name = worker.identity.name.clone();
    let carrick = Carrick { machine: Arc::clone(&worker) };
    let done = join(&worker, &[], &[LABEL[0], LABEL[1], "-"], &line(cluster))?;
    bench.say(format_args!("a fresh join ended with {}\n{}", done.code(), done.text()));
    bench.time("not proven", done.took);
    demand!(done.code() == 4 && done.out.contains(NOT_PROVEN), "it ended with {}:\n{}", done.code(), done.text());
    demand!(done.text().contains("carrick verify --kubeconfig"), "no command:\n{}", done.text());
    is_joined(cluster, &worker)?;
    carrick.ends(bench, "verify", 4, &["verify.sandbox", UNKNOWN, "carrick verify --kubeconfig FILE"])?;

    // One that comes by itself proves it, and nothing once the agent or the kubelet has started anew.
    pod(cluster, &name)?;
    carrick.ends(bench, "verify -v", 0, &[&format!("pod default/web-{name} has the address")])?;
    let again = join(&worker, &[], &["-"], &line(cluster))?;
    demand!(again.code() == 0 && again.out.contains("had joined already"), "{}", again.text());
    worker.ok(["systemctl", "restart", "kubelet"])?;
    cluster.wait_ready(&name)?;
    carrick.ends(bench, "verify", 4, &["verify.sandbox", UNKNOWN])?;
    let old = join(&worker, &[], &["-"], &line(cluster))?;
    bench.say(format_args!("with old pods only it ended with {}\n{}", old.code(), old.text()));
    demand!(old.code() == 4 && old.out.contains(NOT_PROVEN), "it ended with {}:\n{}", old.code(), old.text());
    pod(cluster, &name)?;
    carrick.ends(bench, "verify", 0, &["Joined: "])?;
    restart_agent(cluster, &name)?;
    carrick.ends(bench, "verify", 4, &["verify.sandbox", UNKNOWN])?;

    // An agent that is not Ready serves nobody.
    worker.ok(["touch", &format!("{SWITCHES}/down")])?;
    agent_is(cluster, &name, "False")?;
    carrick.ends(bench, "verify", 3, &["verify.network-agent", "is not ready"])?;
    cluster.kubectl(["delete", "pod", &format!("web-{name}"), "--grace-period=0", "--force"]).ok().map(drop)
}

/// A throw-away Pod proves it, or says what is wrong; none is left, whatever happens.
fn with_an_admin(bench: &mut Bench, cluster: &Cluster) -> Result<()> {
    let worker = prepared(bench)?;
    let name = worker.identity.name.clone();
    let carrick = Carrick { machine: Arc::clone(&worker) };
    let admin = bring_admin(cluster, &worker)?;
    let done = join(&worker, &[], &["--kubeconfig", admin, LABEL[0], LABEL[1]], "")?;
    bench.say(format_args!("a join with --kubeconfig ended with {}\n{}", done.code(), done.text()));
    bench.time("proven by a Pod", done.took);
    demand!(done.code() == 0 && done.text().contains("pod default/carrick-verify-"), "{}", done.text());
    is_joined(cluster, &worker)?;
    none_left(cluster, &name)?;
    let verify = format!("verify -v --kubeconfig {admin}");
    let proven =
        ["pod default/carrick-verify-", "the API server reaches the kubelet", "answers a pod here", "Joined: "];
    carrick.ends(bench, &verify, 0, &proven)?;
    none_left(cluster, &name)?;

    // A pod that is younger than the agent proves the network, and its way to others is the one that counts.
    pod(cluster, &name)?;
    worker.ok(["iptables", "-I", "FORWARD", "-j", "DROP"])?;
    carrick.ends(bench, &verify, 3, &["verify.peer", "pods of other nodes answer this machine, and no pod here"])?;
    worker.ok(["iptables", "-D", "FORWARD", "-j", "DROP"])?;
    let of_web = format!("pod default/web-{name} has the address");
    carrick.ends(bench, &verify, 0, &[&of_web, "answers a pod here", "Joined: "])?;
    cluster.kubectl(["delete", "pod", &format!("web-{name}"), "--grace-period=0", "--force"]).ok()?;

    // What the plugin says is the cause.
    worker.ok(["touch", &format!("{SWITCHES}/refuse")])?;
    carrick.ends(bench, &verify, 3, &["verify.sandbox", "the network is out of order"])?;
    worker.ok(["rm", &format!("{SWITCHES}/refuse")])?;
    none_left(cluster, &name)?;

    refused_by_admission(bench, cluster, &carrick, &verify)?;
    stopped(bench, cluster, &carrick, admin)?;
    nothing_left(&worker)
}

/// A policy that takes no such Pod: nothing is known of the network then.
fn refused_by_admission(bench: &mut Bench, cluster: &Cluster, carrick: &Carrick, verify: &str) -> Result<()> {
    let name = &carrick.machine.identity.name;
    let policy = include_str!("../../files/no-trial-pods.yaml").replace("@NODE@", name);
    cluster.apply(&policy)?;
    // A policy counts a second or so after it was made.
    let refused = wait_for("the policy to count", SOON, || {
        let done = carrick.run(verify)?;
        Ok(if done.code() == 4 { Polled::Seen(done) } else { Polled::NotYet(done.text()) })
    });
    let removed = cluster.kubectl(["delete", "-f", "-"]).input(policy).ok();
    let text = refused?.text().split_whitespace().collect::<Vec<_>>().join(" ");
    removed?;
    bench.say(&text);
    demand!(text.contains("the cluster did not take a throw-away Pod"), "{text}");
    demand!(text.contains("no throw-away Pods on this node"), "it does not quote the policy: {text}");
    none_left(cluster, name)
}

/// Stopped in the middle it takes its Pod away; killed, the next run does.
fn stopped(bench: &mut Bench, cluster: &Cluster, carrick: &Carrick, admin: &str) -> Result<()> {
    let worker = &carrick.machine;
    let name = &worker.identity.name;
    worker.ok(["touch", &format!("{SWITCHES}/slow")])?;
    for (signal, exit) in [("TERM", 143), ("INT", 130), ("KILL", 137)] {
        let script = "carrick verify --kubeconfig \"$1\" & verify=$!
            for i in $(seq 100); do kubectl --kubeconfig \"$1\" get pods -o name -l io.carrick=pod-test \\
                --field-selector spec.nodeName=\"$4\" | grep -q . && break; sleep 0.1; done
            kill -$2 $verify; wait $verify; [ $? = $3 ]";
        let argv = ["sh", "-c", script, "sh", admin, signal, &exit.to_string(), name].map(str::to_owned);
        let done = worker.run(&argv).deadline(SOON * 2).done()?;
        bench.say(format_args!("SIG{signal}: {}\n{}", done.code(), done.text()));
        demand!(done.code() == 0, "SIG{signal}:\n{}", done.text());
        if signal == "KILL" {
            demand!(!trial_pods(cluster, name)?.is_empty(), "nothing was left to find");
        } else {
            demand!(done.text().contains("nothing of it is left"), "SIG{signal}:\n{}", done.text());
            none_left(cluster, name)?;
        }
    }
    worker.ok(["rm", &format!("{SWITCHES}/slow")])?;
    carrick.ends(bench, &format!("verify --kubeconfig {admin}"), 0, &["Joined: "])?;
    none_left(cluster, name)
}

/// A pod of somebody's on the node, made anew, with an address.
fn pod(cluster: &Cluster, node: &str) -> Result<()> {
    let pod = format!("web-{node}");
    cluster.kubectl(["delete", "pod", &pod, "--grace-period=0", "--force", "--ignore-not-found"]).ok()?;
    cluster.apply(&include_str!("../../files/pod.yaml").replace("@NODE@", node).replace("@BUSYBOX@", BUSYBOX))?;
    wait_for("the pod to get an address", SOON, || {
        let status = cluster.get(["pod", &pod])?["status"].clone();
        Ok(if status["podIP"].is_string() { Polled::Seen(()) } else { Polled::NotYet(status.to_string()) })
    })
}

fn agent(cluster: &Cluster, node: &str) -> Result<serde_json::Value> {
    let of_node = format!("spec.nodeName={node}");
    let pods = cluster.get(["pods", "-n", "kube-system", "-l", "name=multus", "--field-selector", &of_node])?;
    pods["items"].get(0).cloned().ok_or_else(|| Error::Said(format!("no agent runs on {node}: {pods}")))
}

fn restart_agent(cluster: &Cluster, node: &str) -> Result<()> {
    let old = agent(cluster, node)?["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    cluster.kubectl(["delete", "pod", "-n", "kube-system", &old]).ok()?;
    agent_is(cluster, node, "True")
}

fn agent_is(cluster: &Cluster, node: &str, ready: &str) -> Result<()> {
    wait_for(&format!("the agent to be Ready={ready}"), SOON, || {
        let Ok(agent) = agent(cluster, node) else { return Ok(Polled::NotYet("none".to_owned())) };
        let is = crate::cluster::condition(&agent, "Ready")["status"] == ready;
        Ok(if is { Polled::Seen(()) } else { Polled::NotYet(agent["status"].to_string()) })
    })
}

fn trial_pods(cluster: &Cluster, node: &str) -> Result<Vec<String>> {
    let of_node = format!("spec.nodeName={node}");
    let pods = cluster.get(["pods", "-A", "-l", "io.carrick=pod-test", "--field-selector", &of_node])?;
    let names = pods["items"].as_array().into_iter().flatten();
    Ok(names.filter_map(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned).collect())
}

/// It is deleted when carrick ends, and gone a second or two later.
fn none_left(cluster: &Cluster, node: &str) -> Result<()> {
    wait_for("the throw-away Pod to be gone", SOON, || {
        let left = trial_pods(cluster, node)?;
        Ok(if left.is_empty() { Polled::Seen(()) } else { Polled::NotYet(left.join(", ")) })
    })
}
