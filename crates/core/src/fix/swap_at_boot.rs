//! Lines of /etc/fstab that turn swap on are commented out, never removed. Where swap comes from elsewhere (a unit, a service,
//! zram, a partition that systemd finds by its type), carrick-swapoff.service turns it off at every boot before the kubelet
//! starts; what turns it on stays. `carrick undo` puts the lines back and removes the unit.

use super::{Fix, MARK, own_file};
use crate::fact::swap::{FSTAB, SWAPOFF, SwapLine, UNITS};
use crate::fact::{Facts, Known};
use crate::plan::{Edit, Effect};

pub const FIX: Fix = Fix { fixes: &["machine.swap-after-boot"], does: "keeps it off at boot", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let (fstab, others): (Vec<SwapLine>, Vec<SwapLine>) =
        facts.swaps_after_boot()?.into_iter().partition(|line| line.source == FSTAB);
    let mut effects = Vec::new();
    if !fstab.is_empty() {
        let is_one = |number: u32| fstab.iter().any(|line| line.line == number);
        let text = facts.file(FSTAB)?;
        let lines = text.lines().filter(|(number, _)| is_one(*number)).map(|(_, line)| line.to_owned()).collect();
        effects.push(Effect::Edit { path: FSTAB.to_owned(), edit: Edit::CommentOut { lines } });
        // systemd has made a unit of the line.
        effects.push(Effect::ReloadUnits);
    }
    if !others.is_empty() {
        effects.extend(own_file(facts, "/etc/systemd/system", SWAPOFF, unit(&others)));
        effects.extend([Effect::ReloadUnits, Effect::Enable { unit: SWAPOFF.to_owned(), enabled: true }]);
    }
    Ok(effects)
}

/// After everything that turns swap on. Some services do it without a swap unit, and so after `swap.target`.
fn unit(lines: &[SwapLine]) -> String {
    let units = lines.iter().filter(|line| line.source == UNITS.name);
    let names = units.filter_map(|line| line.text.split(' ').next()).filter(|name| is_unit_name(name));
    let after: String = names.map(|name| format!(" {name}")).collect();
    format!(
        "{MARK}[Unit]\nDescription=Swap off before the kubelet starts\nAfter=swap.target{after}\nBefore=kubelet.service\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/sbin/swapoff -a\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

/// What may stand in a unit's name; nothing that could end the line.
fn is_unit_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{facts, plans};

    const ZRAM: &str = "/etc/systemd/zram-generator.conf";

    fn machine() -> Facts {
        facts()
            .with_file(FSTAB, "UUID=1 / ext4 defaults 0 1\n")
            .without_file(ZRAM)
            .without_file("/usr/lib/systemd/zram-generator.conf")
            .with_query(&UNITS, "")
            .with_dir("/etc/systemd/system", &[])
    }

    const OWN: [&str; 3] = [
        "write /etc/systemd/system/carrick-swapoff.service",
        "make systemd read its unit files anew",
        "enable carrick-swapoff.service",
    ];

    #[test]
    fn a_line_is_commented_out_and_everything_else_is_turned_off_before_the_kubelet() {
        let fstab = "UUID=1 / ext4 defaults 0 1\n  /dev/vg/swap\tnone swap sw 0 0\n#/old none swap sw 0 0\n";
        plans(
            &FIX,
            [
                ("none", machine(), &[]),
                (
                    "fstab",
                    machine().with_file(FSTAB, fstab),
                    &[
                        "edit /etc/fstab: comment out \"/dev/vg/swap\\tnone swap sw 0 0\"",
                        "make systemd read its unit files anew",
                    ],
                ),
                ("fstab, noauto", machine().with_file(FSTAB, "/dev/b none swap noauto 0 0\n"), &[]),
                ("zram-generator", machine().with_file(ZRAM, "[zram0]\n"), &OWN),
                ("Raspberry Pi OS", machine().with_query(&UNITS, "dphys-swapfile.service enabled enabled\n"), &OWN),
                ("a unit", machine().with_query(&UNITS, "dev-sdb2.swap enabled enabled\n"), &OWN),
                ("found by its type", machine().with_query(&UNITS, "dev-sdb2.swap generated -\n"), &OWN),
            ],
        );
    }

    #[test]
    fn the_line_is_found_as_it_stands_in_the_file() {
        let fstab = "  /dev/vg/swap\tnone swap sw 0 0\r\n";
        let effects = plan(&machine().with_file(FSTAB, fstab)).unwrap();
        let Some(Effect::Edit { edit, .. }) = effects.first() else { panic!("{effects:?}") };
        assert_eq!(edit.apply(fstab).unwrap(), format!("# carrick: {fstab}"));
    }

    #[test]
    fn the_unit_comes_after_who_turns_swap_on() {
        let line = |text: &str| SwapLine { source: UNITS.name, line: 1, text: text.to_owned() };
        let unit = unit(&[line("dphys-swapfile.service enabled enabled"), line("x\nExecStart=/bin/sh enabled")]);
        assert!(unit.contains("\nAfter=swap.target dphys-swapfile.service\n"), "{unit}");
    }
}
