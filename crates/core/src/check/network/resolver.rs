//! Names can be resolved, by the machine and by its pods.
//!
//! Pods that do not ask the cluster's DNS, CoreDNS first of all, get the nameservers of the machine's resolv.conf. A
//! server on the loopback is then the pod itself: CoreDNS finds a loop and crashes. Where systemd-resolved runs,
//! kubeadm gives pods the file with the real servers, /run/systemd/resolve/resolv.conf, instead. Without any
//! resolv.conf no pod can start.
//!
//! See it yourself: `cat /etc/resolv.conf /run/systemd/resolve/resolv.conf`
//! Mend it: put a reachable server into /etc/resolv.conf (`nameserver 192.168.1.1`), or set `resolvConf` in the
//! kubelet's configuration to a file that has one.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::resolver::{RESOLV_CONF, RESOLVED_CONF, Resolver};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "network.resolver",
    title: "names can be resolved, by the machine and by its pods",
    subsystem: Subsystem::Network,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("which name servers to ask is a choice"),
    accounts_for: nothing,
    judge,
};

const ADD: &str = "echo 'nameserver ADDRESS' >> /etc/resolv.conf    # a server that pods can reach";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(resolver) = facts.resolver()? else {
        return Ok(fail("there is no /etc/resolv.conf: no pod could start")
            .seen(Evidence::of(RESOLV_CONF, "not there, or a link to nothing"))
            .fix(ADD));
    };
    if resolver.nameservers.is_empty() {
        return Ok(warn("/etc/resolv.conf names no nameserver")
            .seen(Evidence::of(RESOLV_CONF, "no nameserver line"))
            .fix(ADD));
    }
    if !resolver.is_loopback_only() {
        return Ok(pass(format!("asks {}", addresses(&resolver))));
    }
    let behind = facts.resolved()?.filter(|behind| !behind.nameservers.is_empty() && !behind.is_loopback_only());
    Ok(match behind {
        Some(behind) => pass(format!("asks {}, behind systemd-resolved", addresses(&behind))),
        None => warn("the only nameservers are on the loopback: a pod would ask itself")
            .seen(resolver.nameservers.iter().map(|server| Evidence::at(RESOLV_CONF, server.line, &server.text)))
            .seen(Evidence::of(RESOLVED_CONF, "no other server there"))
            .fix("systemctl enable --now systemd-resolved    # or:")
            .fix(ADD)
            .explains([id!("pod.dns-unanswered")]),
    })
}

fn addresses(resolver: &Resolver) -> String {
    resolver.nameservers.iter().map(|server| server.address.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const STUB: &str = "nameserver 127.0.0.53\noptions edns0 trust-ad\n";

    #[test]
    fn judges() {
        let stub = || facts().with_file(RESOLV_CONF, STUB);
        table(
            &CHECK,
            [
                ("a server of the network", facts().with_file(RESOLV_CONF, "nameserver 192.168.4.1\n"), Pass),
                ("resolved's stub", stub().with_file(RESOLVED_CONF, "nameserver 192.168.4.1\n"), Pass),
                ("the stub alone", stub().without_file(RESOLVED_CONF), Warn),
                ("the stub and an empty file", stub().with_file(RESOLVED_CONF, "# none\n"), Warn),
                ("the stub and a server of its own", stub().with_file(RESOLVED_CONF, "nameserver 127.0.0.1\n"), Warn),
                ("no servers", facts().with_file(RESOLV_CONF, "search lan\n"), Warn),
                ("no file", facts().without_file(RESOLV_CONF), Fail),
                ("not read", facts().without(Source::File(RESOLV_CONF), Why::TimedOut), Unknown),
                ("what is behind was not read", stub().without(Source::File(RESOLVED_CONF), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(
            &stub().with_file(RESOLVED_CONF, "nameserver 192.168.4.1\nnameserver 9.9.9.9\n"),
            &CheckPolicy::default(),
        );
        assert_eq!(verdict.says, "asks 192.168.4.1, 9.9.9.9, behind systemd-resolved");
    }
}
