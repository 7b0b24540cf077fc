//! The token was made for authentication alone: the API server accepts it, and cluster-info is never signed for it.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "cluster-info is not signed for the bootstrap token, which the API server accepts",
    cause: "api.token",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.use_token_with("usage-bootstrap-signing", "false")?;
        scene.wait_signed(false)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("could not find a JWS signature in the cluster-info ConfigMap for token ID")?.took(10, 40)?;
        let (token, control) = (&scene.plan.token, scene.lab.site().control());
        let asked = format!("curl -sk -H 'Authorization: Bearer {token}' https://{control}:6443/version");
        let answer = scene.script(&asked)?;
        scene.holds("the API server accepts the token", answer.contains("gitVersion"), answer)
    },
    fixes: None,
};
