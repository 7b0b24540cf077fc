//! /etc/hosts knows this machine by one address, and localhost.
//!
//! The kubelet looks its own name up to find its address. Where /etc/hosts has two for it, or one of another machine,
//! the Node may get the wrong one, and pods' logs and tunnels go there. Without localhost old kubeadm cannot ask the
//! kubelet how it is.
//!
//! See it yourself: `getent ahostsv4 $(hostname); getent hosts localhost`
//! Mend it: edit /etc/hosts so that the machine's name stands in one line, with an address of this machine.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::resolver::{HOSTS, HostsLine};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "network.hosts-file",
    title: "/etc/hosts knows this machine by one address",
    subsystem: Subsystem::Network,
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
    let hosts = facts.hosts()?.unwrap_or_default();
    let name = facts.hostname()?;
    if name.is_empty() {
        return Ok(skip("the machine has no name: see machine.hostname"));
    }
    if !hosts.iter().any(|line| line.address.is_loopback() && line.names("localhost")) {
        return Ok(warn("/etc/hosts has no localhost")
            .seen(Evidence::of(HOSTS, "no line for localhost"))
            .fix("echo '127.0.0.1 localhost' >> /etc/hosts"));
    }
    let own: Vec<&HostsLine> = hosts.iter().filter(|line| line.names(&name)).collect();
    let four: BTreeSet<IpAddr> = own.iter().map(|line| line.address).filter(IpAddr::is_ipv4).collect();
    let six: BTreeSet<IpAddr> = own.iter().map(|line| line.address).filter(IpAddr::is_ipv6).collect();
    let seen = || own.iter().map(|line| Evidence::at(HOSTS, line.line, &line.text));
    let edit = "${EDITOR:-vi} /etc/hosts    # one line for the machine's name";
    if four.len() > 1 || six.len() > 1 {
        return Ok(warn(format!("/etc/hosts has several addresses for {name}")).seen(seen()).fix(edit));
    }
    let links = facts.links()?;
    let is_ours = |address: IpAddr| {
        address.is_loopback() || links.iter().flat_map(|link| &link.addresses).any(|own| own.address == address)
    };
    if let Some(foreign) = four.iter().chain(&six).find(|address| !is_ours(**address)) {
        return Ok(warn(format!("/etc/hosts says {name} is {foreign}, which is not this machine"))
            .seen(seen())
            .fix(edit));
    }
    Ok(pass(if own.is_empty() {
        format!("/etc/hosts leaves {name} to DNS")
    } else {
        format!("/etc/hosts knows {name} by one address")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::identity::HOSTNAME;
    use crate::fact::net::LINKS;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn hosts(text: &str) -> Facts {
        let links = r#"[{"ifname":"eth0","mtu":1500,"addr_info":[{"local":"192.168.4.61","prefixlen":24},{"local":"fd00::61","prefixlen":64}]}]"#;
        facts().with_file(HOSTS, text).with_file(HOSTNAME, "w1\n").with_query(&LINKS, links)
    }

    #[test]
    fn judges() {
        let local = |more: &str| hosts(&format!("127.0.0.1 localhost\n{more}"));
        table(
            &CHECK,
            [
                ("as Debian sets it up", local("127.0.1.1 w1.lan w1\n"), Pass),
                ("by its address", local("192.168.4.61 w1\n192.168.4.62 w2\n"), Pass),
                ("one of each family", local("192.168.4.61 w1\nfd00::61 W1\n"), Pass),
                ("the same twice", local("192.168.4.61 w1\n192.168.4.61 w1.lan w1\n"), Pass),
                ("not named", local(""), Pass),
                ("two addresses", local("127.0.1.1 w1\n192.168.4.61 w1\n"), Warn),
                ("two of IPv6", local("fd00::61 w1\nfd00::62 w1\n"), Warn),
                ("another machine's", local("192.168.4.63 w1\n"), Warn),
                ("another machine's, IPv6", local("fd00::63 w1\n"), Warn),
                ("no localhost", hosts("192.168.4.61 w1\n"), Warn),
                ("localhost is elsewhere", hosts("192.168.4.61 localhost\n"), Warn),
                ("no file", hosts("").without_file(HOSTS), Warn),
                ("not read", hosts("").without(Source::File(HOSTS), Why::TimedOut), Unknown),
                ("no name", local("").without(Source::File(HOSTNAME), Why::Absent), Unknown),
                ("an empty name", local("").with_file(HOSTNAME, "\n"), Skip),
                ("no ip", local("").without(Source::Query(&LINKS), Why::NoTool), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&local("192.168.4.63 w1 # cp\n"), &CheckPolicy::default());
        assert_eq!(verdict.says, "/etc/hosts says w1 is 192.168.4.63, which is not this machine");
        assert_eq!(verdict.evidence[0], Evidence::at(HOSTS, 2, "192.168.4.63 w1 # cp"));
        assert_eq!(CHECK.verdict(&local(""), &CheckPolicy::default()).says, "/etc/hosts leaves w1 to DNS");
    }
}
