//! br_netfilter is loaded at boot.
//!
//! `modprobe` holds until the next boot. A node whose modules are not listed comes back Ready after a reboot, and its
//! pods no longer reach Services; flannel does not come back at all.
//!
//! See it yourself: `grep -r br_netfilter /etc/modules-load.d /usr/lib/modules-load.d /etc/modules`
//! Mend it: `echo br_netfilter >>/etc/modules-load.d/kubernetes.conf`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::modules::Module;
use crate::fact::sysctl::BRIDGE_IPTABLES;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "kernel.modules-after-boot",
    title: "br_netfilter is loaded at boot",
    subsystem: Subsystem::Kernel,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["modules_at_boot"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    match facts.module("br_netfilter")? {
        Module::BuiltIn => return Ok(pass("br_netfilter is built into the kernel")),
        // Not loaded, not in a list, and at work all the same.
        Module::Missing | Module::NoTree(_) if facts.sysctl(BRIDGE_IPTABLES)?.is_some() => {
            return Ok(pass("br_netfilter is built into the kernel"));
        }
        Module::Missing | Module::NoTree(_) => return Ok(skip("no such module here: see kernel.modules")),
        Module::Loaded | Module::Loadable(_) => {}
    }
    Ok(match facts.module_at_boot("br_netfilter")? {
        Some(line) => pass("br_netfilter is loaded at boot").seen(Evidence::at(line.source, line.line, line.name)),
        None => warn("br_netfilter will not be loaded at the next boot")
            .seen(Evidence::of("/etc/modules-load.d", "no file names br_netfilter"))
            .fix("echo br_netfilter >>/etc/modules-load.d/kubernetes.conf"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::modules::{AT_HAND, LOADED};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const LOADABLE: &str =
        "/lib/modules/6.1/modules.dep:kernel/net/bridge/br_netfilter.ko: kernel/net/bridge/bridge.ko\n";
    const NF: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    const DIR: &str = "/etc/modules-load.d";

    fn loaded() -> Facts {
        facts()
            .with_file(LOADED, "br_netfilter 32768 0 - Live 0x0\n")
            .without_dir(DIR)
            .without_dir("/run/modules-load.d")
            .without_dir("/usr/lib/modules-load.d")
            .without_file("/etc/modules")
    }

    fn listed() -> Facts {
        loaded()
            .with_dir(DIR, &[("-rw-r--r--", "k8s.conf")])
            .with_file("/etc/modules-load.d/k8s.conf", "br_netfilter\n")
    }

    #[test]
    fn judges() {
        let not_loaded = || loaded().without_file(LOADED).without_file(NF);
        table(
            &CHECK,
            [
                ("listed", listed(), Pass),
                ("listed, not yet loaded", listed().without_file(LOADED).with_query(&AT_HAND, LOADABLE), Pass),
                ("loaded by hand", loaded(), Warn),
                (
                    "built in",
                    not_loaded().with_query(&AT_HAND, &LOADABLE.replace("modules.dep", "modules.builtin")),
                    Pass,
                ),
                ("not there", not_loaded().with_query(&AT_HAND, ""), Skip),
                (
                    "built in, and no list of it",
                    not_loaded().with_query(&AT_HAND, "absent /lib/modules/6.1\n").with_file(NF, "1\n"),
                    Pass,
                ),
                ("no tree", not_loaded().with_query(&AT_HAND, "absent /lib/modules/6.1\n"), Skip),
                ("list closed", loaded().without(Source::Dir(DIR), Why::Denied), Unknown),
            ],
        );
    }

    #[test]
    fn cites_the_line() {
        assert_eq!(
            CHECK.verdict(&listed(), &CheckPolicy::default()).evidence,
            [Evidence::at("/etc/modules-load.d/k8s.conf", 1, "br_netfilter")]
        );
    }
}
