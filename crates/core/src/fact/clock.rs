//! Whether something keeps the clock right.

use super::keep::USUAL;
use super::{Facts, Known, Missing, Query, Source, Why};

pub const TIMEDATECTL: Query = Query { name: "timedatectl show", argv: &["timedatectl", "show"], keep: USUAL };
pub const CHRONYC: Query = Query { name: "chronyc -n tracking", argv: &["chronyc", "-n", "tracking"], keep: USUAL };

pub const SOURCES: &[Source] = &[Source::Query(&TIMEDATECTL), Source::Query(&CHRONYC)];

/// What is known of the clock's keeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    pub synchronised: bool,
    /// Whether a service for it is switched on; chrony does not say, it *is* one.
    pub service: bool,
    pub source: &'static str,
    /// The line that says so.
    pub line: u32,
    pub text: String,
}

/// `NTP=yes` and `NTPSynchronized=no`, among others.
pub fn parse_timedatectl(text: &str) -> Option<Clock> {
    let says = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(|value| value == "yes");
    let (line, found) = (1u32..).zip(text.lines()).find(|(_, line)| line.trim().starts_with("NTPSynchronized="))?;
    Some(Clock {
        synchronised: says("NTPSynchronized=")?,
        service: says("NTP=").unwrap_or(false),
        source: TIMEDATECTL.name,
        line,
        text: found.trim().to_owned(),
    })
}

/// `Leap status     : Normal`, or `Not synchronised`.
pub fn parse_chronyc(text: &str) -> Option<Clock> {
    let (line, found) = (1u32..).zip(text.lines()).find(|(_, line)| line.trim().starts_with("Leap status"))?;
    let status = found.split_once(':')?.1.trim();
    Some(Clock {
        synchronised: status != "Not synchronised",
        service: true,
        source: CHRONYC.name,
        line,
        text: found.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

impl Facts {
    /// timedatectl's word, as it asks the kernel; chrony's where timedatectl has none (no D-Bus, no systemd).
    pub fn clock(&self) -> Known<Clock> {
        let timedatectl = self.query(&TIMEDATECTL);
        if let Some(clock) = timedatectl.as_ref().ok().and_then(|capture| parse_timedatectl(&capture.text)) {
            return Ok(clock);
        }
        if let Some(clock) = self.query(&CHRONYC).ok().and_then(|capture| parse_chronyc(&capture.text)) {
            return Ok(clock);
        }
        let why = Why::of_systemd(&timedatectl?.errors, "does not say NTPSynchronized");
        Err(Missing { source_name: TIMEDATECTL.name.to_owned(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    const SHOW: &str = "Timezone=Etc/UTC\nLocalRTC=no\nCanNTP=yes\nNTP=yes\nNTPSynchronized=no\n\
                        TimeUSec=Sun 2026-11-15 12:00:00 UTC\n";
    const TRACKING: &str = "Reference ID    : C0A80401 (192.168.4.1)\nStratum         : 3\nLeap status     : Normal\n";

    #[test]
    fn reads_both_tools() {
        let clock = parse_timedatectl(SHOW).unwrap();
        assert_eq!((clock.synchronised, clock.service, clock.line), (false, true, 5));
        let clock = parse_chronyc(TRACKING).unwrap();
        assert_eq!((clock.synchronised, clock.text.as_str(), clock.line), (true, "Leap status : Normal", 3));
        assert!(!parse_chronyc("Leap status     : Not synchronised\n").unwrap().synchronised);
        assert_eq!(parse_chronyc("506 Cannot talk to daemon\n"), None);
    }

    #[test]
    fn chrony_stands_in_for_timedatectl() {
        let no_bus = facts().with_exit(&TIMEDATECTL, 1, "", "Failed to connect to bus: Host is down\n");
        assert_eq!(no_bus.clone().with_query(&CHRONYC, TRACKING).clock().unwrap().source, CHRONYC.name);
        let missing = no_bus.with_exit(&CHRONYC, 1, "506 Cannot talk to daemon\n", "").clock().unwrap_err();
        assert!(missing.to_string().contains("Failed to connect to bus"), "{missing}");
        let no_tool = facts().without(Source::Query(&TIMEDATECTL), Why::NoTool).clock().unwrap_err();
        assert_eq!(no_tool.why, Why::NoTool);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".*", rest in "[a-z:= ]{0,20}") {
            parse_timedatectl(&text);
            parse_chronyc(&text);
            parse_timedatectl(&format!("NTPSynchronized={rest}"));
            parse_chronyc(&format!("Leap status{rest}"));
        }
    }
}
