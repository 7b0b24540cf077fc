//! The node's name cannot be one.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the node's name has an underscore",
    cause: "machine.hostname",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.plan.node_name = Some("Bad_Host");
        Ok(())
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("nodeRegistration.name: Invalid value: \"bad_host\"")?.took(0, 10)?;
        scene.has_files(&["/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/config.yaml"], false)
    },
    fixes: None,
};
