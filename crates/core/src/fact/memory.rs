//! How much memory a machine has: `/proc/meminfo`.

use super::{Facts, Known, Missing, Source};

pub const MEMINFO: &str = "/proc/meminfo";

pub const SOURCES: &[Source] = &[Source::File(MEMINFO)];

/// A line of `/proc/meminfo` in bytes: `MemTotal:       24682416 kB`.
pub fn parse(text: &str, key: &str) -> Option<u64> {
    let mut fields = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'))?.split_whitespace();
    let number: u64 = fields.next()?.parse().ok()?;
    match fields.next() {
        Some("kB") => number.checked_mul(1024),
        _ => None,
    }
}

impl Facts {
    /// The memory the kernel has to give, in bytes: what the firmware and the kernel keep is not in it.
    pub fn memory(&self) -> Known<u64> {
        parse(&self.file(MEMINFO)?.text, "MemTotal").ok_or_else(|| Missing::broken(MEMINFO, "has no MemTotal"))
    }

    /// What can be given to programs without swapping, in bytes.
    pub fn memory_available(&self) -> Known<u64> {
        parse(&self.file(MEMINFO)?.text, "MemAvailable").ok_or_else(|| Missing::broken(MEMINFO, "has no MemAvailable"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_line_it_is_asked_for() {
        let text = "MemTotal:       24682416 kB\nMemFree:        19532880 kB\nHugePages_Total:       0\n";
        assert_eq!(parse(text, "MemTotal"), Some(24_682_416 * 1024));
        assert_eq!(parse(text, "MemFree"), Some(19_532_880 * 1024));
        assert_eq!(parse(text, "Mem"), None);
        assert_eq!(parse(text, "HugePages_Total"), None);
        assert_eq!(parse("MemTotal: 18446744073709551615 kB", "MemTotal"), None);
    }

    proptest! {
        #[test]
        fn any_text_has_memory_or_not(text in ".*", rest in "[0-9a-zA-Z ]{0,30}") {
            parse(&text, "MemTotal");
            parse(&format!("MemTotal:{rest}"), "MemTotal");
        }
    }
}
