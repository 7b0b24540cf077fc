//! The disks have room for a node.
//!
//! The kubelet reports DiskPressure, takes no new pods and evicts those it has where less is free than its evictionHard
//! says, by default 10 % of the disk under /var/lib/kubelet and 15 % of that under the images: with such a disk a node
//! joins and runs nothing. A share counts, however large the disk. Where evictionHard is not known (before a join without
//! --api), the default is a warning. Besides, the images of kube-proxy and the pod network take about half a gigabyte
//! unpacked. Images are looked for where the runtime keeps them. A directory that is not there yet is judged by its
//! parent.
//!
//! See it yourself: `df -h /var/lib/kubelet /var/lib/containerd /etc/kubernetes /`
//! Fix: `journalctl --vacuum-size=200M`, `crictl rmi --prune`, or a larger disk.

use std::cmp::Reverse;

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::kubelet_config::Threshold;
use crate::fact::space::{Holds, KubernetesDirectory, Space, shown_bytes};
use crate::fact::{Facts, Known, Missing};
use crate::id;

pub const CHECK: Check = Check {
    id: "filesystem.space",
    title: "the disks have room for a node",
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

/// What one place needs.
struct Need {
    /// The kubelet's signal, and what it is where nobody says otherwise.
    evicts_by: Option<(&'static str, Threshold)>,
    /// Less does not hold what the join itself puts there.
    needs: u64,
    /// Less will not hold what pods bring.
    wants: u64,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn need(place: &KubernetesDirectory) -> Need {
    match place.holds {
        // Logs, emptyDirs and the kubelet's own files.
        Holds::Pods => {
            let evicts_by = Some(("nodefs.available", Threshold::Share(1000)));
            Need { evicts_by, needs: GIB, wants: 2 * GIB }
        }
        // The same point at which the kubelet begins to delete images (85 % used). kube-proxy's and the pod network's
        // images take half a gigabyte unpacked; ten hold a handful of ordinary ones.
        Holds::Images => {
            let evicts_by = Some(("imagefs.available", Threshold::Share(1500)));
            Need { evicts_by, needs: GIB, wants: 10 * GIB }
        }
        // Certificates and kubeconfigs: kilobytes, but they must be written.
        Holds::Certificates => Need { evicts_by: None, needs: 16 * MIB, wants: 64 * MIB },
        Holds::Little => Need { evicts_by: None, needs: MIB, wants: 16 * MIB },
        // Packages, /tmp, what is logged: nothing of the join itself.
        Holds::Anything => Need { evicts_by: None, needs: 16 * MIB, wants: GIB },
    }
}

/// Near the threshold: a day of logs or a few images away.
fn near(threshold: Threshold) -> Threshold {
    match threshold {
        Threshold::Share(share) => Threshold::Share(share + 500),
        Threshold::Amount(amount) => Threshold::Amount(amount.saturating_add(amount / 2)),
    }
}

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let verdicts = facts.kubernetes_directories().into_iter();
    let verdicts = verdicts.map(|place| place.and_then(|place| judge_place(facts, place, &facts.space(place.query)?)));
    Ok(worst(verdicts)?.unwrap_or_else(|| pass("room enough wherever Kubernetes writes")))
}

fn judge_place(facts: &Facts, place: &KubernetesDirectory, space: &Space) -> Known<Verdict> {
    let (Some(free), Some(size), Some(percent)) = (space.available, space.size, space.free_percent()) else {
        return Err(Missing::broken(place.query.name, format!("does not say what is free: {}", space.text)));
    };
    let (path, need, shown) = (place.path, need(place), shown_bytes(free));
    let (threshold, is_told) = threshold(facts, need.evicts_by);
    let has_less = |than: Option<Threshold>| than.is_some_and(|than| free < than.of(size));
    let evicts = || {
        let has = match threshold {
            Some(Threshold::Amount(_)) => shown.clone(),
            Some(Threshold::Share(_)) | None => format!("{percent} %"),
        };
        let below = threshold.map(|it| it.to_string()).unwrap_or_default();
        format!("{path} has {has} free: under {below} the kubelet evicts pods")
    };
    let verdict = if is_told && has_less(threshold) {
        fail(evicts()).explains([id!("node.not-ready")])
    } else if free < need.needs {
        fail(format!("{path} has only {shown} free: too little to join"))
    } else if has_less(threshold) {
        warn(format!("{}, unless its evictionHard says otherwise", evicts())).explains([id!("node.not-ready")])
    } else if has_less(threshold.map(near)) {
        warn(evicts())
    } else if free < need.wants {
        warn(format!("{path} has only {shown} free"))
    } else {
        return Ok(pass(format!("{path} has {shown} free")));
    };
    Ok(verdict
        .seen(Evidence::at(place.query.name, space.line, space.shown()))
        .fix(format!("du -xhd2 '{}' | sort -h | tail -20    # what takes the room", space.target))
        .fix("journalctl --vacuum-size=200M    # removes old journals")
        .fix("crictl rmi --prune    # removes unused images; or, without crictl, one by one: ctr -n k8s.io images ls -q; ctr -n k8s.io images rm NAME"))
}

/// Below what the kubelet evicts pods by a signal, and whether that is told, or only the default.
pub(super) fn threshold(facts: &Facts, signal: Option<(&str, Threshold)>) -> (Option<Threshold>, bool) {
    let Some((signal, usual)) = signal else { return (None, true) };
    facts.eviction_threshold(signal).map_or((Some(usual), false), |told| (told, true))
}

/// The worst of several verdicts, with the evidence of all that are as bad; `None` where all pass.
pub(super) fn worst(verdicts: impl Iterator<Item = Known<Verdict>>) -> Known<Option<Verdict>> {
    let (known, missing): (Vec<_>, Vec<_>) = verdicts.partition(Result::is_ok);
    let bad = known.into_iter().flatten().filter(|verdict| verdict.outcome != Outcome::Pass);
    let mut bad: Vec<Verdict> = bad.collect();
    bad.sort_by_key(|verdict| Reverse(verdict.outcome));
    let mut bad = bad.into_iter();
    let Some(first) = bad.next() else {
        return missing.into_iter().next().map_or(Ok(None), |missing| missing.map(Some));
    };
    let outcome = first.outcome;
    // Of several directories on one disk, one line is enough.
    Ok(Some(bad.take_while(|verdict| verdict.outcome == outcome).fold(first, |mut first, other| {
        let new: Vec<Evidence> =
            other.evidence.into_iter().filter(|new| first.evidence.iter().all(|old| old.text != new.text)).collect();
        first.evidence.extend(new);
        first
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::kubelet_config::sample;
    use crate::fact::space::{CNI, CONTAINERD, CONTAINERS, KUBELET, KUBERNETES, LOGS, PLACES, ROOT};
    use crate::fact::{Query, Source, Why, kubeconfig};
    use crate::testing::{facts, table};

    fn df(facts: Facts, query: &Query, target: &str, size: u64, available: u64) -> Facts {
        let text = format!(
            "File Mounted on Type 1B-blocks Used Avail Inodes IUsed IFree\n\
             {target} {target} ext4 {size} {} {available} 16777216 586682 16190534\n",
            size.saturating_sub(available)
        );
        facts.with_query(query, &text)
    }

    /// One disk for everything.
    fn disk(size: u64, available: u64) -> Facts {
        let known = PLACES.iter().fold(facts(), |facts, place| df(facts, place.query, "/", size, available));
        told(known, "")
    }

    /// Before a join, with the cluster's configuration of kubelets.
    fn told(facts: Facts, lines: &str) -> Facts {
        facts.without_file(kubeconfig::KUBELET).with_api("kubelet-config", &sample::with(lines))
    }

    /// CRI-O, or containerd with its own root.
    fn runtime(facts: Facts, name: &str, root: &str) -> Facts {
        let status =
            r#"{"version":{"runtimeName":"NAME"},"status":{"conditions":[]},"config":{"containerdRootDir":"ROOT"}}"#;
        facts.with_cri("status", &status.replace("NAME", name).replace("ROOT", root))
    }

    fn roomy() -> Facts {
        disk(252 * GIB, 68 * GIB)
    }

    #[test]
    fn judges() {
        let large = || df(roomy(), &KUBELET, "/var", 4000 * GIB, 360 * GIB);
        let full = |query| df(roomy(), query, "/images", 1000 * GIB, 100 * GIB);
        table(
            &CHECK,
            [
                ("roomy", roomy(), Pass),
                ("kubelet: 9 % of four terabytes", large(), Fail),
                (
                    "kubelet: the cluster's kubelets keep 5 %",
                    told(large(), "evictionHard:\n  nodefs.available: 5%\n"),
                    Warn,
                ),
                (
                    "kubelet: the cluster's kubelets keep 1 GiB",
                    told(large(), "evictionHard:\n  nodefs.available: 1Gi\n"),
                    Pass,
                ),
                (
                    "kubelet: the cluster's kubelets keep 500 GiB",
                    told(large(), "evictionHard:\n  nodefs.available: 500Gi\n"),
                    Fail,
                ),
                (
                    "kubelet: what they keep is not known",
                    large().without(Source::Api("kubelet-config"), Why::NotAsked),
                    Warn,
                ),
                ("images: CRI-O's are elsewhere", runtime(full(&CONTAINERD), "cri-o", ""), Pass),
                ("images: CRI-O's own disk is full", runtime(full(&CONTAINERS), "cri-o", ""), Fail),
                (
                    "images: containerd's disk, with CRI-O's",
                    runtime(full(&CONTAINERS), "containerd", "/var/lib/containerd"),
                    Pass,
                ),
                (
                    "images: on a disk that was not looked at",
                    runtime(roomy(), "containerd", "/data/containerd"),
                    Unknown,
                ),
                (
                    "images: at the threshold",
                    df(roomy(), &CONTAINERD, "/var/lib/containerd", 1000 * GIB, 150 * GIB),
                    Warn,
                ),
                ("images: under it", df(roomy(), &CONTAINERD, "/var/lib/containerd", 1000 * GIB, 150 * GIB - 1), Fail),
                ("images: clear of it", df(roomy(), &CONTAINERD, "/var/lib/containerd", 1000 * GIB, 200 * GIB), Pass),
                ("images: ten gigabytes", df(roomy(), &CONTAINERD, "/var/lib/containerd", 20 * GIB, 10 * GIB), Pass),
                ("images: less", df(roomy(), &CONTAINERD, "/var/lib/containerd", 20 * GIB, 10 * GIB - 1), Warn),
                ("images: a small disk", df(roomy(), &CONTAINERD, "/var/lib/containerd", 2 * GIB, GIB - 1), Fail),
                ("images: a gigabyte", df(roomy(), &CONTAINERD, "/var/lib/containerd", 2 * GIB, GIB), Warn),
                ("kubelet: at the threshold", df(roomy(), &KUBELET, "/var", 1000 * GIB, 100 * GIB), Warn),
                ("kubelet: under it", df(roomy(), &KUBELET, "/var", 1000 * GIB, 100 * GIB - 1), Fail),
                ("kubelet: clear of it", df(roomy(), &KUBELET, "/var", 1000 * GIB, 150 * GIB), Pass),
                ("kubelet: a small disk", df(roomy(), &KUBELET, "/var", 3 * GIB, 2 * GIB - 1), Warn),
                ("kubelet: smaller", df(roomy(), &KUBELET, "/var", 3 * GIB, GIB - 1), Fail),
                ("kubelet: enough", df(roomy(), &KUBELET, "/var", 3 * GIB, 2 * GIB), Pass),
                ("no room for certificates", df(roomy(), &KUBERNETES, "/etc", GIB, 16 * MIB - 1), Fail),
                ("little room for certificates", df(roomy(), &KUBERNETES, "/etc", GIB, 64 * MIB - 1), Warn),
                ("room for certificates", df(roomy(), &KUBERNETES, "/etc", GIB, 64 * MIB), Pass),
                ("no room for the addresses of pods", df(roomy(), &CNI, "/var/lib/cni", GIB, 0), Fail),
                ("room for them", df(roomy(), &CNI, "/var/lib/cni", 64 * MIB, 32 * MIB), Pass),
                ("no room for logs", df(roomy(), &LOGS, "/var/log", 20 * GIB, MIB), Fail),
                ("root is full", df(roomy(), &ROOT, "/", 20 * GIB, 0), Fail),
                ("root has a few megabytes", df(roomy(), &ROOT, "/", 20 * GIB, 16 * MIB - 1), Fail),
                ("root is nearly full", df(roomy(), &ROOT, "/", 20 * GIB, GIB - 1), Warn),
                ("root has a gigabyte", df(roomy(), &ROOT, "/", 20 * GIB, GIB), Pass),
                ("one place hangs", roomy().without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
                ("df says nothing", roomy().with_exit(&ROOT, 1, "", "df: /: Input/output error"), Unknown),
                (
                    "df counts nothing",
                    roomy().with_query(&ROOT, "Filesystem Size Used Avail Use% Mounted on\nx - - - - /\n"),
                    Unknown,
                ),
                (
                    "one hangs, another is full",
                    df(roomy(), &ROOT, "/", 20 * GIB, 0).without(Source::Query(&KUBELET), Why::TimedOut),
                    Fail,
                ),
            ],
        );
    }

    #[test]
    fn says_where_and_how_much_and_each_disk_once() {
        let verdict = CHECK.verdict(&disk(100 * GIB, 9 * GIB), &CheckPolicy::default());
        assert_eq!(verdict.says, "/var/lib/kubelet has 9 % free: under 10 % the kubelet evicts pods");
        assert_eq!(verdict.evidence.len(), 1, "{:?}", verdict.evidence);
        assert_eq!(verdict.evidence[0].text, "9.0 GiB of 100.0 GiB free (9 %) on / (ext4)");
        let two = df(disk(100 * GIB, 9 * GIB), &CONTAINERD, "/data", 100 * GIB, GIB);
        assert_eq!(CHECK.verdict(&two, &CheckPolicy::default()).evidence.len(), 2);
        let small = df(roomy(), &CONTAINERD, "/data", 2 * GIB, GIB - 1);
        assert_eq!(
            CHECK.verdict(&small, &CheckPolicy::default()).says,
            "/var/lib/containerd has only 1023.9 MiB free: too little to join"
        );
    }
}
