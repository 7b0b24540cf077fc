//! What a live node needs of what was changed on its machine: taking that back would break it.

use jiff::Timestamp;

use super::{Effect, PlaceState};
use crate::fact::join_state::JoinState;
use crate::fact::mounts::is_at_or_under;
use crate::fact::{Facts, Known, kubeconfig};
use crate::join::place;

/// What breaks where a file in one of these places is as it was before.
const PLACES: [(&str, &str); 13] = [
    ("/etc/cni/net.d", "pods get no address, or one of another network"),
    ("/etc/containerd", "the container runtime reads another configuration"),
    ("/etc/fstab", "swap comes back at the next boot, and the kubelet does not start beside it"),
    ("/etc/kubernetes", "the kubelet loses its way into the cluster"),
    ("/etc/modules-load.d", "a kernel module that pods need is missing after the next boot"),
    ("/etc/sysctl.conf", KERNEL_AT_BOOT),
    ("/etc/sysctl.d", KERNEL_AT_BOOT),
    ("/etc/systemd/system", UNITS),
    ("/run/flannel", "flannel gives pods no address"),
    ("/run/systemd/system", UNITS),
    ("/var/lib/cni", "pods get addresses that are taken"),
    ("/var/lib/kubelet", "the kubelet loses its configuration or its keys"),
    ("/opt/cni/bin", "pods get no address"),
];

const KERNEL_AT_BOOT: &str = "the kernel is set as before after the next boot: pods lose their network";
const UNITS: &str = "the kubelet starts as before: without what the node needs";
const NO_CNI: &str = "the container runtime no longer sees the pod network's configuration";
const KERNEL: &str = "pods lose their network at once";
const SWAP: &str = "the kubelet does not start beside swap";
const NOT_AT_BOOT: &str = "it does not start at the next boot, and the node stays NotReady";
const STOPPED: &str = "the node becomes NotReady";

/// A machine that is in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// When its `kubelet.conf` was written, in seconds since 1970: that happens once, at the join.
    joined_at: i64,
}

impl LiveNode {
    /// One whose `kubelet.conf` was written then.
    pub fn joined_at(second: i64) -> Self {
        LiveNode { joined_at: second }
    }

    /// `None`: no kubelet of this machine can be in a cluster.
    pub fn on(facts: &Facts) -> Known<Option<Self>> {
        match facts.join_state()? {
            JoinState::Unjoined | JoinState::Left { .. } => return Ok(None),
            JoinState::Joined { .. } | JoinState::Stopped { .. } => {}
        }
        let (dir, name) = kubeconfig::KUBELET.rsplit_once('/').unwrap_or_default();
        // Of a file that is there and in no list it is not known when it was written: as late as can be.
        let joined_at = facts.entry(dir, name)?.map_or(i64::MAX, |entry| entry.mtime);
        Ok(Some(LiveNode { joined_at }))
    }

    /// Whether it was no node yet when a run began. What was changed on a node that lived can be taken back: it lived
    /// without it.
    pub fn has_joined_since(&self, begun: Timestamp) -> bool {
        self.joined_at >= begun.as_second()
    }
}

impl Effect {
    /// What breaks on a live node where this is taken back, in a clause; `None`: nothing.
    pub fn breaks(&self, was: &PlaceState) -> Option<&'static str> {
        match self {
            // It holds the kubelet back until it is configured: a node is better off without it.
            Effect::Write { path, .. } if path == place::DROP_IN => None,
            Effect::Write { path, .. }
            | Effect::Edit { path, .. }
            | Effect::SetMode { path, .. }
            | Effect::Remove { path } => {
                PLACES.iter().find(|(root, _)| is_at_or_under(path, root)).map(|(_, breaks)| *breaks)
            }
            // Only where it is empty; who watches this one loses it.
            Effect::MakeDir { path, .. } => is_at_or_under("/etc/cni/net.d", path).then_some(NO_CNI),
            Effect::Sysctl { .. } => was.as_value().map(|_| KERNEL),
            Effect::SwapOff { .. } => Some(SWAP),
            Effect::Enable { enabled, .. } => enabled.then_some(NOT_AT_BOOT),
            Effect::Run { running, .. } => running.then_some(STOPPED),
            // Reloads and restarts are made again for files that are put back: where none is, neither is this. A node that is
            // uncordoned takes pods again. The others are never taken back.
            Effect::ReloadUnits
            | Effect::RestartRuntime { .. }
            | Effect::Drain { .. }
            | Effect::MarkNotReady { .. }
            | Effect::LoadModule { .. }
            | Effect::EndJoin { .. }
            | Effect::Unmount { .. }
            | Effect::KubeadmReset { .. }
            | Effect::DeleteLink { .. }
            | Effect::RemoveChains { .. }
            | Effect::ClearDir { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::join_state::sample::{clean, joined};
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::{Source, Why};
    use crate::plan::protect::OURS_TO_CHANGE;
    use crate::testing::every_effect;

    #[test]
    fn every_place_that_may_be_changed_says_what_breaks() {
        assert_eq!(PLACES.map(|(root, _)| root), OURS_TO_CHANGE);
    }

    #[test]
    fn what_a_live_node_needs_is_told_with_what_breaks() {
        let told: Vec<(String, bool)> = every_effect()
            .iter()
            .map(|effect| (effect.to_string(), effect.breaks(&PlaceState::value("0")).is_some()))
            .filter(|(_, breaks)| *breaks)
            .collect();
        let told: Vec<&str> = told.iter().map(|(effect, _)| effect.as_str()).collect();
        assert_eq!(
            told,
            [
                "make the directory /etc/cni/net.d (mode 0755)",
                "write /etc/sysctl.d/zzz-carrick.conf",
                "edit /etc/containerd/config.toml: disabled_plugins = []",
                "set the mode of /etc/cni/net.d to 0755",
                "remove /etc/cni/net.d/00-stray.conf",
                "set net.ipv4.ip_forward to 1",
                "turn swap on /swap.img off",
                "enable kubelet",
                "start kubelet",
            ]
        );
        let harmless = [
            Effect::Enable { unit: "kubelet".into(), enabled: false },
            Effect::Run { unit: "kubelet".into(), running: false },
            Effect::MakeDir { path: "/etc/containerd".into(), mode: 0o755 },
            Effect::Write { path: place::DROP_IN.into(), text: String::new(), mode: 0o644, in_place: false },
        ];
        for effect in harmless {
            assert_eq!(effect.breaks(&PlaceState::Absent), None, "{effect}");
        }
    }

    #[test]
    fn a_node_is_live_by_its_files_and_joined_when_its_kubeconfig_was_written() {
        let (ca, at) = (SampleAuthority::make(), |second: i64| Timestamp::from_second(second).unwrap());
        let live = joined(&ca).with_dir("/etc/kubernetes", &[("-rw-------", "kubelet.conf")]);
        let node = LiveNode::on(&live).unwrap().unwrap();
        let written = live.entry("/etc/kubernetes", "kubelet.conf").unwrap().unwrap().mtime;
        assert!(node.has_joined_since(at(written)) && !node.has_joined_since(at(written + 1)));
        assert_eq!(LiveNode::on(&clean()).unwrap(), None);
        let unlisted = LiveNode::on(&joined(&ca).with_dir("/etc/kubernetes", &[])).unwrap().unwrap();
        assert!(unlisted.has_joined_since(Timestamp::MAX), "when is not known");
        for source in [Source::Dir("/etc/kubernetes"), Source::File(kubeconfig::KUBELET)] {
            assert!(LiveNode::on(&live.clone().without(source, Why::TimedOut)).is_err(), "{source:?}");
        }
    }
}
