//! The node is Ready, and no pod can start on it.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the flannel CNI plugin's program is missing from /opt/cni/bin",
    cause: "cni.plugins",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.on(&["rm", "/opt/cni/bin/flannel"]).map(drop),
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        scene.pod_does_not_start("failed to find plugin \"flannel\" in path [/opt/cni/bin]")
    },
    fixes: None,
};
