//! Somebody denies the kubelet's certificate.

use super::Fault;
use crate::demand;
use crate::machine::Kind;

pub const FAULT: Fault = Fault {
    about: "the kubelet's certificate signing request is denied",
    cause: "csr.denied",
    on: Kind::Debian12,
    put_in: |scene| scene.use_token_without_approval(),
    shows: |scene| {
        scene.join_fails()?.says("failed while waiting for TLS bootstrap")?;
        let name = scene.own_csr()?["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        scene.kubectl(&["certificate", "deny", &name]).ok()?;
        let request = scene.cluster.get(["certificatesigningrequest", &name])?;
        demand!(request["status"]["conditions"][0]["type"] == "Denied", "the request is {}", request["status"]);
        scene.no_node()
    },
    mends: None,
};
