//! The root file system went read-only, as the kernel makes it after an error of the disk: kubeadm cannot write what it must.
//! The kernel refuses to do so while a file on it is open for writing (after an error it does not ask), so the journal
//! moves to memory first. containerd has a file system of its own here, which stays as it is.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "the root file system is read-only, as after an error of the disk",
    cause: "filesystem.read-only",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "systemctl stop kubelet; journalctl --relinquish-var
            mount -o remount,ro,bind /; mount -o remount,ro,bind /var/lib/kubelet; systemctl start kubelet";
        scene.script(script).map(drop)
    },
    shows: |scene| {
        let refused = scene.machine.run(["touch", "/etc/probe"]).done()?.text();
        scene.holds("nothing can be written to /etc", refused.contains("Read-only file system"), refused)?;
        let refused = scene.machine.run(["touch", "/var/lib/kubelet/probe"]).done()?.text();
        scene.holds("nor to /var/lib/kubelet", refused.contains("Read-only file system"), refused)?;
        scene.join_fails()?.says("read-only file system")?.took(0, 30)?;
        scene.has_files(&["/etc/kubernetes/bootstrap-kubelet.conf"], false)?;
        scene.no_node()
    },
    fixes: None,
};
