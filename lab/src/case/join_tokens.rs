//! What a join needs of the cluster is taken away, one thing after the other: each is named, with what `carrick` can see by itself and with
//! an admin's kubeconfig, and doing what the remedy says is enough to join.
//!
//! These are the cluster's own: no other case runs beside this one, and everything is put back, however it ends.

use std::time::Duration;

use serde_json::Value;

use super::{Bench, Case};
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::demand;
use crate::error::{Error, Result};
use crate::join::{self, Ends, SHORT, bring_admin, fresh, is_joined, judge, line};
use crate::machine::Kind;
use crate::need::Need;
use crate::remedy;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "tokens, ConfigMaps, bindings and signers that are not as kubeadm leaves them: each named, fixed as told, joined",
    tier: Tier::Standard,
    covers: &[Covers::Verb("join"), Covers::Promise(3), Covers::Family("api"), Covers::Family("csr")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12), Need::Alone],
    run,
};

/// What kubeadm leaves for joining machines: kind, namespace, name.
const KEPT: [(&str, &str, &str); 10] = [
    ("configmap", "kube-public", "cluster-info"),
    ("configmap", "kube-system", "kubelet-config"),
    ("configmap", "kube-system", "kubeadm-config"),
    ("role", "kube-system", "kubeadm:kubelet-config"),
    ("rolebinding", "kube-public", "kubeadm:bootstrap-signer-clusterinfo"),
    ("rolebinding", "kube-system", "kubeadm:kubelet-config"),
    ("rolebinding", "kube-system", "kubeadm:nodes-kubeadm-config"),
    ("clusterrolebinding", "", "kubeadm:get-nodes"),
    ("clusterrolebinding", "", "kubeadm:kubelet-bootstrap"),
    ("clusterrolebinding", "", "kubeadm:node-autoapprove-bootstrap"),
];

const MANIFEST: &str = "/etc/kubernetes/manifests/kube-controller-manager.yaml";

/// The cluster as it was; put back when this goes.
struct ClusterGuard<'a> {
    cluster: &'a Cluster,
    objects: String,
    manifest: String,
}

impl<'a> ClusterGuard<'a> {
    fn of(cluster: &'a Cluster) -> Result<Self> {
        let mut items = Vec::new();
        for (kind, namespace, name) in KEPT {
            let place = if namespace.is_empty() { Vec::new() } else { vec!["-n", namespace] };
            let mut object = cluster.get(place.into_iter().chain([kind, name]))?;
            let metadata = object["metadata"].as_object_mut();
            let metadata = metadata.ok_or_else(|| Error::Said(format!("{kind} {name} has no metadata")))?;
            metadata.retain(|key, _| ["name", "namespace", "labels", "annotations"].contains(&key.as_str()));
            items.push(object);
        }
        let objects = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        Ok(Self { cluster, objects, manifest: cluster.control.read(MANIFEST)? })
    }

    fn put_back(&self) -> Result<()> {
        self.cluster.apply(&self.objects)?;
        if self.cluster.control.read(MANIFEST)? != self.manifest {
            self.cluster.control.write(MANIFEST, &self.manifest)?;
        }
        Ok(())
    }
}

impl Drop for ClusterGuard<'_> {
    fn drop(&mut self) {
        let _ = self.put_back();
    }
}

/// Something that is taken away, the cause that is told first, and the one that is told with an admin's kubeconfig.
struct Lack {
    what: &'static str,
    /// Typed on the control plane; `$id` and `$token` are a token's that was made for this.
    breaks: &'static str,
    cause: &'static str,
    by_admin: &'static str,
}

const TOKEN: &str = "token=$(kubeadm token create --ttl 1h); id=${token%%.*}";

