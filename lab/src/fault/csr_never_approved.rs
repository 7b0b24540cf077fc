//! Nobody approves the kubelet's certificate: the token's group is not one that is approved by itself.

use super::{Fault, csr_by};
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the kubelet's certificate signing request is never approved",
    cause: "csr.pending",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.use_token_without_approval(),
    shows: |scene| {
        scene.join_fails()?.says("failed while waiting for TLS bootstrap")?.took(10, 60)?;
        let request = csr_by(scene.cluster, &scene.plan.token)?;
        scene.holds("the request is pending", request["status"]["conditions"].is_null(), &request["status"])?;
        scene.no_node()
    },
    fixes: None,
};
