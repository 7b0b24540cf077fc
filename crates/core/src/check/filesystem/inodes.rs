//! The disks have inodes to spare.
//!
//! A filesystem can be full of small files while `df -h` still shows room. The kubelet reports DiskPressure and evicts
//! pods where less of the inodes under /var/lib/kubelet or the images are free than its evictionHard says, by default
//! 5 %. Where evictionHard is not known (before a join without --api), the default is a warning.
//!
//! See it yourself: `df -i /var/lib/kubelet /var/lib/containerd`
//! Fix: find the directory with too many files: `du -x --inodes -d3 / | sort -n | tail`

use super::space::{threshold, worst};
use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::kubelet_config::Threshold;
use crate::fact::space::{Holds, KubernetesDirectory, Space};
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "filesystem.inodes",
    title: "the disks have inodes to spare",
    subsystem: Subsystem::Filesystem,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("what takes the room, and what of it can go, only you know"),
    accounts_for: nothing,
    judge,
};

/// The kubelet's own nodefs.inodesFree and imagefs.inodesFree.
const USUAL: Threshold = Threshold::Share(500);
/// A sandbox takes a handful.
const FEW: u64 = 16;
/// Unpacking a large image can take as much again.
const NEAR: u64 = 10;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let judged = |place: Known<&'static KubernetesDirectory>| match place {
        Ok(place) if matches!(place.holds, Holds::Pods | Holds::Images) => {
            Some(facts.space(place.query).and_then(|space| judge_place(facts, place, &space)))
        }
        Ok(place) => judge_beside(place, &facts.space(place.query).ok()?).map(Ok),
        Err(missing) => Some(Err(missing)),
    };
    let verdict = worst(facts.kubernetes_directories().into_iter().filter_map(judged))?;
    let verdict = verdict.unwrap_or_else(|| pass("inodes enough wherever Kubernetes writes"));
    // Whoever could not write says "no space left on device" of either.
    let room = (super::space::CHECK.judge)(facts, &CheckPolicy::default());
    let is_why = verdict.outcome == Outcome::Fail && room.is_ok_and(|room| room.outcome == Outcome::Pass);
    Ok(if is_why { verdict.explains([id!("filesystem.space")]) } else { verdict })
}

/// Nothing is evicted for a disk that holds neither pods nor images; without any inode, no file can be made there.
fn judge_beside(place: &KubernetesDirectory, space: &Space) -> Option<Verdict> {
    let (all, free) = (space.inodes?, space.inodes_free?);
    if all == 0 || free >= FEW {
        return None;
    }
    let failed = fail(format!("{} has {free} inodes left: files cannot be made there", place.path));
    Some(cited(failed, place, space).explains([id!("pod.no-address"), id!("node.not-ready")]))
}

fn cited(verdict: Verdict, place: &KubernetesDirectory, space: &Space) -> Verdict {
    let (free, all) = (space.inodes_free.unwrap_or_default(), space.inodes.unwrap_or_default());
    verdict
        .seen([Evidence::at(place.query.name, space.line, format!("{free} of {all} inodes free on {}", space.target))])
        .fix(format!("du -x --inodes -d3 '{}' | sort -n | tail", space.target))
}

