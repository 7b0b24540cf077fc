//! The stopped kubelet of a machine that has joined is started. `carrick undo` stops it again.

use super::Fix;
use crate::fact::join_state::JoinState;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["kubelet.not-running", "kubelet.restart-loop"], does: "starts it", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    // One that fails has a reason, which its log tells.
    let stopped = matches!(facts.join_state()?, JoinState::Stopped { .. });
    let inactive = facts.unit_state("kubelet")?.active_state == "inactive";
    Ok((stopped && inactive).then(|| Effect::Run { unit: "kubelet".to_owned(), running: true }).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::join_state::sample;
    use crate::fact::pki::sample::SampleAuthority;
    use crate::fact::unit::SHOW;
    use crate::testing::plans;

    #[test]
    fn only_a_kubelet_that_was_stopped_is_started() {
        let ca = SampleAuthority::make();
        let joined = |active: &str| sample::joined(&ca).with_query(&SHOW, &sample::kubelet_state(active, "dead"));
        plans(
            &FIX,
            [
                ("stopped", joined("inactive"), &["start kubelet"]),
                ("runs", joined("active"), &[]),
                ("fails", joined("failed"), &[]),
                ("unjoined", sample::clean(), &[]),
            ],
        );
    }
}
