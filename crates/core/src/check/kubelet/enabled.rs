//! The kubelet is started at boot.
//!
//! kubeadm starts the kubelet once, for the join. Where its service is not enabled, the node is gone after the next
//! reboot.
//!
//! See it yourself: `systemctl is-enabled kubelet`
//! Mend it: `systemctl enable kubelet`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "kubelet.enabled",
    title: "the kubelet is started at boot",
    subsystem: Subsystem::Kubelet,
    kubeadm: &["Service-Kubelet"],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["kubelet_enabled"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let state = facts.unit_state("kubelet")?;
    if !state.is_there() {
        return Ok(skip("there is no kubelet.service: see kubelet.unit"));
    }
    if state.is_masked() {
        return Ok(skip("kubelet.service is masked: see kubelet.masked"));
    }
    if state.is_enabled() {
        return Ok(pass(format!("kubelet.service is {}", state.unit_file_state)));
    }
    Ok(warn("the kubelet is not started at boot: the node would be lost")
        .seen(state.cite())
        .fix("systemctl enable kubelet"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::unit::SHOW;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    fn state(load: &str, file: &str) -> Facts {
        facts().with_query(
            &SHOW,
            &format!("Id=kubelet.service\nLoadState={load}\nActiveState=inactive\nUnitFileState={file}\n"),
        )
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("enabled", state("loaded", "enabled"), Pass),
                ("disabled", state("loaded", "disabled"), Warn),
                ("linked only", state("loaded", "linked"), Warn),
                ("hangs", facts().without(Source::Query(&SHOW), Why::TimedOut), Unknown),
            ],
        );
        judge_row(&CHECK, &CheckPolicy::default(), "no unit", &state("not-found", ""), Skip);
        judge_row(&CHECK, &CheckPolicy::default(), "masked", &state("masked", "masked"), Skip);
    }
}
