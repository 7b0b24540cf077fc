//! `carrick verify` on a node that had joined, broken in one way after the other and fixed again: each time the right piece
//! of the evidence is the first that fails.

use std::time::Duration;

use serde_json::Value;

use super::verify::{BREAK_KUBE_PROXY, FIX_KUBE_PROXY, KUBE_PROXY};
use super::{Bench, Case};
use crate::build::go::KUBERNETES;
use crate::carrick::Carrick;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Error, Result};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "verify names what is wrong with a node that only looks joined: kubelet, lease, certificate, cluster, network, Node",
    tier: Tier::Standard,
    covers: &[Covers::Verb("verify"), Covers::Promise(1), Covers::Promise(8), Covers::Family("kube-proxy")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

/// A node is broken, found out, and fixed.
struct Breach {
    name: &'static str,
    breaks: &'static str,
    line: &'static str,
    exit: i32,
    /// The id of the first cause.
    causes: &'static [&'static str],
    says: &'static str,
    /// The longest it may take on a machine that is busy with other cases.
    within: Duration,
    fixes: &'static str,
}

/// All that is read locally or asked at once; with a sandbox, two seconds more.
const AT_ONCE: Duration = Duration::from_secs(30);

const BREACHES: [Breach; 11] = [
    Breach {
        name: "a plugin is missing",
        breaks: "mv /opt/cni/bin/flannel /root/",
        line: "verify",
        exit: 3,
        causes: &["verify.sandbox"],
        says: "failed to find plugin",
        within: AT_ONCE,
        fixes: "mv /root/flannel /opt/cni/bin/",
    },
    Breach {
        name: "a configuration of somebody else's comes first",
        breaks: r#"echo '{"cniVersion":"1.0.0","name":"left","plugins":[{"type":"bridge","bridge":"left0","isGateway":true,"ipam":{"type":"host-local","subnet":"10.85.0.0/16"}}]}' > /etc/cni/net.d/05-left.conflist; sleep 2"#,
        line: "verify",
        exit: 3,
        causes: &["verify.address"],
        says: "10.85.0.",
        within: AT_ONCE,
        fixes: "rm /etc/cni/net.d/05-left.conflist; ip link delete left0; sleep 2",
    },
    Breach {
        name: "cni0 has an address of another range",
        breaks: "ip -4 address flush dev cni0; ip address add 10.99.1.1/24 dev cni0",
        line: "verify",
        exit: 3,
        causes: &["verify.sandbox"],
        says: "already has an IP address different from",
        within: AT_ONCE,
        fixes: ". /run/flannel/subnet.env; ip -4 address flush dev cni0; ip address add $FLANNEL_SUBNET dev cni0",
    },
    Breach {
        name: "the link of flannel's tunnel is deleted",
        breaks: "ip link delete flannel.1",
        line: "verify",
        exit: 3,
        causes: &["cni.tunnel-link"],
        says: "pods here reach no pod of another node",
        within: AT_ONCE,
        // As what is printed does, without an admin: flannel starts anew.
        fixes: "crictl stop $(crictl ps -q --name kube-flannel)",
    },
    Breach {
        name: "an agent is killed again and again",
        breaks: "systemd-run --quiet --unit=meddler sh -c 'while :; do pkill -KILL -x flanneld; sleep 0.5; done'",
        line: "verify --soak 90s",
        exit: 3,
        // Whether it is up when the first restart was seen is luck.
        causes: &["verify.network-agent", "verify.restarts"],
        says: "kube-flannel/kube-flannel-ds",
        within: Duration::from_mins(2),
        fixes: "systemctl stop meddler",
    },
    Breach {
        name: "kube-proxy cannot run",
        breaks: BREAK_KUBE_PROXY,
        line: "verify",
        exit: 3,
        causes: &["verify.kube-proxy"],
        says: KUBE_PROXY,
        within: AT_ONCE,
        fixes: FIX_KUBE_PROXY,
    },
    Breach {
        name: "the kubelet is stopped",
        breaks: "systemctl stop kubelet",
        line: "verify",
        exit: 3,
        causes: &["verify.kubelet"],
        says: "the kubelet does not run",
        within: AT_ONCE,
        fixes: "systemctl start kubelet",
    },
    Breach {
        name: "the kubelet hangs",
        // Until its next renewal is due, nobody can tell.
        breaks: "systemctl kill --signal=STOP kubelet; sleep 15",
        line: "verify",
        exit: 3,
        causes: &["verify.lease"],
        says: "has not renewed its lease for",
        within: Duration::from_secs(75),
        fixes: "systemctl kill --signal=CONT kubelet",
    },
    Breach {
        name: "the certificate is of another cluster",
        breaks: "cd /var/lib/kubelet/pki; readlink kubelet-client-current.pem > /root/current; ln -sfn /root/other/client.pem kubelet-client-current.pem",
        line: "verify",
        exit: 3,
        causes: &["verify.certificate"],
        says: "does not accept it for",
        within: AT_ONCE,
        fixes: "ln -sfn $(cat /root/current) /var/lib/kubelet/pki/kubelet-client-current.pem",
    },
    Breach {
        name: "the API server does not answer",
        breaks: "ip route add blackhole $(sed -n 's/.*server: https:..\\(.*\\):6443.*/\\1/p' /etc/kubernetes/kubelet.conf)",
        line: "verify",
        exit: 4,
        causes: &[],
        says: "Cannot tell whether it has joined",
        within: AT_ONCE,
        fixes: "ip route del blackhole $(sed -n 's/.*server: https:..\\(.*\\):6443.*/\\1/p' /etc/kubernetes/kubelet.conf)",
    },
    Breach {
        name: "the kubelet runs alone",
        breaks: "mv /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf /root/; systemctl daemon-reload; systemctl restart kubelet",
        line: "verify",
        exit: 3,
        causes: &["verify.kubelet"],
        says: "the kubelet has no --kubeconfig: it runs alone",
        within: AT_ONCE,
        fixes: "mv /root/10-kubeadm.conf /usr/lib/systemd/system/kubelet.service.d/; systemctl daemon-reload; systemctl restart kubelet",
    },
];

