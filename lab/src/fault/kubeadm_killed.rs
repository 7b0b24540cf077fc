//! kubeadm is killed in the middle of a join, before it starts the kubelet: what it wrote by then stands in the way of the
//! next attempt.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "kubeadm was killed in the middle of a join",
    cause: "stale.bootstrap-kubeconfig",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        // Without a pause: between this file and the kubelet's start there is one question to the API server.
        let script = "while [ ! -e /etc/kubernetes/pki/ca.crt ]; do :; done; pkill -KILL -x kubeadm";
        scene.on(&["systemd-run", "--quiet", "--unit=meddler", "sh", "-c", script])?;
        let killed = scene.join_fails()?;
        scene.holds("kubeadm is killed", killed.done.code() == 137, killed.done.status)
    },
    shows: |scene| {
        scene.has_files(&["/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt"], true)?;
        scene.no_node()?;
        scene.join_fails()?.says("[ERROR FileAvailable--etc-kubernetes-bootstrap-kubelet.conf]")?.took(0, 15)?;
        Ok(())
    },
    fixes: Some(|scene| {
        scene.on(&["kubeadm", "reset", "--force"])?;
        scene.join_and_be_ready()
    }),
};
