//! Images lie on a filesystem that overlayfs can write to.
//!
//! containerd stacks an image's layers with overlayfs, whose upper layer cannot lie on overlayfs itself (a node inside
//! a container), nor on NFS, SMB, FUSE or FAT. The runtime then starts and no pod does. Whether the kernel has
//! overlayfs at all is told by kernel.modules.
//!
//! See it yourself: `findmnt -T /var/lib/containerd -o FSTYPE,SOURCE`
//! Mend it: a local disk of ext4 or xfs at /var/lib/containerd; or another snapshotter in containerd's configuration.

use crate::catalogue::{Class, Role, Stops};
use crate::check::{
    Check, CheckPolicy, Evidence, FixedBy, InJoin, Needed, Subsystem, Verdict, fail, nothing, pass, warn,
};
use crate::fact::mounts::MOUNTINFO;
use crate::fact::{Facts, Known};
use crate::id;

pub const CHECK: Check = Check {
    id: "filesystem.overlay",
    title: "images lie on a filesystem overlayfs can write to",
    subsystem: Subsystem::Filesystem,
    kubeadm: &[],
    class: Class::Configuration,
    role: Role::Root,
    stops: Stops::Pods,
    needed: Needed::Always,
    in_join: InJoin::Blocks,
    fixed_by: FixedBy::Operator("images need another disk, or another snapshotter"),
    accounts_for: nothing,
    judge,
};

const IMAGES: &str = "/var/lib/containerd";

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let mount = facts.mount_of(IMAGES)?;
    // Where the runtime answers, it says what it stacks layers with.
    let snapshotter = facts.runtime_status().ok().and_then(|status| status.snapshotter);
    if let Some(other) = snapshotter.filter(|snapshotter| snapshotter != "overlayfs") {
        return Ok(pass(format!("containerd uses {other} on {}, not overlayfs", mount.kind)));
    }
    let verdict = match mount.kind.as_str() {
        "overlay" | "aufs" | "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "vfat" | "exfat" | "fuseblk" | "ecryptfs" => {
            fail(format!("{IMAGES} is on {}: overlayfs cannot write there", mount.kind))
                .explains([id!("node.not-ready")])
        }
        kind if kind.starts_with("fuse") => {
            fail(format!("{IMAGES} is on {kind}: overlayfs cannot write there")).explains([id!("node.not-ready")])
        }
        "zfs" => warn(format!("{IMAGES} is on zfs: overlayfs needs OpenZFS 2.2 or later there")),
        "tmpfs" | "ramfs" => warn(format!("{IMAGES} is in memory: images are gone after a reboot")),
        kind => return Ok(pass(format!("{IMAGES} is on {kind}"))),
    };
    Ok(verdict
        .seen(Evidence::at(MOUNTINFO, mount.line, mount.shown()))
        .fix(format!("mount /dev/DISK {IMAGES}    # a local ext4 or xfs; or set another snapshotter")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::testing::{facts, table};

    fn on(kind: &str) -> Facts {
        facts().with_file(MOUNTINFO, &format!("27 1 0:40 / / rw,relatime - {kind} source rw\n"))
    }

    fn snapshotter(facts: Facts, name: &str) -> Facts {
        let json = r#"{"status":{"conditions":[]},"config":{"containerd":{"snapshotter":"NAME"}}}"#;
        facts.with_cri("status", &json.replace("NAME", name))
    }

    #[test]
    fn judges() {
        table(
            &CHECK,
            [
                ("ext4", on("ext4"), Pass),
                ("xfs", on("xfs"), Pass),
                ("btrfs", on("btrfs"), Pass),
                ("inside a container", on("overlay"), Fail),
                ("NFS", on("nfs4"), Fail),
                ("sshfs", on("fuse.sshfs"), Fail),
                ("NTFS", on("fuseblk"), Fail),
                ("zfs", on("zfs"), Warn),
                ("diskless", on("tmpfs"), Warn),
                ("inside a container, with another snapshotter", snapshotter(on("overlay"), "native"), Pass),
                ("inside a container, as configured", snapshotter(on("overlay"), "overlayfs"), Fail),
                ("not read", facts(), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_filesystem() {
        let says = CHECK.verdict(&on("fuse.sshfs"), &CheckPolicy::default()).says;
        assert_eq!(says, "/var/lib/containerd is on fuse.sshfs: overlayfs cannot write there");
    }
}
