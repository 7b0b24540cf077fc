//! The kubelet's service is not masked.
//!
//! A masked service cannot be started by anybody. kubeadm warns in passing and then waits four minutes for a kubelet
//! that systemd refuses to start. Some tools mask it in order to hold the kubelet back, and forget it.
//!
//! See it yourself: `systemctl is-enabled kubelet`
//! Mend it: `systemctl unmask kubelet && systemctl enable kubelet`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "kubelet.masked",
    title: "the kubelet's service is not masked",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["kubelet_masked"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let state = facts.unit_state("kubelet")?;
    if state.is_masked() {
        return Ok(fail("kubelet.service is masked: kubeadm would wait four minutes")
            .seen(state.cite())
            .fix("systemctl unmask kubelet && systemctl enable kubelet"));
    }
    if !state.is_there() {
        return Ok(skip("there is no kubelet.service: see kubelet.unit"));
    }
    Ok(pass("kubelet.service is not masked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
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
                ("not masked", state("loaded", "disabled"), Pass),
                ("masked", state("masked", "masked"), Fail),
                ("until the next reboot", state("masked", "masked-runtime"), Fail),
                ("masked, not yet reloaded", state("loaded", "masked"), Fail),
                ("hangs", facts().without(Source::Query(&SHOW), Why::TimedOut), Unknown),
            ],
        );
        judge_row(&CHECK, &CheckPolicy::default(), "no unit", &state("not-found", ""), Skip);
    }
}
