//! A node's kubelet stops: nobody says so but the silence.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the kubelet is stopped on a node that was Ready",
    cause: "kubelet.not-running",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        scene.on(&["systemctl", "stop", "kubelet"]).map(drop)
    },
    shows: |scene| {
        scene.condition_is("Ready", "Unknown", "Kubelet stopped posting node status.", Duration::from_mins(2)).map(drop)
    },
    fixes: Some(|scene| {
        scene.on(&["systemctl", "start", "kubelet"])?;
        scene.becomes_ready()
    }),
};
