//! There is no kubeadm.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "kubeadm is not installed",
    cause: "kubeadm.installed",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.on(&["rm", "/usr/bin/kubeadm"]).map(drop),
    shows: |scene| {
        let joined = scene.join_fails()?;
        scene.holds("the shell ends with 127", joined.done.code() == 127, joined.done.status)?;
        joined.says("kubeadm: command not found").map(drop)
    },
    fixes: None,
};
