//! A node cannot reach the API server any more.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "packets to the API server are dropped on a node that was Ready",
    cause: "api.tcp",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        let control = scene.lab.site().control().to_string();
        scene.on(&["iptables", "-I", "OUTPUT", "-d", &control, "-p", "tcp", "--dport", "6443", "-j", "DROP"]).map(drop)
    },
    shows: |scene| {
        scene.condition_is("Ready", "Unknown", "Kubelet stopped posting node status.", Duration::from_mins(2))?;
        scene.journal_says("kubelet", "Error updating node status, will retry")
    },
    fixes: Some(|scene| {
        let control = scene.lab.site().control().to_string();
        scene.on(&["iptables", "-D", "OUTPUT", "-d", &control, "-p", "tcp", "--dport", "6443", "-j", "DROP"])?;
        scene.becomes_ready()
    }),
};