const LACKS: [Lack; 11] = [
    lack("no cluster-info", "kubectl -n kube-public delete configmap cluster-info", "api.cluster-info"),
    lack(
        "nobody may read cluster-info",
        "kubectl -n kube-public delete rolebinding kubeadm:bootstrap-signer-clusterinfo",
        "api.cluster-info-role",
    ),
    lack("no kubelet-config", "kubectl -n kube-system delete configmap kubelet-config", "api.kubelet-config"),
    lack(
        "nobody may read kubelet-config",
        "kubectl -n kube-system delete role,rolebinding kubeadm:kubelet-config",
        "api.kubelet-config",
    ),
    lack(
        "nobody may read kubeadm-config",
        "kubectl -n kube-system delete rolebinding kubeadm:nodes-kubeadm-config",
        "api.kubeadm-config",
    ),
    lack("nobody may get Nodes", "kubectl delete clusterrolebinding kubeadm:get-nodes", "api.get-node"),
    lack(
        "nobody may ask for a certificate",
        "kubectl delete clusterrolebinding kubeadm:kubelet-bootstrap",
        "api.certificate-requests",
    ),
    Lack {
        what: "a token that is gone",
        breaks: "kubeadm token delete $id",
        cause: "api.token",
        by_admin: "api.token-unknown",
    },
    Lack {
        what: "a token without signing",
        breaks: r#"kubectl -n kube-system patch secret bootstrap-token-$id -p '{"stringData":{"usage-bootstrap-signing":"false"}}'"#,
        cause: "api.token",
        by_admin: "api.token-signing",
    },
    Lack {
        what: "a token without authentication",
        breaks: r#"kubectl -n kube-system patch secret bootstrap-token-$id -p '{"stringData":{"usage-bootstrap-authentication":"false"}}'"#,
        cause: "api.auth",
        by_admin: "api.token-authentication",
    },
    Lack {
        what: "a token without the group",
        breaks: r#"kubectl -n kube-system patch secret bootstrap-token-$id -p '{"stringData":{"auth-extra-groups":"system:bootstrappers:x"}}'"#,
        cause: "api.token-group",
        by_admin: "api.token-group",
    },
];

const fn lack(what: &'static str, breaks: &'static str, cause: &'static str) -> Lack {
    Lack { what, breaks, cause, by_admin: cause }
}

fn run(bench: &mut Bench) -> Result<()> {
    let cluster = bench.cluster()?;
    remedy::bring_kubectl(cluster)?;
    let guard = ClusterGuard::of(cluster)?;
    for lack in &LACKS {
        play(bench, lack)?;
    }
    nobody_signs(bench, &guard)
}

/// A token is made, something is taken away; what the signer does about it is waited for.
fn broken(cluster: &Cluster, lack: &Lack) -> Result<String> {
    let script = format!("{TOKEN}; {} >&2; echo $token", lack.breaks);
    let said = cluster.control.run(["env", "KUBECONFIG=/etc/kubernetes/admin.conf", "sh", "-ec", &script]).ok()?;
    let token = said.lines().last().unwrap_or_default().to_owned();
    let signed = !matches!(lack.by_admin, "api.cluster-info" | "api.token-unknown" | "api.token-signing");
    wait_signed(cluster, &token, signed)?;
    Ok(token)
}

fn wait_signed(cluster: &Cluster, token: &str, signed: bool) -> Result<()> {
    let key = format!("jws-kubeconfig-{}", token.split('.').next().unwrap_or_default());
    wait_for("the signer to have seen it", Duration::from_secs(30), || {
        let info = cluster.kubectl(["-n", "kube-public", "get", "configmap", "cluster-info", "-o", "json"]).done()?;
        let data: Value = serde_json::from_str(&info.out).unwrap_or_default();
        let there = data["data"][&key].is_string();
        Ok(if there == signed { Polled::Seen(()) } else { Polled::NotYet(info.text()) })
    })
}

