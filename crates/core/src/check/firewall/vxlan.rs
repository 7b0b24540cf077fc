//! Other nodes can reach this machine's pods on the UDP port of the overlay.
//!
//! flannel, cilium, antrea and others carry what pods say to pods of other nodes in UDP packets (vxlan: 8472 or 4789,
//! geneve: 6081). Where they are dropped the node joins and is Ready, and its pods reach neither the cluster's DNS nor
//! each other. Judged as firewall.kubelet is, for every port that is known to be used: its link stands on this node
//! (`ip -d link`), or with --kubeconfig the network's own configuration names it. That a network can tunnel does not
//! count: cilium may route natively. Before a join without --kubeconfig a blocked 8472 is a warning.
//!
//! See it yourself: `ip -d link | grep -A2 -E 'vxlan|geneve'`, `iptables-save; nft list ruleset`; `tcpdump -ni any udp
//! port 8472`
//! Fix: `ufw allow 8472/udp`, or `firewall-cmd --permanent --add-port=8472/udp && firewall-cmd --reload`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::firewall::found;
use crate::fact::listen::Proto;
use crate::fact::netfilter::Passage;
use crate::fact::overlay::Overlay;
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "firewall.vxlan",
    title: "other nodes can reach this machine's pods on the overlay's port",
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

/// What flannel and cilium use where nobody chose another.
const USUAL: u16 = 8472;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let overlays = facts.overlays()?;
    if overlays.is_empty() {
        return not_known_to_be_used(facts);
    }
    let mut unknown = None;
    for overlay in &overlays {
        let says = format!("UDP {} is blocked: pods here and on other nodes cannot reach each other", overlay.port);
        match facts.inbound(Proto::Udp, overlay.port) {
            Ok(Passage::Open) => {}
            Ok(Passage::Blocked(rule)) => return Ok(blocked(facts, overlay, fail(says), &rule)),
            Ok(Passage::SaidBlocked(word)) => return Ok(blocked(facts, overlay, warn(says), &word)),
            Ok(Passage::CannotTell(rule)) => unknown = unknown.or(Some(hangs_on(overlay.port, &rule))),
            Err(missing) => unknown = unknown.or(Some(missing)),
        }
    }
    let ports: Vec<String> = overlays.iter().map(|overlay| format!("UDP {}", overlay.port)).collect();
    unknown.map_or_else(|| Ok(pass(format!("{} is open", ports.join(", ")))), Err)
}

fn blocked(facts: &Facts, overlay: &Overlay, verdict: Verdict, rule: &str) -> Verdict {
    let (source, rule) = found(rule);
    verdict
        .seen([Evidence::of(source, rule), overlay.seen.clone()])
        .fix(facts.firewall().opens(Proto::Udp, overlay.port, rule))
        .explains([id!("pod.no-route")])
}

fn hangs_on(port: u16, rule: &str) -> Missing {
    Missing::broken(format!("UDP {port}"), format!("hangs on {rule}"))
}

