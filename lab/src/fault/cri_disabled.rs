//! containerd as Docker's packages ship it: running, with the one plugin Kubernetes needs turned off.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "containerd runs with disabled_plugins = [\"cri\"]",
    cause: "runtime.cri-plugin",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene
            .script("echo 'disabled_plugins = [\"cri\"]' > /etc/containerd/config.toml; systemctl restart containerd")
            .map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("unknown service runtime.v1.RuntimeService")?.took(10, 60)?;
        scene.journal_says("kubelet", "code = Unimplemented desc = unknown service runtime.v1.RuntimeService")?;
        scene.no_node()
    },
    fixes: None,
};
