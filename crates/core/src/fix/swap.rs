//! Every area of swap is turned off, where what it holds fits into memory; otherwise the kernel would have to kill something
//! first, and that is left to the operator. `carrick undo` turns the areas on again.

use super::Fix;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["machine.swap"], does: "turns every area off", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let lines = facts.swaps()?;
    let areas: Option<Vec<_>> = lines.iter().map(crate::fact::swap::SwapLine::area).collect();
    let devices = areas.and_then(|areas| {
        let used = areas.iter().map(|area| area.used).fold(0, u64::saturating_add);
        let devices: Option<Vec<String>> = areas.into_iter().map(|area| area.device).collect();
        devices.map(|devices| (devices, used))
    });
    match devices {
        Some((devices, used)) if used == 0 || used < facts.memory_available()? => {
            Ok(devices.into_iter().map(|device| Effect::SwapOff { device }).collect())
        }
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{facts, plans};

    #[test]
    fn swap_is_turned_off_where_memory_holds_what_is_in_it() {
        let with = |lines: &str| {
            let swaps = format!("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n{lines}");
            facts().with_file("/proc/swaps", &swaps).with_file("/proc/meminfo", "MemAvailable:    2048 kB\n")
        };
        plans(
            &FIX,
            [
                ("none", with(""), &[]),
                (
                    "two",
                    with("/dev/dm-1 partition 1000 1024 -2\n/swapfile file 1000 0 -3\n"),
                    &["turn swap on /dev/dm-1 off", "turn swap on /swapfile off"],
                ),
                ("more than memory holds", with("/dev/a partition 9000 1024 -2\n/dev/b partition 9000 1024 -3\n"), &[]),
                ("its file is gone", with("/swap\\040(deleted) file 1000 0 -2\n"), &[]),
                ("no line of swaps", with("/dev/dm-1\n"), &[]),
            ],
        );
    }
}
