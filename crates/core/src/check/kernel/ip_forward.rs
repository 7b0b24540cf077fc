//! The machine forwards IPv4 packets.
//!
//! Packets of pods pass through the machine: between its pods and its network card it is a router. With forwarding off
//! they are dropped. kubeadm stops there when the cluster's endpoint is given as an IPv4 address.
//!
//! See it yourself: `cat /proc/sys/net/ipv4/ip_forward`
//! Mend it: `sysctl -w net.ipv4.ip_forward=1`; see `carrick explain kernel.sysctl-after-boot` to keep it.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::sysctl::IP_FORWARD;
use crate::fact::{Facts, Known, Missing, Why};
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "kernel.ip-forward",
    title: "the machine forwards IPv4 packets",
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

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
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
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("on", facts().with_file(SOURCE, "1\n"), Pass),
                ("off", facts().with_file(SOURCE, "0\n"), Fail),
                ("no such parameter", facts().without_file(SOURCE), Unknown),
                ("not read", facts(), Unknown),
            ],
        );
    }
}
