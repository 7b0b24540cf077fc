//! The folder with the CNI configuration is removed under a running containerd.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "/etc/cni/net.d is removed on a node that was Ready",
    cause: "cni.directory",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        scene.on(&["cp", "-a", "/etc/cni/net.d", "/root/net.d"])?;
        scene.on(&["rm", "-r", "/etc/cni/net.d"]).map(drop)
    },
    shows: |scene| {
        scene.condition_is("Ready", "False", "cni plugin not initialized", Duration::from_mins(1))?;
        scene.has_files(&["/etc/cni/net.d"], false)
    },
    fixes: Some(|scene| {
        // containerd watched the folder that is gone, and does not see the new one.
        scene.on(&["cp", "-a", "/root/net.d", "/etc/cni/net.d"])?;
        scene.stays_not_ready("cni plugin not initialized")?;
        scene.on(&["systemctl", "restart", "containerd"])?;
        scene.becomes_ready()
    }),
};
