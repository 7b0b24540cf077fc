//! Times as logs write them, and what to make of those that leave out the year or the zone.

use std::collections::BTreeMap;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

use super::Line;

/// A point in time a text begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// As if it were UTC where no zone is stated.
    pub at: Timestamp,
    pub zoned: bool,
}

impl Stamp {
    fn new(civil: DateTime, offset: Option<Offset>) -> Option<Self> {
        let at = offset.unwrap_or(Offset::UTC).to_timestamp(civil).ok()?;
        Some(Stamp { at, zoned: offset.is_some() })
    }

    /// Microseconds since 1970, as journald writes them.
    pub(super) fn microseconds(text: &str) -> Option<Self> {
        Some(Stamp { at: Timestamp::from_microsecond(text.trim().parse().ok()?).ok()?, zoned: true })
    }
}

/// Reads a text from its beginning; every step that does not fit is a `None`.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'t> {
    pub rest: &'t str,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(rest: &'t str) -> Self {
        Cursor { rest }
    }

    pub(super) fn eat(&mut self, what: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(what)?;
        Some(())
    }

    pub(super) fn eat_any(&mut self, letters: &[char]) -> Option<char> {
        let letter = self.rest.chars().next().filter(|letter| letters.contains(letter))?;
        self.rest = self.rest.get(letter.len_utf8()..)?;
        Some(letter)
    }

    /// At least one.
    pub(super) fn spaces(&mut self) -> Option<()> {
        let rest = self.rest.trim_start_matches(' ');
        (rest.len() < self.rest.len()).then(|| self.rest = rest)
    }

    /// What comes before the next space, which may be the end.
    pub(super) fn word(&mut self) -> Option<&'t str> {
        let end = self.rest.find(' ').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word).filter(|word| !word.is_empty())
    }

    /// A number of so many digits.
    pub(super) fn digits<N: TryFrom<u32>>(&mut self, count: usize) -> Option<N> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
        self.rest = rest;
        N::try_from(digits.parse::<u32>().ok()?).ok()
    }

    /// `.123456`, as nanoseconds; nothing where it is not there.
    fn fraction(&mut self) -> i32 {
        let Some(after) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (digits, rest) = after.split_at(end);
        if digits.is_empty() {
            return 0;
        }
        self.rest = rest;
        let nine = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
        nine.fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'))
    }

    /// `20:39:50`, with a fraction or without.
    fn time(&mut self) -> Option<Time> {
        let hour = self.digits(2)?;
        self.eat(":")?;
        let minute = self.digits(2)?;
        self.eat(":")?;
        let second: i8 = self.digits(2)?;
        let fraction = self.fraction();
        // A leap second is none to a computer's clock.
        Time::new(hour, minute, second.min(59), fraction).ok()
    }

    /// `Nov`.
    fn month(&mut self) -> Option<i8> {
        const NAMES: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (name, rest) = self.rest.split_at_checked(3)?;
        let month = NAMES.iter().position(|month| *month == name)?;
        self.rest = rest;
        i8::try_from(month + 1).ok()
    }

    /// `Sun`.
    fn weekday(&mut self) -> Option<()> {
        let (name, rest) = self.rest.split_at_checked(3)?;
        ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].contains(&name).then(|| self.rest = rest)
    }

    /// ` 5` or `15`.
    fn day(&mut self) -> Option<i8> {
        if self.eat(" ").is_some() { self.digits(1) } else { self.digits(2) }
    }

    /// `2026-11-15` or `2026/11/15`.
    fn date(&mut self) -> Option<Date> {
        let year = self.digits(4)?;
        let between = self.eat_any(&['-', '/'])?;
        let month = self.digits(2)?;
        self.eat_any(&[between])?;
        let day = self.digits(2)?;
        Date::new(year, month, day).ok()
    }

    /// `Z`, `+01:00`, `+0100`, `+01`.
    fn offset(&mut self) -> Option<Offset> {
        if self.eat("Z").is_some() {
            return Some(Offset::UTC);
        }
        let mut ahead = *self;
        let sign = if ahead.eat_any(&['+', '-'])? == '-' { -1 } else { 1 };
        let hours: i32 = ahead.digits(2)?;
        let colon = ahead.eat(":").is_some();
        let minutes: i32 = if colon { ahead.digits(2)? } else { ahead.digits(2).unwrap_or(0) };
        let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?;
        *self = ahead;
        Some(offset)
    }

    /// The name of a zone that means one offset only. CST and IST mean several, and say nothing.
    fn named_zone(&mut self) -> Option<Offset> {
        const ZONES: [(&str, i8); 17] = [
            ("UTC", 0),
            ("GMT", 0),
            ("WET", 0),
            ("WEST", 1),
            ("CET", 1),
            ("CEST", 2),
            ("EET", 2),
            ("EEST", 3),
            ("MSK", 3),
            ("JST", 9),
            ("KST", 9),
            ("EST", -5),
            ("EDT", -4),
            ("CDT", -5),
            ("MDT", -6),
            ("PST", -8),
            ("PDT", -7),
        ];
        let end = self.rest.find(|letter: char| !letter.is_ascii_uppercase()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        let (_, hours) = ZONES.iter().find(|(zone, _)| *zone == name)?;
        self.rest = rest;
        Some(Offset::constant(*hours))
    }

    /// Some letters in capitals that stand where a zone does.
    fn skip_zone(&mut self) {
        let end = self.rest.find(|letter: char| !letter.is_ascii_uppercase()).unwrap_or(self.rest.len());
        if (2..=5).contains(&end) {
            self.rest = self.rest.get(end..).unwrap_or_default();
        }
    }

    /// ISO 8601 and its relatives: `2026-11-15T20:39:50.123Z`, `2026-11-15 20:39:50,123`, `2026/11/15 20:39:50`, and Go's
    /// `2026-11-15 20:39:50.123 +0000 UTC`.
    pub(super) fn iso(&mut self) -> Option<Stamp> {
        let mut ahead = *self;
        let date = ahead.date()?;
        let between = ahead.eat_any(&['T', ' '])?;
        let time = ahead.time()?;
        let mut offset = ahead.offset();
        if offset.is_none() && between == ' ' {
            let mut zone = ahead;
            offset = zone.eat(" ").and_then(|()| zone.offset().or_else(|| zone.named_zone()));
            if offset.is_some() {
                ahead = zone;
            }
        }
        let stamp = Stamp::new(date.to_datetime(time), offset)?;
        *self = ahead;
        Some(stamp)
    }

    /// What systemd and `journalctl -o short-full` write: `Sun 2026-11-15 20:39:50 UTC`.
    pub(super) fn full(&mut self) -> Option<Stamp> {
        let mut ahead = *self;
        ahead.weekday()?;
        ahead.eat(" ")?;
        let civil = ahead.date()?.to_datetime({
            ahead.eat(" ")?;
            ahead.time()?
        });
        let mut offset = None;
        if ahead.eat(" ").is_some() {
            offset = ahead.named_zone().or_else(|| ahead.offset());
            if offset.is_none() {
                ahead.skip_zone();
            }
        }
        *self = ahead;
        Stamp::new(civil, offset)
    }

    /// `Nov 15 20:39:50`: the year is the last in which it can have been.
    pub(super) fn syslog(&mut self, now: Timestamp) -> Option<Stamp> {
        let mut ahead = *self;
        let month = ahead.month()?;
        ahead.eat(" ")?;
        let day = ahead.day()?;
        ahead.eat(" ")?;
        let time = ahead.time()?;
        *self = ahead;
        without_year(month, day, time, now)
    }

    /// What klog puts after its letter: `1115 20:39:50.123456`.
    pub(super) fn klog(&mut self, now: Timestamp) -> Option<Stamp> {
        let mut ahead = *self;
        let month = ahead.digits(2)?;
        let day = ahead.digits(2)?;
        ahead.eat(" ")?;
        let time = ahead.time()?;
        *self = ahead;
        without_year(month, day, time, now)
    }

    /// `dmesg -T`: `Sun Nov 15 20:39:50 2026`.
    pub(super) fn ctime(&mut self) -> Option<Stamp> {
        let mut ahead = *self;
        ahead.weekday()?;
        ahead.eat(" ")?;
        let month = ahead.month()?;
        ahead.eat(" ")?;
        let day = ahead.day()?;
        ahead.eat(" ")?;
        let time = ahead.time()?;
        ahead.eat(" ")?;
        let year = ahead.digits(4)?;
        *self = ahead;
        Stamp::new(Date::new(year, month, day).ok()?.to_datetime(time), None)
    }

    /// `kubectl describe`: `Sun, 15 Nov 2026 20:39:50 +0000`.
    pub(super) fn mail(&mut self) -> Option<Stamp> {
        let mut ahead = *self;
        ahead.weekday()?;
        ahead.eat(", ")?;
        let day = ahead.digits(2)?;
        ahead.eat(" ")?;
        let month = ahead.month()?;
        ahead.eat(" ")?;
        let year = ahead.digits(4)?;
        ahead.eat(" ")?;
        let time = ahead.time()?;
        ahead.eat(" ")?;
        let offset = ahead.offset().or_else(|| ahead.named_zone());
        *self = ahead;
        Stamp::new(Date::new(year, month, day).ok()?.to_datetime(time), offset)
    }

    /// Seconds since 1970 with a fraction: `1794744000.123456`.
    pub(super) fn unix(&mut self) -> Option<Stamp> {
        let mut ahead = *self;
        let seconds: u32 = ahead.digits(10)?;
        ahead.rest.starts_with('.').then_some(())?;
        let fraction = ahead.fraction();
        *self = ahead;
        Some(Stamp { at: Timestamp::new(i64::from(seconds), fraction).ok()?, zoned: true })
    }
}

