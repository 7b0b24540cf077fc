//! Swap on a real file, on now and at boot: fixed, taken back, fixed again, and joined.
//!
//! Swap is the kernel's, and every machine of the lab sees it: no other case runs beside this one (`ALONE` in test.rs).

use std::path::PathBuf;

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::error::Result;
use crate::fix::{State, play, state};
use crate::machine::Kind;
use crate::need::Need;
use crate::run::Run;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "a real swap file: check --fix turns it off for good, undo turns it on again, a plain join works",
    tier: Tier::Standard,
    covers: &[Covers::Verb("check"), Covers::Verb("undo")],
    needs: &[Need::Cluster, Need::Machine(Kind::Debian12), Need::Alone],
    run,
};

/// On a file that is no overlay's: a swap file cannot lie there.
const SWAP_IS_ON: State = state(
    "swap is on, and on again after a boot",
    "swap=/var/lib/containerd/swapfile
     truncate -s 0 $swap; dd if=/dev/zero of=$swap bs=1M count=64 status=none; chmod 600 $swap; mkswap -q $swap
     swapon $swap; printf 'UUID=1 /mnt ext4 noauto 0 0\\n  %s\\tnone swap sw 0 0\\n' $swap >> /etc/fstab",
    &["machine.swap", "machine.swap-after-boot"],
);

/// Turned off again whatever happens.
struct SwapGuard(PathBuf);

impl Drop for SwapGuard {
    fn drop(&mut self) {
        if self.0.exists() {
            let _ = Run::new("swapoff").arg(&self.0).done();
        }
    }
}

fn run(bench: &mut Bench) -> Result<()> {
    let machine = bench.worker(Kind::Debian12)?;
    let _guard = SwapGuard(machine.disk().plain("containerd").join("swapfile"));
    play(bench, &machine, &SWAP_IS_ON)
}
