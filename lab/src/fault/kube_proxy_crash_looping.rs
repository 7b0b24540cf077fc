//! kube-proxy cannot run on this node: it is Ready, and no service can be reached from it.

use std::time::Duration;

use super::Fault;
use crate::build::go::KUBERNETES;
use crate::build::image::BUSYBOX;
use crate::machine::Kind;
use crate::run::Polled;
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "kube-proxy crash-loops on the node: its image has another program in it",
    cause: "kube-proxy.crash-loop",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        let image = format!("registry.k8s.io/kube-proxy:{KUBERNETES}");
        scene.on(&["ctr", "-n", "k8s.io", "images", "tag", "--force", BUSYBOX, &image]).map(drop)
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        let field = format!("spec.nodeName={}", scene.node_name());
        let words = ["pods", "-n", "kube-system", "-l", "k8s-app=kube-proxy", "--field-selector", &field];
        scene.holds_in_the_end("kube-proxy to fail", Duration::from_mins(1), || {
            let status = scene.cluster.get(words)?["items"][0]["status"]["containerStatuses"][0].to_string();
            Ok(if status.contains("no such file or directory") { Polled::Seen(()) } else { Polled::NotYet(status) })
        })?;
        let service = scene.machine.run(["curl", "-sSk", "-m", "3", "https://10.96.0.1/version"]).done()?;
        scene.holds("the service's address does not answer", !service.status.success(), service.out)
    },
    fixes: None,
};
