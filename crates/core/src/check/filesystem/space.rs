//! The disks have room for a node.
//!
//! The kubelet reports DiskPressure, takes no new pods and evicts those it has where less than 10 % of the disk under
//! /var/lib/kubelet or 15 % of that under the images is free: with such a disk a node joins and runs nothing. The share
//! counts, however large the disk. Besides, the images of kube-proxy and the pod network take about half a gigabyte
//! unpacked. A directory that is not there yet is judged by its parent.
//!
//! See it yourself: `df -h /var/lib/kubelet /var/lib/containerd /etc/kubernetes /`
//! Mend it: `journalctl --vacuum-size=200M`, `crictl rmi --prune`, or a larger disk.

use std::cmp::Reverse;

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Outcome, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::Missing;
use crate::fact::space::{PLACES, Place, Space, shown_bytes};
use crate::fact::{Facts, Known};
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
    /// The kubelet's hard eviction threshold, in percent free.
    evicts_below: u64,
    /// Near the threshold: a day of logs or a few images away.
    near: u64,
    /// Less does not hold what the join itself puts there.
    needs: u64,
    /// Less will not hold what pods bring.
    wants: u64,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn need(place: &Place) -> Need {
    match place.path {
        // nodefs.available<10%. Logs, emptyDirs and the kubelet's own files.
        "/var/lib/kubelet" => Need { evicts_below: 10, near: 15, needs: GIB, wants: 2 * GIB },
        // imagefs.available<15%, the same point at which the kubelet begins to delete images (85 % used). kube-proxy's
        // and the pod network's images take half a gigabyte unpacked; ten hold a handful of ordinary ones.
        "/var/lib/containerd" => Need { evicts_below: 15, near: 20, needs: GIB, wants: 10 * GIB },
        // Certificates and kubeconfigs: kilobytes, but they must be written.
        "/etc/kubernetes" => Need { evicts_below: 0, near: 0, needs: 16 * MIB, wants: 64 * MIB },
        // Packages, /tmp, what is logged: nothing of the join itself.
        _ => Need { evicts_below: 0, near: 0, needs: 16 * MIB, wants: GIB },
    }
}

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let verdicts = PLACES.iter().map(|place| facts.space(place.query).and_then(|space| judge_place(place, &space)));
    Ok(worst(verdicts)?.unwrap_or_else(|| pass("room enough wherever Kubernetes writes")))
}

fn judge_place(place: &Place, space: &Space) -> Known<Verdict> {
    let (Some(free), Some(percent)) = (space.available, space.free_percent()) else {
        return Err(Missing::broken(place.query.name, format!("does not say what is free: {}", space.text)));
    };
    let (path, need, shown) = (place.path, need(place), shown_bytes(free));
    let verdict = if percent < need.evicts_below {
        fail(format!("{path} has {percent} % free: under {} % the kubelet evicts pods", need.evicts_below))
            .explains([id!("node.not-ready")])
    } else if free < need.needs {
        fail(format!("{path} has only {shown} free: too little to join"))
    } else if percent < need.near {
        warn(format!("{path} has {percent} % free: under {} % the kubelet evicts pods", need.evicts_below))
    } else if free < need.wants {
        warn(format!("{path} has only {shown} free"))
    } else {
        return Ok(pass(format!("{path} has {shown} free")));
    };
    Ok(verdict
        .seen(Evidence::at(place.query.name, space.line, space.shown()))
        .fix(format!("du -xhd2 '{}' | sort -h | tail -20    # what takes the room", space.target))
        .fix("journalctl --vacuum-size=200M; crictl rmi --prune"))
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
    use crate::fact::space::{CONTAINERD, KUBELET, KUBERNETES, ROOT};
    use crate::fact::{Query, Source, Why};
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
        PLACES.iter().fold(facts(), |facts, place| df(facts, place.query, "/", size, available))
    }

    fn roomy() -> Facts {
        disk(252 * GIB, 68 * GIB)
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("roomy", roomy(), Pass),
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
