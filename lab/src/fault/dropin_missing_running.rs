//! kubeadm's drop-in of the kubelet's unit is missing, and the kubelet runs: standalone, on the port kubeadm wants free.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "10-kubeadm.conf is missing and the kubelet already runs standalone",
    cause: "kubelet.standalone",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.script("rm /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf; systemctl daemon-reload; systemctl restart kubelet")?;
        scene.journal_says("kubelet", "Kubelet is running in standalone mode, will skip API server sync")
    },
    shows: |scene| {
        scene.script("for i in $(seq 100); do ss -ltn | grep -q ':10250 ' && exit 0; sleep 0.2; done; exit 1")?;
        scene.join_fails()?.says("[ERROR Port-10250]: Port 10250 is in use")?.took(0, 10)?;
        scene.no_node()
    },
    fixes: None,
};
