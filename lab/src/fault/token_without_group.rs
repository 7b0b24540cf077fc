//! The token is accepted, and is not in the group of joining machines: it may do nothing.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the bootstrap token is not in the group of joining machines",
    cause: "api.token-group",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let group = "system:bootstrappers:strangers";
        let created = scene.cluster.control.ok(["kubeadm", "token", "create", "--ttl", "1h", "--groups", group])?;
        created.trim().clone_into(&mut scene.plan.token);
        scene.wait_signed(true)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("configmaps \"kubeadm-config\" is forbidden: User \"system:bootstrap:")?.took(0, 40)?;
        scene.no_node()
    },
    fixes: None,
};
