//! The kubelet cannot be started.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "kubelet.service is masked",
    cause: "kubelet.masked",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.script("systemctl disable --now kubelet; systemctl mask kubelet").map(drop),
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("[WARNING Service-Kubelet]: kubelet service is not enabled")?;
        joined.says("unable to start the kubelet service: [exit status 1]")?.took(10, 60)?;
        scene.has_files(&["/etc/kubernetes/kubelet.conf"], false)?;
        scene.no_node()
    },
    fixes: None,
};
