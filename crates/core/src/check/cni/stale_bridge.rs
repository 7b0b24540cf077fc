//! The bridge cni0 is of this machine's present pod range.
//!
//! The bridge outlives `kubeadm reset`. Joined anew, the machine may get another range of pod addresses; the bridge
//! plugin then refuses every pod: "failed to set bridge addr: \"cni0\" already has an IP address different from
//! 10.244.10.1/24".
//!
//! See it yourself: `ip -4 addr show cni0; cat /run/flannel/subnet.env; kubectl get node NODE -o
//! jsonpath='{.spec.podCIDR}'`
//! Fix: `ip link del cni0`; the next pod makes it anew. Pods that run on the bridge lose their network: drain the
//! node first.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::cni::SUBNET_ENV;
use crate::fact::net::LINKS;
use crate::fact::{Facts, Known, Missing, Why};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.stale-bridge",
    title: "the bridge cni0 is of the present pod range",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::UntilNetwork,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("pods that run on the bridge would lose their network"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(bridge) = facts.link("cni0")? else {
        return Ok(pass("there is no cni0 from before"));
    };
    let Some(address) = bridge.addresses.iter().find(|address| !address.is_v6()) else {
        return Ok(pass("cni0 has no address yet"));
    };
    let seen = Evidence::of(LINKS.name, format!("cni0 {address}"));
    let flannel = facts.flannel()?.and_then(|flannel| flannel.subnet);
    let node = match facts.pod_cidr() {
        Err(Missing { why: Why::NotAsked, .. }) => None,
        node => node?,
    };
    // The Node's is what flannel will write next, where the two differ.
    let ranges = [("the Node's podCIDR", node), (SUBNET_ENV, flannel)];
    let known = ranges.into_iter().filter_map(|(source, range)| range.map(|range| (source, range)));
    // Of a node with both families the Node's first range may be of IPv6.
    let ranges: Vec<_> = known.filter(|(_, range)| !range.is_v6()).collect();
    if let Some((source, range)) = ranges.iter().find(|(_, range)| range.network() != address.network()) {
        return Ok(fail(format!("cni0 has {address}, this machine's pods are in {}", range.network()))
            .seen([seen, Evidence::of(*source, range.to_string())])
            .fix("ip link del cni0    # the next pod makes it anew; drain the node first if pods run on it")
            .explains([id!("pod.no-address")]));
    }
    if let Some((source, range)) = ranges.first() {
        return Ok(pass(format!("cni0 has {address}, as {source} says ({})", range.network())));
    }
    if facts.cni_candidates()?.is_empty() {
        return Ok(warn(format!("cni0 with {address} is left over: no pod network is configured"))
            .seen(seen)
            .fix("ip link del cni0"));
    }
    Ok(skip("nothing to hold cni0 against: no subnet.env, and the cluster was not asked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::Source;
    use crate::testing::{facts, table};

    fn bridge(address: &str) -> Facts {
        let (address, length) = address.split_once('/').unwrap();
        let links = format!(
            r#"[{{"ifname":"cni0","mtu":1450,"linkinfo":{{"info_kind":"bridge"}},"addr_info":[{{"local":"fe80::1","prefixlen":64}},
            {{"local":"{address}","prefixlen":{length}}}]}}]"#
        );
        facts().with_query(&LINKS, &links).without_file(SUBNET_ENV).with_dir("/etc/cni/net.d", &[])
    }

    fn env(facts: Facts, subnet: &str) -> Facts {
        facts.with_file(SUBNET_ENV, &format!("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET={subnet}\n"))
    }

    fn node(facts: Facts, range: &str) -> Facts {
        facts.with_api("node", &format!(r#"{{"spec":{{"podCIDR":"{range}"}}}}"#))
    }

    #[test]
    fn judges() {
        let one = || bridge("10.244.1.1/24");
        let configured = one().with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-flannel.conflist")]);
        table(
            &CHECK,
            [
                ("no bridge", facts().with_query(&LINKS, "[]"), Pass),
                ("no address", facts().with_query(&LINKS, r#"[{"ifname":"cni0","addr_info":[]}]"#), Pass),
                ("as flannel says", env(one(), "10.244.1.1/24"), Pass),
                ("as the Node says", node(one(), "10.244.1.0/24"), Pass),
                ("flannel says otherwise", env(one(), "10.244.10.1/24"), Fail),
                ("the Node says otherwise", node(env(one(), "10.244.1.1/24"), "10.244.10.0/24"), Fail),
                ("the Node's first range is of IPv6", node(env(one(), "10.244.1.1/24"), "fd00:244:0:1::/64"), Pass),
                ("a placeholder's wide range", env(bridge("10.244.0.1/16"), "10.244.0.1/24"), Fail),
                ("left over", one(), Warn),
                ("no Node of that name", one().without(Source::Api("node"), Why::Absent), Warn),
                ("nothing to hold it against", configured, Skip),
                ("the cluster did not answer", one().without(Source::Api("node"), Why::TimedOut), Unknown),
                ("flannel's word denied", one().without(Source::File(SUBNET_ENV), Why::Denied), Unknown),
                ("no ip", facts().without(Source::Query(&LINKS), Why::NoTool), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&node(one(), "10.244.10.0/24"), &CheckPolicy::default());
        assert_eq!(verdict.says, "cni0 has 10.244.1.1/24, this machine's pods are in 10.244.10.0/24");
        assert_eq!(verdict.evidence[1], Evidence::of("the Node's podCIDR", "10.244.10.0/24"));
        assert_eq!(
            CHECK.verdict(&env(one(), "10.244.1.1/24"), &CheckPolicy::default()).says,
            "cni0 has 10.244.1.1/24, as /run/flannel/subnet.env says (10.244.1.0/24)"
        );
    }
}
