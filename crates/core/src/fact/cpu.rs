//! How many processors a machine has to offer.

use super::{Facts, Known, Missing, Source};

pub const ONLINE: &str = "/sys/devices/system/cpu/online";

pub const SOURCES: &[Source] = &[Source::File(ONLINE)];

/// How many a list such as `0-3,6` names.
pub fn parse(text: &str) -> Option<u32> {
    text.trim().split(',').try_fold(0u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

impl Facts {
    /// Processors that are online.
    pub fn cpus(&self) -> Known<u32> {
        let text = &self.file(ONLINE)?.text;
        parse(text).ok_or_else(|| Missing::broken(ONLINE, format!("{:?} is not a list of processors", text.trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_a_list_of_ranges() {
        for (text, expected) in [
            ("0\n", Some(1)),
            ("0-1\n", Some(2)),
            ("0-3,6,8-9\n", Some(7)),
            ("", None),
            ("3-1", None),
            ("0-4294967295", None),
            ("0-4294967294,7", None),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_counted_or_not(text in ".*", list in "[0-9,-]{0,30}") {
            parse(&text);
            parse(&list);
        }
    }
}