fn judge_place(facts: &Facts, place: &KubernetesDirectory, space: &Space) -> Known<Verdict> {
    if space.inodes == Some(0) {
        return Ok(pass(format!("{} makes inodes as they are needed", space.target)));
    }
    let Some(percent) = space.free_inodes_percent() else {
        return Err(Missing::broken(place.query.name, "does not say how many inodes are free"));
    };
    let (free, all) = (space.inodes_free.unwrap_or_default(), space.inodes.unwrap_or_default());
    let signal = if place.holds == Holds::Images { "imagefs.inodesFree" } else { "nodefs.inodesFree" };
    let (threshold, is_told) = threshold(facts, Some((signal, USUAL)));
    let below = match threshold {
        Some(Threshold::Amount(inodes)) => inodes.to_string(),
        Some(share @ Threshold::Share(_)) => share.to_string(),
        None => USUAL.to_string(),
    };
    let says = format!("{} has {percent} % of its inodes free: under {below} pods are evicted", place.path);
    let verdict = if threshold.is_some_and(|threshold| free < threshold.of(all)) {
        let verdict = if is_told { fail(says) } else { warn(format!("{says}, unless evictionHard says otherwise")) };
        verdict.explains([id!("node.not-ready")])
    } else if threshold.is_some() && percent < NEAR {
        warn(says)
    } else {
        return Ok(pass(format!("{} has {percent} % of its inodes free", place.path)));
    };
    Ok(cited(verdict, place, space))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::kubelet_config::sample;
    use crate::fact::space::{CNI, CONTAINERD, KUBELET, PLACES};
    use crate::fact::{Source, Why, kubeconfig};
    use crate::testing::{facts, table};

    fn with(inodes: u64, free: u64) -> Facts {
        let text = format!(
            "File Mounted on Type 1B-blocks Used Avail Inodes IUsed IFree\n\
             /var/lib /var ext4 270553174016 25282101248 72511193088 {inodes} {} {free}\n",
            inodes - free
        );
        told(facts().with_query(&KUBELET, &text).with_query(&CONTAINERD, &text), "")
    }

    /// Before a join, with the cluster's configuration of kubelets.
    fn told(facts: Facts, lines: &str) -> Facts {
        facts.without_file(kubeconfig::KUBELET).with_api("kubelet-config", &sample::with(lines))
    }

    const LESS: &str = "evictionHard: {nodefs.inodesFree: 2%, imagefs.inodesFree: 2%}\n";

    fn df(target: &str, free: u64) -> String {
        format!(
            "File Mounted on Type 1B-blocks Used Avail Inodes IUsed IFree\n\
             {target} {target} ext4 270553174016 25282101248 245271072768 1000 {} {free}\n",
            1000 - free
        )
    }

    #[test]
    fn a_disk_of_its_own_without_inodes_is_named() {
        let roomy = PLACES.iter().fold(with(1000, 900), |facts, place| facts.with_query(place.query, &df("/", 900)));
        let full = roomy.clone().with_query(&CNI, &df("/var/lib/cni", 0));
        let verdict = CHECK.verdict(&full, &CheckPolicy::default());
        assert_eq!(verdict.says, "/var/lib/cni has 0 inodes left: files cannot be made there");
        assert!(verdict.explains.contains(&"filesystem.space"), "what says that no space is left means this");
        let short = with(1000, 49).with_query(&CNI, &df("/var/lib/cni", 40));
        assert!(CHECK.verdict(&short, &CheckPolicy::default()).says.starts_with("/var/lib/kubelet has 4 %"));
        assert_eq!(CHECK.verdict(&roomy, &CheckPolicy::default()).outcome, Pass);
    }

    #[test]
    fn judges() {
        let posix =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 264212084 24689552 70811712 26% /\n";
        table(
            &CHECK,
            [
                ("plenty", with(1_000_000, 900_000), Pass),
                ("clear of the threshold", with(1000, 100), Pass),
                ("near it", with(1000, 99), Warn),
                ("at it", with(1000, 50), Warn),
                ("under it", with(1000, 49), Fail),
                ("under it, and the cluster's kubelets keep less", told(with(1000, 49), LESS), Warn),
                (
                    "under it, and theirs is not known",
                    with(1000, 49).without(Source::Api("kubelet-config"), Why::NotAsked),
                    Warn,
                ),
                (
                    "few, and the cluster's kubelets look at no inodes",
                    told(with(1000, 9), "evictionHard: {memory.available: 1Gi}\n"),
                    Pass,
                ),
                ("btrfs", with(0, 0), Pass),
                ("df without inodes", with(1000, 900).with_query(&KUBELET, posix), Unknown),
                ("hangs", with(1000, 900).without(Source::Query(&CONTAINERD), Why::TimedOut), Unknown),
            ],
        );
    }

    #[test]
    fn says_where_and_how_many() {
        let verdict = CHECK.verdict(&with(1000, 49), &CheckPolicy::default());
        assert_eq!(verdict.says, "/var/lib/kubelet has 4 % of its inodes free: under 5 % pods are evicted");
        assert_eq!(verdict.evidence, [Evidence::at(KUBELET.name, 2, "49 of 1000 inodes free on /var")]);
    }
}
