//! The way to the API server is cut after kubeadm trusted it and before the kubelet has its certificate.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the API server becomes unreachable in the middle of the join",
    cause: "api.tcp",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "while [ ! -e /var/lib/kubelet/config.yaml ]; do sleep 0.02; done
            iptables -I OUTPUT -p tcp --dport 6443 -j DROP; touch /run/cut";
        scene.on(&["systemctl", "stop", "kubelet"])?;
        scene.on(&["systemd-run", "--quiet", "--unit=meddler", "sh", "-c", script]).map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("[kubelet-start] Starting the kubelet")?.took(10, 90)?;
        scene.journal_says("kubelet", "i/o timeout")?;
        scene.has_files(&["/etc/kubernetes/pki/ca.crt"], true)
    },
    fixes: None,
};