fn run(bench: &mut Bench) -> Result<()> {
    let program = bench.carrick()?;
    let cluster = bench.cluster()?;
    let worker = bench.worker(Kind::Debian12)?;
    let carrick = Carrick::on(&worker, &program)?;
    cluster.join(&worker)?;
    cluster.wait_ready(&worker.identity.name)?;
    becomes_joined(bench, &carrick)?;
    make_another_cluster(bench, &carrick)?;
    for breach in &BREACHES {
        bench.say(format_args!("--- {}", breach.name));
        worker.run(["sh", "-ec", breach.breaks]).ok()?;
        is_found(bench, &carrick, breach)?;
        worker.run(["sh", "-ec", breach.fixes]).ok()?;
        becomes_joined(bench, &carrick)?;
    }
    of_another_cluster(bench, &carrick)?;
    deleted(bench, &carrick)
}

fn is_found(bench: &mut Bench, carrick: &Carrick, breach: &Breach) -> Result<()> {
    let done = carrick.ends(bench, &format!("{} -o json", breach.line), breach.exit, &[])?;
    bench.time(breach.name, done.took);
    let report: Value = serde_json::from_str(&done.out).map_err(|_| Error::Said(done.text()))?;
    let first = report["causes"][0]["id"].as_str().unwrap_or_default();
    let is_right = breach.causes.contains(&first) || (breach.causes.is_empty() && first.is_empty());
    demand!(is_right, "{}: the first cause is {first:?}, not one of {:?}: {report}", breach.name, breach.causes);
    demand!(done.took < breach.within, "{}: it took {:?}", breach.name, done.took);
    if breach.exit == 4 {
        demand!(report["verdict"] == "unknown", "{}: {report}", breach.name);
    } else {
        demand!(done.out.contains(breach.says), "{}: it does not say {:?}: {report}", breach.name, breach.says);
    }
    Ok(())
}

/// What was fixed takes its time: flannel and the kubelet start again.
fn becomes_joined(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    let done = wait_for("carrick verify to end with 0", Duration::from_mins(4), || {
        let done = carrick.run("verify")?;
        Ok(if done.code() == 0 { Polled::Seen(done) } else { Polled::NotYet(done.text()) })
    })?;
    bench.say(done.text());
    Ok(())
}

/// A CA of another cluster, and this node's kubelet.conf and certificate as that one would have made them.
fn make_another_cluster(bench: &Bench, carrick: &Carrick) -> Result<()> {
    const TAKE_APART: &str = "for what in certificate key; do \
        sed -n \"s/^ *client-$what-data: //p\" /root/other/kubelet.conf | base64 -d; done > /root/other/client.pem";
    let (version, control) = (format!("--kubernetes-version={KUBERNETES}"), bench.lab.site().control());
    let (address, node) =
        (format!("--apiserver-advertise-address={control}"), format!("--node-name={}", carrick.machine.identity.name));
    let own = ["--cert-dir=/root/other", &version];
    carrick.machine.run(["kubeadm", "init", "phase", "certs", "ca"].iter().chain(&own)).ok()?;
    let words = ["kubeadm", "init", "phase", "kubeconfig", "kubelet", "--kubeconfig-dir=/root/other", &address, &node];
    carrick.machine.run(words.iter().chain(&own)).ok()?;
    carrick.machine.run(["sh", "-ec", TAKE_APART]).ok().map(drop)
}

/// kubelet.conf and certificate fit each other, and the cluster is another: told by its CA, and by its API server alone.
fn of_another_cluster(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    const BREAKS: &str = "cp /etc/kubernetes/kubelet.conf /root/; cp /root/other/kubelet.conf /etc/kubernetes/; \
        cd /var/lib/kubelet/pki; readlink kubelet-client-current.pem > /root/current; \
        ln -sfn /root/other/client.pem kubelet-client-current.pem";
    const FIXES: &str = "cp /root/kubelet.conf /etc/kubernetes/; \
        ln -sfn $(cat /root/current) /var/lib/kubelet/pki/kubelet-client-current.pem";
    carrick.machine.run(["sh", "-ec", BREAKS]).ok()?;
    let api = format!("verify -o json --api {}:6443", bench.lab.site().control());
    for (line, cause) in [("verify -o json", "verify.certificate"), (api.as_str(), "verify.cluster")] {
        let done = carrick.ends(bench, line, 3, &[])?;
        let report: Value = serde_json::from_str(&done.out).map_err(|_| Error::Said(done.text()))?;
        demand!(report["causes"][0]["id"] == cause, "{line}: not {cause}: {report}");
    }
    carrick.machine.run(["sh", "-ec", FIXES]).ok()?;
    becomes_joined(bench, carrick)
}

/// The Node is gone, and its kubelet does not bring it back.
fn deleted(bench: &mut Bench, carrick: &Carrick) -> Result<()> {
    bench.cluster()?.delete_node(&carrick.machine.identity.name)?;
    let done = carrick.ends(bench, "verify -o json", 3, &["there is no Node of this name", "node.never-registered"])?;
    bench.time("Node deleted", done.took);
    let report: Value = serde_json::from_str(&done.out).map_err(|_| Error::Said(done.text()))?;
    demand!(report["causes"][0]["id"] == "verify.identity" && report["reached"].is_null(), "{report}");
    Ok(())
}
