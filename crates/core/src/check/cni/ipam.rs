//! The configuration gives every pod an address of its own.
//!
//! bridge, ptp, macvlan and ipvlan take addresses from the plugin in their `ipam`; without one a pod has an interface
//! and no address, and the kubelet does not start it. host-local needs a range. A range for the whole cluster in a
//! node's file makes every node give out the same addresses: pods answer for each other, or not at all.
//!
//! See it yourself: `cat /etc/cni/net.d/*.conf*`
//! Mend it: give `ipam` a `type`, and host-local this node's range: `kubectl get node NODE -o
//! jsonpath='{.spec.podCIDR}'`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::cidr::Cidr;
use crate::fact::cni::{Candidate, Conf, Plugin};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.ipam",
    title: "the configuration gives every pod an address",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("which range is this node's, the cluster says; the file is the pod network's"),
    accounts_for: nothing,
    judge,
};

/// They make an interface, and leave its address to their `ipam`.
const NEED_IPAM: [&str; 4] = ["bridge", "ptp", "macvlan", "ipvlan"];

/// Of IPv4: a node's share is a /24 by default, and seldom more than a /20; a cluster's range is a /16.
const WHOLE_CLUSTER: u8 = 16;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some((winner, conf)) = facts.cni_winner()? else {
        return Ok(skip("no configuration yet: normal before a join"));
    };
    Ok(of_file(&winner, &conf))
}

/// One file by itself.
pub fn of_file(file: &Candidate, conf: &Conf) -> Verdict {
    // kube-router writes the range into its file itself, when it starts.
    let filled_in_later = file.flavour().is_some_and(|flavour| flavour.plugins.is_empty());
    let wrong = |(at, plugin): (usize, &Plugin)| {
        let (verdict, text) = without_addresses(file, plugin, filled_in_later).or_else(|| odd_range(file, plugin))?;
        Some(verdict.seen(Evidence::of(&file.path, format!("plugins[{at}] ({}): {text}", plugin.kind))))
    };
    match conf.plugins.iter().enumerate().find_map(wrong) {
        Some(verdict) => {
            let path = &file.path;
            verdict.fix(format!("$EDITOR {path}    # then: carrick cni lint {path}")).explains([id!("pod.no-address")])
        }
        None => pass(format!("{}: addresses come from {}", file.name, sources(conf))),
    }
}

fn without_addresses(file: &Candidate, plugin: &Plugin, later: bool) -> Option<(Verdict, String)> {
    let (name, kind) = (&file.name, &plugin.kind);
    match plugin.ipam.as_deref() {
        None if NEED_IPAM.contains(&kind.as_str()) => {
            Some((fail(format!("{name} has no ipam for {kind}: pods get no address")), "no ipam.type".to_owned()))
        }
        Some("host-local") if plugin.ranges.is_empty() => {
            let says = format!("{name} has no range for host-local: pods get no address");
            Some((if later { warn(says) } else { fail(says) }, "no ipam.subnet, no ipam.ranges".to_owned()))
        }
        _ => None,
    }
}

fn odd_range(file: &Candidate, plugin: &Plugin) -> Option<(Verdict, String)> {
    let name = &file.name;
    plugin.ranges.iter().find_map(|range| match range.parse::<Cidr>() {
        // calico's word for the Node's own.
        Err(_) if range == "usePodCidr" => None,
        Err(error) => Some((fail(format!("{name} has a range that is none: {range:?}")), error.to_string())),
        Ok(cidr) if !cidr.is_v6() && cidr.length() <= WHOLE_CLUSTER => {
            let says = format!("{name} gives out {range}: so does every node with this file");
            Some((warn(says), format!("ipam range {range}")))
        }
        Ok(_) => None,
    })
}

fn sources(conf: &Conf) -> String {
    let own: Vec<&str> = conf.plugins.iter().filter_map(|plugin| plugin.ipam.as_deref()).collect();
    if own.is_empty() { "its plugins".to_owned() } else { own.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn named(file: &str, plugins: &str) -> Facts {
        facts()
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", file)])
            .with_file(&format!("/etc/cni/net.d/{file}"), &format!(r#"{{"name":"x","plugins":[{plugins}]}}"#))
    }

    fn with(plugins: &str) -> Facts {
        named("10-x.conflist", plugins)
    }

    #[test]
    fn judges() {
        let bridge = |ipam: &str| with(&format!(r#"{{"type":"bridge","ipam":{ipam}}}"#));
        table(
            &CHECK,
            [
                ("flannel's", with(r#"{"type":"flannel"},{"type":"portmap"}"#), Pass),
                ("a node's own range", bridge(r#"{"type":"host-local","subnet":"10.244.1.0/24"}"#), Pass),
                (
                    "both families",
                    bridge(r#"{"type":"host-local","ranges":[[{"subnet":"10.88.1.0/24"}],[{"subnet":"fd00::/16"}]]}"#),
                    Pass,
                ),
                ("dhcp", bridge(r#"{"type":"dhcp"}"#), Pass),
                (
                    "calico on the Node's range",
                    with(r#"{"type":"calico","ipam":{"type":"host-local","subnet":"usePodCidr"}}"#),
                    Pass,
                ),
                ("no ipam", with(r#"{"type":"bridge"}"#), Fail),
                ("an ipam without a type", bridge("{}"), Fail),
                ("no range", bridge(r#"{"type":"host-local"}"#), Fail),
                (
                    "kube-router, not started",
                    named("10-kuberouter.conflist", r#"{"type":"bridge","ipam":{"type":"host-local"}}"#),
                    Warn,
                ),
                ("what is no range", bridge(r#"{"type":"host-local","subnet":"10.244.1.0/244"}"#), Fail),
                ("the cluster's range", bridge(r#"{"type":"host-local","subnet":"10.244.0.0/16"}"#), Warn),
                ("no configuration", facts().with_dir("/etc/cni/net.d", &[]), Skip),
                ("broken: its own finding", with("{"), Unknown),
                ("not root", facts().without(Source::Tree("/etc/cni/net.d"), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&with(r#"{"type":"flannel"},{"type":"bridge"}"#), &CheckPolicy::default());
        assert_eq!(verdict.says, "10-x.conflist has no ipam for bridge: pods get no address");
        assert_eq!(verdict.evidence[0].text, "plugins[1] (bridge): no ipam.type");
    }
}
