//! Swap: what is on now, and what would turn it on again.

use super::keep::USUAL;
use super::{Facts, Known, Missing, OrAbsent, Query, Source, Why};

/// Swap units, and the services that make swap by themselves: `dphys-swapfile` (Raspberry Pi OS), `zramswap`,
/// `zram-config`.
pub const UNITS: Query = Query {
    name: "systemctl list-unit-files '*.swap' '*swap*.service' '*zram*.service'",
    argv: &[
        "systemctl",
        "list-unit-files",
        "--no-legend",
        "--no-pager",
        "--plain",
        "*.swap",
        "*swap*.service",
        "*zram*.service",
    ],
    keep: USUAL,
};
pub const FSTAB: &str = "/etc/fstab";
/// The unit with which `check --fix` keeps swap off where no line of fstab turns it on.
pub const SWAPOFF: &str = "carrick-swapoff.service";
const ZRAM: &str = "/etc/systemd/zram-generator.conf";
const ZRAM_USR: &str = "/usr/lib/systemd/zram-generator.conf";

pub const SOURCES: &[Source] = &[
    Source::File("/proc/swaps"),
    Source::File(FSTAB),
    Source::File(ZRAM),
    Source::File(ZRAM_USR),
    Source::Query(&UNITS),
];

/// A line that speaks of swap, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapLine {
    pub source: &'static str,
    pub line: u32,
    pub text: String,
}

/// An area in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// As `swapoff` takes it; `None` where the kernel had to escape its name, as that of a file that was deleted.
    pub device: Option<String>,
    /// How much of it is in use, in bytes.
    pub used: u64,
}

impl SwapLine {
    /// `/dev/sda2 partition 1000444 2048 -2`, sizes in KiB.
    pub fn area(&self) -> Option<SwapArea> {
        let mut fields = self.text.split(' ');
        let device = fields.next().filter(|name| !name.contains('\\')).map(str::to_owned);
        let used: u64 = fields.nth(2)?.parse().ok()?;
        Some(SwapArea { device, used: used.saturating_mul(1024) })
    }
}

impl Facts {
    /// The areas in use, as `/proc/swaps` lists them.
    pub fn swaps(&self) -> Known<Vec<SwapLine>> {
        let capture = self.file("/proc/swaps")?;
        let mut lines = capture.lines();
        match lines.next() {
            Some((_, head)) if head.starts_with("Filename") => Ok(lines
                .filter(|(_, text)| !text.trim().is_empty())
                .map(|(line, text)| SwapLine {
                    source: "/proc/swaps",
                    line,
                    text: text.split_whitespace().collect::<Vec<_>>().join(" "),
                })
                .collect()),
            _ => Err(Missing::broken("/proc/swaps", "does not begin with its heading")),
        }
    }

    /// The lines of fstab, zram-generator's configuration and unit files that turn swap on at boot.
    pub fn swaps_after_boot(&self) -> Known<Vec<SwapLine>> {
        let mut found = self.swaps_of_fstab(is_swap_mount)?;
        found.extend(self.swaps_of_zram()?);
        let units = self.query(&UNITS)?;
        if !matches!(units.exit, Some(0) | None) && units.text.trim().is_empty() && !units.errors.trim().is_empty() {
            let why = Why::of_systemd(&units.errors, "");
            return Err(Missing { source_name: UNITS.name.to_owned(), why });
        }
        // fstab and zram-generator make units too: those are told by their own lines. A unit that neither of them
        // explains comes from a swap partition that systemd found by its type.
        let explained = !found.is_empty() || !self.swaps_of_fstab(speaks_of_swap)?.is_empty();
        let counts = |text: &str| is_unit(text, "enabled") || (!explained && is_unit(text, "generated"));
        let others = units.lines().filter(|(_, text)| !text.starts_with(SWAPOFF) && counts(text));
        found.extend(others.map(|(line, text)| SwapLine {
            source: UNITS.name,
            line,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        }));
        Ok(found)
    }

    /// Carrick's own unit turns swap off again at boot, before the kubelet starts.
    pub fn swapoff_at_boot(&self) -> Known<bool> {
        Ok(self.query(&UNITS)?.lines().any(|(_, text)| text.starts_with(SWAPOFF) && is_unit(text, "enabled")))
    }

    fn swaps_of_fstab(&self, counts: fn(&str) -> bool) -> Known<Vec<SwapLine>> {
        let Some(fstab) = self.file(FSTAB).or_absent()? else { return Ok(Vec::new()) };
        let lines = fstab.lines().filter(|(_, text)| counts(text));
        Ok(lines.map(|(line, text)| SwapLine { source: FSTAB, line, text: text.trim().to_owned() }).collect())
    }

    /// A file in /etc replaces the packaged one, also when it is empty.
    fn swaps_of_zram(&self) -> Known<Vec<SwapLine>> {
        for source in [ZRAM, ZRAM_USR] {
            if let Some(zram) = self.file(source).or_absent()? {
                let sections = zram.lines().filter(|(_, text)| text.trim_start().starts_with("[zram"));
                return Ok(sections
                    .map(|(line, text)| SwapLine { source, line, text: text.trim().to_owned() })
                    .collect());
            }
        }
        Ok(Vec::new())
    }
}

