//! Two machines with one name, the first of them gone: the second silently becomes the first.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::run::Polled;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the machine has the hostname of another node, which is no longer heard of",
    cause: "api.node-name",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let other = scene.other()?;
        let name = other.identity.name.clone();
        let node = scene.cluster.get(["node", &name])?;
        node["metadata"]["uid"].as_str().unwrap_or_default().clone_into(&mut scene.noted);
        other.remove()?;
        scene.cluster.declare_lost(&name)?;
        scene.on(&["hostname", &name]).map(drop)
    },
    shows: |scene| {
        let name = scene.others[0].identity.name.clone();
        scene.join_seems_to_work()?;
        let address = scene.machine.identity.address.to_string();
        let node =
            scene.holds_in_the_end("the Node to have the new machine's address", Duration::from_secs(40), || {
                let node = scene.cluster.get(["node", &name])?;
                let moved = node["status"]["addresses"][0]["address"] == address.as_str();
                Ok(if moved { Polled::Seen(node) } else { Polled::NotYet(node["status"]["addresses"].to_string()) })
            })?;
        scene.holds("it is the same Node", node["metadata"]["uid"] == scene.noted.as_str(), &node["metadata"]["uid"])
    },
    fixes: None,
};
