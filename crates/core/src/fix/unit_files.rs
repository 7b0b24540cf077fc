//! systemd is told to read its unit files anew; nothing is restarted. `carrick undo` has nothing to take back.

use super::Fix;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["kubelet.daemon-reload"], does: "makes systemd read them anew", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let behind =
        facts.unit_state("kubelet")?.need_daemon_reload || facts.unit_state(facts.runtime().unit())?.need_daemon_reload;
    Ok(behind.then_some(Effect::ReloadUnits).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::unit::SHOW;
    use crate::testing::{facts, plans};

    #[test]
    fn unit_files_are_read_where_they_changed() {
        let with = |kubelet: &str, containerd: &str| {
            facts().with_query(
                &SHOW,
                &format!(
                    "Id=kubelet.service\nLoadState=loaded\nNeedDaemonReload={kubelet}\n\n\
                     Id=containerd.service\nLoadState=loaded\nNeedDaemonReload={containerd}\n"
                ),
            )
        };
        let reload = ["make systemd read its unit files anew"];
        plans(
            &FIX,
            [
                ("as they are", with("no", "no"), &[]),
                ("the kubelet's", with("yes", "no"), &reload),
                ("the runtime's", with("no", "yes"), &reload),
            ],
        );
    }
}
