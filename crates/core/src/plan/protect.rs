//! What no plan may touch: looked at once more right before a plan is carried out, whoever made it.
//!
//! Only what stands below [`OURS_TO_CHANGE`] may be changed at all. What is mounted from elsewhere, what the operator named
//! with `--protect`, and anything on a control plane stays as it is.

use super::{Effect, Plan};
use crate::fact::mounts::is_at_or_under;
use crate::fact::{Facts, Known};

/// Where the parts of a worker's join live. Programs and other files of packages (/usr, /opt/cni/bin) are not among them.
const OURS_TO_CHANGE: [&str; 13] = [
    "/etc/cni/net.d",
    "/etc/containerd",
    "/etc/fstab",
    "/etc/kubernetes",
    "/etc/modules-load.d",
    "/etc/sysctl.conf",
    "/etc/sysctl.d",
    "/etc/systemd/system",
    "/run/flannel",
    "/run/systemd/system",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/opt/cni/bin",
];

/// Where only a directory may be made: what is in it belongs to packages.
const DIRECTORY_ONLY: [&str; 1] = ["/opt/cni/bin"];

/// Where the kubelet mounts volumes.
const KUBELETS: [&str; 2] = ["/var/lib/kubelet/pods", "/var/lib/kubelet/plugins"];

/// What must be left alone on one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// What shows that this is a control plane: nothing is changed there.
    pub control_plane: Vec<String>,
    /// Mount points that are not Kubernetes' own.
    pub mounts: Vec<String>,
    /// Paths the operator named.
    pub named: Vec<String>,
}

/// Why a plan is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this is a control plane ({0}): Carrick changes nothing on one")]
    ControlPlane(String),
    #[error("would {effect}: {path} is protected ({why})")]
    Path { effect: String, path: String, why: String },
}

impl Protected {
    pub fn on(facts: &Facts, named: Vec<String>) -> Known<Self> {
        let control_plane = facts.control_plane_marks()?;
        let mounts = facts.mounts()?;
        let mounts = mounts.0.iter().map(|mount| mount.point.clone()).filter(|point| is_foreign(point)).collect();
        Ok(Protected { control_plane, mounts, named })
    }

    /// The first reason not to carry a plan out.
    pub fn refusal(&self, plan: &Plan) -> Option<Refusal> {
        if let Some(marker) = self.control_plane.first().filter(|_| !plan.is_empty()) {
            return Some(Refusal::ControlPlane(marker.clone()));
        }
        plan.steps.iter().find_map(|step| self.refuse(&step.effect))
    }

    fn refuse(&self, effect: &Effect) -> Option<Refusal> {
        let path = effect.path()?;
        let why = self.why_not(effect, path)?;
        Some(Refusal::Path { effect: effect.to_string(), path: path.to_owned(), why })
    }

    fn why_not(&self, effect: &Effect, path: &str) -> Option<String> {
        if path.split('/').any(|part| part == ".." || part == ".") || !path.starts_with('/') {
            return Some("not a plain absolute path".to_owned());
        }
        // On the way to a place of ours a directory may be missing; making it changes nothing that is there.
        let leads_there =
            matches!(effect, Effect::MakeDir { .. }) && OURS_TO_CHANGE.iter().any(|root| is_at_or_under(root, path));
        if !leads_there && !OURS_TO_CHANGE.iter().any(|root| is_at_or_under(path, root)) {
            return Some("not a place of a worker's join".to_owned());
        }
        let only_directory = DIRECTORY_ONLY.iter().any(|root| is_at_or_under(path, root));
        if only_directory && !matches!(effect, Effect::MakeDir { .. } | Effect::SetMode { .. }) {
            return Some("what is in it belongs to packages".to_owned());
        }
        if let Some(named) = self.named.iter().find(|named| is_at_or_under(path, named) || is_at_or_under(named, path))
        {
            return Some(format!("--protect {named}"));
        }
        let mount = self.mounts.iter().find(|mount| is_at_or_under(path, mount));
        mount.map(|mount| format!("below the mount {mount}"))
    }
}

/// Mounted inside a place of ours, and not by the kubelet: somebody's data. A place that is a mount as a whole is just that.
fn is_foreign(point: &str) -> bool {
    OURS_TO_CHANGE.iter().any(|root| point != *root && is_at_or_under(point, root))
        && !KUBELETS.iter().any(|root| is_at_or_under(point, root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Step;
    use proptest::prelude::*;

    fn write(path: &str) -> Plan {
        let effect = Effect::Write { path: path.into(), text: String::new(), mode: 0o644, in_place: false };
        Plan { steps: vec![Step { effect, why: Vec::new() }] }
    }

    #[test]
    fn only_places_of_a_join_are_changed() {
        let protected = Protected {
            mounts: vec!["/var/lib/kubelet/data".into()],
            named: vec!["/etc/containerd/certs.d".into()],
            ..Protected::default()
        };
        let rows = [
            ("/etc/sysctl.d/90-carrick.conf", true),
            ("/etc/cni/net.d/10-flannel.conflist", true),
            ("/etc/containerd/config.toml", true),
            ("/etc/containerd/certs.d/hosts.toml", false),
            ("/etc/cni/net.d/../../shadow", false),
            ("/etc/sysctl.dx/a", false),
            ("etc/sysctl.d/a", false),
            ("/opt/cni/bin/bridge", false),
            ("/usr/lib/systemd/system/kubelet.service", false),
            ("/var/lib/kubelet/data/file", false),
            ("/var/lib/kubelet/config.yaml", true),
            ("/var/lib/etcd/member", false),
            ("/home/me/file", false),
        ];
        for (path, allowed) in rows {
            assert_eq!(protected.refusal(&write(path)).is_none(), allowed, "{path}");
        }
    }

    #[test]
    fn a_directory_on_the_way_may_be_made_and_nothing_else() {
        let plan = |effect: Effect| Plan { steps: vec![Step { effect, why: Vec::new() }] };
        let refuses = |effect: Effect| Protected::default().refusal(&plan(effect)).is_some();
        for (path, refused) in [("/etc/cni", false), ("/opt/cni", false), ("/home", true), ("/etc/cnix", true)] {
            assert_eq!(refuses(Effect::MakeDir { path: path.into(), mode: 0o755 }), refused, "{path}");
            assert!(refuses(Effect::SetMode { path: path.into(), mode: 0o700 }), "{path}");
        }
    }

    #[test]
    fn nothing_is_changed_on_a_control_plane() {
        let protected = Protected { control_plane: vec!["/etc/kubernetes/admin.conf".into()], ..Protected::default() };
        let refusal = protected.refusal(&write("/etc/sysctl.d/90-carrick.conf"));
        assert_eq!(refusal, Some(Refusal::ControlPlane("/etc/kubernetes/admin.conf".into())));
        assert_eq!(protected.refusal(&Plan::default()), None);
    }

    proptest! {
        #[test]
        fn no_path_leads_to_a_protected_one(parts in prop::collection::vec("(etc|cni|net.d|\\.\\.|\\.|kubernetes|data|)", 1..6)) {
            let protected = Protected { named: vec!["/etc/kubernetes/data".into()], ..Protected::default() };
            let path = format!("/{}", parts.join("/"));
            if protected.refusal(&write(&path)).is_none() {
                prop_assert!(!path.contains("..") && !is_at_or_under(&path, "/etc/kubernetes/data"), "{path}");
            }
        }
    }
}