/// A line of fstab whose type is swap and that is not marked `noauto`.
fn is_swap_mount(line: &str) -> bool {
    let options = line.split_whitespace().nth(3).unwrap_or_default();
    speaks_of_swap(line) && !options.split(',').any(|option| option == "noauto")
}

/// A line of fstab whose type is swap.
fn speaks_of_swap(line: &str) -> bool {
    !line.trim_start().starts_with('#') && line.split_whitespace().nth(2) == Some("swap")
}

/// `dev-sdb2.swap enabled enabled`: a unit in this state.
fn is_unit(line: &str, state: &str) -> bool {
    let mut fields = line.split_whitespace();
    // A generated service (zram-generator's) only serves its swap unit.
    let suffixes: &[&str] = if state == "generated" { &[".swap"] } else { &[".swap", ".service"] };
    let unit = fields.next().unwrap_or_default();
    suffixes.iter().any(|suffix| unit.ends_with(suffix)) && fields.next() == Some(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    fn machine() -> Facts {
        facts().with_file(FSTAB, "").without_file(ZRAM).without_file(ZRAM_USR).with_query(&UNITS, "")
    }

    fn after_boot(facts: &Facts) -> Vec<(&'static str, u32, String)> {
        facts.swaps_after_boot().unwrap().into_iter().map(|found| (found.source, found.line, found.text)).collect()
    }

    #[test]
    fn fstab_turns_it_on_unless_it_is_a_comment_or_noauto() {
        let fstab = "# <file system> <mount point> <type> <options>\nUUID=1 / ext4 errors=remount-ro 0 1\n\
                     #/dev/sda3 none swap sw 0 0\n/dev/sda4 none swap noauto,sw 0 0\n/dev/vg/swap none swap sw 0 0\n";
        let facts = machine().with_file(FSTAB, fstab).with_query(&UNITS, "dev-vg-swap.swap generated -\n");
        assert_eq!(after_boot(&facts), [(FSTAB, 5, "/dev/vg/swap none swap sw 0 0".to_owned())]);
        let noauto = machine()
            .with_file(FSTAB, "/dev/sda4 none swap noauto 0 0\n")
            .with_query(&UNITS, "dev-sda4.swap generated -\n");
        assert_eq!(after_boot(&noauto), []);
    }

    #[test]
    fn zram_generator_turns_it_on_unless_etc_says_otherwise() {
        let fedora = machine().with_file(ZRAM_USR, "# size\n[zram0]\nzram-size = min(ram, 8192)\n");
        assert_eq!(after_boot(&fedora), [(ZRAM_USR, 2, "[zram0]".to_owned())]);
        assert_eq!(after_boot(&fedora.with_file(ZRAM, "")), []);
    }

    #[test]
    fn units_and_services_turn_it_on() {
        for (units, expected) in [
            ("dev-sdb2.swap                enabled enabled\n", Some("dev-sdb2.swap enabled enabled")),
            ("dphys-swapfile.service enabled enabled\n", Some("dphys-swapfile.service enabled enabled")),
            ("zramswap.service disabled enabled\n", None),
            ("systemd-zram-setup@.service static -\n", None),
            ("systemd-zram-setup@zram0.service generated -\n", None),
            ("dev-disk-by\\x2dpartuuid-1.swap generated -\n", Some("dev-disk-by\\x2dpartuuid-1.swap generated -")),
        ] {
            let found = after_boot(&machine().with_query(&UNITS, units));
            let expected: Vec<_> = expected.into_iter().map(|text| (UNITS.name, 1, text.to_owned())).collect();
            assert_eq!(found, expected, "{units}");
        }
    }

    #[test]
    fn a_silent_systemctl_that_failed_is_not_a_no() {
        let failed = machine().with_exit(&UNITS, 1, "", "Failed to connect to bus: Host is down\n");
        assert!(failed.swaps_after_boot().is_err());
        // Some versions end with 1 where no unit file matches.
        assert_eq!(after_boot(&machine().with_exit(&UNITS, 1, "", "")), []);
    }

    #[test]
    fn proc_swaps_has_a_heading() {
        let text = "Filename\t\t\t\tType\t\tSize\n/dev/dm-1                               partition\t1000444\n\n";
        let found = facts().with_file("/proc/swaps", text).swaps().unwrap();
        assert_eq!((found.len(), found[0].line, found[0].text.as_str()), (1, 2, "/dev/dm-1 partition 1000444"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*", lines in "([a-z.# ]{0,30}\n){0,5}") {
            for text in [&text, &lines] {
                let facts = machine().with_file("/proc/swaps", text).with_file(FSTAB, text).with_query(&UNITS, text);
                let _ = facts.swaps();
                let _ = facts.with_file(ZRAM, text).swaps_after_boot();
            }
        }
    }
}
