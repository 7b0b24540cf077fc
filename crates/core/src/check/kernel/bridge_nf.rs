//! iptables sees the packets on a bridge.
//!
//! With bridge-nf-call-iptables off, packets between two pods of one node pass their bridge without kube-proxy's rules:
//! a pod cannot reach a Service whose answer is on its own node. It is on by default where br_netfilter is loaded, so
//! something turned it off. Where pods are behind no bridge (calico, cilium), or no pod network is known yet, it is a
//! warning; before a join also kubeadm older than 1.30 asks for it.
//!
//! See it yourself: `sysctl net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables`
//! Fix: `sysctl -w net.bridge.bridge-nf-call-iptables=1`, and find who turned it off: `grep -r bridge-nf
//! /etc/sysctl.d /usr/lib/sysctl.d /etc/sysctl.conf`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::sysctl::{BRIDGE_IP6TABLES, BRIDGE_IPTABLES};
use crate::fact::version::Version;
use crate::fact::{Facts, Known};
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "kernel.bridge-nf",
    title: "iptables sees the packets on a bridge",
    subsystem: Subsystem::Kernel,
    kubeadm: &[
        "FileContent--proc-sys-net-bridge-bridge-nf-call-iptables",
        "FileContent--proc-sys-net-bridge-bridge-nf-call-ip6tables",
    ],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::SetRight(Preparation::BridgeSettings),
    fixed_by: FixedBy::Carrick(&["forwarding"]),
    accounts_for: nothing,
    judge,
};

/// Whether packets of pods here are known to cross a bridge, or kubeadm is to ask for it.
pub(super) fn is_needed(facts: &Facts) -> bool {
    let asks = |version: &Version| (version.major, version.minor) < (1, 30);
    let kubeadm_asks = facts.has_kubelet_conf() == Ok(false) && facts.kubeadm_version().is_ok_and(|it| asks(&it));
    kubeadm_asks || facts.bridge_of_pods().is_ok_and(|bridge| bridge.is_some())
}

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(four) = facts.sysctl(BRIDGE_IPTABLES)? else {
        return Ok(skip("br_netfilter is not loaded: see kernel.modules"));
    };
    let evidence = |key: &str, value: String| Evidence::at(format!("/proc/sys/{key}"), 1, value);
    if four != "1" {
        let verdict = if is_needed(facts) {
            fail("bridge-nf-call-iptables is off: Services would fail from pod to pod")
        } else {
            warn("bridge-nf-call-iptables is off: behind a bridge Services would fail from pod to pod")
        };
        return Ok(verdict
            .seen(evidence(BRIDGE_IPTABLES, four))
            .fix("sysctl -w net.bridge.bridge-nf-call-iptables=1")
            .fix("echo 'net.bridge.bridge-nf-call-iptables = 1' >>/etc/sysctl.d/99-kubernetes.conf"));
    }
    Ok(match facts.sysctl(BRIDGE_IP6TABLES)? {
        Some(six) if six != "1" => warn("bridge-nf-call-ip6tables is off: IPv6 Services would fail from pod to pod")
            .seen(evidence(BRIDGE_IP6TABLES, six))
            .fix("sysctl -w net.bridge.bridge-nf-call-ip6tables=1"),
        _ => pass("iptables sees the packets on a bridge"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::cni::CONF_DIR;
    use crate::fact::kubeconfig::KUBELET;
    use crate::fact::version::KUBEADM;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const FOUR: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    const SIX: &str = "/proc/sys/net/bridge/bridge-nf-call-ip6tables";

    #[test]
    fn judges() {
        let on = || facts().with_file(FOUR, "1\n").with_file(SIX, "1\n");
        let off = || on().with_file(FOUR, "0\n");
        let network = |kind: &str| {
            let conf = format!(r#"{{"name":"x","plugins":[{{"type":"{kind}"}}]}}"#);
            let facts = off().with_dir(CONF_DIR, &[("-rw-r--r--", "10-x.conflist")]);
            facts.with_file(&format!("{CONF_DIR}/10-x.conflist"), &conf)
        };
        let kubeadm = |version: &str| off().with_query(&KUBEADM, version).without_file(KUBELET);
        table(
            &CHECK,
            [
                ("on", on(), Pass),
                ("on, without IPv6", on().without_file(SIX), Pass),
                ("off, and pods are behind a bridge", network("flannel"), Fail),
                ("off, and pods are behind none", network("calico"), Warn),
                ("off, and no pod network is known", off(), Warn),
                ("off, and kubeadm asks for it", kubeadm("v1.29.3\n"), Fail),
                ("off, and kubeadm does not", kubeadm("v1.30.0\n"), Warn),
                ("off for IPv6", on().with_file(SIX, "0\n"), Warn),
                ("br_netfilter not loaded", facts().without_file(FOUR), Skip),
                ("closed", facts().without(Source::File(FOUR), Why::Denied), Unknown),
                ("IPv6 closed", on().without(Source::File(SIX), Why::Denied), Unknown),
            ],
        );
    }
}
