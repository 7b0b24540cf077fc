//! There is no room in /var/lib/kubelet. A small file system of its own, so that the real disk is never touched.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "/var/lib/kubelet is full",
    cause: "filesystem.space",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "systemctl stop kubelet; mount -t tmpfs -o size=64k small /var/lib/kubelet
            dd if=/dev/zero of=/var/lib/kubelet/filler bs=1k count=128 2>/dev/null || test -s /var/lib/kubelet/filler";
        scene.script(script).map(drop)
    },
    shows: |scene| {
        scene.join_fails()?.says("no space left on device")?.says("/var/lib/kubelet/")?.took(0, 20)?;
        scene.has_files(&["/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt"], true)?;
        scene.no_node()
    },
    fixes: None,
};
