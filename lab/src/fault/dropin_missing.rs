//! kubeadm's drop-in of the kubelet's unit is missing: the kubelet comes up healthy and never asks for a certificate.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "10-kubeadm.conf is missing and the kubelet is stopped",
    cause: "kubelet.standalone",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.script("systemctl stop kubelet; rm /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf; systemctl daemon-reload").map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined
            .says("[kubelet-check] The kubelet is healthy after")?
            .says("failed while waiting for TLS bootstrap")?
            .took(10, 60)?;
        scene.journal_says("kubelet", "Kubelet is running in standalone mode, will skip API server sync")?;
        scene.has_files(&["/etc/kubernetes/kubelet.conf"], false)?;
        scene.no_node()
    },
    fixes: None,
};
