//! The kernel modules a node needs are there.
//!
//! `overlay` is what containers' filesystems are made of; the kernel loads it by itself when it is first used.
//! `br_netfilter` shows the packets on a bridge to iptables and nobody loads it: without it a pod reaches a Service
//! only while the answer comes from another node, and flannel does not start. Where pods are behind no bridge (calico,
//! cilium), or no pod network is known yet, that it is missing is a warning; before a join also kubeadm older than 1.30
//! asks for it.
//!
//! See it yourself: `lsmod | grep -E 'br_netfilter|overlay'; ls /proc/sys/net/bridge`
//! Fix: `modprobe br_netfilter`; and see `carrick explain kernel.modules-after-boot` to keep it.

use super::bridge_nf::is_needed;
use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, nothing, pass,
};
use crate::fact::modules::{AT_HAND, LOADED, Module};
use crate::fact::sysctl::BRIDGE_IPTABLES;
use crate::fact::{Facts, Known};
use crate::join::prepare::Preparation;

pub const CHECK: Check = Check {
    id: "kernel.modules",
    title: "the kernel modules a node needs are there",
    subsystem: Subsystem::Kernel,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Traffic,
    needed: Needed::Always,
    in_join: InJoin::SetRight(Preparation::BridgeModule),
    fixed_by: FixedBy::Carrick(&["modules"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    // Seen in use is better than found in a list: it also tells of what is built in.
    if !facts.kernel_filesystems()?.contains("overlay") {
        let module = facts.module("overlay")?;
        if !matches!(module, Module::Loaded | Module::BuiltIn | Module::Loadable(_)) {
            return Ok(missing(facts, "overlay", &module));
        }
    }
    if facts.sysctl(BRIDGE_IPTABLES)?.is_some() {
        return Ok(pass("br_netfilter is at work, overlay is at hand"));
    }
    let verdict = match facts.module("br_netfilter")? {
        Module::Loaded | Module::BuiltIn => pass("br_netfilter is loaded, overlay is at hand"),
        Module::Loadable(file) => fail("br_netfilter is not loaded: Services would fail from pod to pod")
            .seen(Evidence::of(LOADED, "no br_netfilter"))
            .seen(Evidence::of(AT_HAND.name, file))
            .fix("modprobe br_netfilter")
            .fix("echo br_netfilter >>/etc/modules-load.d/kubernetes.conf"),
        module => missing(facts, "br_netfilter", &module),
    };
    let outcome = if verdict.outcome == Outcome::Fail && !is_needed(facts) { Outcome::Warn } else { verdict.outcome };
    Ok(Verdict { outcome, ..verdict })
}

fn missing(facts: &Facts, name: &str, module: &Module) -> Verdict {
    let release = facts.kernel_release().unwrap_or_else(|_| "that runs".to_owned());
    if let Module::NoTree(tree) = module {
        return fail(format!("{name} cannot be loaded: kernel {release} has no modules here"))
            .seen(Evidence::of(tree.as_str(), "not there"))
            .fix("systemctl reboot    # after a kernel upgrade: into the kernel whose modules are installed");
    }
    fail(format!("kernel {release} has no {name}"))
        .seen(Evidence::of(AT_HAND.name, format!("no {name}")))
        .fix("apt-get install linux-modules-extra-$(uname -r)    # dnf install kernel-modules-extra")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::kernel::{FILESYSTEMS, RELEASE};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const NF: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    const BOTH: &str = "\
/lib/modules/6.1.0-28-amd64/modules.dep:kernel/net/bridge/br_netfilter.ko: kernel/net/bridge/bridge.ko
/lib/modules/6.1.0-28-amd64/modules.dep:kernel/fs/overlayfs/overlay.ko:
";

    /// A fresh Debian: both are loadable, neither is loaded.
    fn fresh() -> Facts {
        facts()
            .with_file(FILESYSTEMS, "nodev\tproc\n\text4\n")
            .with_file(LOADED, "ext4 1000 1 - Live 0x0\n")
            .with_query(&AT_HAND, BOTH)
            .with_file(RELEASE, "6.1.0-28-amd64\n")
            .without_file(NF)
    }

    fn prepared() -> Facts {
        fresh().with_file(FILESYSTEMS, "nodev\toverlay\n").with_file(NF, "1\n")
    }

    #[test]
    fn judges() {
        let absent = "absent /lib/modules/6.1.0-28-amd64\n";
        let network = |facts: Facts, kind: &str| {
            let conf = format!(r#"{{"name":"x","plugins":[{{"type":"{kind}"}}]}}"#);
            let facts = facts.with_dir("/etc/cni/net.d", &[("-rw-r--r--", "10-x.conflist")]);
            facts.with_file("/etc/cni/net.d/10-x.conflist", &conf)
        };
        table(
            &CHECK,
            [
                ("prepared", prepared(), Pass),
                ("overlay comes when it is needed", fresh().with_file(NF, "1\n"), Pass),
                (
                    "loaded, in a namespace without the parameter",
                    fresh().with_file(LOADED, "br_netfilter 1 0 - Live 0x0\n"),
                    Pass,
                ),
                ("built in", fresh().with_query(&AT_HAND, &BOTH.replace("modules.dep", "modules.builtin")), Pass),
                ("br_netfilter not loaded, and no pod network is known", fresh(), Warn),
                ("br_netfilter not loaded, and pods are behind a bridge", network(fresh(), "flannel"), Fail),
                ("br_netfilter not loaded, and pods are behind none", network(fresh(), "cilium-cni"), Warn),
                ("no br_netfilter", prepared().without_file(NF).with_query(&AT_HAND, ""), Warn),
                (
                    "no br_netfilter, and pods are behind a bridge",
                    network(prepared().without_file(NF).with_query(&AT_HAND, ""), "bridge"),
                    Fail,
                ),
                ("no overlay", prepared().with_file(FILESYSTEMS, "\text4\n").with_query(&AT_HAND, ""), Fail),
                ("upgraded, not rebooted", fresh().with_query(&AT_HAND, absent), Fail),
                ("upgraded, but all is loaded", prepared().with_query(&AT_HAND, absent), Pass),
                ("filesystems not read", facts(), Unknown),
                ("parameter closed", prepared().without(Source::File(NF), Why::Denied), Unknown),
                ("tree hangs", fresh().without(Source::Query(&AT_HAND), Why::TimedOut), Unknown),
            ],
        );
    }

    #[test]
    fn says_which_and_why() {
        let says = |facts: &Facts| CHECK.verdict(facts, &CheckPolicy::default()).says;
        assert_eq!(says(&fresh()), "br_netfilter is not loaded: Services would fail from pod to pod");
        assert_eq!(
            says(&fresh().with_query(&AT_HAND, "absent /lib/modules/6.1.0-28-amd64\n")),
            "overlay cannot be loaded: kernel 6.1.0-28-amd64 has no modules here"
        );
        let only_overlay = prepared().without_file(NF).with_query(&AT_HAND, "");
        assert_eq!(says(&only_overlay), "kernel 6.1.0-28-amd64 has no br_netfilter");
    }
}
