//! The machine has memory enough for the node's own parts.
//!
//! kubeadm demands 1700 MB of a control plane and nothing of a worker. A worker with less joins, but what the kubelet,
//! the container runtime, kube-proxy and the pod network leave over is soon gone. Below 400 MiB the kubelet finds
//! itself under its eviction threshold (100 MiB available) from the start: the node joins and drives every pod away.
//!
//! See it yourself: `grep MemTotal /proc/meminfo`
//! Mend it: give the machine more memory.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::memory::MEMINFO;
use crate::fact::space::shown_bytes;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "machine.memory",
    title: "the machine has memory enough for a node",
    subsystem: Subsystem::Machine,
    kubeadm: &["Mem"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("it takes another machine"),
    accounts_for: nothing,
    judge,
};

/// What kubeadm demands of a control plane; its "MB" are MiB.
const ENOUGH: u64 = 1700 << 20;
/// About 300 MiB for the system, kubelet, containerd, kube-proxy and a small pod network, and the 100 MiB below which
/// the kubelet evicts by default. A machine sold with 512 MB shows some 450 MiB: it passes with a warning.
const TOO_LITTLE: u64 = 400 << 20;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let memory = facts.memory()?;
    if memory >= ENOUGH {
        return Ok(pass(format!("{} of memory", shown_bytes(memory))));
    }
    let verdict = if memory < TOO_LITTLE {
        fail(format!("only {} of memory: the node would evict its own pods", shown_bytes(memory)))
            .explains([id!("node.not-ready")])
    } else {
        warn(format!("only {} of memory: little will be left for pods", shown_bytes(memory)))
    };
    Ok(verdict
        .seen(facts.file(MEMINFO).ok().and_then(|capture| Evidence::line_with(MEMINFO, capture, "MemTotal")))
        .fix("free -m    # give the machine 2 GB or more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::testing::{facts, table};

    fn with(kib: u64) -> Facts {
        facts().with_file(MEMINFO, &format!("MemTotal:       {kib} kB\nMemFree:        1000 kB\n"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("24 GB", with(24_682_416), Pass),
                ("what a control plane needs", with(1700 << 10), Pass),
                ("a little less", with((1700 << 10) - 1), Warn),
                ("just enough", with(400 << 10), Warn),
                ("less", with((400 << 10) - 1), Fail),
                ("not meminfo", facts().with_file(MEMINFO, "what\n"), Unknown),
            ],
        );
    }

    #[test]
    fn says_how_much() {
        let says = |kib: u64| CHECK.verdict(&with(kib), &CheckPolicy::default()).says;
        assert_eq!(says(1_000_000), "only 976.5 MiB of memory: little will be left for pods");
        assert_eq!(says(4 << 20), "4.0 GiB of memory");
    }
}
