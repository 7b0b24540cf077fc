//! The ports of the kubelet and of kube-proxy are free, or theirs.
//!
//! kubeadm refuses to join while anything listens on 10250, also a kubelet that was started too early or runs alone.
//! Whoever else answers on 10248 makes kubeadm wait four minutes for a healthy kubelet; 10256 is where load balancers
//! ask for kube-proxy, and UDP 8472 is the kernel's, for the vxlan of flannel or cilium.
//!
//! See it yourself: `ss -lntup | grep -E ':(10248|10250|10256|8472) '`
//! Fix: stop what listens there. A kubelet before a join: `systemctl stop kubelet` (kubeadm starts it again).

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::listen::{LISTENERS, ListeningSocket, Proto};
use crate::fact::{Facts, Known, Missing, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "network.ports",
    title: "the ports of the kubelet and kube-proxy are free",
    subsystem: Subsystem::Network,
    kubeadm: &["Port-10250"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["kubelet_early"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let listeners = facts.listeners()?;
    let verdicts = listeners.iter().filter_map(|listener| match (listener.proto, listener.port) {
        (Proto::Tcp, 10250) => Some(kubelet(facts, listener)),
        (Proto::Tcp, 10248) if listener.takes_loopback() => Some(healthz(listener)),
        (Proto::Tcp, 10256) => Some(kube_proxy(listener)),
        (Proto::Udp, 8472) => Some(vxlan(facts, listener)),
        _ => None,
    });
    let worst = verdicts.map(Verdict::of).max_by_key(|verdict| verdict.outcome);
    if !facts.udp_was_looked_at() && worst.as_ref().is_none_or(|worst| worst.outcome == Outcome::Pass) {
        return Err(Missing { source_name: "ss -lnu".to_owned(), why: Why::NotCollected });
    }
    Ok(worst.unwrap_or_else(|| pass("10248, 10250, 10256 and UDP 8472 are free")))
}

fn kubelet(facts: &Facts, listener: &ListeningSocket) -> Known<Verdict> {
    let joined = facts.has_kubelet_conf()?;
    Ok(match owner(listener) {
        Some("kubelet") if joined => pass("10250 is the kubelet's, and it has joined"),
        Some("kubelet") => taken(listener, fail("a kubelet already listens on 10250: kubeadm would refuse"))
            .fix("systemctl stop kubelet    # kubeadm starts it again"),
        Some(name) => taken(listener, fail(format!("{name} listens on 10250, the kubelet's port"))).fix(stop(listener)),
        None if joined => return Err(hidden()),
        None => taken(listener, fail("something listens on 10250: kubeadm would refuse")).fix(WHO),
    })
}

fn healthz(listener: &ListeningSocket) -> Known<Verdict> {
    Ok(match owner(listener) {
        Some("kubelet") => pass("10248 is the kubelet's"),
        Some(name) => taken(listener, fail(format!("{name} answers on 10248, where kubeadm asks for the kubelet")))
            .fix(stop(listener))
            .explains([id!("kubeadm.kubelet-not-healthy")]),
        None => return Err(hidden()),
    })
}

fn kube_proxy(listener: &ListeningSocket) -> Known<Verdict> {
    Ok(match owner(listener) {
        Some("kube-proxy") => pass("10256 is kube-proxy's"),
        Some(name) => {
            taken(listener, warn(format!("{name} listens on 10256, kube-proxy's health port"))).fix(stop(listener))
        }
        None => return Err(hidden()),
    })
}

fn vxlan(facts: &Facts, listener: &ListeningSocket) -> Known<Verdict> {
    if let Some(name) = owner(listener) {
        return Ok(taken(listener, warn(format!("{name} has UDP 8472: no vxlan of flannel or cilium can")))
            .fix(stop(listener)));
    }
    // The kernel's own socket has no owner either.
    let links = facts.links()?;
    Ok(match links.iter().find(|link| link.vxlan_port == Some(u64::from(listener.port))) {
        Some(link) => pass(format!("UDP 8472 is the kernel's, for {}", link.name)),
        None => return Err(hidden()),
    })
}

const WHO: &str = "sudo ss -lntp 'sport = :10250'    # says who";

fn owner(listener: &ListeningSocket) -> Option<&str> {
    listener.owner.as_ref().map(|owner| owner.name.as_str())
}

fn taken(listener: &ListeningSocket, verdict: Verdict) -> Verdict {
    verdict.seen(Evidence::at(LISTENERS.name, listener.line, &listener.text))
}

fn stop(listener: &ListeningSocket) -> String {
    let pid = listener.owner.as_ref().map_or(0, |owner| owner.pid);
    format!("systemctl status {pid}    # names its unit; stop that")
}

/// A port that is taken by someone `ss` does not name to everyone.
fn hidden() -> Missing {
    Missing { source_name: LISTENERS.name.to_owned(), why: Why::Denied }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::Source;
    use crate::fact::net::LINKS;
    use crate::testing::{facts, table};

    const CONF: &str = "/etc/kubernetes/kubelet.conf";

    fn tcp(address: &str, owner: &str) -> String {
        let users = if owner.is_empty() { String::new() } else { format!(" users:((\"{owner}\",pid=1234,fd=3))") };
        format!("tcp LISTEN 0      128    {address} 0.0.0.0:*{users}\n")
    }

    fn fresh(text: &str) -> Facts {
        let others = format!("{}{}", tcp("0.0.0.0:22", "sshd"), tcp("127.0.0.1:8472", "x"));
        facts().with_query(&LISTENERS, &format!("{others}{text}")).without_file(CONF).with_query(&LINKS, "[]")
    }

    fn joined(text: &str) -> Facts {
        fresh(text).with_file(CONF, "apiVersion: v1")
    }

    #[test]
    fn judges() {
        let udp = |users: &str| format!("udp UNCONN 0      0      0.0.0.0:8472 0.0.0.0:*{users}\n");
        let flannel =
            r#"[{"ifname":"flannel.1","mtu":1450,"linkinfo":{"info_kind":"vxlan","info_data":{"id":1,"port":8472}}}]"#;
        table(
            &CHECK,
            [
                ("all free", fresh(""), Pass),
                (
                    "joined",
                    joined(
                        &(tcp("*:10250", "kubelet")
                            + &tcp("127.0.0.1:10248", "kubelet")
                            + &tcp("*:10256", "kube-proxy")),
                    ),
                    Pass,
                ),
                ("a kubelet before the join", fresh(&tcp("*:10250", "kubelet")), Fail),
                ("someone else", fresh(&tcp("192.168.4.61:10250", "nginx")), Fail),
                ("someone else on a joined machine", joined(&tcp("*:10250", "nginx")), Fail),
                ("someone hidden", fresh(&tcp("*:10250", "")), Fail),
                ("hidden on a joined machine", joined(&tcp("*:10250", "")), Unknown),
                ("10250 by UDP is another port", fresh("udp UNCONN 0 0 0.0.0.0:10250 0.0.0.0:*\n"), Pass),
                ("someone else answers healthz", fresh(&tcp("0.0.0.0:10248", "python3")), Fail),
                ("someone else on another address", fresh(&tcp("192.168.4.61:10248", "python3")), Pass),
                ("hidden healthz", fresh(&tcp("127.0.0.1:10248", "")), Unknown),
                ("kube-proxy's port is taken", fresh(&tcp("*:10256", "nginx")), Warn),
                ("hidden kube-proxy", fresh(&tcp("*:10256", "")), Unknown),
                ("a process has the vxlan's port", fresh(&udp(" users:((\"vpn\",pid=7,fd=3))")), Warn),
                ("the kernel has it", fresh(&udp("")).with_query(&LINKS, flannel), Pass),
                ("nobody seems to have it", fresh(&udp("")), Unknown),
                ("links not known", fresh(&udp("")).without(Source::Query(&LINKS), Why::TimedOut), Unknown),
                ("the worst counts", fresh(&(tcp("*:10250", "kubelet") + &tcp("*:10256", "nginx"))), Fail),
                ("no ss", facts().without(Source::Query(&LISTENERS), Why::NoTool), Unknown),
                (
                    "not known whether joined",
                    fresh(&tcp("*:10250", "kubelet")).without(Source::File(CONF), Why::TimedOut),
                    Unknown,
                ),
            ],
        );
        let verdict = CHECK.verdict(&fresh(&tcp("*:10250", "nginx")), &CheckPolicy::default());
        assert_eq!(verdict.says, "nginx listens on 10250, the kubelet's port");
        assert_eq!(verdict.evidence[0].line, Some(3));
        assert_eq!(verdict.remedy, ["systemctl status 1234    # names its unit; stop that"]);
        let kernel = CHECK.verdict(&fresh(&udp("")).with_query(&LINKS, flannel), &CheckPolicy::default());
        assert_eq!(kernel.says, "UDP 8472 is the kernel's, for flannel.1");
        assert_eq!(
            CHECK.verdict(&fresh(""), &CheckPolicy::default()).says,
            "10248, 10250, 10256 and UDP 8472 are free"
        );
    }
}
