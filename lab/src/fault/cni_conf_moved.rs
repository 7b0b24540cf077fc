//! The CNI configuration is moved away under a running containerd.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "10-flannel.conflist is moved away on a node that was Ready",
    cause: "cni.config",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        scene.on(&["mv", "/etc/cni/net.d/10-flannel.conflist", "/root/"]).map(drop)
    },
    shows: |scene| {
        scene.condition_is("Ready", "False", "cni plugin not initialized", Duration::from_mins(1))?;
        scene.has_files(&["/etc/cni/net.d/10-flannel.conflist"], false)
    },
    // Written in place, it is noticed.
    fixes: Some(|scene| {
        scene.on(&["cp", "/root/10-flannel.conflist", "/etc/cni/net.d/"])?;
        scene.becomes_ready()
    }),
};
