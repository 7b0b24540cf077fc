//! Two machines with one name, the first of them alive.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the machine has the hostname of another node, which is Ready",
    cause: "api.node-name",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let other = scene.other()?;
        scene.noted.clone_from(&other.identity.name);
        scene.on(&["hostname", &other.identity.name]).map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined
            .says(&format!("a Node with name \"{}\" and status \"Ready\" already exists in the cluster", scene.noted))?
            .took(0, 20)?;
        scene.has_files(&["/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt"], true)?;
        let node = scene.cluster.get(["node", &scene.noted])?;
        let address = &scene.others[0].identity.address;
        let kept = node["status"]["addresses"][0]["address"] == address.to_string();
        scene.holds("the other machine keeps its Node", kept, node)
    },
    fixes: None,
};
