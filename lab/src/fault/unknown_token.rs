//! A token the cluster never had.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the bootstrap token is not one of this cluster",
    cause: "api.token",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        "zzzzzz.0123456789abcdef".clone_into(&mut scene.plan.token);
        Ok(())
    },
    shows: |scene| {
        let secret = scene.kubectl(&["-n", "kube-system", "get", "secret", "bootstrap-token-zzzzzz"]).done()?;
        scene.holds("the cluster never had the token", secret.err.contains("NotFound"), secret.text())?;
        let joined = scene.join_fails()?;
        joined
            .says("could not find a JWS signature in the cluster-info ConfigMap for token ID \"zzzzzz\"")?
            .took(10, 40)?;
        Ok(())
    },
    fixes: None,
};
