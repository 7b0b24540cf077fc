//! Kubernetes can write where it must.
//!
//! kubeadm, the kubelet and containerd write to /etc/kubernetes, /var/lib and /run. A disk that had an error is mounted
//! read-only by the kernel and everything that was read before still works: the machine looks well, and the join fails
//! at its first file. A read-only root as such is fine where /etc, /var and /run are mounted of their own.
//!
//! See it yourself: `findmnt -T /var/lib/kubelet -o TARGET,SOURCE,OPTIONS; dmesg | grep -i 'read-only'`
//! Mend it: after an error, `fsck` from a rescue system and a look at the disk's health; else `mount -o remount,rw
//! TARGET`

use crate::catalogue::{Class, Role, Stops};
use crate::check::{Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass};
use crate::fact::mounts::MOUNTINFO;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "filesystem.read-only",
    title: "Kubernetes can write where it must",
    subsystem: Subsystem::Filesystem,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("a disk that had an error is looked at before it is written to"),
    accounts_for: nothing,
    judge,
};

/// Where a join writes: kubeadm, the kubelet, the runtime, the pod network, the logs of pods, the sockets.
const WRITTEN: [&str; 6] =
    ["/etc/kubernetes", "/etc/cni/net.d", "/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/run"];

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    for path in WRITTEN {
        let mount = facts.mount_of(path)?;
        if mount.is_read_only() {
            return Ok(fail(format!("{path} cannot be written: {} is mounted read-only", mount.point))
                .seen(Evidence::at(MOUNTINFO, mount.line, mount.shown()))
                .fix("dmesg | grep -iE 'read-only|I/O error'    # was it an error of the disk?")
                .fix(format!("mount -o remount,rw '{}'", mount.point))
                .explains([id!("kubelet.crash-loop")]));
        }
    }
    Ok(pass("every directory Kubernetes writes to is writable"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown};
    use crate::testing::{facts, table};

    const ROOT: &str = "27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n";
    const RUN: &str = "28 27 0:24 / /run rw,nosuid,nodev shared:5 - tmpfs tmpfs rw,size=1g\n";

    fn mounted(lines: &[&str]) -> Facts {
        facts().with_file(MOUNTINFO, &lines.concat())
    }

    #[test]
    fn judges() {
        let failed = ROOT.replace("rw,relatime", "ro,relatime").replace("/dev/sda1 rw", "/dev/sda1 ro");
        let kubelet = "44 27 8:33 / /var/lib/kubelet ro,relatime shared:31 - xfs /dev/sdc1 rw\n";
        let usr = "45 27 8:34 / /usr ro,relatime shared:31 - erofs /dev/sdd1 ro\n";
        let etc = "46 27 8:35 / /etc rw,relatime shared:31 - ext4 /dev/sde1 rw\n";
        let var = "47 27 8:36 / /var rw,relatime shared:31 - ext4 /dev/sdf1 rw\n";
        table(
            &CHECK,
            [
                ("one disk", mounted(&[ROOT, RUN]), Pass),
                ("after an I/O error", mounted(&[&failed, RUN]), Fail),
                ("the kubelet's own disk", mounted(&[ROOT, RUN, kubelet]), Fail),
                ("a read-only /usr", mounted(&[ROOT, RUN, usr]), Pass),
                ("an immutable system", mounted(&[&failed, RUN, usr, etc, var]), Pass),
                ("/run read-only", mounted(&[ROOT, &RUN.replace("rw,nosuid", "ro,nosuid")]), Fail),
                ("nothing mounted", mounted(&["what\n"]), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_directory_and_the_mount() {
        let kubelet = "44 27 8:33 / /var/lib/kubelet ro,relatime shared:31 - xfs /dev/sdc1 rw\n";
        let verdict = CHECK.verdict(&mounted(&[ROOT, RUN, kubelet]), &CheckPolicy::default());
        assert_eq!(verdict.says, "/var/lib/kubelet cannot be written: /var/lib/kubelet is mounted read-only");
        assert_eq!(verdict.evidence[0].line, Some(3));
    }
}
