//! This machine's clock agrees with the API server's.
//!
//! Certificates are valid from the minute they are made: a machine that is some minutes behind finds the control plane's
//! "not yet valid", one that is ahead finds tokens expired; leases and events are misjudged long before. The server's time
//! is the Date of its answer, to the second.
//!
//! See it yourself: `curl -skI https://HOST:PORT/version | grep -i ^date; date -u`
//! Mend it: `timedatectl set-ntp true`, and look again when it has synchronised.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn,
};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "time.skew",
    title: "the clock agrees with the API server's",
    subsystem: Subsystem::Time,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a clock that jumps may break what runs; which time to trust is a choice"),
    accounts_for: nothing,
    judge,
};

/// A Date header is to the second and the way takes some: less than this is no skew anybody can see.
const NOTICEABLE: i64 = 5;
/// kubeadm dates certificates five minutes back: beyond that a fresh one is not valid here yet.
const BREAKS: i64 = 300;

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let path = facts.api_path()?;
    let Some(clocks) = path.clocks else {
        return Ok(skip("the API server was not reached, or sent no Date"));
    };
    let ahead = clocks.here.as_second() - clocks.server.as_second();
    let off = ahead.abs();
    if off <= NOTICEABLE {
        return Ok(pass("the clocks agree"));
    }
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let says = format!("this clock is {off} s {side} the API server's");
    let verdict = if off >= BREAKS { fail(says).explains([id!("kubeadm.discovery-timeout")]) } else { warn(says) };
    Ok(verdict
        .seen(Evidence::of("clocks", format!("here {}, there {}", clocks.here, clocks.server)))
        .fix("timedatectl set-ntp true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{self, Fail, Pass, Skip, Unknown, Warn};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn off(seconds: i64) -> Facts {
        let here = crate::testing::NOW;
        let server = jiff::Timestamp::from_second(here.as_second() - seconds).unwrap();
        facts().with_api(
            "path",
            &format!(r#"{{"endpoint":"e","steps":[],"clocks":{{"server":"{server}","here":"{here}"}}}}"#),
        )
    }

    #[test]
    fn judges() {
        let rows: [(&str, Facts, Outcome); 11] = [
            ("equal", off(0), Pass),
            ("within the header's precision", off(5), Pass),
            ("a little behind", off(-5), Pass),
            ("seconds ahead", off(6), Warn),
            ("seconds behind", off(-6), Warn),
            ("almost five minutes", off(299), Warn),
            ("five minutes", off(300), Fail),
            ("a day behind", off(-86_400), Fail),
            ("no date", facts().with_api("path", r#"{"endpoint":"e","steps":[]}"#), Skip),
            ("the walk hung", facts().without(Source::Api("path"), Why::TimedOut), Unknown),
            ("nobody asked", facts(), Skip),
        ];
        table(&CHECK, rows);
        assert_eq!(
            CHECK.verdict(&off(300), &CheckPolicy::default()).says,
            "this clock is 300 s ahead of the API server's"
        );
        assert_eq!(CHECK.verdict(&off(-7), &CheckPolicy::default()).says, "this clock is 7 s behind the API server's");
    }
}
