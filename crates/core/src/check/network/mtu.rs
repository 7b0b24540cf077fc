//! Packets of the pod network fit through the machine's card.
//!
//! A vxlan puts 50 bytes around every packet. Where pods are told a larger size than the card carries less those 50
//! bytes, small packets pass and large ones vanish: names resolve, pings work, and TLS handshakes and image layers
//! hang. A card below 1280 bytes (a tunnel in a tunnel) leaves too little for either.
//!
//! See it yourself: `ip -d link show; cat /run/flannel/subnet.env`
//! Fix: `ip link set dev LINK mtu 1500` where the card's was lowered by mistake; else restart the flannel pod of
//! this machine, which reads the card's anew.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::cni::SUBNET_ENV;
use crate::fact::net::{LINKS, Link};
use crate::fact::{Facts, Known, Missing};

pub const CHECK: Check = Check {
    id: "network.mtu",
    title: "packets of the pod network fit through the card",
    subsystem: Subsystem::Network,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a card's size may be what its network carries"),
    accounts_for: nothing,
    judge,
};

/// The least an IPv6 link must carry, and what a vxlan over a usual card never comes near.
const LEAST: u64 = 1280;
/// Ethernet 14, IPv4 20, UDP 8, VXLAN 8.
const VXLAN_OVERHEAD: u64 = 50;

const RESTART: &str = "kubectl -n kube-flannel delete pod -l app=flannel --field-selector spec.nodeName={node}";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(card) = facts.uplink()? else {
        return Ok(skip("no default route: no card to hold the pod network against"));
    };
    let seen = |link: &Link| Evidence::of(LINKS.name, format!("{} mtu {}", link.name, link.mtu));
    if card.mtu == 0 {
        return Err(Missing::broken(LINKS.name, format!("does not say the MTU of {}", card.name)));
    }
    if card.mtu < LEAST {
        return Ok(warn(format!("{} carries only {} bytes a packet", card.name, card.mtu))
            .seen(seen(&card))
            .fix(format!("ip link set dev {} mtu 1500", card.name)));
    }
    let vxlans: Vec<Link> = facts.vxlans()?;
    let room = if vxlans.is_empty() { card.mtu } else { card.mtu - VXLAN_OVERHEAD };
    if let Some(vxlan) = vxlans.iter().find(|vxlan| vxlan.mtu > room) {
        return Ok(warn(format!("{} sends {} bytes, {} has room for {room}", vxlan.name, vxlan.mtu, card.name))
            .seen([seen(vxlan), seen(&card)])
            .fix(RESTART));
    }
    let told = facts.flannel()?.and_then(|flannel| flannel.mtu);
    if let Some(told) = told.filter(|told| *told > room) {
        return Ok(warn(format!("flannel tells pods {told} bytes, {} has room for {room}", card.name))
            .seen([Evidence::of(SUBNET_ENV, format!("FLANNEL_MTU={told}")), seen(&card)])
            .fix(RESTART));
    }
    Ok(pass(format!("{} carries {} bytes a packet", card.name, card.mtu)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::net::ROUTES;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn with(card: u64, more: &str) -> Facts {
        let links = format!(r#"[{{"ifname":"eth0","mtu":{card},"operstate":"UP","addr_info":[]}}{more}]"#);
        facts()
            .with_query(&ROUTES, r#"[{"dst":"default","gateway":"192.168.4.1","dev":"eth0","flags":[]}]"#)
            .with_query(&LINKS, &links)
            .without_file(SUBNET_ENV)
    }

    fn vxlan(mtu: u64) -> String {
        format!(
            r#",{{"ifname":"flannel.1","mtu":{mtu},"operstate":"UNKNOWN","linkinfo":{{"info_kind":"vxlan","info_data":{{"id":1,"port":8472}}}},"addr_info":[]}}"#
        )
    }

    #[test]
    fn judges() {
        let env = |mtu: u64| format!("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_MTU={mtu}\n");
        table(
            &CHECK,
            [
                ("a usual card", with(1500, ""), Pass),
                ("the least", with(1280, ""), Pass),
                ("a byte too little", with(1279, ""), Warn),
                ("vxlan fits", with(1500, &vxlan(1450)), Pass),
                ("vxlan too large", with(1500, &vxlan(1451)), Warn),
                ("flannel over vxlan", with(1500, &vxlan(1450)).with_file(SUBNET_ENV, &env(1450)), Pass),
                ("flannel forgot the vxlan", with(1500, &vxlan(1450)).with_file(SUBNET_ENV, &env(1451)), Warn),
                ("flannel without a tunnel", with(1500, "").with_file(SUBNET_ENV, &env(1500)), Pass),
                ("the card was lowered since", with(1400, "").with_file(SUBNET_ENV, &env(1500)), Warn),
                ("no way out", with(1500, "").with_query(&ROUTES, "[]"), Skip),
                ("no ip", facts().without(Source::Query(&ROUTES), Why::NoTool), Unknown),
                ("flannel's word denied", with(1500, "").without(Source::File(SUBNET_ENV), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&with(1500, &vxlan(1500)), &CheckPolicy::default());
        assert_eq!(verdict.says, "flannel.1 sends 1500 bytes, eth0 has room for 1450");
        assert_eq!(verdict.evidence[0].text, "flannel.1 mtu 1500");
    }
}
