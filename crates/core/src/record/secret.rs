//! Which backups hold a key or a token: they go as soon as nobody needs them, and what they would put back is final then.

use super::Run;
use crate::fact::{kubeconfig, pki};
use crate::join::place;
use crate::redact::Redactor;

/// Files of a join with credentials in them, or with the way to them.
const FILES: [&str; 3] = [kubeconfig::KUBELET, kubeconfig::BOOTSTRAP, place::CONFIG];
/// Where the kubelet's certificates are, each with its private key.
const KEYS: (&str, &str) = (pki::DIR, "kubelet-client");

/// What begins or ends a machine's place in a cluster: their backups guard that, and nothing longer. What `check --fix` keeps
/// is configuration that is still there, too.
const OF_A_JOIN: [&str; 3] = ["join", "join --fix", "reset"];

impl Run {
    /// Whether its backups are needed only until a join is verified, or reset.
    pub fn guards_a_join(&self) -> bool {
        OF_A_JOIN.contains(&&*self.verb)
    }
}

/// By what the file is, else by what is in it.
pub fn holds(path: &str, bytes: &[u8]) -> bool {
    is_known(path) || is_seen(bytes)
}

fn is_known(path: &str) -> bool {
    let (dir, name) = path.rsplit_once('/').unwrap_or_default();
    let is_key = name.rsplit_once('.').is_some_and(|(_, kind)| kind.eq_ignore_ascii_case("key"));
    FILES.contains(&path) || is_key || (dir == KEYS.0 && name.starts_with(KEYS.1))
}

/// Whether something would be redacted wherever this is shown.
fn is_seen(bytes: &[u8]) -> bool {
    let mut redactor = Redactor::new();
    redactor.push(bytes);
    !redactor.finish().1.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tokens_are_known_by_their_place_or_by_their_look() {
        const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n";
        for (path, text, expected) in [
            ("/etc/kubernetes/kubelet.conf", "client-certificate: /var/lib/kubelet/pki/a.pem", true),
            ("/etc/kubernetes/bootstrap-kubelet.conf", "", true),
            ("/run/carrick/join.yaml", "", true),
            ("/var/lib/kubelet/pki/kubelet-client-2026-11-16-12-00-00.pem", "", true),
            ("/var/lib/kubelet/pki/kubelet-client.key.tmp", "", true),
            ("/var/lib/kubelet/pki/kubelet.key", "", true),
            (
                "/var/lib/kubelet/pki/kubelet.crt",
                "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n",
                false,
            ),
            ("/etc/kubernetes/pki/ca.crt", "", false),
            ("/var/lib/kubelet/config.yaml", "cgroupDriver: systemd\n", false),
            ("/etc/cni/net.d/10-flannel.conflist", "{}", false),
            ("/etc/cni/net.d/calico-kubeconfig", "users:\n- user:\n    token: eyJhbGciOi.eyJpc3MiOi.sgn4ture\n", true),
            ("/etc/cni/net.d/x", KEY, true),
            ("/etc/containerd/config.toml", "password = \"hunter2hunter2\"\n", true),
        ] {
            assert_eq!(holds(path, text.as_bytes()), expected, "{path}");
        }
    }
}
