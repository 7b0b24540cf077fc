//! containerd listens where nobody looks.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "containerd's socket is not where the kubelet and kubeadm look for it",
    cause: "runtime.socket",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script =
            "printf '\\n[grpc]\\n  address = \"/run/elsewhere/containerd.sock\"\\n' >> /etc/containerd/config.toml
            mkdir -p /run/elsewhere; systemctl restart containerd; rm -f /run/containerd/containerd.sock";
        scene.script(script).map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("containerd.sock: connect: no such file or directory")?.took(10, 60)?;
        let active = scene.on(&["systemctl", "is-active", "containerd"])?;
        scene.holds("containerd is active", active.trim() == "active", active)?;
        scene.has_files(&["/run/elsewhere/containerd.sock"], true)?;
        scene.no_node()
    },
    fixes: None,
};
