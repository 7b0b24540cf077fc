//! The kubelet of a node listens where the API server reaches it: on TCP 10250, and not on the loopback alone.
//!
//! The API server calls the kubelet for `kubectl logs`, `exec`, `port-forward` and for metrics. With `enableServer: false`, `port`
//! set to another one, or `address: 127.0.0.1` (flags: `--address`, `--port`) the node is Ready, its pods run, and nobody
//! reaches its kubelet. Judged by the sockets of this machine, once the kubelet has been up for some seconds.
//!
//! See it yourself: `ss -lntp | grep kubelet`
//! Fix: take `enableServer`, `address` and `port` out of /var/lib/kubelet/config.yaml, and the flags out of
//! /var/lib/kubelet/kubeadm-flags.env and /etc/default/kubelet; then `systemctl restart kubelet`

use jiff::SignedDuration;

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip,
};
use crate::fact::listen::{LISTENERS, ListeningSocket, Proto};
use crate::fact::{Facts, Known, Missing};
use crate::id;
use crate::join::observed;

pub const CHECK: Check = Check {
    id: "kubelet.not-listening",
    title: "kubelet listens where the API server reaches it",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::GoesOn("before a join no kubelet listens yet; one that does not afterwards is told"),
    fixed_by: FixedBy::Operator("who set it there may have meant it"),
    accounts_for: nothing,
    judge,
};

/// What the Node tells the API server where nobody set another: `status.daemonEndpoints` follows the kubelet's own port.
const USUAL: u16 = 10250;
/// A kubelet opens its port within a second or two of its start.
const STARTS: SignedDuration = SignedDuration::from_secs(15);

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if !facts.has_kubelet_conf()? || !facts.unit_state("kubelet")?.is_active() {
        return Ok(skip("no kubelet of a node runs here"));
    }
    let started = observed::kubelet_started_at(facts);
    if started.is_none_or(|at| facts.taken_at.duration_since(at) < STARTS) {
        return Ok(skip("the kubelet has just been started"));
    }
    let listeners = facts.listeners()?;
    let own = |listener: &&ListeningSocket| listener.owner.as_ref().is_some_and(|owner| owner.name == "kubelet");
    let of_kubelet: Vec<&ListeningSocket> = listeners.iter().filter(own).collect();
    if of_kubelet.is_empty() && listeners.iter().any(|it| it.port == USUAL && it.owner.is_none()) {
        return Err(Missing::broken(LISTENERS.name, "does not say whose TCP 10250 is"));
    }
    let is_reached = |listener: &&&ListeningSocket| listener.proto == Proto::Tcp && !listener.address.is_loopback();
    if let Some(open) = of_kubelet.iter().find(is_reached) {
        return Ok(pass(format!("kubelet listens on {}:{}", open.address, open.port)));
    }
    let says = match of_kubelet.iter().find(|listener| listener.port == USUAL) {
        Some(listener) => format!("kubelet listens on {} only: the API server cannot reach it", listener.address),
        None => "kubelet does not listen on TCP 10250: the API server cannot reach it".to_owned(),
    };
    Ok(fail(says)
        .seen(of_kubelet.iter().map(|it| Evidence::at(LISTENERS.name, it.line, &it.text)))
        .seen(of_kubelet.is_empty().then(|| Evidence::of(LISTENERS.name, "no socket of kubelet's")))
        .fix("grep -nE '^(enableServer|address|port):' /var/lib/kubelet/config.yaml    # only looks")
        .fix("grep -noE -e '--(address|port|enable-server)[= ][^ ]*' /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet    # only looks")
        .fix("systemctl restart kubelet    # once the lines that say so are gone")
        .explains([id!("kubelet.unreached")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::kubeconfig::KUBELET;
    use crate::fact::unit::{SHOW, UPTIME};
    use crate::fact::{Source, Why, process};
    use crate::testing::{facts, table};

    fn node(up: u64, listeners: &str) -> Facts {
        let started = (1000 - up) * 1_000_000;
        let process = format!("812 {up} /usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf\n");
        facts()
            .with_file(KUBELET, "")
            .with_file(UPTIME, "1000.00 1.00\n")
            .with_query(&process::KUBELET, &process)
            .with_query(&SHOW, &format!("Id=kubelet.service\nLoadState=loaded\nActiveState=active\nSubState=running\nMainPID=812\nExecMainStartTimestampMonotonic={started}\n"))
            .with_query(&LISTENERS, listeners)
    }

    #[test]
    fn judges() {
        let on = |address: &str| {
            format!(
                "tcp LISTEN 0 4096 127.0.0.1:10248 0.0.0.0:* users:((\"kubelet\",pid=812,fd=17))\n\
                 tcp LISTEN 0 4096 {address} 0.0.0.0:* users:((\"kubelet\",pid=812,fd=20))\n"
            )
        };
        let healthz = "tcp LISTEN 0 4096 127.0.0.1:10248 0.0.0.0:* users:((\"kubelet\",pid=812,fd=17))\n";
        table(
            &CHECK,
            [
                ("on every address", node(500, &on("*:10250")), Pass),
                ("on the node's address", node(500, &on("10.0.0.21:10250")), Pass),
                ("on another port, as the Node says", node(500, &on("*:10350")), Pass),
                ("on the loopback", node(500, &on("127.0.0.1:10250")), Fail),
                ("its healthz alone", node(500, healthz), Fail),
                ("on nothing", node(500, ""), Fail),
                ("just started", node(5, ""), Skip),
                ("before a join", node(500, "").without_file(KUBELET), Skip),
                ("whose it is cannot be seen", node(500, "tcp LISTEN 0 4096 *:10250 *:*\n"), Unknown),
                ("no ss", node(500, "").without(Source::Query(&LISTENERS), Why::NoTool), Unknown),
            ],
        );
    }
}
