//! What no plan may touch: looked at once more right before a plan is carried out, whoever made it.
//!
//! Only what stands below [`OURS_TO_CHANGE`] may be changed at all. What is mounted from elsewhere, what the operator named
//! with `--protect`, and anything on a control plane stays as it is.

use super::{Effect, Plan};
use crate::fact::mounts::is_at_or_under;
use crate::fact::{Facts, Known};
use crate::reset::chains;

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

/// What `kubeadm reset` empties.
const KUBEADMS: [&str; 2] = ["/etc/kubernetes", "/var/lib/kubelet"];

/// Below which a directory may be emptied: what CNI plugins note about addresses and sandboxes.
const NOTES_OF_PLUGINS: [&str; 3] = ["/var/lib/cni/networks", "/var/lib/cni/results", "/var/lib/cni/flannel"];

/// Links of flannel and of the bridge plugin that it uses; any other may be somebody's network card.
pub const LINKS: [&str; 2] = ["cni0", "flannel.1"];

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

    /// Why one change is not made, wherever it stands in a plan.
    pub fn refuse(&self, effect: &Effect) -> Option<Refusal> {
        let (path, why) = match effect.path() {
            Some(path) => (path, self.why_not(effect, path)?),
            None => self.why_not_leave(effect)?,
        };
        Some(Refusal::Path { effect: effect.to_string(), path: path.to_owned(), why })
    }

    /// Of what takes a machine out of its cluster: what it would touch, and why it may not.
    fn why_not_leave<'a>(&self, effect: &'a Effect) -> Option<(&'a str, String)> {
        let refused = |thing: &'a str, allowed: bool, why: &str| (!allowed).then(|| (thing, why.to_owned()));
        match effect {
            Effect::Unmount { points } => points.iter().find_map(|point| {
                let foreign = refused(point, is_volume(point), "not a volume of a pod");
                foreign.or_else(|| self.named_at(point).map(|why| (point.as_str(), why)))
            }),
            Effect::KubeadmReset { .. } => KUBEADMS.into_iter().find_map(|tree| Some((tree, self.in_tree(tree)?))),
            Effect::ClearDir { path, .. } => {
                let theirs = is_plain(path) && NOTES_OF_PLUGINS.iter().any(|root| is_at_or_under(path, root));
                refused(path, theirs, "not a place of CNI plugins' notes")
                    .or_else(|| Some((path.as_str(), self.in_tree(path)?)))
            }
            Effect::DeleteLink { name } => refused(name, LINKS.contains(&name.as_str()), "not a link of flannel's"),
            Effect::RemoveChains { tool, .. } => refused(tool, chains::is_tool(tool), "not a program of iptables'"),
            _ => None,
        }
    }

    /// Why a whole tree may not go: something in it, or above it, is protected.
    fn in_tree(&self, tree: &str) -> Option<String> {
        let mount = self.mounts.iter().find(|mount| is_at_or_under(tree, mount) || is_at_or_under(mount, tree));
        self.named_at(tree).or_else(|| mount.map(|mount| format!("{mount} is mounted there")))
    }

    /// The path that the operator named, at, below or above this one.
    fn named_at(&self, path: &str) -> Option<String> {
        let named = self.named.iter().find(|named| is_at_or_under(path, named) || is_at_or_under(named, path))?;
        Some(format!("--protect {named}"))
    }

    fn why_not(&self, effect: &Effect, path: &str) -> Option<String> {
        if !is_plain(path) {
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
        if let Some(named) = self.named_at(path) {
            return Some(named);
        }
        let mount = self.mounts.iter().find(|mount| is_at_or_under(path, mount));
        mount.map(|mount| format!("below the mount {mount}"))
    }
}

/// Mounted inside a place of ours, and not by the kubelet: somebody's data. A place that is a mount as a whole is just that.
fn is_foreign(point: &str) -> bool {
    OURS_TO_CHANGE.iter().any(|root| point != *root && is_at_or_under(point, root)) && !is_volume(point)
}

/// Whether the kubelet, or a driver in its name, mounted it: a volume of a pod, or of several on this node.
pub fn is_volume(point: &str) -> bool {
    let Some(rest) = point.strip_prefix("/var/lib/kubelet/").filter(|_| is_plain(point)) else { return false };
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["plugins", _, ..] => true,
        ["pods", _, kind, _, ..] => matches!(*kind, "volumes" | "volume-subpaths" | "volumeDevices" | "plugins"),
        _ => false,
    }
}

fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.split('/').any(|part| part == ".." || part == ".")
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

    #[test]
    fn taking_a_machine_out_keeps_to_its_bounds() {
        let protected = Protected {
            mounts: vec!["/var/lib/cni/networks/data".into()],
            named: vec!["/var/lib/kubelet/pods/a/volumes/v/mine".into()],
            ..Protected::default()
        };
        let (s, none) = (str::to_owned, Vec::new);
        let clear = |path: &str| Effect::ClearDir { path: s(path), holds: none() };
        let unmount = |point: &str| Effect::Unmount { points: vec![s(point)] };
        let chains = |tool: &str| Effect::RemoveChains { tool: s(tool), chains: none() };
        let reset = || Effect::KubeadmReset { socket: String::new(), removes: none() };
        let rows = [
            (Effect::DeleteLink { name: s("cni0") }, true),
            (Effect::DeleteLink { name: s("eth0") }, false),
            (chains("iptables-nft"), true),
            (chains("/bin/rm"), false),
            (unmount("/var/lib/kubelet/pods/a/volumes/v/other"), true),
            (unmount("/var/lib/kubelet/pods/a/volumes/v/mine"), false),
            (unmount("/var/lib/kubelet/data"), false),
            (unmount("/var/lib/kubelet/pods/../../x/volumes/y/z"), false),
            (unmount("/mnt/media"), false),
            (clear("/var/lib/cni/networks/cbr0"), true),
            (clear("/var/lib/cni/networks/data"), false),
            (clear("/var/lib/cni/networks"), false),
            (clear("/var/lib/cni"), false),
            (clear("/var/lib/cni/networks/../bin"), false),
            (reset(), false),
        ];
        for (effect, allowed) in rows {
            let plan = Plan { steps: vec![Step { effect: effect.clone(), why: none() }] };
            assert_eq!(protected.refusal(&plan).is_none(), allowed, "{effect:?}");
        }
        let refusal = protected.refusal(&Plan { steps: vec![Step { effect: reset(), why: none() }] });
        assert!(refusal.unwrap().to_string().ends_with("(--protect /var/lib/kubelet/pods/a/volumes/v/mine)"));
        let free = Plan { steps: vec![Step { effect: reset(), why: none() }] };
        assert_eq!(Protected::default().refusal(&free), None);
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