/// No tunnel is known to be used: that of a network which is still to come may be.
fn not_known_to_be_used(facts: &Facts) -> Known<Verdict> {
    // multus only calls another, which its file does not always name.
    let flavour = facts.cni_flavour()?.filter(|flavour| !flavour.calls_another);
    if let Some(flavour) = flavour.filter(|flavour| !flavour.uses(Proto::Udp, USUAL)) {
        return Ok(skip(format!("{} is configured here: it does not use UDP {USUAL}", flavour.name)));
    }
    let runs = |traces: Vec<(&str, bool)>| !traces.is_empty() && traces.iter().all(|(_, there)| *there);
    if let Some(flavour) = flavour
        && facts.has_kubelet_conf()?
        && runs(facts.network_state(flavour)?)
    {
        return Ok(skip(format!("{} runs here without a tunnel", flavour.name)));
    }
    Ok(match facts.inbound(Proto::Udp, USUAL)? {
        Passage::Open => pass(format!("UDP {USUAL} is open")),
        Passage::CannotTell(rule) => return Err(hangs_on(USUAL, &rule)),
        Passage::Blocked(rule) | Passage::SaidBlocked(rule) => {
            let (source, rule) = found(&rule);
            warn(format!("UDP {USUAL} is blocked: flannel and cilium need it where they tunnel"))
                .seen(Evidence::of(source, rule))
                .fix(facts.firewall().opens(Proto::Udp, USUAL, rule))
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
    use crate::fact::kubeconfig::KUBELET;
    use crate::fact::net::LINKS;
    use crate::fact::{Source, Why, overlay};
    use crate::testing::{facts, table};

    fn filter(rules: &str) -> Facts {
        let text =
            format!("*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 8472 -j ACCEPT\n{rules}COMMIT\n");
        let facts = facts().with_query(&NFT, r#"{"nftables":[]}"#).with_query(&IPTABLES, &text);
        facts.with_dir("/etc/cni/net.d", &[]).without_file(SUBNET_ENV).without_file(KUBELET)
    }

    fn with(facts: Facts, kind: &str) -> Facts {
        facts
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-net.conflist")])
            .with_file("/etc/cni/net.d/10-net.conflist", &format!(r#"{{"name":"n","plugins":[{{"type":"{kind}"}}]}}"#))
    }

    /// A node with these tunnels, by name, kind and port.
    fn node(facts: Facts, links: &[(&str, &str, u16)]) -> Facts {
        let link = |(name, kind, port): &(&str, &str, u16)| {
            format!(r#"{{"ifname":"{name}","linkinfo":{{"info_kind":"{kind}","info_data":{{"port":{port}}}}}}}"#)
        };
        let links: Vec<String> = links.iter().map(link).collect();
        facts.with_query(&LINKS, &format!("[{}]", links.join(","))).with_file(KUBELET, "")
    }

    /// As an admin sees the cluster before a join.
    fn configured(backend: &str) -> Facts {
        let sets = r#"{"items":[{"metadata":{"name":"kube-flannel-ds","namespace":"kube-flannel"}}]}"#;
        let conf = format!(
            r#"{{"kube-flannel/kube-flannel-cfg":{{"net-conf.json":"{{\"Backend\":{{\"Type\":\"{backend}\"}}}}"}}}}"#
        );
        filter("").with_api("daemon-sets", sets).with_api(overlay::CALL, &conf)
    }

    const FLANNEL: (&str, &str, u16) = ("flannel.1", "vxlan", 8472);

    #[test]
    fn judges() {
        let open = "-A INPUT -p udp -m udp --dport 8472 -j ACCEPT\n";
        let some = "-A INPUT -m set --match-set nodes src -p udp -m udp --dport 8472 -j ACCEPT\n";
        let cilium = |links: &[(&str, &str, u16)]| {
            let there = node(with(filter(""), "cilium-cni"), links);
            there.with_dir("/run/cilium", &[("srwxr-xr-x", "cilium.sock")])
        };
        let flannel = |links: &[(&str, &str, u16)]| node(with(filter(""), "flannel"), links).with_file(SUBNET_ENV, "");
        table(
            &CHECK,
            [
                ("opened before a join", filter(open), Pass),
                ("closed, no pod network yet", filter(""), Warn),
                ("closed, and the cluster's flannel has vxlan", configured("vxlan"), Fail),
                ("closed, and it has host-gw", configured("host-gw"), Warn),
                ("closed, flannel's file of an earlier join", with(filter(""), "flannel"), Warn),
                ("and its link", node(with(filter(""), "flannel"), &[FLANNEL]).without_file(KUBELET), Warn),
                ("flannel runs over vxlan", flannel(&[FLANNEL]), Fail),
                ("and is let in", node(with(filter(open), "flannel"), &[FLANNEL]), Pass),
                ("on another port", node(with(filter(open), "flannel"), &[("flannel.1", "vxlan", 4789)]), Fail),
                ("flannel runs without", flannel(&[]), Skip),
                ("flannel has not started", node(with(filter(""), "flannel"), &[]), Warn),
                ("cilium routes natively", cilium(&[]), Skip),
                ("cilium tunnels", cilium(&[("cilium_vxlan", "vxlan", 8472)]), Fail),
                ("calico without vxlan", node(with(filter(""), "calico"), &[]), Skip),
                ("calico with vxlan", node(with(filter(open), "calico"), &[("vxlan.calico", "vxlan", 4789)]), Fail),
                ("antrea", node(with(filter(open), "antrea"), &[("genev_sys_6081", "geneve", 6081)]), Fail),
                ("a vxlan of somebody's own", node(with(filter(""), "calico"), &[("vxlan42", "vxlan", 4789)]), Skip),
                ("closed, multus", with(filter(""), "multus"), Warn),
                ("a plain bridge", with(filter(""), "bridge"), Warn),
                ("for some", filter(some), Unknown),
                ("for some, flannel runs", node(with(filter(some), "flannel"), &[FLANNEL]), Unknown),
                ("not root", filter("").without(Source::Query(&IPTABLES), Why::Denied), Unknown),
                ("links are not known", flannel(&[]).without(Source::Query(&LINKS), Why::TimedOut), Unknown),
                (
                    "the pod network is not known",
                    filter(open).without(Source::Tree("/etc/cni/net.d"), Why::Denied),
                    Unknown,
                ),
            ],
        );
        let verdict = CHECK.verdict(&flannel(&[FLANNEL]), &CheckPolicy::default());
        assert_eq!(verdict.says, "UDP 8472 is blocked: pods here and on other nodes cannot reach each other");
        assert_eq!(verdict.evidence[1], Evidence::of("ip -d link", "flannel.1: vxlan, UDP 8472"));
        assert!(verdict.remedy[0].contains("-p udp --dport 8472"));
    }
}
