//! Images lie on a filesystem that overlayfs can write to.
//!
//! containerd stacks an image's layers with overlayfs, whose upper layer cannot lie on overlayfs itself (a node inside
//! a container), nor on NFS, SMB, FUSE or FAT. The runtime then starts and no pod does. Where the runtime does not say
//! what it stacks layers with, that is a warning. Whether the kernel has overlayfs at all is told by kernel.modules.
//!
//! See it yourself: `findmnt -T /var/lib/containerd -o FSTYPE,SOURCE`
//! Fix: a local disk of ext4 or xfs at /var/lib/containerd; or another snapshotter in containerd's configuration.

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

fn judge(facts: &Facts, _: &CheckPolicy) -> Known<Verdict> {
    let images = facts.image_root();
    let mount = facts.mount_of(&images)?;
    // Where the runtime answers, it says what it stacks layers with.
    let snapshotter = facts.runtime_status().ok().and_then(|status| status.snapshotter);
    let snapshotter = snapshotter.or_else(|| facts.containerd_config().ok()?.config.snapshotter);
    if let Some(other) = snapshotter.as_ref().filter(|snapshotter| *snapshotter != "overlayfs") {
        return Ok(pass(format!("containerd uses {other} on {}, not overlayfs", mount.kind)));
    }
    let unfit = |kind: &str| match snapshotter {
        Some(_) => {
            fail(format!("{images} is on {kind}: overlayfs cannot write there")).explains([id!("node.not-ready")])
        }
        None => warn(format!("{images} is on {kind}: overlayfs cannot write there, if the runtime uses it"))
            .explains([id!("node.not-ready")]),
    };
    let verdict = match mount.kind.as_str() {
        "overlay" | "aufs" | "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "vfat" | "exfat" | "fuseblk" | "ecryptfs" => {
            unfit(&mount.kind)
        }
        kind if kind.starts_with("fuse") => unfit(kind),
        "zfs" => warn(format!("{images} is on zfs: overlayfs needs OpenZFS 2.2 or later there")),
        "tmpfs" | "ramfs" => warn(format!("{images} is in memory: images are gone after a reboot")),
        kind => return Ok(pass(format!("{images} is on {kind}"))),
    };
    Ok(verdict
        .seen(Evidence::at(MOUNTINFO, mount.line, mount.shown()))
        .fix(format!("mount /dev/DISK {images}    # a local ext4 or xfs; or set another snapshotter")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome::{Fail, Pass, Unknown, Warn};
    use crate::fact::containerd_config::DUMP;
    use crate::testing::{facts, table};

    fn on(kind: &str) -> Facts {
        facts().with_file(MOUNTINFO, &format!("27 1 0:40 / / rw,relatime - {kind} source rw\n"))
    }

    fn on_disk(root: &str, point: &str, kind: &str) -> Facts {
        let disk = format!("28 27 0:41 / {point} rw,relatime - {kind} /dev/sdb rw\n");
        facts().with_file(MOUNTINFO, &format!("27 1 0:40 / / rw,relatime - {root} source rw\n{disk}"))
    }

    const CRIO: &str = r#"{"version":{"runtimeName":"cri-o"},"status":{"conditions":[]}}"#;
    const ROOT: &str = "version = 2\nroot = '/data/containerd'\n";

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
                ("inside a container", snapshotter(on("overlay"), "overlayfs"), Fail),
                ("NFS", snapshotter(on("nfs4"), "overlayfs"), Fail),
                ("sshfs", snapshotter(on("fuse.sshfs"), "overlayfs"), Fail),
                ("NTFS", snapshotter(on("fuseblk"), "overlayfs"), Fail),
                ("inside a container, and nobody says with what", on("overlay"), Warn),
                ("CRI-O's own disk", on_disk("overlay", "/var/lib/containers", "ext4").with_cri("status", CRIO), Pass),
                ("containerd's own root", on_disk("overlay", "/data", "xfs").with_query(&DUMP, ROOT), Pass),
                ("zfs", on("zfs"), Warn),
                ("diskless", on("tmpfs"), Warn),
                ("inside a container, with another snapshotter", snapshotter(on("overlay"), "native"), Pass),
                ("not read", facts(), Unknown),
            ],
        );
    }

    #[test]
    fn names_the_filesystem() {
        let says = CHECK.verdict(&snapshotter(on("fuse.sshfs"), "overlayfs"), &CheckPolicy::default()).says;
        assert_eq!(says, "/var/lib/containerd is on fuse.sshfs: overlayfs cannot write there");
    }
}
