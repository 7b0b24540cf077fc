//! The bridge of an earlier join is still there, with an address of the range the node had then.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "cni0 has an address of another pod range, left by an earlier join",
    cause: "cni.stale-bridge",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let address = format!("{}.250.1/24", scene.lab.site().pods());
        scene.script("ip link add cni0 type bridge; ip link set cni0 up")?;
        scene.on(&["ip", "address", "add", &address, "dev", "cni0"]).map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        scene.pod_does_not_start(&format!(
            "failed to set bridge addr: \"cni0\" already has an IP address different from {}.",
            scene.lab.site().pods()
        ))
    },
    fixes: Some(|scene| {
        scene.on(&["ip", "link", "delete", "cni0"])?;
        scene.cluster.pod_answers(&scene.machine).map(drop)
    }),
};
