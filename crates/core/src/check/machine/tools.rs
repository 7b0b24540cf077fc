//! The programs a node calls are installed.
//!
//! kubeadm looks for a list of programs that has changed with its version: mount, losetup and cp in every one we know
//! of; ip, iptables and nsenter up to 1.32, conntrack up to 1.31, crictl up to 1.30, where it stops without them;
//! ethtool, tc and socat it only warned about. Newer ones leave these to the images of kube-proxy and the pod network.
//! iptables is still worth having on the host: CNI plugins such as portmap run there, and pods with a hostPort fail
//! without it.
//!
//! See it yourself: `command -v mount losetup cp iptables`
//! Mend it: install the package that has the program, such as util-linux, iptables, conntrack.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::tools::INSTALLED;
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.tools",
    title: "the programs a node calls are installed",
    subsystem: Subsystem::Machine,
    kubeadm: &[
        "FileExisting-mount",
        "FileExisting-losetup",
        "FileExisting-cp",
        "FileExisting-ip",
        "FileExisting-iptables",
        "FileExisting-nsenter",
        "FileExisting-conntrack",
        "FileExisting-crictl",
        "FileExisting-ethtool",
        "FileExisting-tc",
        "FileExisting-touch",
        "FileExisting-socat",
        "FileExisting-ebtables",
    ],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::ToJoin,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: nothing,
    judge,
};

/// A program, and what its absence means to a kubeadm of version 1.x.
struct Need {
    tool: &'static str,
    /// Without it kubeadm stops, up to this x.
    stops_until: u32,
    /// Without it kubeadm warns, up to this x.
    warns_until: u32,
    /// Something other than kubeadm misses it, whatever the version.
    beyond: Outcome,
    debian: &'static str,
    rhel: &'static str,
}

const EVERY: u32 = u32::MAX;

const fn need(tool: &'static str, stops_until: u32, warns_until: u32, package: &'static str) -> Need {
    Need { tool, stops_until, warns_until, beyond: Outcome::Pass, debian: package, rhel: package }
}

/// From kubeadm's `addExecChecks` of each version.
const NEEDS: [Need; 12] = [
    Need { debian: "mount", ..need("mount", EVERY, 0, "util-linux") },
    need("losetup", EVERY, 0, "util-linux"),
    need("cp", EVERY, 0, "coreutils"),
    // CNI's portmap and bridge plugins call it on the host.
    Need { beyond: Outcome::Warn, rhel: "iptables-nft", ..need("iptables", 32, 0, "iptables") },
    Need { rhel: "iproute", ..need("ip", 32, 0, "iproute2") },
    need("nsenter", 32, 0, "util-linux"),
    Need { rhel: "conntrack-tools", ..need("conntrack", 31, 0, "conntrack") },
    need("crictl", 30, 31, "cri-tools"),
    need("ethtool", 0, 32, "ethtool"),
    Need { rhel: "iproute-tc", ..need("tc", 0, 32, "iproute2") },
    need("touch", 0, 32, "coreutils"),
    need("socat", 0, 27, "socat"),
];

impl Need {
    /// What it means that the program is missing; a kubeadm of unknown version may be one that stops.
    fn missing(&self, minor: Option<u32>) -> Outcome {
        let stops = minor.map_or(self.stops_until == EVERY, |minor| minor <= self.stops_until);
        let warns = minor.map_or(self.stops_until > 0, |minor| minor <= self.warns_until);
        match (stops, warns) {
            (true, _) => Outcome::Fail,
            (false, true) => Outcome::Warn,
            (false, false) => self.beyond,
        }
    }
}

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let minor = facts.kubeadm_version().ok().map(|version| version.minor);
    let mut missing: Vec<(Outcome, &Need)> = Vec::new();
    for need in &NEEDS {
        if facts.tool(need.tool)?.is_none() {
            missing.push((need.missing(minor), need));
        }
    }
    missing.retain(|(outcome, _)| *outcome != Outcome::Pass);
    let named = |wanted: Outcome| -> Vec<&str> {
        missing.iter().filter(|(outcome, _)| *outcome == wanted).map(|(_, need)| need.tool).collect()
    };
    let (fatal, wanted) = (named(Outcome::Fail), named(Outcome::Warn));
    let verdict = if !fatal.is_empty() {
        let kubeadm = minor.map_or_else(|| "kubeadm".to_owned(), |minor| format!("kubeadm 1.{minor}"));
        fail(format!("{} not installed: {kubeadm} stops without", fatal.join(", ")))
    } else if wanted.iter().any(|tool| *tool != "iptables") {
        warn(format!("{} not installed: older kubeadm and some add-ons ask for it", wanted.join(", ")))
    } else if !wanted.is_empty() {
        warn("iptables not installed: pods with a hostPort would not start")
    } else {
        return Ok(pass("every program this kubeadm asks for is installed"));
    };
    let packages = packages(facts, missing.iter().map(|(_, need)| *need));
    Ok(verdict
        .seen(missing.iter().map(|(_, need)| Evidence::of(INSTALLED.name, format!("{}: not found", need.tool))))
        .fix(facts.install(&packages.join(" "))))
}

