//! Other nodes can reach this machine's pods on UDP 8472.
//!
//! flannel and cilium carry what pods say to pods of other nodes in UDP packets to port 8472. Where they are dropped
//! the node joins and is Ready, and its pods reach neither the cluster's DNS nor each other. Judged as firewall.kubelet
//! is. Before a pod network is configured here this warns only: it may be one that does not use vxlan.
//!
//! See it yourself: `iptables-save; nft list ruleset`; on this machine `tcpdump -ni any udp port 8472`
//! Mend it: `ufw allow 8472/udp`, or `firewall-cmd --permanent --add-port=8472/udp && firewall-cmd --reload`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::cni::flannel;
use crate::fact::firewall::found;
use crate::fact::listen::Proto;
use crate::fact::netfilter::Passage;
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "firewall.vxlan",
    title: "other nodes can reach this machine's pods on UDP 8472",
    subsystem: Subsystem::Network,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("whom a firewall lets in is your decision"),
    accounts_for: nothing,
    judge,
};

const PORT: u16 = 8472;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    // multus only calls another, which its file does not always name.
    let flavour = facts.cni_flavour()?.filter(|flavour| !flavour.calls_another);
    if let Some(other) = flavour.filter(|flavour| !flavour.uses(Proto::Udp, PORT)) {
        return Ok(skip(format!("{} is configured here: it does not use UDP 8472", other.name)));
    }
    // flannel writes its state once its backend stands: without a vxlan then, it does without.
    let flannel_runs = flavour == Some(&flannel::FLAVOUR) && facts.flannel()?.is_some();
    if flannel_runs && facts.vxlans()?.is_empty() {
        return Ok(skip("flannel runs here without a vxlan"));
    }
    Ok(match facts.inbound(Proto::Udp, PORT)? {
        Passage::Open => pass("UDP 8472 is open"),
        Passage::CannotTell(rule) => return Err(Missing::broken("UDP 8472", format!("hangs on {rule}"))),
        Passage::Blocked(rule) => {
            let (source, rule) = found(&rule);
            let verdict = match flavour {
                Some(flavour) => fail(format!("UDP 8472 is blocked: {} could not reach other nodes", flavour.name)),
                None => warn("UDP 8472 is blocked: flannel and cilium would need it"),
            };
            verdict
                .seen(Evidence::of(source, rule))
                .fix(facts.firewall().opens(Proto::Udp, PORT, rule))
                .explains([id!("pod.no-route")])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::cni::SUBNET_ENV;
    use crate::fact::firewall::{IPTABLES, NFT};
    use crate::fact::net::LINKS;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn filter(rules: &str) -> Facts {
        let text =
            format!("*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 8472 -j ACCEPT\n{rules}COMMIT\n");
        let facts = facts().with_query(&NFT, r#"{"nftables":[]}"#).with_query(&IPTABLES, &text);
        facts.with_dir("/etc/cni/net.d", &[]).without_file(SUBNET_ENV)
    }

    fn with(facts: Facts, kind: &str) -> Facts {
        facts
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-net.conflist")])
            .with_file("/etc/cni/net.d/10-net.conflist", &format!(r#"{{"name":"n","plugins":[{{"type":"{kind}"}}]}}"#))
    }

    #[test]
    fn judges() {
        let open = "-A INPUT -p udp -m udp --dport 8472 -j ACCEPT\n";
        let some = "-A INPUT -m set --match-set nodes src -p udp -m udp --dport 8472 -j ACCEPT\n";
        let running = || with(filter(""), "flannel").with_file(SUBNET_ENV, "FLANNEL_MTU=1450\n");
        let vxlan = r#"[{"ifname":"flannel.1","mtu":1450,"linkinfo":{"info_kind":"vxlan"}}]"#;
        table(
            &CHECK,
            [
                ("opened", filter(open), Pass),
                ("closed, no pod network yet", filter(""), Warn),
                ("closed, flannel", with(filter(""), "flannel"), Fail),
                ("closed, cilium", with(filter(""), "cilium-cni"), Fail),
                ("open, flannel", with(filter(open), "flannel"), Pass),
                ("calico", with(filter(""), "calico"), Skip),
                ("flannel runs over vxlan", running().with_query(&LINKS, vxlan), Fail),
                ("flannel runs without", running().with_query(&LINKS, "[]"), Skip),
                ("closed, multus", with(filter(""), "multus"), Warn),
                ("a plain bridge", with(filter(""), "bridge"), Warn),
                ("for some", filter(some), Unknown),
                ("not root", filter("").without(Source::Query(&IPTABLES), Why::Denied), Unknown),
                (
                    "the pod network is not known",
                    filter(open).without(Source::Tree("/etc/cni/net.d"), Why::Denied),
                    Unknown,
                ),
            ],
        );
        let verdict = CHECK.verdict(&with(filter(""), "flannel"), &CheckPolicy::default());
        assert_eq!(verdict.says, "UDP 8472 is blocked: flannel could not reach other nodes");
        assert!(verdict.remedy[0].contains("-p udp --dport 8472"));
    }
}
