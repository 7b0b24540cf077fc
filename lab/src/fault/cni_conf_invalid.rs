//! The first file in /etc/cni/net.d wins, and it is not JSON.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "00-bad.conflist comes before flannel's file and is no JSON",
    cause: "cni.config",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.script("mkdir -p /etc/cni/net.d; echo 'not json' > /etc/cni/net.d/00-bad.conflist").map(drop),
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.stays_not_ready("cni plugin not initialized")?;
        scene.journal_says(
            "containerd",
            "failed to load CNI config list file /etc/cni/net.d/00-bad.conflist: error parsing configuration list",
        )?;
        scene.has_files(&["/etc/cni/net.d/10-flannel.conflist"], true)
    },
    fixes: None,
};
