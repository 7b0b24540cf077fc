//! containerd is restarted while kubeadm joins, as by an upgrade of packages. It does no harm.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "containerd is restarted in the middle of the join",
    cause: "none",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "while [ ! -e /etc/kubernetes/bootstrap-kubelet.conf ]; do sleep 0.05; done; systemctl restart containerd; touch /run/restarted";
        scene.on(&["systemd-run", "--quiet", "--unit=meddler", "sh", "-c", script]).map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        scene.has_files(&["/run/restarted"], true)
    },
    fixes: None,
};
