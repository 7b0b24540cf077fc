//! flannel's lease file is gone: the node stays Ready, and new pods do not start.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "/run/flannel/subnet.env is gone on a node that was Ready",
    cause: "cni.subnet-env",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        scene.script("for i in $(seq 200); do [ -e /run/flannel/subnet.env ] && break; sleep 0.2; done; rm /run/flannel/subnet.env").map(drop)
    },
    shows: |scene| {
        scene.pod_does_not_start("open /run/flannel/subnet.env: no such file or directory")?;
        scene.becomes_ready()
    },
    fixes: None,
};
