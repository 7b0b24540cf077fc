//! A firewall lets the API through and the pod network not: the node is Ready, its pods cannot be reached.

use std::time::Duration;

use super::Fault;
use crate::machine::Kind;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const FAULT: Fault = Fault {
    about: "packets of the pod network (8472/udp) are dropped",
    cause: "firewall.vxlan",
    tier: Tier::Full,
    on: Kind::Debian12,
    also: &[],
    put_in: |scene| {
        for chain in ["INPUT", "OUTPUT"] {
            scene.on(&["iptables", "-I", chain, "-p", "udp", "--dport", "8472", "-j", "DROP"])?;
        }
        Ok(())
    },
    shows: |scene| {
        scene.join_seems_to_work()?;
        scene.becomes_ready()?;
        let pod = scene.start_pod()?;
        let address = wait_for("the pod to run", Duration::from_mins(1), || {
            let status = scene.cluster.get(["pod", &pod])?["status"].clone();
            let running = status["phase"] == "Running";
            Ok(status["podIP"]
                .as_str()
                .filter(|_| running)
                .map_or(Polled::NotYet(status.to_string()), |ip| Polled::Seen(ip.to_owned())))
        })?;
        let url = format!("http://{address}/");
        let near = scene.machine.run(["curl", "-sS", "-m", "3", "--retry", "3", "--retry-connrefused", &url]).done()?;
        scene.holds("the pod answers its own node", near.status.success(), near.text())?;
        let far = scene.types_on_control(&["curl", "-sS", "-m", "3", &url])?;
        scene.delete_pod(&pod)?;
        scene.holds("the pod does not answer the control plane", far.contains("timed out"), far)
    },
    fixes: None,
};
