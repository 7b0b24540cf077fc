//! The host name leads back to this machine.
//!
//! Unless told its address, the kubelet looks its own name up and takes the answer if it is an address of this machine;
//! otherwise it takes that of the default route, which on a machine with two networks may be the wrong one. A name that
//! leads to another machine also says that two machines may have one name, and so would share one Node. A lookup that
//! hangs holds up the kubelet and kubeadm alike.
//!
//! See it yourself: `getent ahosts "$(hostname)"` and `ip -brief address`
//! Fix: one line in /etc/hosts: this machine's address, then its name.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::identity::OWN_NAME;
use crate::fact::{Facts, Known, Missing, Why};

pub const CHECK: Check = Check {
    id: "machine.hostname-resolves",
    title: "the host name leads back to this machine",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("which address is meant is a choice"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let name = facts.hostname()?;
    let hosts = format!("echo '{{address}} {name}' >>/etc/hosts");
    let addresses = match facts.own_name_addresses() {
        Err(Missing { why: Why::TimedOut, source_name }) => {
            return Ok(warn(format!("looking up its own name, {name}, takes too long"))
                .seen(Evidence::of(source_name, "no answer in time"))
                .fix(hosts));
        }
        other => other?,
    };
    if addresses.is_empty() {
        return Ok(warn(format!("its own name, {name}, does not resolve"))
            .seen(Evidence::of(OWN_NAME.name, "no address"))
            .fix(hosts));
    }
    let bound = facts.bound_addresses()?;
    let foreign = addresses.iter().find(|address| !address.is_loopback() && !bound.contains(address));
    if let Some(foreign) = foreign {
        return Ok(warn(format!("its own name, {name}, leads to {foreign}: not an address of this machine"))
            .seen(Evidence::of(OWN_NAME.name, foreign.to_string()))
            .fix(format!("grep -n {name} /etc/hosts    # or the DNS record of another machine of this name"))
            .fix(hosts));
    }
    let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    Ok(pass(format!("{name} is {}", shown.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::Source;
    use crate::fact::identity::HOSTNAME;
    use crate::testing::{facts, table};

    const TRIE: &str = "Local:\n     |-- 192.168.4.61\n        /32 host LOCAL\n";

    fn machine() -> Facts {
        facts()
            .with_file(HOSTNAME, "homelab\n")
            .with_file("/proc/net/fib_trie", TRIE)
            .with_file("/proc/net/if_inet6", "fe8000000000000000fc00fffe000001 02 40 20 80 eth0\n")
    }

    fn resolves(text: &str) -> Facts {
        machine().with_query(&OWN_NAME, text)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("Debian's 127.0.1.1", resolves("127.0.1.1       STREAM homelab\n"), Pass),
                ("its own address", resolves("192.168.4.61    STREAM homelab\n"), Pass),
                ("its own link-local address", resolves("fe80::fc:ff:fe00:1%eth0 STREAM homelab\n"), Pass),
                ("IPv6 loopback", resolves("::1             STREAM homelab\n"), Pass),
                ("the control plane's address", resolves("192.168.4.63    STREAM homelab\n"), Warn),
                ("its own and another's", resolves("192.168.4.61 STREAM homelab\n192.168.4.63 STREAM\n"), Warn),
                ("not at all", machine().with_exit(&OWN_NAME, 2, "", ""), Warn),
                ("DNS hangs", machine().without(Source::Query(&OWN_NAME), Why::TimedOut), Warn),
                ("no getent", machine().with_exit(&OWN_NAME, 127, "", "sh: getent: not found"), Unknown),
                (
                    "own addresses not known",
                    facts().with_file(HOSTNAME, "w1").with_query(&OWN_NAME, "10.0.0.1 STREAM\n"),
                    Unknown,
                ),
                ("name not known", facts(), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_foreign_address() {
        let verdict = CHECK.verdict(&resolves("192.168.4.63    STREAM homelab\n"), &CheckPolicy::default());
        assert_eq!(verdict.says, "its own name, homelab, leads to 192.168.4.63: not an address of this machine");
    }
}
