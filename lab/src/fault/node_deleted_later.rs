//! Somebody deletes the Node under a running kubelet: it does not come back by itself.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::run::pause;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the Node is deleted while its kubelet runs",
    cause: "node.deleted",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        scene.cluster.delete_node(scene.node_name())
    },
    shows: |scene| {
        scene.journal_says("kubelet", &format!("node \\\"{}\\\" not found", scene.node_name()))?;
        pause(Duration::from_secs(10))?;
        scene.no_node()
    },
    // A restart of the kubelet registers it again.
    fixes: Some(|scene| {
        scene.on(&["systemctl", "restart", "kubelet"])?;
        scene.becomes_ready()
    }),
};
