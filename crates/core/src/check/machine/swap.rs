//! Swap is off.
//!
//! A kubelet refuses to start while swap is on, unless its configuration says `failSwapOn: false`. kubeadm only warns,
//! then waits four minutes for a kubelet that cannot come up.
//!
//! See it yourself: `swapon --show`
//! Fix: `swapoff -a`, and see `carrick explain machine.swap-after-boot` to keep it off.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "machine.swap",
    title: "swap is off",
    subsystem: Subsystem::Machine,
    kubeadm: &["Swap"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["swap"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let areas = facts.swaps()?;
    if areas.is_empty() {
        return Ok(pass("swap is off"));
    }
    // What may be laid over it, and cannot be read, may say so.
    facts.kubelet_drop_ins()?;
    let config = facts.coming_kubelet_config().ok().flatten();
    if config.is_some_and(|config| config.fail_swap_on == Some(false)) {
        return Ok(pass("swap is on, and the kubelet is told to live with it (failSwapOn: false)"));
    }
    Ok(fail("swap is on: the kubelet would refuse to start")
        .seen(areas.into_iter().map(|area| Evidence::at(area.source, area.line, area.text)))
        .fix("swapoff -a")
        .explains([id!("kubelet.crash-loop")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::{Source, Why, kubeconfig, kubelet_config};
    use crate::testing::{facts, table};

    const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    fn told(line: &str) -> Facts {
        facts().without_file(kubeconfig::KUBELET).with_api("kubelet-config", &kubelet_config::sample::with(line))
    }

    #[test]
    fn judges() {
        let one = format!("{HEAD}/dev/dm-1                               partition\t1000444\t\t0\t\t-2\n");
        table(
            &CHECK,
            [
                ("no swap", facts().with_file("/proc/swaps", HEAD), Pass),
                ("one partition", facts().with_file("/proc/swaps", &one), Fail),
                ("tolerated by the cluster", told("failSwapOn: false").with_file("/proc/swaps", &one), Pass),
                ("not tolerated by the cluster", told("failSwapOn: true").with_file("/proc/swaps", &one), Fail),
                ("empty file", facts().with_file("/proc/swaps", ""), Unknown),
                ("/proc hangs", facts().without(Source::File("/proc/swaps"), Why::TimedOut), Unknown),
            ],
        );
    }
}
