//! A node loses its container runtime while it runs.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "containerd is stopped on a node that was Ready",
    cause: "runtime.unit",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        scene.on(&["systemctl", "stop", "containerd"]).map(drop)
    },
    shows: |scene| scene.condition_is("Ready", "False", "container runtime is down", Duration::from_secs(90)).map(drop),
    fixes: Some(|scene| {
        scene.on(&["systemctl", "start", "containerd"])?;
        scene.becomes_ready()
    }),
};
