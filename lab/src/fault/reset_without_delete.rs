//! `kubeadm reset` does not take the Node away: the machine stands in its own way.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the machine was reset, and its old Node is still Ready",
    cause: "api.node-name",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.join_and_be_ready()?;
        scene.on(&["kubeadm", "reset", "--force"]).map(drop)
    },
    shows: |scene| {
        let refused = scene.join_fails()?;
        refused.says(&format!(
            "a Node with name \"{}\" and status \"Ready\" already exists in the cluster",
            scene.node_name()
        ))?;
        // What that attempt left makes the next one fail for another reason.
        scene.join_fails()?.says("[ERROR FileAvailable--etc-kubernetes-pki-ca.crt]")?;
        Ok(())
    },
    fixes: None,
};
