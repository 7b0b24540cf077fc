//! flannel is ended again and again on this node, as by a kernel short of memory. The node is Ready all the same.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::run::Polled;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "flannel crash-loops on the node: it is killed as soon as it runs",
    cause: "cni.daemon-crash-loop",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let script = "while :; do pkill -KILL -x flanneld; sleep 0.1; done";
        scene.on(&["systemd-run", "--quiet", "--unit=meddler", "sh", "-c", script]).map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        let field = format!("spec.nodeName={}", scene.node_name());
        scene.holds_in_the_end("flannel to be held back after it was killed", Duration::from_secs(90), || {
            let pods = scene.cluster.get(["pods", "-n", "kube-flannel", "--field-selector", &field])?;
            let status = &pods["items"][0]["status"]["containerStatuses"][0];
            let held = status["state"]["waiting"]["reason"] == "CrashLoopBackOff";
            let killed = status["lastState"]["terminated"]["exitCode"] == 137;
            Ok(if held && killed { Polled::Seen(()) } else { Polled::NotYet(status.to_string()) })
        })
    },
    fixes: Some(|scene| {
        scene.on(&["systemctl", "stop", "meddler"])?;
        scene.cluster.pod_answers(&scene.machine).map(drop)
    }),
};
