//! Every line of the kubelet's unit stands in a section.
//!
//! systemd passes over assignments before the first `[Section]` ("Assignment outside of section. Ignoring."): a drop-in
//! without `[Service]` does nothing, whatever its author meant. To add the heading may wake what slept: read the lines
//! first; a flag the kubelet no longer knows would then keep it from starting.
//!
//! See it yourself: `systemctl cat kubelet`, `systemd-analyze verify kubelet.service`
//! Mend it: remove the file, or put `[Service]` above its lines; then `systemctl daemon-reload`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn};
use crate::fact::{Facts, Known, OrAbsent};

pub const CHECK: Check = Check {
    id: "kubelet.dropin-section",
    title: "every line of the kubelet's unit stands in a section",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["kubelet_sections"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(unit) = facts.unit("kubelet").or_absent()? else {
        return Ok(skip("there is no kubelet.service: see kubelet.unit"));
    };
    let stray = unit.outside_section();
    let Some(first) = stray.first() else {
        return Ok(pass("every line stands in a section"));
    };
    let file = first.source.rsplit('/').next().unwrap_or(&first.source);
    Ok(warn(format!("{file}: lines outside a section do nothing"))
        .fix(format!("rm {} && systemctl daemon-reload    # read it first", first.source))
        .seen(stray))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::unit::{KUBELET, sample};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    const PATH: &str = "/etc/systemd/system/kubelet.service.d/20-join-config.conf";

    #[test]
    fn judges() {
        let stray = sample::and_drop_in(PATH, "Environment=\"KUBELET_EXTRA_ARGS=--container-runtime=remote\"\n");
        table(
            &CHECK,
            [
                ("as packaged", facts().with_query(&KUBELET, &sample::packaged()), Pass),
                ("no heading", facts().with_query(&KUBELET, &stray), Warn),
                ("systemctl hangs", facts().without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
            ],
        );
        let absent = facts().with_exit(&KUBELET, 1, "", "No files found for kubelet.service.\n");
        judge_row(&CHECK, &CheckPolicy::default(), "no unit", &absent, Skip);
        let verdict = CHECK.verdict(&facts().with_query(&KUBELET, &stray), &CheckPolicy::default());
        assert_eq!(verdict.says, "20-join-config.conf: lines outside a section do nothing");
        assert_eq!(verdict.evidence[0].line, Some(1));
        assert!(verdict.remedy[0].contains(PATH));
    }
}
