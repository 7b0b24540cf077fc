//! There is no kubeadm.

use super::Fault;
use crate::demand;
use crate::machine::Kind;

pub const FAULT: Fault = Fault {
    about: "kubeadm is not installed",
    cause: "kubeadm.missing",
    on: Kind::Debian12,
    put_in: |scene| scene.on(&["rm", "/usr/bin/kubeadm"]).map(drop),
    shows: |scene| {
        let joined = scene.join_fails()?;
        demand!(joined.0.code() == 127, "the shell ended with {}", joined.0.status);
        joined.says("kubeadm: command not found").map(drop)
    },
    mends: None,
};
