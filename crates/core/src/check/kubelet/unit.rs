//! systemd knows the kubelet as a service.
//!
//! The unit file comes with the kubelet's package. kubeadm starts the kubelet through systemd, and only warns where
//! that fails; then it waits four minutes.
//!
//! See it yourself: `systemctl cat kubelet`
//! Mend it: `apt-get install --reinstall kubelet` (or `dnf reinstall kubelet`)

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::unit::KUBELET;
use crate::fact::{Facts, Known, Missing, OrAbsent, Why};

pub const CHECK: Check = Check {
    id: "kubelet.unit",
    title: "the kubelet is a systemd service",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::PACKAGES,
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    if let (Err(Missing { why: Why::NotCollected, .. }), Ok(status)) =
        (facts.unit("kubelet"), facts.unit_status("kubelet"))
    {
        return Ok(pass("kubelet.service is there").seen(status.loaded));
    }
    Ok(match facts.unit("kubelet").or_absent()? {
        Some(unit) => {
            pass("kubelet.service is there").seen(unit.files.first().map(|file| Evidence::of(KUBELET.name, &file.path)))
        }
        None => fail("systemd has no kubelet.service")
            .seen(Evidence::of(KUBELET.name, "No files found for kubelet.service."))
            .fix(facts.reinstall_command("kubelet"))
            .fix("systemctl daemon-reload && systemctl enable kubelet"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::fact::Source;
    use crate::fact::unit::sample;
    use crate::testing::{facts, table};

    #[test]
    fn judges() {
        let bus = "System has not been booted with systemd as init system (PID 1). Can't operate.\n";
        table(
            &CHECK,
            [
                ("as packaged", facts().with_query(&KUBELET, &sample::packaged()), Pass),
                (
                    "masked is kubelet.masked's",
                    facts().with_query(&KUBELET, "# Unit kubelet.service is masked.\n"),
                    Pass,
                ),
                ("deleted", facts().with_exit(&KUBELET, 1, "", "No files found for kubelet.service.\n"), Fail),
                ("no systemd", facts().with_exit(&KUBELET, 1, "", bus), Unknown),
                ("hangs", facts().without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
            ],
        );
        let seen = CHECK.verdict(&facts().with_query(&KUBELET, &sample::packaged()), &CheckPolicy::default()).evidence;
        assert_eq!(seen[0].text, sample::UNIT_PATH);
    }
}
