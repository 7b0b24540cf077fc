//! Somebody denies the kubelet's certificate.

use std::thread;

use super::{Fault, csr_by};
use crate::error::{Result, said};
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the kubelet's certificate signing request is denied",
    cause: "csr.denied",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| scene.use_token_without_approval(),
    shows: |scene| {
        let (cluster, token) = (scene.cluster, scene.plan.token.clone());
        let (joined, denied) = thread::scope(|scope| {
            let denying = scope.spawn(|| -> Result<String> {
                let name = csr_by(cluster, &token)?["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                cluster.kubectl(["certificate", "deny", &name]).ok()?;
                Ok(name)
            });
            (scene.join_fails(), denying.join().unwrap_or_else(|_| said("denying panicked")))
        });
        joined?.says("failed while waiting for TLS bootstrap")?;
        let name = denied?;
        let request = cluster.get(["certificatesigningrequest", &name])?;
        let denied = request["status"]["conditions"][0]["type"] == "Denied";
        scene.holds("the request is denied", denied, &request["status"])?;
        scene.journal_says("kubelet", "certificate signing request is denied, reason: KubectlDeny")?;
        scene.no_node()
    },
    fixes: None,
};
