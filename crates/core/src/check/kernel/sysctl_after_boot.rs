//! Forwarding stays on after a reboot.
//!
//! `sysctl -w` holds until the next boot. What counts then is the last assignment in the files of /etc/sysctl.d,
//! /run/sysctl.d, /usr/local/lib/sysctl.d and /usr/lib/sysctl.d, read in the order of their names; a file of hardening
//! rules that comes later undoes one for Kubernetes. /etc/sysctl.conf counts only where a link leads there from one of
//! them: Debian 13 has none any more. A bridge's packets go to iptables unless a file says otherwise.
//!
//! See it yourself: `grep -rE 'ip_forward|bridge-nf' /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d /etc/sysctl.conf`
//! Mend it: `echo 'net.ipv4.ip_forward = 1' >>/etc/sysctl.d/99-kubernetes.conf`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::sysctl::{BRIDGE_IPTABLES, IP_FORWARD, Setting};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "kernel.sysctl-after-boot",
    title: "forwarding stays on after a reboot",
    subsystem: Subsystem::Kernel,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["forwarding_at_boot"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    // Forwarding is off unless a file turns it on; a bridge's packets are seen unless a file turns that off.
    let forward = facts.sysctl_at_boot(IP_FORWARD)?;
    let bridge = facts.sysctl_at_boot(BRIDGE_IPTABLES)?;
    let keep = "echo 'net.ipv4.ip_forward = 1' >>/etc/sysctl.d/99-kubernetes.conf";
    Ok(match forward {
        None => match facts.sysctl_conf(IP_FORWARD)? {
            Some(unread) => {
                warn("/etc/sysctl.conf turns forwarding on, but is not read at boot").seen(evidence(&unread)).fix(keep)
            }
            None => warn("nothing turns IPv4 forwarding on at the next boot")
                .seen(Evidence::of("/etc/sysctl.d", "no file sets net.ipv4.ip_forward"))
                .fix(keep),
        },
        Some(setting) if setting.value != "1" => turned_off("IPv4 forwarding", &setting),
        Some(setting) => match bridge {
            Some(bridge) if bridge.value != "1" => turned_off("bridge-nf-call-iptables", &bridge),
            _ => pass("forwarding stays on after a reboot").seen(evidence(&setting)),
        },
    })
}

fn turned_off(what: &str, setting: &Setting) -> Verdict {
    warn(format!("{} turns {what} off at the next boot", setting.source))
        .seen(evidence(setting))
        .fix(format!("sed -i '{}s/=.*/= 1/' {}    # or take the line out", setting.line, setting.source))
}

fn evidence(setting: &Setting) -> Evidence {
    Evidence::at(setting.source.as_str(), setting.line, &setting.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const ETC: &str = "/etc/sysctl.d";
    const ON: &str = "net.bridge.bridge-nf-call-iptables = 1\nnet.ipv4.ip_forward = 1\n";

    fn bare() -> Facts {
        [ETC, "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"]
            .into_iter()
            .fold(facts().without_file("/etc/sysctl.conf"), Facts::without_dir)
    }

    fn with(text: &str) -> Facts {
        bare().with_dir(ETC, &[("-rw-r--r--", "k8s.conf")]).with_file("/etc/sysctl.d/k8s.conf", text)
    }

    #[test]
    fn judges() {
        let hardened = with(ON)
            .with_dir("/usr/lib/sysctl.d", &[("-rw-r--r--", "zz-cis.conf")])
            .with_file("/usr/lib/sysctl.d/zz-cis.conf", "net.ipv4.ip_forward = 0\n");
        table(
            &CHECK,
            [
                ("both set", with(ON), Pass),
                ("the bridge's default", with("net.ipv4.ip_forward=1\n"), Pass),
                ("set by hand only", bare(), Warn),
                ("hardened later", hardened, Warn),
                ("bridge turned off", with("net.ipv4.ip_forward=1\nnet.bridge.bridge-nf-call-iptables=0\n"), Warn),
                ("Debian 13, sysctl.conf", bare().with_file("/etc/sysctl.conf", "net.ipv4.ip_forward=1\n"), Warn),
                ("a file is closed", with(ON).without(Source::File("/etc/sysctl.d/k8s.conf"), Why::Denied), Unknown),
                ("nothing read", facts(), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_file_that_undoes_it() {
        let verdict = CHECK.verdict(&with("net.ipv4.ip_forward=1\n-net.ipv4.ip_forward=0\n"), &CheckPolicy::default());
        assert_eq!(verdict.says, "/etc/sysctl.d/k8s.conf turns IPv4 forwarding off at the next boot");
        assert_eq!(verdict.evidence, [Evidence::at("/etc/sysctl.d/k8s.conf", 2, "-net.ipv4.ip_forward=0")]);
        let unread =
            CHECK.verdict(&bare().with_file("/etc/sysctl.conf", "net.ipv4.ip_forward=1\n"), &CheckPolicy::default());
        assert_eq!(unread.says, "/etc/sysctl.conf turns forwarding on, but is not read at boot");
    }
}
