//! Something in /etc/kubernetes/manifests is no pod. The node joins and is Ready; only the kubelet's journal complains.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "a file in /etc/kubernetes/manifests cannot be read as a pod",
    cause: "stale.manifests",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.script("echo 'this: [is not a pod' > /etc/kubernetes/manifests/junk.yaml").map(drop),
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        scene.journal_says("kubelet", "Could not process manifest file")
    },
    fixes: None,
};
