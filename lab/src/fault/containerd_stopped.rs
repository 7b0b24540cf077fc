//! The container runtime does not run: kubeadm only warns, and waits for a kubelet that cannot come up.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "containerd is stopped",
    cause: "runtime.unit",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.on(&["systemctl", "disable", "--now", "containerd"]).map(drop),
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("[preflight] WARNING: Couldn't create the interface used for talking to the container runtime")?;
        joined.says("The kubelet is not healthy after")?.took(10, 60)?;
        scene.journal_says("kubelet", "failed to run Kubelet: validate service connection")?;
        scene.has_files(&["/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/config.yaml"], true)?;
        scene.no_node()
    },
    fixes: None,
};
