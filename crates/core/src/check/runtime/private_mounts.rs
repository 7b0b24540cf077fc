//! containerd sees the mounts of the machine, and can write where it must.
//!
//! A directive that hardens a unit gives it a mount namespace of its own. With MountFlags=private, containerd does not see the
//! volumes that the kubelet mounts: pods start without their token. With ProtectSystem=strict or ReadOnlyPaths= it can write
//! neither images nor sandboxes, though the disk is mounted read-write: nothing is to be remounted. With any other of them
//! (PrivateTmp=, ProtectHome= …) what a pod mounts for others, as CSI drivers do, never reaches the kubelet, and a restart of
//! containerd loses the network namespaces of the pods that run.
//!
//! See it yourself: `readlink /proc/1/ns/mnt /proc/$(pidof containerd)/ns/mnt` (they must be the same), `systemctl cat containerd`
//! Fix: take the directive out of the unit or drop-in that sets it; `systemctl daemon-reload && systemctl restart containerd`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, skip, warn};
use crate::fact::runtime_sockets::Runtime;
use crate::fact::unit_mounts::{SandboxDirective, take_back};
use crate::fact::{Facts, Known, OrAbsent};
use crate::id;

pub const CHECK: Check = Check {
    id: "runtime.private-mounts",
    title: "containerd sees the machine's mounts, and can write",
    subsystem: Subsystem::Runtime,
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

/// What containerd writes: images and snapshots, its sockets and tasks, the network namespaces of sandboxes, pods' logs.
const WRITTEN: [&str; 4] = ["/var/lib/containerd", "/run/containerd", "/run/netns", "/var/log/pods"];

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let runtime = facts.runtime();
    if runtime != Runtime::Containerd {
        return Ok(skip(format!("{} is the runtime", runtime.name())));
    }
    let Some(unit) = facts.unit("containerd").or_absent()? else {
        return Ok(skip("there is no containerd.service: see runtime.unit"));
    };
    let failed = |says: String, of: SandboxDirective| {
        let failed = fail(says).seen([of.cite()]).explains([
            id!("filesystem.read-only"),
            id!("runtime.socket"),
            id!("runtime.unit"),
            id!("pod.no-token"),
            id!("pod.no-address"),
            id!("cni.flannel-datastore"),
            id!("cni.daemon-crash-loop"),
            id!("kube-proxy.crash-loop"),
        ]);
        Ok(take_back(&[of], "containerd").into_iter().fold(failed, Verdict::fix))
    };
    for path in WRITTEN {
        if let Some(of) = unit.write_protection(path) {
            return failed(format!("{} makes {path} read-only to containerd", of.shown()), of);
        }
    }
    if let Some(of) = unit.deaf_to_mounts() {
        return failed(format!("{} hides the kubelet's mounts: pods get no token and no Secret", of.shown()), of);
    }
    let directives = unit.private_mounts();
    let Some(first) = directives.first() else {
        return Ok(pass("containerd sees the machine's mounts"));
    };
    let warned = warn(format!("{} hides what pods mount for others from the kubelet", first.shown()));
    let warned = warned.seen(directives.iter().map(SandboxDirective::cite));
    Ok(take_back(&directives, "containerd").into_iter().fold(warned, Verdict::fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::unit::CONTAINERD;
    use crate::fact::{Source, Why};
    use crate::testing::{facts, table};

    const PATH: &str = "/etc/systemd/system/containerd.service.d/30-hardened.conf";
    /// Of the packages of Docker's and of Debian.
    const UNIT: &str = "# /usr/lib/systemd/system/containerd.service\n[Service]\nExecStartPre=-/sbin/modprobe overlay\nExecStart=/usr/bin/containerd\nType=notify\nDelegate=yes\nKillMode=process\nRestart=always\nLimitNOFILE=infinity\n";

    fn hardened(service: &str) -> Facts {
        facts().with_query(&CONTAINERD, &format!("{UNIT}\n# {PATH}\n[Service]\n{service}"))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("as packaged", hardened(""), Pass),
                ("sees nothing new", hardened("MountFlags=private\n"), Fail),
                ("a read-only system", hardened("ProtectSystem=strict\n"), Fail),
                (
                    "that may be written where it must",
                    hardened("ProtectSystem=strict\nReadWritePaths=/var /run\n"),
                    Warn,
                ),
                ("not where sandboxes are", hardened("ProtectSystem=strict\nReadWritePaths=/var\n"), Fail),
                ("a /tmp of its own", hardened("PrivateTmp=yes\n"), Warn),
                ("as Docker had it", hardened("MountFlags=slave\n"), Warn),
                ("systemctl hangs", facts().without(Source::Query(&CONTAINERD), Why::TimedOut), Unknown),
            ],
        );
        let verdict = CHECK.verdict(&hardened("ProtectSystem=strict\n"), &CheckPolicy::default());
        assert_eq!(verdict.says, "ProtectSystem=strict makes /var/lib/containerd read-only to containerd");
        assert_eq!(
            verdict.remedy[0],
            format!("sed -i.before -e '2s/^/# /' {PATH}    # takes back ProtectSystem=strict")
        );
    }
}