/// Clocks differ, and no zone is stated: so far ahead of now a time may be, and still be of this year.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);

/// How many years back the last 29 February can be.
const YEARS: i16 = 8;

fn without_year(month: i8, day: i8, time: Time, now: Timestamp) -> Option<Stamp> {
    let latest = now.checked_add(AHEAD).unwrap_or(now);
    let this_year = Offset::UTC.to_datetime(latest).year();
    (0..=YEARS).find_map(|back| {
        let date = Date::new(this_year.checked_sub(back)?, month, day).ok()?;
        Stamp::new(date.to_datetime(time), None).filter(|stamp| stamp.at <= latest)
    })
}

/// Offsets are whole quarters of an hour everywhere on earth.
const QUARTER: i64 = 15 * 60;
/// Between the time a program writes into its line and the time journald puts before it.
const DELAY: i64 = 60;

/// What a clock on the wall is ahead of UTC, where a line tells the time twice, once with a zone and once without.
pub(super) fn offset_between(local: Timestamp, zoned: Timestamp) -> Option<Offset> {
    let seconds = local.as_second().checked_sub(zoned.as_second())?;
    let quarters = (seconds + QUARTER / 2).div_euclid(QUARTER);
    let near = (seconds - quarters * QUARTER).abs() <= DELAY;
    let offset = near.then(|| i32::try_from(quarters * QUARTER).ok()).flatten()?;
    // From Baker Island to Kiribati.
    (-12 * 3600..=14 * 3600).contains(&offset).then(|| Offset::from_seconds(offset).ok()).flatten()
}

