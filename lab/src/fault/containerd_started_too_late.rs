//! containerd comes up after kubeadm gave up: the node does not come by itself any more, and another join is refused.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::run::pause;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "containerd was started only after kubeadm had given up",
    cause: "stale.kubelet-conf",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.on(&["systemctl", "stop", "containerd"])?;
        scene.join_fails()?.says("The kubelet is not healthy after")?;
        scene.on(&["systemctl", "start", "containerd"]).map(drop)
    },
    shows: |scene| {
        // kubeadm took the kubelet's first credential away with it.
        scene.has_files(&["/etc/kubernetes/bootstrap-kubelet.conf"], false)?;
        scene.journal_says(
            "kubelet",
            "unable to load bootstrap kubeconfig: stat /etc/kubernetes/bootstrap-kubelet.conf: no such file",
        )?;
        pause(Duration::from_secs(15))?;
        scene.no_node()?;
        let refused = scene.join_fails()?;
        refused.says("[ERROR FileAvailable--etc-kubernetes-kubelet.conf]")?;
        refused.says("[ERROR FileAvailable--etc-kubernetes-pki-ca.crt]")?;
        Ok(())
    },
    fixes: Some(|scene| {
        scene.on(&["kubeadm", "reset", "--force"])?;
        scene.join_and_be_ready()
    }),
};