fn packages<'a>(facts: &Facts, needs: impl Iterator<Item = &'a Need>) -> Vec<&'a str> {
    let rhel = facts.os_release().is_ok_and(|release| release.uses_dnf());
    let mut packages: Vec<&str> = needs.map(|need| if rhel { need.rhel } else { need.debian }).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::version::KUBEADM;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn without(missing: &[&str]) -> Facts {
        let line = |need: &Need| {
            let path = if missing.contains(&need.tool) { String::new() } else { format!("/usr/bin/{}", need.tool) };
            format!("{} {path}\n", need.tool)
        };
        facts().with_query(&INSTALLED, &NEEDS.iter().map(line).collect::<String>())
    }

    fn kubeadm(version: &str, missing: &[&str]) -> Facts {
        without(missing).with_query(&KUBEADM, version)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("all there", kubeadm("v1.34.4\n", &[]), Pass),
                ("all there, kubeadm not known", without(&[]), Pass),
                ("no mount", kubeadm("v1.34.4\n", &["mount"]), Fail),
                ("no losetup", kubeadm("v1.29.15\n", &["losetup"]), Fail),
                ("no cp, kubeadm not known", without(&["cp"]), Fail),
                ("no iptables, new kubeadm", kubeadm("v1.33.0\n", &["iptables"]), Warn),
                ("no iptables, old kubeadm", kubeadm("v1.32.9\n", &["iptables"]), Fail),
                ("no ip, new kubeadm", kubeadm("v1.33.0\n", &["ip"]), Pass),
                ("no nsenter, old kubeadm", kubeadm("v1.32.0\n", &["nsenter"]), Fail),
                ("no conntrack, 1.32", kubeadm("v1.32.0\n", &["conntrack"]), Pass),
                ("no conntrack, 1.31", kubeadm("v1.31.14\n", &["conntrack"]), Fail),
                ("no conntrack, kubeadm not known", without(&["conntrack"]), Warn),
                ("no crictl, 1.30", kubeadm("v1.30.14\n", &["crictl"]), Fail),
                ("no crictl, 1.31", kubeadm("v1.31.14\n", &["crictl"]), Warn),
                ("no crictl, 1.32", kubeadm("v1.32.0\n", &["crictl"]), Pass),
                ("no ethtool, 1.32", kubeadm("v1.32.0\n", &["ethtool"]), Warn),
                ("no ethtool, 1.33", kubeadm("v1.33.0\n", &["ethtool"]), Pass),
                ("no ethtool, kubeadm not known", without(&["ethtool"]), Pass),
                ("no socat, 1.28", kubeadm("v1.28.0\n", &["socat"]), Pass),
                ("no socat, 1.27", kubeadm("v1.27.0\n", &["socat"]), Warn),
                ("timed out", facts().without(Source::Query(&INSTALLED), Why::TimedOut), Unknown),
            ],
        );
    }

    #[test]
    fn names_what_is_missing_and_its_package() {
        let says = |facts: &Facts| CHECK.verdict(facts, &CheckPolicy::default());
        let old = says(&kubeadm("v1.29.15\n", &["conntrack", "ip", "tc"]));
        assert_eq!(old.says, "ip, conntrack not installed: kubeadm 1.29 stops without");
        assert_eq!(old.remedy, ["apt-get install -y conntrack iproute2"]);
        assert_eq!(old.evidence.len(), 3);
        let rocky = kubeadm("v1.29.15\n", &["conntrack", "ip", "tc"])
            .with_file("/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n");
        assert_eq!(says(&rocky).remedy, ["dnf install -y conntrack-tools iproute iproute-tc"]);
        // Fedora is like nothing but itself.
        for (release, remedy) in [
            ("ID=debian\n", "apt-get install -y iptables mount"),
            ("ID=fedora\n", "dnf install -y iptables-nft util-linux"),
            ("ID=\"ol\"\nID_LIKE=\"fedora\"\n", "dnf install -y iptables-nft util-linux"),
            ("ID=rhel\n", "dnf install -y iptables-nft util-linux"),
        ] {
            let bare = kubeadm("v1.29.15\n", &["mount", "iptables"]).with_file("/etc/os-release", release);
            assert_eq!(says(&bare).remedy, [remedy], "{release}");
        }
        let unknown = says(&without(&["mount"]));
        assert_eq!(unknown.says, "mount not installed: kubeadm stops without");
        let iptables = says(&kubeadm("v1.34.4\n", &["iptables"]));
        assert_eq!(iptables.says, "iptables not installed: pods with a hostPort would not start");
        let warned = says(&without(&["conntrack"]));
        assert_eq!(warned.says, "conntrack not installed: older kubeadm and some add-ons ask for it");
    }
}
