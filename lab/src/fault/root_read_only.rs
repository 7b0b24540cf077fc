//! The root file system went read-only: kubeadm cannot write what it must.

use super::Fault;
use crate::machine::Kind;

pub const FAULT: Fault = Fault {
    about: "/etc is read-only, as after an error of the disk",
    cause: "machine.read-only",
    on: Kind::Debian12,
    put_in: |scene| scene.script("mount --bind /etc /etc; mount -o remount,ro,bind /etc").map(drop),
    shows: |scene| {
        scene.join_fails()?.says("read-only file system")?.took(0, 30)?;
        scene.no_node()
    },
    mends: None,
};
