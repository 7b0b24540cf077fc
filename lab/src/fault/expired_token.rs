//! A token that has expired: kubeadm says the same as of one that never was.

use std::time::Duration;

use super::{Fault, Scene};
use crate::machine::Kind;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the bootstrap token has expired",
    cause: "api.token",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let created = scene.cluster.control.ok(["kubeadm", "token", "create", "--ttl", "1h"])?;
        created.trim().clone_into(&mut scene.plan.token);
        let listed = scene.cluster.control.ok(["kubeadm", "token", "list"])?;
        scene.holds("the cluster had the token", listed.contains(created.trim()), listed)?;
        // Its time is over all at once: a life of seconds would be a race with whoever looks whether the token is there.
        let secret = format!("bootstrap-token-{}", id(scene));
        let over = r#"{"stringData":{"expiration":"2020-01-01T00:00:00Z"}}"#;
        scene.kubectl(&["-n", "kube-system", "patch", "secret", &secret, "-p", over]).ok()?;
        // In the second of its expiry it is refused while its signature is still there: that is another cause, and as true.
        wait_for("the token and its signature to be cleaned away", Duration::from_mins(1), || {
            let signed = scene.cluster.get(["configmap", "-n", "kube-public", "cluster-info"])?["data"].to_string();
            let secret = scene.kubectl(&["-n", "kube-system", "get", "secret", &secret]).done()?;
            let gone = secret.err.contains("NotFound") && !signed.contains(&format!("jws-kubeconfig-{}", id(scene)));
            Ok(if gone { Polled::Seen(()) } else { Polled::NotYet(secret.text() + &signed) })
        })
    },
    shows: |scene| {
        let id = id(scene);
        let joined = scene.join_fails()?;
        joined
            .says(&format!("could not find a JWS signature in the cluster-info ConfigMap for token ID \"{id}\""))?
            .took(10, 40)?;
        Ok(())
    },
    fixes: None,
};

fn id(scene: &Scene) -> String {
    scene.plan.token.chars().take_while(|letter| *letter != '.').collect()
}
