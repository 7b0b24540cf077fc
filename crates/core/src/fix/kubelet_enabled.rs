//! kubelet.service is enabled: started at boot. `carrick undo` disables it again.

use super::Fix;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["kubelet.enabled"], does: "enables it", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let state = facts.unit_state("kubelet")?;
    let wanted = state.is_there() && !state.is_masked() && !state.is_enabled();
    Ok(wanted.then(|| Effect::Enable { unit: "kubelet".to_owned(), enabled: true }).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::unit::SHOW;
    use crate::testing::{facts, plans};

    #[test]
    fn only_a_unit_that_is_there_is_enabled() {
        let with = |load: &str, file: &str| {
            facts().with_query(&SHOW, &format!("Id=kubelet.service\nLoadState={load}\nUnitFileState={file}\n"))
        };
        plans(
            &FIX,
            [
                ("disabled", with("loaded", "disabled"), &["enable kubelet"]),
                ("enabled", with("loaded", "enabled"), &[]),
                ("masked", with("masked", "masked"), &[]),
                ("not there", with("not-found", ""), &[]),
            ],
        );
    }
}
