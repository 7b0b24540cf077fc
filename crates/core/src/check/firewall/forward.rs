//! This machine forwards what its pods and pods of other nodes send to each other.
//!
//! Packets of pods pass the forward hook of iptables and nftables. Where a rule or a policy drops them there, the node
//! joins and is Ready, its pods get addresses, and reach neither the cluster's DNS nor anything else beyond this machine.
//! flannel and kube-proxy add accepting rules to iptables; a table of nftables that drops is not overruled by them: a packet
//! has to pass every table. Judged for the bridge that stands on this node (cni0); before a join, and without a bridge, a
//! table of nftables that drops is a warning.
//!
//! See it yourself: `nft list ruleset | grep -B2 -A12 'hook forward'`; `iptables -S FORWARD`
//! Fix: accept what comes from and goes to the bridge: `nft insert rule inet TABLE CHAIN iifname cni0 accept`, and
//! `oifname`; ufw: `ufw route allow in on cni0`; firewalld: `firewall-cmd --permanent --zone=trusted --add-interface=cni0`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::firewall::found;
use crate::fact::netfilter::Passage;
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "firewall.forward",
    title: "this machine forwards packets of pods",
    subsystem: Subsystem::Network,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("what a firewall forwards is your decision"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    // Without a kubelet's configuration a bridge is an earlier cluster's.
    let bridge = if facts.has_kubelet_conf()? { facts.pod_bridge()? } else { None };
    let Some(bridge) = bridge else { return before_a_network(facts) };
    let says = format!("packets of pods on {} are dropped: they reach nothing beyond this machine", bridge.link);
    Ok(match facts.forwarded(&bridge)? {
        Passage::Open => pass(format!("packets of pods on {} are forwarded", bridge.link)),
        Passage::CannotTell(rule) => return Err(Missing::broken("forwarding", format!("hangs on {rule}"))),
        Passage::Blocked(rule) | Passage::SaidBlocked(rule) => dropped(facts, fail(says), &bridge.link, &rule),
    })
}

/// Which bridge it will have, and whether any, is not known.
fn before_a_network(facts: &Facts) -> Known<Verdict> {
    Ok(match facts.would_be_forwarded()? {
        Passage::Blocked(rule) => dropped(facts, warn("nftables drops what a bridge of pods forwards"), "cni0", &rule),
        Passage::Open | Passage::CannotTell(_) | Passage::SaidBlocked(_) => skip("no bridge of pods stands here"),
    })
}