/// More machines than one capture speaks of; beyond them names are only made up.
const MOST_HOSTS: usize = 1024;

/// In which zone the machines write their times, learnt from lines that tell it.
///
/// A journal is printed in the zone of the machine, containerd writes UTC into it: one line of both sets the others right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTimeZones {
    by_host: BTreeMap<String, Offset>,
    /// The last one seen, for machines of which nothing is known.
    any: Option<Offset>,
}

impl HostTimeZones {
    pub fn learn(&mut self, line: &Line) {
        let Some(offset) = line.offset else { return };
        self.any = Some(offset);
        if let Some(host) = line.host.as_deref() {
            if let Some(known) = self.by_host.get_mut(host) {
                *known = offset;
            } else if self.by_host.len() < MOST_HOSTS {
                self.by_host.insert(host.to_owned(), offset);
            }
        }
    }

    /// The true time of a line's `at`; `zoned` and `host` as the line said.
    pub fn utc(&self, host: Option<&str>, at: Timestamp, zoned: bool) -> Timestamp {
        let known = host.and_then(|host| self.by_host.get(host)).or(self.any.as_ref()).filter(|_| !zoned);
        known.and_then(|offset| at.checked_sub(SignedDuration::from_secs(offset.seconds().into())).ok()).unwrap_or(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T21:00:00Z".parse().unwrap()
    }

    fn said(stamp: Option<Stamp>) -> String {
        stamp.map_or("none".to_owned(), |stamp| format!("{} {}", stamp.at, if stamp.zoned { "zoned" } else { "local" }))
    }

    #[test]
    fn reads_times_that_state_everything() {
        let table = [
            ("2026-11-15T20:39:50Z", "2026-11-15T20:39:50Z zoned"),
            ("2026-11-15T20:39:50.123456789Z rest", "2026-11-15T20:39:50.123456789Z zoned"),
            ("2026-11-15T20:39:50+0100 w1", "2026-11-15T19:39:50Z zoned"),
            ("2026-11-15T20:39:50.5-05:30", "2026-11-16T02:09:50.5Z zoned"),
            ("2026-11-15 20:39:50.5 +0000 UTC", "2026-11-15T20:39:50.5Z zoned"),
            ("2026-11-15 20:39:50 - not a zone", "2026-11-15T20:39:50Z local"),
            ("2026/11/15 20:39:50 go", "2026-11-15T20:39:50Z local"),
            ("2026-11-15 20:39:50,123 python", "2026-11-15T20:39:50.123Z local"),
            ("2026-11-31T20:39:50Z", "none"),
            ("2026-11-15T25:39:50Z", "none"),
            ("2026-11-15", "none"),
            ("9999-12-31T23:59:59-23:59", "none"),
        ];
        for (text, expected) in table {
            assert_eq!(said(Cursor::new(text).iso()), expected, "{text}");
        }
        assert_eq!(said(Cursor::new("Sun 2026-11-15 20:39:50 UTC w1").full()), "2026-11-15T20:39:50Z zoned");
        assert_eq!(said(Cursor::new("Sun 2026-11-15 20:39:50.12 CEST").full()), "2026-11-15T18:39:50.12Z zoned");
        assert_eq!(said(Cursor::new("Sun 2026-11-15 20:39:50 IST").full()), "2026-11-15T20:39:50Z local");
        assert_eq!(said(Cursor::new("Sun Nov 15 20:39:50 2026]").ctime()), "2026-11-15T20:39:50Z local");
        assert_eq!(said(Cursor::new("Sun, 15 Nov 2026 20:39:50 +0100").mail()), "2026-11-15T19:39:50Z zoned");
        assert_eq!(said(Cursor::new("1794775190.25 w1").unix()), "2026-11-15T20:39:50.25Z zoned");
    }

    #[test]
    fn a_time_without_a_year_is_the_last_that_can_be() {
        let table = [
            ("Nov 15 20:39:50", "2026-11-15T20:39:50Z local"),
            ("Nov 16 08:00:00", "2026-11-16T08:00:00Z local"),
            ("Nov 17 08:00:00", "2025-11-17T08:00:00Z local"),
            ("Dec 31 23:59:60", "2025-12-31T23:59:59Z local"),
            ("Feb 29 10:00:00", "2024-02-29T10:00:00Z local"),
            ("Nov  5 20:39:50.123", "2026-11-05T20:39:50.123Z local"),
            ("Nov 31 20:39:50", "none"),
            ("Now 15 20:39:50", "none"),
        ];
        for (text, expected) in table {
            assert_eq!(said(Cursor::new(text).syslog(now())), expected, "{text}");
        }
        assert_eq!(said(Cursor::new("1115 20:39:50.123456    12").klog(now())), "2026-11-15T20:39:50.123456Z local");
        let new_year: Timestamp = "2026-12-31T23:30:00Z".parse().unwrap();
        assert_eq!(said(Cursor::new("Jan  1 00:10:00").syslog(new_year)), "2027-01-01T00:10:00Z local");
    }

    #[test]
    fn a_line_that_tells_the_time_twice_tells_the_zone() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let between = |local: &str, zoned: &str| offset_between(at(local), at(zoned)).map(Offset::seconds);
        assert_eq!(between("2026-11-15T21:39:50Z", "2026-11-15T20:39:50.9Z"), Some(3600));
        assert_eq!(between("2026-11-15T20:39:50Z", "2026-11-15T20:39:49Z"), Some(0));
        assert_eq!(between("2026-11-15T15:10:00Z", "2026-11-15T20:39:59Z"), Some(-19800));
        assert_eq!(between("2026-11-15T20:46:00Z", "2026-11-15T20:39:50Z"), None);
        assert_eq!(between("2026-11-17T20:39:50Z", "2026-11-15T20:39:50Z"), None);
    }
}
