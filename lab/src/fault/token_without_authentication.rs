//! The token was made for signing alone: discovery works, and the API server does not accept it.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the bootstrap token may not authenticate",
    cause: "api.auth",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.use_token_with("usage-bootstrap-authentication", "false")?;
        scene.wait_signed(true)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined
            .says("unable to fetch the kubeadm-config ConfigMap: failed to get config map: Unauthorized")?
            .took(0, 40)?;
        scene.no_node()
    },
    fixes: None,
};
