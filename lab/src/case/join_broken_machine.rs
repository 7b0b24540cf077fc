//! Machines that are broken in ways that show as something else: a kubelet's unit that hides its mounts, a runtime's unit that makes
//! the disk read-only to it, runc without its execute permission, a disk without inodes, a link that leads nowhere. Each is named
//! first; doing what is printed is enough, and the machine joins.

use super::{Bench, Case};
use crate::cluster::Cluster;
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::join::{Ends, SHORT, fresh, join, joins, judge, line};
use crate::machine::{Kind, Machine};
use crate::need::Need;
use crate::remedy;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "carrick join on machines whose unit, disk, program or link is broken so that it shows elsewhere: the right cause first, and its printed remedy is enough",
    tier: Tier::Standard,
    covers: &[
        Covers::Verb("join"),
        Covers::Promise(3),
        Covers::Family("kubelet"),
        Covers::Family("runtime"),
        Covers::Family("filesystem"),
    ],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12)],
    run,
};

struct Breach {
    name: &'static str,
    breaks: &'static str,
    ends: Ends,
    /// A word of its evidence.
    says: &'static str,
    /// What only the operator can do; the rest is what is printed.
    fixes: Option<&'static str>,
}

const BREACHES: [Breach; 5] = [
    Breach {
        name: "the kubelet's unit has a /tmp of its own",
        breaks: "mkdir -p /etc/systemd/system/kubelet.service.d; \
            printf '[Service]\\nPrivateTmp=yes\\nProtectHome=yes\\n' >/etc/systemd/system/kubelet.service.d/30-hardened.conf; \
            systemctl daemon-reload",
        ends: Ends::Cause("kubelet.private-mounts", 3),
        says: "PrivateTmp=yes",
        fixes: None,
    },
    Breach {
        name: "containerd's unit protects the system from it",
        breaks: "mkdir -p /etc/systemd/system/containerd.service.d; \
            printf '[Service]\\nProtectSystem=strict\\n' >/etc/systemd/system/containerd.service.d/30-hardened.conf; \
            systemctl daemon-reload; systemctl restart containerd || true",
        ends: Ends::Cause("runtime.private-mounts", 3),
        says: "ProtectSystem=strict",
        fixes: None,
    },
    Breach {
        name: "runc may not be executed",
        breaks: "chmod a-x $(command -v runc)",
        ends: Ends::Cause("permissions.executable", 3),
        says: "runc",
        fixes: None,
    },
    Breach {
        name: "no inodes where addresses are kept",
        breaks: "mkdir -p /var/lib/cni; mount -t tmpfs -o nr_inodes=2,size=1m tmpfs /var/lib/cni; touch /var/lib/cni/last || true",
        ends: Ends::Cause("filesystem.inodes", 3),
        says: "/var/lib/cni",
        fixes: Some("umount /var/lib/cni"),
    },
    Breach {
        name: "the kubelet's pki is a link to nothing",
        breaks: "systemctl stop kubelet; rm -rf /var/lib/kubelet/pki; mkdir -p /var/lib/kubelet; \
            ln -s /nowhere/pki /var/lib/kubelet/pki; systemctl start kubelet || true",
        ends: Ends::CauseAtSomeTime("filesystem.not-a-directory"),
        says: "/var/lib/kubelet/pki",
        fixes: Some("rm -f /var/lib/kubelet/pki; rm -rf /nowhere"),
    },
];

fn run(bench: &mut Bench) -> Result<()> {
    let (worker, cluster) = (fresh(bench)?, bench.cluster()?);
    for breach in &BREACHES {
        bench.say(format_args!("--- {}", breach.name));
        worker.run(["sh", "-ec", breach.breaks]).ok()?;
        is_named(bench, cluster, &worker, breach)?;
    }
    joins(bench, &worker).map(drop)
}

fn is_named(bench: &mut Bench, cluster: &Cluster, worker: &Machine, breach: &Breach) -> Result<()> {
    let done = join(worker, &SHORT, &["-"], &line(cluster))?;
    bench.say(format_args!("carrick join ended with {} after {:?}\n{}", done.code(), done.took, done.text()));
    bench.time(breach.name, done.took);
    judge(&breach.ends, &done)?;
    demand!(done.text().contains(breach.says), "{}: it does not say {:?}:\n{}", breach.name, breach.says, done.text());
    match breach.fixes {
        Some(fixes) => worker.run(["sh", "-ec", fixes]).ok().map(drop),
        None => remedy::carry_out(cluster, worker, &done.text()).map(drop),
    }
}
