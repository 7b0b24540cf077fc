//! What systemd would start is what the unit files say.
//!
//! systemd reads unit files once. After a change on disk it goes on with what it knows until `systemctl daemon-reload`:
//! what you read in the file is not what runs. (kubeadm reloads before it starts the kubelet; nobody does for the
//! container runtime.)
//!
//! See it yourself: `systemctl show -p NeedDaemonReload kubelet containerd`
//! Mend it: `systemctl daemon-reload`, then restart what is meant to change

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, nothing, pass, skip, warn,
};
use crate::fact::{Facts, Known};

pub const CHECK: Check = Check {
    id: "kubelet.daemon-reload",
    title: "systemd has read the unit files as they are now",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Nothing,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Carrick(&["unit_files"]),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let kubelet = facts.unit_state("kubelet")?;
    let runtime = facts.unit_state(facts.runtime().unit())?;
    if !kubelet.is_there() && !runtime.is_there() {
        return Ok(skip("there is no unit to look at"));
    }
    let behind: Vec<String> =
        [kubelet, runtime].into_iter().filter(|state| state.need_daemon_reload).map(|state| state.id).collect();
    if behind.is_empty() {
        return Ok(pass("systemd knows the unit files as they are"));
    }
    Ok(warn(format!("systemd has not read {} since it changed", behind.join(" and ")))
        .seen(behind.iter().map(|id| Evidence::of(format!("systemctl show {id}"), "NeedDaemonReload=yes")))
        .fix("systemctl daemon-reload"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Pass, Skip, Unknown, Warn};
    use crate::fact::unit::SHOW;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    fn state(load: &str, kubelet: &str, containerd: &str) -> Facts {
        let block =
            |name: &str, reload: &str| format!("Id={name}.service\nLoadState={load}\nNeedDaemonReload={reload}\n");
        facts().with_query(&SHOW, &format!("{}\n{}", block("kubelet", kubelet), block("containerd", containerd)))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("up to date", state("loaded", "no", "no"), Pass),
                ("kubelet", state("loaded", "yes", "no"), Warn),
                ("containerd", state("loaded", "no", "yes"), Warn),
                ("hangs", facts().without(Source::Query(&SHOW), Why::TimedOut), Unknown),
            ],
        );
        judge_row(&CHECK, &CheckPolicy::default(), "no units", &state("not-found", "no", "no"), Skip);
        let one = facts()
            .with_query(&SHOW, "Id=kubelet.service\nLoadState=not-found\n\nId=containerd.service\nLoadState=loaded\n");
        judge_row(&CHECK, &CheckPolicy::default(), "only containerd", &one, Pass);
        let one = facts()
            .with_query(&SHOW, "Id=kubelet.service\nLoadState=loaded\n\nId=containerd.service\nLoadState=not-found\n");
        judge_row(&CHECK, &CheckPolicy::default(), "only the kubelet", &one, Pass);
        let says = CHECK.verdict(&state("loaded", "yes", "yes"), &CheckPolicy::default()).says;
        assert_eq!(says, "systemd has not read kubelet.service and containerd.service since it changed");
    }
}
