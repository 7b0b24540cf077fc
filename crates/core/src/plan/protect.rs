//! What no plan may touch: checked once more right before a plan is carried out, whoever made it.
//!
//! Each effect has a row that says what it may touch (paths below [`OURS_TO_CHANGE`], units, modules, kernel settings,
//! links); anything else is refused. What is mounted from elsewhere, what the operator named with `--protect`, and anything
//! on a control plane stays as it is.

use super::{Effect, Plan};
use crate::discovery::is_dns_name;
use crate::fact::mounts::is_at_or_under;
use crate::fact::runtime_sockets::Runtime;
use crate::fact::swap::SWAPOFF;
use crate::fact::sysctl::{BRIDGE_IP6TABLES, BRIDGE_IPTABLES, INOTIFY_INSTANCES, INOTIFY_WATCHES, IP_FORWARD};
use crate::fact::{Facts, Known};
use crate::join::place;
use crate::reset::chains;

/// Where the parts of a worker's join live. Programs and other files of packages (/usr, /opt/cni/bin) are not among them.
pub(super) const OURS_TO_CHANGE: [&str; 13] = [
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

/// Kernel modules that a worker needs. The kernel loads others by itself.
const MODULES: [&str; 2] = ["br_netfilter", "overlay"];

/// Kernel settings that a worker needs, below /proc/sys.
const SETTINGS: [&str; 5] = [IP_FORWARD, BRIDGE_IPTABLES, BRIDGE_IP6TABLES, INOTIFY_INSTANCES, INOTIFY_WATCHES];

const KUBELET: &str = "kubelet";

const RUNTIMES: [&str; 3] = [Runtime::Containerd.unit(), Runtime::Crio.unit(), Runtime::CriDockerd.unit()];

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
pub enum PlanRefusal {
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
    pub fn refusal(&self, plan: &Plan) -> Option<PlanRefusal> {
        if let Some(marker) = self.control_plane.first().filter(|_| !plan.is_empty()) {
            return Some(PlanRefusal::ControlPlane(marker.clone()));
        }
        plan.steps.iter().find_map(|step| self.refuse(&step.effect))
    }

    /// Why one change is not made, wherever it stands in a plan.
    pub fn refuse(&self, effect: &Effect) -> Option<PlanRefusal> {
        let Denied { thing, why } = self.allow(effect).err()?;
        Some(PlanRefusal::Path { effect: effect.to_string(), path: thing.to_owned(), why })
    }

    /// Why what an attempt of ours made stays all the same.
    pub fn keeps(&self, path: &str) -> Option<String> {
        let marks = self.control_plane.first().map(|mark| format!("a control plane: {mark}"));
        marks.or_else(|| self.in_tree(path))
    }

    /// What each effect may touch.
    fn allow<'a>(&self, effect: &'a Effect) -> Result<(), Denied<'a>> {
        match effect {
            // On the way to a place of ours a directory may be missing; making it changes nothing that is there.
            Effect::MakeDir { path, .. } => self.allow_path(path, is_ours(path) || leads_to_ours(path)),
            Effect::SetMode { path, .. } => self.allow_path(path, is_ours(path)),
            Effect::Write { path, .. } | Effect::Edit { path, .. } | Effect::Remove { path } => {
                let of_packages = DIRECTORY_ONLY.iter().any(|root| is_at_or_under(path, root));
                only_if(!of_packages, path, "what is in it belongs to packages")?;
                self.allow_path(path, is_ours(path))
            }
            // systemd reads unit files anew: which ones are there is decided by the effects that write them.
            Effect::ReloadUnits => Ok(()),
            Effect::LoadModule { name } => only_if(MODULES.contains(&&**name), name, "not a module that a join needs"),
            Effect::Sysctl { key, .. } => {
                only_if(SETTINGS.contains(&&*key.replace('.', "/")), key, "not a kernel setting that a join needs")
            }
            // Whichever area it is: the kubelet does not start beside swap.
            Effect::SwapOff { device } => only_if(is_plain(device), device, "not a plain absolute path"),
            Effect::Enable { unit, .. } => only_if(is_unit(unit) || unit == SWAPOFF, unit, NOT_A_UNIT),
            Effect::Run { unit, .. } => only_if(is_unit(unit), unit, NOT_A_UNIT),
            Effect::RestartRuntime { unit, .. } => {
                only_if(RUNTIMES.contains(&&**unit), unit, "not a container runtime")
            }
            // In the cluster the rights of the credential decide, and whether the Node is this machine's.
            Effect::Drain { node, .. } | Effect::MarkNotReady { node, .. } => {
                only_if(is_dns_name(node), node, "not the name of a Node")
            }
            Effect::EndJoin { removes } => removes.iter().try_for_each(|thing| {
                only_if(place::OF_A_JOIN.contains(&&**thing), thing, "not a part of a join of Carrick's")?;
                none(thing, self.named_at(thing))
            }),
            Effect::Unmount { points } => points.iter().try_for_each(|point| {
                only_if(is_volume(point), point, "not a volume of a pod")?;
                none(point, self.named_at(point))
            }),
            Effect::KubeadmReset { .. } => KUBEADMS.into_iter().try_for_each(|tree| none(tree, self.in_tree(tree))),
            Effect::DeleteLink { name } => only_if(LINKS.contains(&&**name), name, "not a link of flannel's"),
            Effect::RemoveChains { tool, .. } => only_if(chains::is_tool(tool), tool, "not a program of iptables'"),
            Effect::ClearDir { path, .. } => {
                let theirs = is_plain(path) && NOTES_OF_PLUGINS.iter().any(|root| is_at_or_under(path, root));
                only_if(theirs, path, "not a place of CNI plugins' notes")?;
                none(path, self.in_tree(path))
            }
        }
    }

    fn allow_path<'a>(&self, path: &'a str, ours: bool) -> Result<(), Denied<'a>> {
        only_if(is_plain(path), path, "not a plain absolute path")?;
        only_if(ours, path, "not a place of a worker's join")?;
        none(path, self.named_at(path))?;
        let mount = self.mounts.iter().find(|mount| is_at_or_under(path, mount));
        none(path, mount.map(|mount| format!("below the mount {mount}")))
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
}

