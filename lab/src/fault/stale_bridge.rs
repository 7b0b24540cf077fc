//! The bridge of an earlier join is still there, with an address of the range the node had then.

use super::Fault;
use crate::machine::Kind;

pub const FAULT: Fault = Fault {
    about: "cni0 has an address of another pod range, left by an earlier join",
    cause: "cni.stale-bridge",
    on: Kind::Debian12,
    put_in: |scene| {
        scene
            .script("ip link add cni0 type bridge; ip addr add 10.244.250.1/24 dev cni0; ip link set cni0 up")
            .map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        scene.pod_does_not_start("failed to set bridge addr: \"cni0\" already has an IP address different from 10.244.")
    },
    mends: Some(|scene| {
        scene.on(&["ip", "link", "delete", "cni0"])?;
        scene.cluster.pod_answers(scene.node_name()).map(drop)
    }),
};
