//! What the kubelet mounts is seen by the container runtime.
//!
//! A pod's token and its Secrets lie on file systems in memory that the kubelet mounts and the runtime passes on to the
//! container. Almost every directive of systemd's that hardens a unit (PrivateTmp=, ProtectSystem=, ProtectHome=,
//! PrivateDevices=, ReadOnlyPaths=, MountFlags=slave …) gives the kubelet a mount namespace of its own, out of which no mount
//! leads: pods start with empty directories in the place of their volumes, and the pod network's agent and kube-proxy end for
//! want of a token. The kubelet sees its mounts and reports no error.
//!
//! See it yourself: `readlink /proc/1/ns/mnt /proc/$(pidof kubelet)/ns/mnt` (they must be the same), `systemctl cat kubelet`
//! Fix: take the directive out of the unit or drop-in that sets it; `systemctl daemon-reload && systemctl restart kubelet`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip};
use crate::fact::unit_mounts::{SandboxDirective, take_back};
use crate::fact::{Facts, Known, OrAbsent};
use crate::id;

pub const CHECK: Check = Check {
    id: "kubelet.private-mounts",
    title: "the container runtime sees what the kubelet mounts",
    subsystem: Subsystem::Kubelet,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("who hardened the unit knows what for: only they can take it back"),
    accounts_for: nothing,
    judge,
};

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let Some(unit) = facts.unit("kubelet").or_absent()? else {
        return Ok(skip("there is no kubelet.service: see kubelet.unit"));
    };
    if unit.masked {
        return Ok(skip("kubelet.service is masked: see kubelet.masked"));
    }
    let directives = unit.private_mounts();
    let Some(first) = directives.first() else {
        return Ok(pass("the kubelet mounts where all others see it"));
    };
    let says = format!("{} hides the kubelet's mounts: pods get no token and no Secret", first.shown());
    let failed = fail(says).seen(directives.iter().map(SandboxDirective::cite)).explains([
        id!("pod.no-token"),
        id!("cni.flannel-datastore"),
        id!("cni.daemon-crash-loop"),
        id!("cni.subnet-env"),
        id!("kube-proxy.crash-loop"),
        id!("filesystem.read-only"),
        id!("kubelet.cgroup-read-only"),
        id!("kubelet.crash-loop"),
        id!("kubelet.restart-loop"),
    ]);
    Ok(take_back(&directives, "kubelet").into_iter().fold(failed, Verdict::fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Skip, Unknown};
    use crate::fact::unit::{KUBELET, sample};
    use crate::fact::{Source, Why};
    use crate::testing::{facts, judge_row, table};

    const PATH: &str = "/etc/systemd/system/kubelet.service.d/30-hardened.conf";

    fn hardened(service: &str) -> Facts {
        facts().with_query(&KUBELET, &sample::and_drop_in(PATH, &format!("[Service]\n{service}")))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("as packaged", facts().with_query(&KUBELET, &sample::packaged()), Pass),
                ("a /tmp of its own", hardened("PrivateTmp=true\n"), Fail),
                ("a read-only system", hardened("ProtectSystem=full\n"), Fail),
                ("told to be shared", hardened("MountFlags=shared\n"), Pass),
                ("slave", hardened("MountFlags=slave\n"), Fail),
                ("hardened otherwise", hardened("NoNewPrivileges=no\nOOMScoreAdjust=-999\n"), Pass),
                ("taken back", hardened("PrivateTmp=true\nPrivateTmp=no\n"), Pass),
                ("systemctl hangs", facts().without(Source::Query(&KUBELET), Why::TimedOut), Unknown),
            ],
        );
        let absent = facts().with_exit(&KUBELET, 1, "", "No files found for kubelet.service.\n");
        judge_row(&CHECK, &CheckPolicy::default(), "no unit", &absent, Skip);
    }

    #[test]
    fn names_every_line_and_takes_each_back() {
        let verdict = CHECK.verdict(&hardened("PrivateTmp=yes\nProtectSystem=full\n"), &CheckPolicy::default());
        assert_eq!(verdict.says, "PrivateTmp=yes hides the kubelet's mounts: pods get no token and no Secret");
        let seen: Vec<String> = verdict.evidence.iter().map(ToString::to_string).collect();
        assert_eq!(seen, [format!("{PATH}:2  PrivateTmp=yes"), format!("{PATH}:3  ProtectSystem=full")]);
        assert_eq!(verdict.remedy.len(), 2, "one command a file, and the restart: {:?}", verdict.remedy);
    }
}
