//! firewalld with its defaults: what it does not know it refuses, and says so.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "firewalld runs, and its zone allows only ssh",
    cause: "firewall.kubelet",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.on(&["systemctl", "start", "firewalld"]).map(drop),
    shows: |scene| {
        // `kubeadm join` does not look for it; only `kubeadm init` does.
        scene.join_seems_to_work()?;
        scene.on(&["systemctl", "is-active", "firewalld"])?;
        scene.becomes_ready()?;
        let logs = scene.logs_of_kube_proxy()?;
        scene.holds("kubectl logs finds no route to 10250", logs.contains(":10250: connect: no route to host"), logs)
    },
    fixes: Some(|scene| {
        scene.on(&["systemctl", "stop", "firewalld"])?;
        scene.cluster.pod_answers(&scene.machine).map(drop)
    }),
};
