//! The hash is of another cluster's certificate authority.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the CA hash of the join command is another cluster's",
    cause: "api.ca-pin",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        scene.plan.ca_hash = format!("sha256:{}", "0".repeat(64));
        Ok(())
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("none of the public keys \"sha256:")?.says("are pinned")?.took(0, 40)?;
        Ok(())
    },
    fixes: None,
};
