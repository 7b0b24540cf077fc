//! Something keeps the clock right.
//!
//! Certificates and tokens are valid from one moment to another. A node whose clock is wrong by minutes refuses the API
//! server's certificate, or its own is refused, and kubeadm retries for five minutes without a word. A clock nobody
//! corrects drifts there sooner or later, and a machine that slept wakes with one.
//!
//! See it yourself: `timedatectl` or `chronyc tracking`
//! Mend it: `timedatectl set-ntp true`, with chrony or systemd-timesyncd installed and UDP 123 open to a server.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, warn};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "time.synchronised",
    title: "something keeps the clock right",
    subsystem: Subsystem::Time,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("which time service and which servers is a choice"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let clock = facts.clock()?;
    let seen = Evidence::at(clock.source, clock.line, &clock.text);
    if clock.synchronised {
        return Ok(pass("the clock is synchronised").seen(seen));
    }
    if clock.service {
        return Ok(warn("the clock is not synchronised: the time service has found no server yet")
            .seen(seen)
            .fix("chronyc sources || timedatectl timesync-status    # which servers are asked, and do they answer?"));
    }
    Ok(warn("the clock is not synchronised, and no service keeps it right")
        .seen(seen)
        .fix(facts.install("chrony"))
        .fix("timedatectl set-ntp true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Unknown, Warn};
    use crate::fact::clock::{CHRONYC, TIMEDATECTL};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn show(ntp: &str, synchronised: &str) -> Facts {
        let text = format!("Timezone=Etc/UTC\nLocalRTC=no\nCanNTP=yes\nNTP={ntp}\nNTPSynchronized={synchronised}\n");
        facts().with_query(&TIMEDATECTL, &text)
    }

    fn chrony(status: &str) -> Facts {
        facts()
            .without(Source::Query(&TIMEDATECTL), Why::NoTool)
            .with_query(&CHRONYC, &format!("Stratum         : 3\nLeap status     : {status}\n"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("synchronised", show("yes", "yes"), Pass),
                ("synchronised by something timedatectl does not manage", show("no", "yes"), Pass),
                ("no server yet", show("yes", "no"), Warn),
                ("no service", show("no", "no"), Warn),
                ("chrony alone", chrony("Normal"), Pass),
                ("chrony alone, no server", chrony("Not synchronised"), Warn),
                ("neither tool", facts().without(Source::Query(&TIMEDATECTL), Why::NoTool), Unknown),
            ],
        );
    }

    #[test]
    fn a_missing_service_is_told_from_a_missing_server() {
        let verdict = CHECK.verdict(&show("no", "no"), &CheckPolicy::default());
        assert_eq!(verdict.says, "the clock is not synchronised, and no service keeps it right");
        assert_eq!(verdict.remedy, ["apt-get install -y chrony", "timedatectl set-ntp true"]);
        let verdict = CHECK.verdict(&show("yes", "no"), &CheckPolicy::default());
        assert_eq!(verdict.says, "the clock is not synchronised: the time service has found no server yet");
    }
}