fn dropped(facts: &Facts, verdict: Verdict, bridge: &str, rule: &str) -> Verdict {
    let (source, rule) = found(rule);
    verdict
        .seen(Evidence::of(source, rule))
        .fix(facts.firewall().forwards(bridge, rule))
        .explains([id!("pod.no-route")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::firewall::{IPTABLES, NFT, UFW};
    use crate::fact::kubeconfig::KUBELET;
    use crate::fact::net::LINKS;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const BRIDGE: &str = r#"[{"ifname":"eth0","addr_info":[{"local":"10.0.0.21","prefixlen":24}]},
        {"ifname":"cni0","linkinfo":{"info_kind":"bridge"},"addr_info":[{"local":"10.244.1.1","prefixlen":24}]}]"#;

    /// As flannel and kube-proxy leave it on a node, behind a policy.
    fn iptables(policy: &str, more: &str) -> String {
        format!(
            "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD {policy} [0:0]\n:FLANNEL-FWD - [0:0]\n:KUBE-FORWARD - [0:0]\n\
             -A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n{more}\
             -A KUBE-FORWARD -m conntrack --ctstate INVALID -m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j DROP\n\
             -A KUBE-FORWARD -m comment --comment \"kubernetes forwarding rules\" -m mark --mark 0x4000/0x4000 -j ACCEPT\n\
             -A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
             -A FLANNEL-FWD -s 10.244.0.0/16 -m comment --comment \"flanneld forward\" -j ACCEPT\n\
             -A FLANNEL-FWD -d 10.244.0.0/16 -m comment --comment \"flanneld forward\" -j ACCEPT\nCOMMIT\n"
        )
    }

    const FLANNEL: &str = "-A FORWARD -m comment --comment \"flanneld forward\" -j FLANNEL-FWD\n";
    const DOCKER: &str = "-A FORWARD -o docker0 -j ACCEPT\n-A FORWARD -i docker0 ! -o docker0 -j ACCEPT\n";

    /// A chain of the forward hook, with what is accepted before its policy drops the rest.
    fn guard(policy: &str, accepts: &str) -> String {
        let chain = format!(
            r#"{{"chain":{{"family":"inet","table":"guard","name":"fwd","type":"filter","hook":"forward","prio":0,"policy":"{policy}"}}}}"#
        );
        let rule = |expr: &str| {
            format!(
                r#",{{"rule":{{"family":"inet","table":"guard","chain":"fwd","handle":4,"expr":[{expr},{{"accept":null}}]}}}}"#
            )
        };
        let rule = if accepts.is_empty() { String::new() } else { rule(accepts) };
        format!(r#"{{"nftables":[{chain}{rule}]}}"#)
    }

    fn on(link: &str, direction: &str) -> String {
        format!(r#"{{"match":{{"op":"==","left":{{"meta":{{"key":"{direction}"}}}},"right":"{link}"}}}}"#)
    }

    fn node(policy: &str, more: &str, nft: &str) -> Facts {
        let facts = with_network(facts().with_file(KUBELET, "").with_query(&LINKS, BRIDGE), "flannel");
        facts.with_query(&IPTABLES, &iptables(policy, more)).with_query(&NFT, nft)
    }

    fn with_network(facts: Facts, kind: &str) -> Facts {
        let conf = format!(r#"{{"name":"x","plugins":[{{"type":"{kind}"}}]}}"#);
        let facts = facts.with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-x.conflist")]);
        facts.with_file("/etc/cni/net.d/10-x.conflist", &conf)
    }

    #[test]
    fn judges() {
        const NONE: &str = r#"{"nftables":[]}"#;
        let drops = guard("drop", "");
        let established = r#"{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established","related"]}}"#;
        table(
            &CHECK,
            [
                ("no firewall", node("ACCEPT", "", NONE), Pass),
                ("docker's policy, and flannel accepts", node("DROP", &format!("{DOCKER}{FLANNEL}"), NONE), Pass),
                ("docker's policy, and nobody accepts", node("DROP", DOCKER, NONE), Fail),
                ("a table of nftables drops, whatever flannel accepts", node("DROP", FLANNEL, &drops), Fail),
                ("it accepts only answers", node("ACCEPT", FLANNEL, &guard("drop", established)), Fail),
                ("it accepts docker's", node("ACCEPT", FLANNEL, &guard("drop", &on("docker0", "iifname"))), Fail),
                ("it accepts one direction", node("ACCEPT", FLANNEL, &guard("drop", &on("cni0", "iifname"))), Fail),
                ("it accepts no connection to pods", node("ACCEPT", "", &guard("drop", &on("eth0", "oifname"))), Fail),
                (
                    "it hangs on the other side",
                    node("DROP", "-A FORWARD -o eth0 -j ACCEPT\n-A FORWARD -i eth0 -j ACCEPT\n", NONE),
                    Unknown,
                ),
                ("it accepts", node("ACCEPT", FLANNEL, &guard("accept", "")), Pass),
                ("rules cannot be read", node("DROP", "", NONE).without(Source::Query(&NFT), Why::Denied), Unknown),
                ("before a join", node("DROP", "", NONE).without_file(KUBELET), Skip),
                ("before a join, and it will be dropped", node("ACCEPT", "", &drops).without_file(KUBELET), Warn),
                ("a network without a bridge", node("DROP", "", NONE).with_query(&LINKS, "[]"), Skip),
                ("a bridge that an earlier network left", with_network(node("DROP", DOCKER, NONE), "calico"), Skip),
                (
                    "LXC's bridge",
                    node("DROP", DOCKER, NONE).with_query(&LINKS, &BRIDGE.replace("cni0", "lxcbr0")),
                    Skip,
                ),
                (
                    "a bridge of another range than the Node's",
                    node("DROP", DOCKER, NONE).with_api("node", r#"{"spec":{"podCIDR":"10.244.9.0/24"}}"#),
                    Skip,
                ),
                (
                    "a bridge of the Node's range",
                    node("DROP", DOCKER, NONE).with_api("node", r#"{"spec":{"podCIDR":"10.244.1.0/24"}}"#),
                    Fail,
                ),
                (
                    "which network there is may not be read",
                    node("DROP", DOCKER, NONE).without(Source::Tree("/etc/cni/net.d"), Why::Denied),
                    Unknown,
                ),
            ],
        );
    }

    #[test]
    fn the_remedy_is_of_who_set_the_rule() {
        let remedy = |facts: &Facts| CHECK.verdict(facts, &CheckPolicy::default()).remedy.remove(0);
        let nft = node("ACCEPT", "", &guard("drop", ""));
        assert!(
            remedy(&nft).starts_with("nft insert rule inet guard fwd iifname cni0 accept && nft insert"),
            "{}",
            remedy(&nft)
        );
        let iptables = node("DROP", "", r#"{"nftables":[]}"#);
        assert!(remedy(&iptables).starts_with("iptables -I FORWARD -i cni0 -j ACCEPT && "), "{}", remedy(&iptables));
        let ufw =
            iptables.with_query(&UFW, "Status: active\nDefault: deny (incoming), allow (outgoing), deny (routed)\n");
        assert_eq!(remedy(&ufw), "ufw route allow in on cni0 && ufw route allow out on cni0");
    }
}
