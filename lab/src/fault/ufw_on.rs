//! Debian's ufw with its defaults: the node joins and is Ready, the API server cannot reach its kubelet, nor anybody its pods.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "ufw is on, and lets only ssh in",
    cause: "firewall.kubelet",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.script("ufw allow 22/tcp; ufw --force enable").map(drop),
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        let logs = scene.logs_of_kube_proxy()?;
        scene.holds("kubectl logs gets no answer from 10250", logs.contains(":10250: i/o timeout"), logs)?;
        let status = scene.on(&["ufw", "status"])?;
        scene.holds("ufw is active", status.starts_with("Status: active"), status)
    },
    fixes: Some(|scene| {
        scene.on(&["ufw", "disable"])?;
        scene.cluster.pod_answers(&scene.machine).map(drop)
    }),
};
