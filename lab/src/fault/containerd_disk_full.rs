//! There is no room in /var/lib/containerd: kubeadm is content, the node is not. A small file system of its own is filled.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "/var/lib/containerd is full",
    cause: "filesystem.space",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "systemctl stop containerd; mount -t tmpfs -o size=16m small /var/lib/containerd; systemctl start containerd
            dd if=/dev/zero of=/var/lib/containerd/filler bs=1M count=32 2>/dev/null || test -s /var/lib/containerd/filler";
        scene.script(script).map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.condition_is("DiskPressure", "True", "kubelet has disk pressure", Duration::from_mins(1))?;
        scene.condition_is("Ready", "False", "cni plugin not initialized", Duration::from_secs(30)).map(drop)
    },
    fixes: None,
};
