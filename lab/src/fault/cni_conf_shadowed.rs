//! The first file in /etc/cni/net.d wins: here one that an earlier network left.

use super::Fault;
use crate::machine::Kind;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "another CNI configuration comes first by name and shadows flannel's",
    cause: "cni.first-file-wins",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "mkdir -p /etc/cni/net.d; cat > /etc/cni/net.d/05-old.conflist <<END
{\"cniVersion\": \"0.3.1\", \"name\": \"old\", \"plugins\": [{\"type\": \"calico\"}]}
END";
        scene.script(script).map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        scene.pod_does_not_start("failed to find plugin \"calico\" in path [/opt/cni/bin]")?;
        scene.has_files(&["/etc/cni/net.d/10-flannel.conflist"], true)
    },
    fixes: None,
};
