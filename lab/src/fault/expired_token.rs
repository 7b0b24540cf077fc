//! A token that has expired: kubeadm says the same as of one that never was.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::run::{Look, wait_for};

pub const FAULT: Fault = Fault {
    about: "the bootstrap token has expired",
    cause: "api.token",
    on: Kind::Debian12,
    put_in: |scene| {
        let created = scene.cluster.control.ok(["kubeadm", "token", "create", "--ttl", "2s"])?;
        created.trim().clone_into(&mut scene.plan.token);
        let listed = scene.cluster.control.ok(["kubeadm", "token", "list"])?;
        scene.holds("the cluster had the token", listed.contains(created.trim()), listed)
    },
    shows: |scene| {
        let id: String = scene.plan.token.chars().take_while(|letter| *letter != '.').collect();
        wait_for("the token to be cleaned away", Duration::from_secs(30), || {
            let secret =
                scene.kubectl(&["-n", "kube-system", "get", "secret", &format!("bootstrap-token-{id}")]).done()?;
            Ok(if secret.err.contains("NotFound") { Look::Seen(()) } else { Look::NotYet(secret.text()) })
        })?;
        let joined = scene.join_fails()?;
        joined
            .says(&format!("could not find a JWS signature in the cluster-info ConfigMap for token ID \"{id}\""))?
            .took(10, 40)?;
        Ok(())
    },
    mends: None,
};
