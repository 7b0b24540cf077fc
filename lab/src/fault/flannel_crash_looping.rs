//! flannel ends again and again on this node: it cannot write its lease. The node is Ready all the same.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::run::{Look, wait_for};

pub const FAULT: Fault = Fault {
    about: "flannel crash-loops on the node: it cannot write /run/flannel",
    cause: "cni.daemon-crash-loop",
    on: Kind::Debian12,
    put_in: |scene| {
        scene.script("mkdir -p /run/flannel; mount -t tmpfs -o ro,size=4k locked /run/flannel").map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        let field = format!("spec.nodeName={}", scene.node_name());
        wait_for("flannel to have been restarted", Duration::from_secs(90), || {
            let pods = scene.cluster.get(["pods", "-n", "kube-flannel", "--field-selector", &field])?;
            let restarts = &pods["items"][0]["status"]["containerStatuses"][0]["restartCount"];
            Ok(if restarts.as_u64() >= Some(2) { Look::Seen(()) } else { Look::NotYet(pods["items"][0]["status"].to_string()) })
        })?;
        // The configuration was written before: the node is Ready all the same.
        scene.becomes_ready()?;
        scene.pod_does_not_start("open /run/flannel/subnet.env: no such file or directory")
    },
    mends: None,
};
