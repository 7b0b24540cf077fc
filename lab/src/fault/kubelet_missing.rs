//! There is no kubelet.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the kubelet is not installed",
    cause: "kubelet.installed",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.script("systemctl stop kubelet; rm /usr/bin/kubelet").map(drop),
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined
            .says("[ERROR KubeletVersion]: couldn't get kubelet version: cannot execute 'kubelet --version'")?
            .took(0, 15)?;
        Ok(())
    },
    fixes: None,
};