/// What an effect may not touch, and why.
struct Denied<'a> {
    thing: &'a str,
    why: String,
}

const NOT_A_UNIT: &str = "neither the kubelet nor a container runtime";

fn only_if<'a>(allowed: bool, thing: &'a str, why: &str) -> Result<(), Denied<'a>> {
    none(thing, (!allowed).then(|| why.to_owned()))
}

/// Allowed where there is no reason against it.
fn none(thing: &str, why: Option<String>) -> Result<(), Denied<'_>> {
    why.map_or(Ok(()), |why| Err(Denied { thing, why }))
}

fn is_ours(path: &str) -> bool {
    OURS_TO_CHANGE.iter().any(|root| is_at_or_under(path, root))
}

fn leads_to_ours(path: &str) -> bool {
    OURS_TO_CHANGE.iter().any(|root| is_at_or_under(root, path))
}

fn is_unit(unit: &str) -> bool {
    unit == KUBELET || RUNTIMES.contains(&unit)
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
    use crate::fact::mounts::MOUNTINFO;
    use crate::plan::Step;
    use crate::testing::{every_effect, facts};
    use proptest::prelude::*;

    fn of(effect: Effect) -> Plan {
        Plan { steps: vec![Step { effect, why: Vec::new() }] }
    }

    fn write(path: &str) -> Plan {
        of(Effect::Write { path: path.into(), text: String::new(), mode: 0o644, in_place: false })
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
        let refuses = |effect: Effect| Protected::default().refusal(&of(effect)).is_some();
        for (path, refused) in [("/etc/cni", false), ("/opt/cni", false), ("/home", true), ("/etc/cnix", true)] {
            assert_eq!(refuses(Effect::MakeDir { path: path.into(), mode: 0o755 }), refused, "{path}");
            assert!(refuses(Effect::SetMode { path: path.into(), mode: 0o700 }), "{path}");
        }
    }

    #[test]
    fn nothing_is_changed_on_a_control_plane() {
        let machine = |name| {
            let facts = facts()
                .with_dir("/etc/kubernetes", &[("-rw-------", name)])
                .with_file(MOUNTINFO, "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
            facts.without_dir("/etc/kubernetes/manifests").without_dir("/var/lib/etcd")
        };
        let worker = Protected::on(&machine("kubelet.conf"), Vec::new()).unwrap();
        let control_plane = Protected::on(&machine("admin.conf"), Vec::new()).unwrap();
        for effect in every_effect() {
            let plan = of(effect.clone());
            assert_eq!(worker.refusal(&plan), None, "{effect}");
            let refused = PlanRefusal::ControlPlane("/etc/kubernetes/admin.conf".into());
            assert_eq!(control_plane.refusal(&plan), Some(refused), "{effect}");
        }
        assert_eq!(control_plane.refusal(&Plan::default()), None);
    }

    /// The same change of something that is not of a worker's join; `None`: it names nothing.
    fn elsewhere(effect: Effect) -> Option<Effect> {
        let s = str::to_owned;
        Some(match effect {
            Effect::MakeDir { mode, .. } => Effect::MakeDir { path: s("/srv/data"), mode },
            Effect::Write { text, mode, in_place, .. } => {
                Effect::Write { path: s("/opt/cni/bin/bridge"), text, mode, in_place }
            }
            Effect::Edit { edit, .. } => Effect::Edit { path: s("/etc/passwd"), edit },
            Effect::SetMode { mode, .. } => Effect::SetMode { path: s("/etc/shadow"), mode },
            Effect::Remove { .. } => Effect::Remove { path: s("/var/lib/etcd/member") },
            // What kubeadm deletes is bounded by --protect and by mounts: see below.
            Effect::ReloadUnits | Effect::KubeadmReset { .. } => return None,
            Effect::LoadModule { .. } => Effect::LoadModule { name: s("nvidia") },
            Effect::Sysctl { value, .. } => Effect::Sysctl { key: s("kernel.panic"), value },
            Effect::SwapOff { .. } => Effect::SwapOff { device: s("--all") },
            Effect::Enable { enabled, .. } => Effect::Enable { unit: s("ssh"), enabled },
            Effect::Run { running, .. } => Effect::Run { unit: s("carrick-swapoff.service"), running },
            Effect::RestartRuntime { running, .. } => Effect::RestartRuntime { unit: s("kubelet"), running },
            Effect::Drain { pods, seconds, .. } => Effect::Drain { node: s("w1/status"), pods, seconds },
            Effect::MarkNotReady { system_uuid, machine_id, .. } => {
                Effect::MarkNotReady { node: s("../w2"), system_uuid, machine_id }
            }
            Effect::EndJoin { .. } => Effect::EndJoin { removes: vec![s("/run/carrick.lock")] },
            Effect::Unmount { .. } => Effect::Unmount { points: vec![s("/mnt/media")] },
            Effect::DeleteLink { .. } => Effect::DeleteLink { name: s("eth0") },
            Effect::RemoveChains { chains, .. } => Effect::RemoveChains { tool: s("/bin/rm"), chains },
            Effect::ClearDir { holds, .. } => Effect::ClearDir { path: s("/var/lib/cni"), holds },
        })
    }

    #[test]
    fn each_effect_keeps_to_what_a_join_needs() {
        for effect in every_effect().into_iter().filter_map(elsewhere) {
            let refused = Protected::default().refuse(&effect);
            assert!(matches!(refused, Some(PlanRefusal::Path { .. })), "{effect}: {refused:?}");
        }
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
            assert_eq!(protected.refusal(&of(effect.clone())).is_none(), allowed, "{effect:?}");
        }
        let refusal = protected.refusal(&of(reset()));
        assert!(refusal.unwrap().to_string().ends_with("(--protect /var/lib/kubelet/pods/a/volumes/v/mine)"));
        assert_eq!(Protected::default().refusal(&of(reset())), None);
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
