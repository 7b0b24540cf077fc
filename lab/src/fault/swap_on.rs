//! Swap is on: kubeadm warns and waits, the kubelet refuses to run.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the machine has swap",
    cause: "machine.swap",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        // Swap is the kernel's, and the kernel is not this machine's own: only the list of it is shown.
        let script = "printf 'Filename\\t\\t\\t\\tType\\t\\tSize\\t\\tUsed\\t\\tPriority\\n/swapfile                               file\\t\\t2097148\\t\\t0\\t\\t-2\\n' > /run/swaps
            mount --bind /run/swaps /proc/swaps";
        scene.script(script).map(drop)
    },
    shows: |scene| {
        let joined = scene.join_fails()?;
        joined.says("[WARNING Swap]")?.says("The kubelet is not healthy after")?.took(10, 60)?;
        scene.journal_says("kubelet", "running with swap on is not supported, please disable swap")
    },
    fixes: None,
};
