//! The image every pod begins with is not there and cannot be had.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the pause image is missing and no registry can be reached",
    cause: "runtime.sandbox-image",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "ctr -n k8s.io images rm --sync registry.k8s.io/pause:3.10.1 >/dev/null
            for image in $(ctr -n k8s.io images ls -q | grep -E '^sha256:'); do
                ctr -n k8s.io images ls name==$image | grep -q pause && ctr -n k8s.io images rm --sync $image; done; systemctl restart containerd";
        scene.machine.run(["sh", "-c", script]).done().map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.stays_not_ready("cni plugin not initialized")?;
        scene.journal_says("containerd", "failed to get sandbox image \\\"registry.k8s.io/pause:3.10.1\\\"")
    },
    fixes: None,
};
