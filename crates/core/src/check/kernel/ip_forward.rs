//! The machine forwards packets.
//!
//! Packets of pods pass through the machine: between its pods and its network card it is a router. With forwarding off
//! they are dropped. kubeadm stops there when the cluster's endpoint is given as an IPv4 address. Judged for the families
//! of the pods' addresses, where these are known: IPv4 unless they are of IPv6 alone; IPv6 on a node that has joined,
//! since pod networks turn it on themselves.
//!
//! See it yourself: `cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding`
//! Fix: `sysctl -w net.ipv4.ip_forward=1`; see `carrick explain kernel.sysctl-after-boot` to keep it.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, nothing, pass, skip,
};
use crate::fact::cluster_network::Families;
use crate::fact::sysctl::{IP_FORWARD, IP6_FORWARD};
use crate::fact::{Facts, Known, Missing, Why};
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "kernel.ip-forward",
    title: "the machine forwards packets of pods",
    subsystem: Subsystem::Kernel,
    kubeadm: &["FileContent--proc-sys-net-ipv4-ip_forward"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::SetRight(Preparation::Forwarding),
    fixed_by: FixedBy::Carrick(&["forwarding"]),
    accounts_for: nothing,
    judge,
};

const SOURCE: &str = "/proc/sys/net/ipv4/ip_forward";
const SOURCE_OF_SIX: &str = "/proc/sys/net/ipv6/conf/all/forwarding";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Families { v4, v6 } = facts.pod_families().unwrap_or(Families { v4: true, v6: false });
    let four = if v4 { of_four(facts)? } else { skip("pods have IPv6 addresses alone") };
    if four.outcome == Outcome::Fail || !v6 || !facts.has_kubelet_conf()? {
        return Ok(four);
    }
    Ok(match facts.sysctl(IP6_FORWARD)? {
        Some(value) if value == "0" => fail("IPv6 forwarding is off: packets of pods are dropped")
            .seen(Evidence::at(SOURCE_OF_SIX, 1, value))
            .fix("sysctl -w net.ipv6.conf.all.forwarding=1    # with addresses by router advertisements: accept_ra=2 first")
            .fix("echo 'net.ipv6.conf.all.forwarding = 1' >>/etc/sysctl.d/99-kubernetes.conf"),
        Some(_) if v4 => pass("IPv4 and IPv6 forwarding are on"),
        Some(_) => pass("IPv6 forwarding is on"),
        None => return Err(Missing { source_name: SOURCE_OF_SIX.to_owned(), why: Why::Absent }),
    })
}

fn of_four(facts: &Facts) -> Known<Verdict> {
    Ok(match facts.sysctl(IP_FORWARD)? {
        Some(value) if value == "1" => pass("IPv4 forwarding is on"),
        Some(value) => fail("IPv4 forwarding is off: packets of pods would be dropped")
            .seen(Evidence::at(SOURCE, 1, value))
            .fix("sysctl -w net.ipv4.ip_forward=1")
            .fix("echo 'net.ipv4.ip_forward = 1' >>/etc/sysctl.d/99-kubernetes.conf"),
        // A kernel without IPv4; kernel.config tells of that.
        None => return Err(Missing { source_name: SOURCE.to_owned(), why: Why::Absent }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::kubeconfig::KUBELET;
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        let node = |cidrs: &str, four: &str, six: &str| {
            let facts = facts().with_file(SOURCE, four).with_file(SOURCE_OF_SIX, six).with_file(KUBELET, "");
            facts.with_api("node", &format!(r#"{{"spec":{{"podCIDRs":[{cidrs}]}}}}"#))
        };
        let (four, six, both) = (r#""10.244.1.0/24""#, r#""fd00::/64""#, r#""10.244.1.0/24","fd00::/64""#);
        table(
            &CHECK,
            [
                ("pods of IPv4, IPv6 is off", node(four, "1\n", "0\n"), Pass),
                ("pods of IPv6, IPv4 is off", node(six, "0\n", "1\n"), Pass),
                ("pods of IPv6, and it is off", node(six, "1\n", "0\n"), Fail),
                ("pods of both, IPv6 is off", node(both, "1\n", "0\n"), Fail),
                ("pods of both, IPv4 is off", node(both, "0\n", "1\n"), Fail),
                ("pods of both", node(both, "1\n", "1\n"), Pass),
                ("pods of IPv6, before a join", node(six, "0\n", "0\n").without_file(KUBELET), Skip),
                ("pods of IPv6, not read", node(six, "1\n", "").without_file(SOURCE_OF_SIX), Unknown),
                ("on", facts().with_file(SOURCE, "1\n"), Pass),
                ("off", facts().with_file(SOURCE, "0\n"), Fail),
                ("no such parameter", facts().without_file(SOURCE), Unknown),
                ("not read", facts(), Unknown),
            ],
        );
    }
}
