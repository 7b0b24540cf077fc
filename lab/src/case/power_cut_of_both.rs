//! The power of a whole site fails: control plane and worker at once.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Bench, Case};
use crate::demand;
use crate::error::{Error, Result};
use crate::need::Need;
use crate::run::{Polled, wait_for};
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "control plane and worker lose their power at once: both come back as the same nodes, Ready, without help",
    tier: Tier::Full,
    covers: &[],
    needs: &[Need::OwnLab],
    run,
};

const LAB: &str = "case-power";

fn run(bench: &mut Bench) -> Result<()> {
    bench.own_lab(LAB, &["up", "--workers", "1", "--join"])?.success()?;
    let before = nodes(bench)?.ok_or_else(|| Error::Said("the API server does not answer".to_owned()))?;
    let begun = Instant::now();
    bench.own_lab(LAB, &["power-cut", "cp1", "w1"])?.success()?;
    bench.time("both booted", begun.elapsed());
    for node in ["cp1", "w1"] {
        // The control plane has to start etcd and the API server from what was on the disk.
        wait_for(&format!("{node} to be Ready after the power cut"), Duration::from_mins(3), || {
            let Some(now) = nodes(bench)? else { return Ok(Polled::NotYet("no answer".to_owned())) };
            let (was, is) = (find(&before, node), find(&now, node));
            demand!(is["metadata"]["uid"] == was["metadata"]["uid"], "{node} is another Node: {}", is["metadata"]);
            let rebooted = is["status"]["nodeInfo"]["bootID"] != was["status"]["nodeInfo"]["bootID"];
            let ready = crate::cluster::condition(is, "Ready")["status"] == "True";
            Ok(if rebooted && ready {
                Polled::Seen(())
            } else {
                Polled::NotYet(is["status"]["conditions"].to_string())
            })
        })?;
        bench.time(format!("{node} Ready"), begun.elapsed());
    }
    bench.own_lab(LAB, &["down"])?.success().map(drop)
}

/// All Nodes; none where the API server does not answer.
fn nodes(bench: &mut Bench) -> Result<Option<Value>> {
    let said = bench.own_lab(LAB, &["kubectl", "get", "nodes", "-o", "json", "--request-timeout=5s"])?;
    Ok(if said.status.success() { serde_json::from_str(&said.out).ok() } else { None })
}

fn find<'a>(nodes: &'a Value, name: &str) -> &'a Value {
    static NONE: Value = Value::Null;
    let all = nodes["items"].as_array();
    all.and_then(|all| all.iter().find(|node| node["metadata"]["name"] == name)).unwrap_or(&NONE)
}
