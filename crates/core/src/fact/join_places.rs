//! When the places of a join were last changed: on a machine without any file of one, when it was taken out.

use jiff::Timestamp;

use super::keep::USUAL;
use super::{Facts, Known, Query, Source, Why, kubeconfig, kubelet_config};

/// One line a directory that is there: when an entry of it was last made or removed, in seconds since 1970.
pub const CHANGED: Query = Query {
    name: "stat /etc/kubernetes /var/lib/kubelet",
    argv: &["stat", "-c", "%Y %n", "/etc/kubernetes", "/etc/kubernetes/pki", "/var/lib/kubelet"],
    keep: USUAL,
};

pub const SOURCES: &[Source] = &[Source::Query(&CHANGED)];

/// What kubeadm has written before its kubelet says a word.
const OF_A_JOIN: [&str; 3] = [kubeconfig::KUBELET, kubeconfig::BOOTSTRAP, kubelet_config::FILE];

/// The latest time in what `stat` printed.
pub fn parse(text: &str) -> Option<Timestamp> {
    let seconds = text.lines().filter_map(|line| line.split(' ').next()?.parse::<i64>().ok());
    Timestamp::from_second(seconds.max()?).ok()
}

impl Facts {
    /// Since when no join is on this machine; `None` where one is, or never was any.
    pub fn unjoined_since(&self) -> Known<Option<Timestamp>> {
        for path in OF_A_JOIN {
            match self.file(path) {
                Err(missing) if missing.why == Why::Absent => {}
                Err(missing) => return Err(missing),
                Ok(_) => return Ok(None),
            }
        }
        Ok(parse(&self.query(&CHANGED)?.text))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::facts;

    #[test]
    fn a_machine_that_was_reset_says_when() {
        let changed = "1794744000 /etc/kubernetes\n1794744009 /var/lib/kubelet\n";
        let clean =
            || OF_A_JOIN.iter().fold(facts().with_query(&CHANGED, changed), |facts, path| facts.without_file(path));
        assert_eq!(clean().unjoined_since(), Ok(Timestamp::from_second(1_794_744_009).ok()));
        for path in OF_A_JOIN {
            assert_eq!(clean().with_file(path, "").unjoined_since(), Ok(None), "{path}");
            let denied = clean().without(Source::File(path), Why::Denied);
            assert!(denied.unjoined_since().is_err(), "{path}");
        }
        // Neither directory is there: nothing was ever installed.
        assert_eq!(clean().with_exit(&CHANGED, 1, "", "cannot statx").unjoined_since(), Ok(None));
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_none(text in "(?s).*") {
            let _ = parse(&text);
        }
    }
}
