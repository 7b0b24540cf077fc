//! Swap: what is on now, and what would turn it on again.

use super::keep::USUAL;
use super::{Facts, Known, Missing, OrAbsent, Query, Source};

pub const UNITS: Query = Query {
    name: "systemctl list-unit-files --type=swap",
    argv: &["systemctl", "list-unit-files", "--type=swap", "--no-legend", "--no-pager", "--plain"],
    keep: USUAL,
};
const ZRAM: &str = "/etc/systemd/zram-generator.conf";
const ZRAM_USR: &str = "/usr/lib/systemd/zram-generator.conf";

pub const SOURCES: &[Source] = &[
    Source::File("/proc/swaps"),
    Source::File("/etc/fstab"),
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

impl Facts {
    /// The areas in use, as `/proc/swaps` lists them.
    pub fn swaps(&self) -> Known<Vec<SwapLine>> {
        let capture = self.file("/proc/swaps")?;
        let mut lines = capture.lines();
        match lines.next() {
            Some((_, head)) if head.starts_with("Filename") => Ok(lines
                .filter(|(_, text)| !text.trim().is_empty())
                .map(|(line, text)| SwapLine { source: "/proc/swaps", line, text: text.split_whitespace().collect::<Vec<_>>().join(" ") })
                .collect()),
            _ => Err(Missing::broken("/proc/swaps", "does not begin with its heading")),
        }
    }

    /// The lines of fstab, zram-generator's configuration and unit files that turn swap on at boot.
    pub fn swaps_after_boot(&self) -> Known<Vec<SwapLine>> {
        let mut found = Vec::new();
        if let Some(fstab) = self.file("/etc/fstab").or_absent()? {
            found.extend(fstab.lines().filter(|(_, text)| is_swap_mount(text)).map(|(line, text)| SwapLine {
                source: "/etc/fstab",
                line,
                text: text.trim().to_owned(),
            }));
        }
        for source in [ZRAM, ZRAM_USR] {
            if let Some(zram) = self.file(source).or_absent()? {
                found.extend(zram.lines().filter(|(_, text)| text.trim_start().starts_with("[zram")).map(|(line, text)| {
                    SwapLine { source, line, text: text.trim().to_owned() }
                }));
                // A file in /etc replaces the packaged one, also when it is empty.
                break;
            }
        }
        let units = self.query(&UNITS)?;
        found.extend(units.lines().filter(|(_, text)| is_enabled_unit(text)).map(|(line, text)| SwapLine {
            source: UNITS.name,
            line,
            text: text.trim().to_owned(),
        }));
        Ok(found)
    }
}

/// A line of fstab whose type is swap and that is not marked `noauto`.
fn is_swap_mount(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    !line.trim_start().starts_with('#')
        && fields.get(2) == Some(&"swap")
        && !fields.get(3).is_some_and(|options| options.split(',').any(|option| option == "noauto"))
}

/// `dev-sdb2.swap enabled enabled`; units made from fstab say `generated` and are told by fstab itself.
fn is_enabled_unit(line: &str) -> bool {
    let mut fields = line.split_whitespace();
    fields.next().is_some_and(|unit| unit.ends_with(".swap")) && fields.next() == Some("enabled")
}
