//! Forwarding of IPv4 packets, and iptables' view of bridged ones, are turned on with sysctl, as far as they are off. What a
//! file would set otherwise at the next boot is set right in /etc/sysctl.d/zzz-carrick.conf. `carrick undo` sets the old values
//! and removes the file.

use super::{Fix, sysctl};
use crate::fact::sysctl::{BRIDGE_IP6TABLES, BRIDGE_IPTABLES, IP_FORWARD};
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix =
    Fix { fixes: &["kernel.bridge-nf", "kernel.ip-forward"], does: "turns it on, now and after a reboot", plan };

/// Read after whatever others call their last file (`99-…`, `zz-hardening.conf`).
const FILE: &str = "zzz-carrick.conf";

/// What a node of any CNI needs. Forwarding is off unless somebody turns it on; a bridge's packets are seen unless somebody
/// turns that off.
const WANTED: [sysctl::RequiredSysctl; 3] =
    [wanted(IP_FORWARD, false), wanted(BRIDGE_IPTABLES, true), wanted(BRIDGE_IP6TABLES, true)];

const fn wanted(path: &'static str, by_default: bool) -> sysctl::RequiredSysctl {
    sysctl::RequiredSysctl { path, value: "1", fits: is_on, by_default }
}

fn is_on(value: &str) -> bool {
    value == "1"
}

#[allow(clippy::unnecessary_wraps)] // As every fix is called.
fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let mut effects = sysctl::now(facts, &WANTED);
    // What is not known of the next boot is kernel.sysctl-after-boot's to tell; now can be fixed all the same.
    effects.extend(at_boot(facts).unwrap_or_default());
    Ok(effects)
}

pub(super) fn at_boot(facts: &Facts) -> Known<Vec<Effect>> {
    sysctl::at_boot(facts, FILE, &WANTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{facts, plans};

    const DIRS: [&str; 4] = ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];

    fn bare() -> Facts {
        let files = [("ipv4/ip_forward", "0\n"), ("bridge/bridge-nf-call-iptables", "1\n")];
        let known = DIRS.into_iter().fold(facts().without_file("/etc/sysctl.conf"), Facts::without_dir);
        let known =
            files.iter().fold(known, |facts, (key, value)| facts.with_file(&format!("/proc/sys/net/{key}"), value));
        known.without_file("/proc/sys/net/bridge/bridge-nf-call-ip6tables")
    }

    fn with(name: &str, text: &str) -> Facts {
        bare()
            .with_file("/proc/sys/net/ipv4/ip_forward", "1\n")
            .with_dir("/etc/sysctl.d", &[("-rw-r--r--", name)])
            .with_file(&format!("/etc/sysctl.d/{name}"), text)
    }

    const ON: &str = "net.ipv4.ip_forward = 1\n";

    #[test]
    fn only_what_is_wrong_is_set() {
        let bridge_off = with("k8s.conf", ON).with_file("/proc/sys/net/bridge/bridge-nf-call-iptables", "0\n");
        plans(
            &FIX,
            [
                (
                    "fresh",
                    bare(),
                    &[
                        "set net.ipv4.ip_forward to 1",
                        "make the directory /etc/sysctl.d (mode 0755)",
                        "write /etc/sysctl.d/zzz-carrick.conf",
                    ],
                ),
                ("all is well", with("k8s.conf", ON), &[]),
                ("turned off by hand", bridge_off, &["set net.bridge.bridge-nf-call-iptables to 1"]),
                (
                    "br_netfilter not loaded",
                    with("k8s.conf", ON).without_file("/proc/sys/net/bridge/bridge-nf-call-iptables"),
                    &[],
                ),
            ],
        );
    }

    #[test]
    fn the_file_holds_what_others_set_otherwise_and_no_more() {
        let text = |facts: &Facts| {
            at_boot(facts).unwrap().into_iter().find_map(|effect| match effect {
                Effect::Write { text, .. } => {
                    Some(text.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>())
                }
                _ => None,
            })
        };
        let hardened = "net.ipv4.ip_forward = 0\nnet.bridge.bridge-nf-call-iptables = 0\n";
        for (case, facts, expected) in [
            ("set by nobody", with("k8s.conf", "# nothing\n"), Some(ON.to_owned())),
            ("set by somebody", with("k8s.conf", ON), None),
            ("hardened", with("zz-cis.conf", hardened), Some(format!("{ON}net.bridge.bridge-nf-call-iptables = 1\n"))),
            ("hardened beyond our reach", with("zzzz.conf", hardened), None),
            ("ours is there already", with("zzz-carrick.conf", &format!("{}{ON}", super::super::MARK)), None),
        ] {
            assert_eq!(text(&facts), expected, "{case}");
        }
    }

    #[test]
    fn a_line_of_sysctl_conf_is_commented_out_as_it_stands_there() {
        let conf = "# hardening\n\tnet.ipv4.ip_forward=0\nkernel.panic = 1\n";
        let linked = bare()
            .with_dir("/etc/sysctl.d", &[("lrwxrwxrwx", "99-sysctl.conf -> ../sysctl.conf")])
            .with_file("/etc/sysctl.conf", conf);
        let Some(Effect::Edit { path, edit }) = at_boot(&linked).unwrap().pop() else { panic!("no edit") };
        assert_eq!(path, "/etc/sysctl.conf");
        assert_eq!(edit.apply(conf).unwrap(), conf.replace("\tnet", "# carrick: \tnet"));
    }
}
