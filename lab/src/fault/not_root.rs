//! kubeadm is run by somebody who is not root.

use super::Fault;
use crate::machine::Kind;

pub const FAULT: Fault = Fault {
    about: "kubeadm is not run as root",
    cause: "machine.privileges",
    on: Kind::Debian12,
    put_in: |scene| {
        scene.plan.as_root = false;
        scene.on(&["chmod", "0755", "/root"]).map(drop)
    },
    shows: |scene| {
        scene.join_fails()?.says("[ERROR IsPrivilegedUser]: user is not running as root")?.took(0, 10)?;
        scene.no_node()
    },
    mends: None,
};
