//! Swap stays off after a reboot.
//!
//! `swapoff -a` holds until the next boot. Then a line in /etc/fstab, zram-generator, a swap unit or a service such as
//! Raspberry Pi OS's dphys-swapfile turns swap on again, and a node that worked for months does not come back: its
//! kubelet refuses to start.
//!
//! See it yourself: `grep swap /etc/fstab; systemctl list-unit-files '*.swap' '*swap*.service' '*zram*.service'`
//! Mend it: comment the line out; `systemctl mask UNIT`; for zram-generator an empty /etc/systemd/zram-generator.conf.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::swap::{SWAPOFF, SwapLine, UNITS};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "machine.swap-after-boot",
    title: "swap stays off after a reboot",
    subsystem: Subsystem::Machine,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["swap_at_boot"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let lines = facts.swaps_after_boot()?;
    let Some(first) = lines.first() else {
        return Ok(pass("nothing turns swap on at boot"));
    };
    if facts.swapoff_at_boot()? {
        return Ok(pass(format!("{SWAPOFF} turns swap off before the kubelet starts")));
    }
    let who = if first.source == UNITS.name { unit(first) } else { first.source };
    let mut verdict = warn(format!("{who} turns swap on at the next boot"));
    for line in &lines {
        verdict = verdict.fix(fix(line));
    }
    Ok(verdict.seen(lines.iter().map(|line| Evidence::at(line.source, line.line, &line.text))))
}

fn fix(line: &SwapLine) -> String {
    match line.source {
        "/etc/fstab" => format!("sed -i '{}s/^/#/' /etc/fstab && systemctl daemon-reload", line.line),
        source if source == UNITS.name => format!("systemctl mask --now '{}'", unit(line)),
        _ => ": >/etc/systemd/zram-generator.conf    # an empty one replaces the packaged one".to_owned(),
    }
}

fn unit(line: &SwapLine) -> &str {
    line.text.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const ZRAM: &str = "/etc/systemd/zram-generator.conf";

    fn machine() -> Facts {
        facts()
            .with_file("/etc/fstab", "UUID=1 / ext4 errors=remount-ro 0 1\n")
            .without_file(ZRAM)
            .without_file("/usr/lib/systemd/zram-generator.conf")
            .with_query(&UNITS, "")
    }

    fn fstab() -> Facts {
        machine().with_file("/etc/fstab", "# swap\n/dev/vg/swap none swap sw 0 0\n")
    }

    fn raspberry() -> Facts {
        machine().with_query(&UNITS, "dphys-swapfile.service enabled enabled\n")
    }

    #[test]
    fn judges() {
        let off = format!("{SWAPOFF} enabled enabled\n");
        let both = format!("dphys-swapfile.service enabled enabled\n{off}");
        table(
            &CHECK,
            [
                ("clean", machine(), Pass),
                ("fstab", fstab(), Warn),
                ("zram-generator", machine().with_file(ZRAM, "[zram0]\n"), Warn),
                ("Raspberry Pi OS", raspberry(), Warn),
                ("turned off again by Carrick's unit", machine().with_query(&UNITS, &both), Pass),
                ("Carrick's unit alone", machine().with_query(&UNITS, &off), Pass),
                ("Carrick's unit, disabled", machine().with_query(&UNITS, &both.replace(&off, "")), Warn),
                ("no systemctl", machine().without(Source::Query(&UNITS), Why::NoTool), Unknown),
                ("fstab closed", machine().without(Source::File("/etc/fstab"), Why::Denied), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_line_and_the_command_that_mends_it() {
        let verdict = CHECK.verdict(&fstab(), &CheckPolicy::default());
        assert_eq!(verdict.says, "/etc/fstab turns swap on at the next boot");
        assert_eq!(verdict.remedy, ["sed -i '2s/^/#/' /etc/fstab && systemctl daemon-reload"]);
        let verdict = CHECK.verdict(&raspberry(), &CheckPolicy::default());
        assert_eq!(verdict.says, "dphys-swapfile.service turns swap on at the next boot");
        assert_eq!(verdict.remedy, ["systemctl mask --now 'dphys-swapfile.service'"]);
        let verdict = CHECK.verdict(&machine().with_file(ZRAM, "[zram0]\n"), &CheckPolicy::default());
        assert_eq!(verdict.remedy, [": >/etc/systemd/zram-generator.conf    # an empty one replaces the packaged one"]);
    }
}
