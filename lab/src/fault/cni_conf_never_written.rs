//! The network's own pods run and their configuration never arrives: the folder cannot be written.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "no CNI configuration is ever written: /etc/cni/net.d is read-only",
    cause: "filesystem.read-only",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "mkdir -p /etc/cni/net.d; mount --bind /etc/cni/net.d /etc/cni/net.d; mount -o remount,ro,bind /etc/cni/net.d";
        scene.script(script).map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.stays_not_ready("NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized")?;
        let files = scene.on(&["find", "/etc/cni/net.d", "-type", "f"])?;
        scene.holds("/etc/cni/net.d is empty", files.is_empty(), files)
    },
    fixes: None,
};
