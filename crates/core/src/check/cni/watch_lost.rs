//! The runtime has loaded the configuration that is there.
//!
//! containerd reads /etc/cni/net.d when it starts and when a file in it is written. It misses a file that was moved in,
//! and everything after the directory itself was deleted and made anew: the configuration lies there, valid, and the
//! node stays NotReady.
//!
//! See it yourself: `crictl info | grep -E 'lastCNILoadStatus|"Name"'` beside `ls /etc/cni/net.d`
//! Mend it: `systemctl restart containerd` (running pods go on)

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip,
};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "cni.watch-lost",
    title: "the runtime has loaded the configuration that is there",
    subsystem: Subsystem::Cni,
    kubeadm: &[],
    class: Class::Transient,
    role: Role::Root,
    stops: Stops::Network,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["cni_watch"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let status = facts.runtime_status()?;
    let Some(said) = status.last_cni_load else {
        return Ok(skip("the runtime does not say what it has loaded"));
    };
    let Some((winner, conf)) = facts.cni_winner()? else {
        return Ok(pass("no configuration to load: normal before a join"));
    };
    let loaded = status.cni_networks;
    let stale = |says: String| {
        fail(says)
            .seen([
                Evidence::of("crictl info", format!("lastCNILoadStatus: {said}")),
                Evidence::of(&winner.path, "is valid"),
            ])
            .fix("systemctl restart containerd")
            .explains([id!("cni.network-ready"), id!("node.not-ready")])
    };
    if said != "OK" {
        return Ok(stale(format!("containerd has not loaded {}", winner.name)));
    }
    if !loaded.is_empty() && !loaded.contains(&conf.name) {
        return Ok(stale(format!("containerd still uses {}, not {}'s {}", loaded.join(", "), winner.name, conf.name)));
    }
    Ok(pass(format!("{} is loaded", winner.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const NONE_FOUND: &str = "cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config";

    fn containerd(last: &str, network: &str) -> Facts {
        let json = format!(
            r#"{{"status":{{"conditions":[]}},"lastCNILoadStatus":"{last}","cniconfig":{{"PluginDirs":["/opt/cni/bin"],
            "PluginConfDir":"/etc/cni/net.d","PluginMaxConfNum":1,"Networks":[{{"Config":{{"Name":"cni-loopback"}},"IFName":"lo"}}{network}]}}}}"#
        );
        facts().with_cri("status", &json).with_dir("/etc/cni/net.d", &[])
    }

    fn flannel(facts: Facts) -> Facts {
        facts
            .with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-flannel.conflist")])
            .with_file("/etc/cni/net.d/10-flannel.conflist", r#"{"name":"cbr0","plugins":[{"type":"flannel"}]}"#)
    }

    #[test]
    fn judges() {
        let cbr0 = r#",{"Config":{"Name":"cbr0"},"IFName":"eth0"}"#;
        let other = r#",{"Config":{"Name":"k8s-pod-network"},"IFName":"eth0"}"#;
        table(
            &CHECK,
            [
                ("before a join", containerd(NONE_FOUND, ""), Pass),
                ("loaded", flannel(containerd("OK", cbr0)), Pass),
                ("loaded, networks not told", flannel(containerd("OK", "")), Pass),
                ("written, not seen", flannel(containerd(NONE_FOUND, "")), Fail),
                ("the one before", flannel(containerd("OK", other)), Fail),
                ("CRI-O", facts().with_cri("status", r#"{"status":{"conditions":[]}}"#), Skip),
                (
                    "broken: its own finding",
                    flannel(containerd(NONE_FOUND, "")).with_file("/etc/cni/net.d/10-flannel.conflist", "{"),
                    Unknown,
                ),
                ("no answer", flannel(facts()).without(Source::Cri("status"), Why::TimedOut), Unknown),
                ("not root", containerd("OK", cbr0).without(Source::Tree("/etc/cni/net.d"), Why::Denied), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&flannel(containerd("OK", other)), &CheckPolicy::default());
        assert_eq!(verdict.says, "containerd still uses k8s-pod-network, not 10-flannel.conflist's cbr0");
        assert_eq!(
            CHECK.verdict(&flannel(containerd(NONE_FOUND, "")), &CheckPolicy::default()).says,
            "containerd has not loaded 10-flannel.conflist"
        );
    }
}
