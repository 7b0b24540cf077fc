//! The container runtime runs as a service, and comes back after a reboot.
//!
//! kubeadm only warns where the runtime is down, then waits four minutes for a kubelet that cannot start without it. A
//! service that is not enabled is a node that is lost at the next reboot.
//!
//! See it yourself: `systemctl status containerd`
//! Mend it: `systemctl enable --now containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn};
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.unit",
    title: "the container runtime runs as a service and starts at boot",
    subsystem: Subsystem::Runtime,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Node,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["runtime_unit"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let runtime = facts.runtime();
    let (name, unit) = (runtime.name(), runtime.unit());
    let state = facts.unit_state(unit)?;
    if !state.is_there() {
        if facts.cri("status").is_ok() {
            return Ok(warn(format!("{name} answers, but is no service: it may not come back"))
                .seen(state.cite())
                .fix(format!("systemctl status {unit}    # how is it started?")));
        }
        return Ok(fail(format!("{name} is not installed"))
            .seen(state.cite())
            .fix(facts.install("containerd"))
            .explains([id!("kubelet.crash-loop")]));
    }
    if state.is_masked() {
        return Ok(fail(format!("{unit}.service is masked: it cannot be started"))
            .seen(state.cite())
            .fix(format!("systemctl unmask {unit} && systemctl enable --now {unit}"))
            .explains([id!("kubelet.crash-loop")]));
    }
    if !state.is_active() {
        return Ok(fail(format!("{name} does not run: it is {} ({})", state.active_state, state.sub_state))
            .seen(state.cite())
            .fix(format!("journalctl -u {unit} -n 20 --no-pager    # why"))
            .fix(format!("systemctl enable --now {unit}"))
            .explains([id!("kubelet.crash-loop")]));
    }
    if !state.is_enabled() {
        return Ok(warn(format!("{name} runs, but is not started at boot"))
            .seen(state.cite())
            .fix(format!("systemctl enable {unit}")));
    }
    Ok(pass(format!("{name} runs and is started at boot")).seen(state.cite()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::unit::SHOW;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    fn containerd(lines: &str) -> Facts {
        facts().with_query(&SHOW, &format!("Id=containerd.service\n{lines}\nId=crio.service\nLoadState=not-found\n"))
    }

    const STATUS: &str = r#"{"endpoint":"unix:///run/containerd/containerd.sock","status":{"conditions":[]}}"#;

    #[test]
    fn judges() {
        let crio = "Id=containerd.service\nLoadState=not-found\n\nId=crio.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n";
        table(
            &CHECK,
            [
                (
                    "runs",
                    containerd("LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n"),
                    Pass,
                ),
                ("CRI-O instead", facts().with_query(&SHOW, crio), Pass),
                ("not at boot", containerd("LoadState=loaded\nActiveState=active\nUnitFileState=disabled\n"), Warn),
                (
                    "stopped",
                    containerd("LoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=enabled\n"),
                    Fail,
                ),
                (
                    "crashing",
                    containerd(
                        "LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nUnitFileState=enabled\n",
                    ),
                    Fail,
                ),
                ("masked", containerd("LoadState=masked\nActiveState=inactive\nUnitFileState=masked\n"), Fail),
                (
                    "not installed",
                    containerd("LoadState=not-found\nActiveState=inactive\nResult=success\nExecMainStatus=0\n"),
                    Fail,
                ),
                (
                    "started by hand",
                    containerd("LoadState=not-found\nActiveState=inactive\n").with_cri("status", STATUS),
                    Warn,
                ),
                ("systemctl hangs", facts().without(Source::Query(&SHOW), Why::TimedOut), Unknown),
            ],
        );
    }

    #[test]
    fn says_which_runtime_and_how_it_is() {
        let say = |facts: Facts| CHECK.verdict(&facts, &CheckPolicy::default()).says;
        let crashing =
            containerd("LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nUnitFileState=enabled\n");
        assert_eq!(say(crashing), "containerd does not run: it is activating (auto-restart)");
        let masked = containerd("LoadState=masked\nActiveState=inactive\nUnitFileState=masked\n");
        assert_eq!(say(masked), "containerd.service is masked: it cannot be started");
    }
}