fn play(bench: &mut Bench, lack: &Lack) -> Result<()> {
    let (cluster, machine) = (bench.cluster()?, fresh(bench)?);
    let admin = bring_admin(cluster, &machine)?;
    let token = broken(cluster, lack)?;
    let typed = with_token(cluster, &token);
    let with_admin = ["--kubeconfig", admin, "-"];
    let mut told = String::new();
    for (words, cause) in [(&with_admin[..], lack.by_admin), (&["-"], lack.cause)] {
        let done = join::join(&machine, &SHORT, words, &typed)?;
        bench.say(format_args!("{}, {words:?}: {} after {:?}\n{}", lack.what, done.code(), done.took, done.text()));
        bench.time(format!("{}: {cause}", lack.what), done.took);
        judge(&Ends::Cause(cause, 3), &done)?;
        join::nothing_left(&machine)?;
        told = done.text();
    }
    let line = remedy::carry_out(cluster, &machine, &told)?.unwrap_or(typed);
    let joined = join::join(&machine, &[], &["-"], &line)?;
    bench.say(format_args!("{}, fixed: {}\n{}", lack.what, joined.code(), joined.text()));
    demand!(joined.code() == 0, "{}: what the remedy says is not enough:\n{}", lack.what, joined.text());
    is_joined(cluster, &machine)
}

/// The cluster's join line with another token.
fn with_token(cluster: &Cluster, token: &str) -> String {
    let mut words = cluster.join.clone();
    if let Some(at) = words.iter().position(|word| word == "--token") {
        token.clone_into(&mut words[at + 1]);
    }
    words.join(" ")
}

/// kube-controller-manager without the controllers that sign: cluster-info for tokens, and certificates that were approved.
fn nobody_signs(bench: &mut Bench, guard: &ClusterGuard) -> Result<()> {
    let (cluster, machine) = (bench.cluster()?, fresh(bench)?);
    let admin = bring_admin(cluster, &machine)?;
    let without = "--controllers=*,-certificatesigningrequest-signing-controller";
    let lines = guard.manifest.lines().map(|line| match line.split_once("--controllers=") {
        Some((before, _)) => format!("{before}{without}\n"),
        None => format!("{line}\n"),
    });
    cluster.control.write(MANIFEST, &lines.collect::<String>())?;
    runs_with(cluster, without)?;
    let token = cluster.control.ok(["kubeadm", "token", "create", "--ttl", "1h"])?.trim().to_owned();
    // As long as a signature takes, and longer than that.
    crate::run::pause(Duration::from_secs(12))?;
    for (words, line, cause, exit) in [
        (&["--kubeconfig", admin, "-"][..], with_token(cluster, &token), "api.token-unsigned", 3),
        (&["-"], with_token(cluster, &token), "api.token", 3),
        (&["-"], line(cluster), "csr.not-issued", 6),
    ] {
        let done = join::join(&machine, &SHORT, words, &line)?;
        bench.say(format_args!("nobody signs, {words:?}: {} after {:?}\n{}", done.code(), done.took, done.text()));
        bench.time(format!("nobody signs: {cause}"), done.took);
        judge(&Ends::Cause(cause, exit), &done)?;
        join::nothing_left(&machine)?;
        demand!(!remedy::printed(&done.text()).is_empty(), "no remedy:\n{}", done.text());
    }
    guard.put_back()?;
    runs_with(cluster, "tokencleaner")?;
    wait_signed(cluster, &token, true)?;
    let joined = join::join(&machine, &[], &["-"], &with_token(cluster, &token))?;
    bench.say(joined.text());
    demand!(joined.code() == 0, "with the signers back it ended with {}:\n{}", joined.code(), joined.text());
    is_joined(cluster, &machine)
}

/// kube-controller-manager runs, is ready, and was started with this.
fn runs_with(cluster: &Cluster, argument: &str) -> Result<()> {
    wait_for("kube-controller-manager", Duration::from_mins(2), || {
        let pods = cluster.kubectl([
            "-n",
            "kube-system",
            "get",
            "pods",
            "-l",
            "component=kube-controller-manager",
            "-o",
            "json",
        ]);
        let pods = pods.done()?;
        let list: Value = serde_json::from_str(&pods.out).unwrap_or_default();
        let pod = &list["items"][0];
        let fits = pod["spec"]["containers"][0]["command"].to_string().contains(argument);
        let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
        Ok(if fits && ready { Polled::Seen(()) } else { Polled::NotYet(pods.text().chars().take(500).collect()) })
    })
}
