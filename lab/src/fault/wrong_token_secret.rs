//! The token's id is right and its secret is not.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the bootstrap token has a wrong secret",
    cause: "api.token",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let id: String = scene.plan.token.chars().take_while(|letter| *letter != '.').collect();
        scene.plan.token = format!("{id}.0000000000000000");
        Ok(())
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined
            .says("failed to verify JWS signature of received cluster info object, can't trust this API Server")?
            .took(0, 20)?;
        scene.has_files(&["/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/bootstrap-kubelet.conf"], false)
    },
    fixes: None,
};
