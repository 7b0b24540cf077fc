//! kubeadm is run by somebody who is not root.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "kubeadm is not run as root",
    cause: "machine.privileges",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.plan.as_root = false;
        scene.on(&["chmod", "0755", "/root"]).map(drop)
    },
    shows: |scene| {
        scene.join_fails()?.says("[ERROR IsPrivilegedUser]: user is not running as root")?.took(0, 10)?;
        scene.no_node()
    },
    fixes: None,
};
