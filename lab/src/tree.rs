//! All of a machine that a join may change: files, units, links, routes, sysctls, mounts, containers and images. Two of them say
//! what it left. Not in it: logs, what carrick records of its own, and what programs write to while nothing is done to them; nor
//! rules of iptables, of which a kubelet makes some in every start (`carrick reset` takes those away).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::demand;
use crate::error::Result;
use crate::machine::Machine;

/// One line a thing, what kind it is first. Of units at rest only those that a join is about: systemd forgets others when it likes. A
/// runtime that does not answer is told as that. Contents count where somebody may have written (times do not: what was put back is
/// newer); of what packages installed, kind, mode, owner and size do.
const LOOK: &str = r#"cd /; export LC_ALL=C
timeout 20 systemctl is-system-running --wait >/dev/null
written="etc opt root usr/local usr/lib/systemd var/lib/kubelet var/lib/cni run/systemd/system run/systemd/transient run/flannel run/carrick* tmp"
there=$(for place in $written; do [ -e $place ] && echo $place; done)
quiet="-path ./var/log -o -path ./var/cache -o -path ./var/tmp -o -path ./var/lib/carrick -o -path ./var/lib/systemd"
find . $(printf './%s ' $there) -xdev \( $quiet \) -prune -o -type f -printf 'file %p %m %U %G %s\n' -o -printf 'file %p %y %m %U %G %l\n'
find $there -xdev -type f -exec sha256sum {} + | sed 's/^/content /'
systemctl list-unit-files --no-legend --plain | sed 's/^/unit file /'
systemctl list-units --all --type=service,socket,timer --no-legend --plain | sed -nE 's/^(\S+) +(\S+) +(\S+) +.*/unit \1 \3/p' |
  grep -E '^unit (carrick|containerd|kubelet)| (active|activating|deactivating|failed|reloading)$'
ip -br addr | sed 's/^/link /'
ip -4 route show table all | sed 's/^/route /'
runtime() { systemctl -q is-active containerd && [ -S /run/containerd/containerd.sock ] && timeout 10 ctr -n k8s.io "$@" 2>/dev/null; }
for what in container image; do
  if names=$(runtime ${what}s ls -q); then printf '%s\nlisted\n' "$names"; else echo 'not listed'; fi | sed "s/^/$what /"
done
sysctl -a 2>/dev/null | grep -E '^(net|vm|kernel\.panic)' | sed 's/^/sysctl /'
cut -d' ' -f1-4 /proc/mounts | sed 's/^/mount /'"#;

/// How the lines begin.
const KINDS: [&str; 9] = ["file ", "content ", "unit ", "link ", "route ", "container ", "image ", "sysctl ", "mount "];

/// Changes by itself: the kernel's counters, what a fault runs beside the join, and what systemd starts or makes when it is asked
/// something. carrick's lock is a file that has to stay: who removed it would let two in.
const RESTLESS: [&str; 6] = [
    "run/carrick.lock",
    "nf_conntrack_count",
    "meddler",
    "systemd-private-",
    "unit systemd-timedated.service ",
    "file ./run/systemd/transient d ",
];

/// A whole root is listed, on a machine that is busy.
const DEADLINE: Duration = Duration::from_mins(2);

pub struct Tree(BTreeSet<String>);

impl Tree {
    pub fn of(machine: &Machine) -> Result<Self> {
        let shown = machine.run(["sh", "-c", LOOK]).deadline(DEADLINE).ok()?;
        let tree = Self::parse(&shown);
        for kind in KINDS {
            let seen = tree.0.iter().any(|line| line.starts_with(kind));
            demand!(seen, "no {kind}was seen: what was not looked at proves nothing:\n{shown:.2000}");
        }
        Ok(tree)
    }

    fn parse(shown: &str) -> Self {
        let restless = |line: &str| RESTLESS.iter().any(|word| line.contains(word));
        // What somebody gave as a unit's description may have lines of its own.
        let known = |line: &str| KINDS.iter().any(|kind| line.starts_with(kind));
        Self(shown.lines().filter(|line| known(line) && !restless(line)).map(settled).collect())
    }

    /// What is here and was not, and the other way round.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        differing(&before.0, &self.0)
    }
}

/// A kubelet that waits for a configuration ends and is started again, for ever: it is up all the same.
fn settled(line: &str) -> String {
    let up = ["unit kubelet.service active", "unit kubelet.service activating"].contains(&line);
    if up { "unit kubelet.service up".to_owned() } else { line.to_owned() }
}

/// The lines that two texts do not share.
pub fn difference(one: &str, other: &str) -> Vec<String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
    differing(&lines(one), &lines(other))
}

fn differing(one: &BTreeSet<String>, other: &BTreeSet<String>) -> Vec<String> {
    let gone = one.difference(other).map(|line| format!("- {line}"));
    gone.chain(other.difference(one).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "file ./etc/hosts 644 0 0 40\ncontent aa etc/hosts\nunit file kubelet.service enabled enabled\n\
        unit kubelet.service activating\nroute default via 10.123.0.1 dev host0\ncontainer listed\nimage pause\nlink host0@if7 UP 10.123.0.21/24\nsysctl net.ipv4.ip_forward = 0\n\
        sysctl net.netfilter.nf_conntrack_count = 7\n";

    #[test]
    fn every_kind_of_change_is_told_and_what_is_restless_is_not() {
        for (from, to, changes) in [
            ("activating", "active", &[][..]),
            ("count = 7", "count = 9", &[]),
            ("644", "600", &["- file ./etc/hosts 644 0 0 40", "+ file ./etc/hosts 600 0 0 40"]),
            ("content aa", "content bb", &["- content aa etc/hosts", "+ content bb etc/hosts"]),
            ("activating", "failed", &["- unit kubelet.service up", "+ unit kubelet.service failed"]),
            ("link host0", "link cni0 DOWN\nlink host0", &["+ link cni0 DOWN"]),
            ("route default", "route 10.244.0.0/24 dev cni0\nroute default", &["+ route 10.244.0.0/24 dev cni0"]),
            ("container listed", "container 1f\ncontainer listed", &["+ container 1f"]),
            ("image pause", "image listed", &["- image pause", "+ image listed"]),
            ("link host0", "file run/carrick.lock 600 0 0 9\nlink host0", &[]),
            ("link host0", "file run/carrick d 700 0 0 \nlink host0", &["+ file run/carrick d 700 0 0 "]),
            ("forward = 0", "forward = 1", &["- sysctl net.ipv4.ip_forward = 0", "+ sysctl net.ipv4.ip_forward = 1"]),
        ] {
            let after = BEFORE.replacen(from, to, 1);
            assert_eq!(Tree::parse(&after).changes_since(&Tree::parse(BEFORE)), changes, "{from} → {to}");
        }
    }
}
