//! A kubelet that is older than this kubeadm works with.

use super::Fault;
use crate::machine::Kind;
use crate::need::Need;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the kubelet is 1.29 and kubeadm is 1.34",
    cause: "kubeadm.same-minor",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[Need::Programs("kube-1.29")],
    put_in: |scene| {
        let old = scene.parts.programs("kube-1.29")?.join("kubelet");
        scene.on(&["systemctl", "stop", "kubelet"])?;
        scene.machine.replace("/usr/bin/kubelet", &old)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("[ERROR KubeletVersion]")?.says("1.29.15\" is lower than kubeadm can support")?.took(0, 15)?;
        Ok(())
    },
    fixes: None,
};
