//! The machine has a default route.
//!
//! The kubelet takes the address of its Node, and flannel the card it sends by, from the default route of the main
//! table. Without one the kubelet may find no address and flannel stops with "Failed to find interface to use"; images
//! cannot be fetched either. A default route over a card without carrier is none.
//!
//! See it yourself: `ip route show default; ip -6 route show default`
//! Mend it: `ip route add default via GATEWAY dev LINK`, and in the network's configuration, so that it is there after
//! a boot.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::net::ROUTES;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "network.default-route",
    title: "the machine has a default route",
    subsystem: Subsystem::Network,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("which way leads out is a choice"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let routes = facts.default_routes()?;
    if let Some(route) = routes.iter().find(|route| !route.is_dead) {
        return Ok(pass(format!("the way out is {}", route.line())));
    }
    let fix = "ip route add default via GATEWAY dev LINK    # and in the network's configuration";
    let verdict = match routes.first() {
        None => fail("no default route: the kubelet and flannel find no address")
            .seen(Evidence::of(ROUTES.name, "no default route in table main")),
        Some(dead) => fail(format!("the default route is dead: {} has no carrier", dead.links.join(", ")))
            .seen(routes.iter().map(|route| Evidence::of(ROUTES.name, route.line())))
            .fix(format!("ip link show {}", dead.links.join(" "))),
    };
    Ok(verdict.fix(fix).explains([id!("node.never-registered")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        let via = r#"[{"dst":"default","gateway":"192.168.4.1","dev":"eth0","flags":[]}]"#;
        let six = r#"[{"dst":"default","gateway":"fd00::1","dev":"eth0","metric":1024,"flags":[],"pref":"medium"}]"#;
        let local = r#"[{"dst":"192.168.4.0/24","dev":"eth0","protocol":"kernel","scope":"link","flags":[]}]"#;
        let dead = via.replace("[]", r#"["linkdown"]"#);
        let one_dead = r#"[{"dst":"default","gateway":"192.168.4.1","dev":"eth0","flags":["linkdown"]},
            {"dst":"default","gateway":"192.168.5.1","dev":"eth1","metric":100,"flags":[]}]"#;
        let other_table = via.replace("\"flags\"", "\"table\":\"100\",\"flags\"");
        table(
            &CHECK,
            [
                ("over IPv4", facts().with_query(&ROUTES, via), Pass),
                ("over IPv6 only", facts().with_query(&ROUTES, six), Pass),
                ("one of two is dead", facts().with_query(&ROUTES, one_dead), Pass),
                ("only its own network", facts().with_query(&ROUTES, local), Fail),
                ("in another table", facts().with_query(&ROUTES, &other_table), Fail),
                ("no carrier", facts().with_query(&ROUTES, &dead), Fail),
                ("no ip", facts().without(Source::Query(&ROUTES), Why::NoTool), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&facts().with_query(&ROUTES, &dead), &CheckPolicy::default());
        assert_eq!(verdict.says, "the default route is dead: eth0 has no carrier");
        assert_eq!(verdict.evidence[0].text, "default via 192.168.4.1 dev eth0 linkdown");
        assert_eq!(
            CHECK.verdict(&facts().with_query(&ROUTES, via), &CheckPolicy::default()).says,
            "the way out is default via 192.168.4.1 dev eth0"
        );
    }
}
