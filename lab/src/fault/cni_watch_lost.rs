//! The CNI configuration is moved away and back: containerd sees it go, and does not see it return.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "10-flannel.conflist is moved away on a node that was Ready, and moved back",
    cause: "cni.watch-lost",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        scene.on(&["mv", "/etc/cni/net.d/10-flannel.conflist", "/root/"])?;
        scene.condition_is("Ready", "False", "cni plugin not initialized", Duration::from_mins(1))?;
        scene.on(&["mv", "/root/10-flannel.conflist", "/etc/cni/net.d/"]).map(drop)
    },
    shows: |scene| {
        scene.stays_not_ready("cni plugin not initialized")?;
        scene.has_files(&["/etc/cni/net.d/10-flannel.conflist"], true)
    },
    // Written in place, it is noticed.
    fixes: Some(|scene| {
        scene.script(
            "cp /etc/cni/net.d/10-flannel.conflist /tmp/conf; cat /tmp/conf > /etc/cni/net.d/10-flannel.conflist",
        )?;
        scene.becomes_ready()
    }),
};
