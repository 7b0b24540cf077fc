//! Files of an earlier join are still there.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "kubelet.conf and ca.crt of another cluster are still on the machine",
    cause: "stale.kubelet-conf",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.script("mkdir -p /etc/kubernetes/pki; echo old > /etc/kubernetes/kubelet.conf; echo old > /etc/kubernetes/pki/ca.crt").map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined
            .says("[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists")?;
        joined.says("[ERROR FileAvailable--etc-kubernetes-pki-ca.crt]")?.took(0, 10)?;
        scene.no_node()
    },
    fixes: None,
};
