//! kubeadm is killed while it waits for the kubelet. What it left lets the kubelet finish alone, once it can.

use super::Fault;
use crate::machine::Kind;

pub const FAULT: Fault = Fault {
    about: "kubeadm was killed in the middle of a join",
    cause: "machine.half-joined",
    on: Kind::Debian12,
    put_in: |scene| {
        scene.on(&["systemctl", "stop", "containerd"])?;
        scene.plan.killed_after = Some(5);
        scene.join_fails()?;
        scene.plan.killed_after = None;
        Ok(())
    },
    shows: |scene| {
        scene.has_files(&["/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt"], true)?;
        scene.no_node()?;
        scene.join_fails()?.says("[ERROR FileAvailable--etc-kubernetes-bootstrap-kubelet.conf]")?.took(0, 15)?;
        Ok(())
    },
    mends: Some(|scene| {
        scene.on(&["systemctl", "start", "containerd"])?;
        scene.becomes_ready()
    }),
};
