//! The kubelet manages control groups itself, and containerd expects systemd to: no pod starts, not even flannel's.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the kubelet's cgroup driver is cgroupfs and containerd's is systemd",
    cause: "runtime.cgroup-driver",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.script("sed -i 's/SystemdCgroup = false/SystemdCgroup = true/' /etc/containerd/config.toml; systemctl restart containerd").map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.stays_not_ready("cni plugin not initialized")?;
        scene.journal_says(
            "kubelet",
            "expected cgroupsPath to be of format \\\"slice:prefix:name\\\" for systemd cgroups",
        )
    },
    fixes: None,
};
