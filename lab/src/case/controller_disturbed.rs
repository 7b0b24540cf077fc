//! `carrick controller` on an API server that streams no lists, is killed, forgets the past, and says 429: in the end every node is
//! as the rule says, with one write a change.

use std::time::Duration;

use carrick_testkit::Api;
use rustix::process::Signal;
use serde_json::json;

use super::{Bench, Case};
use crate::controller::{ACCOUNT, GATE, Ground, Instance, RULES, rule, wait};
use crate::demand;
use crate::error::{During, Result};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "the controller goes on without WatchList, over a killed API server, a compacted etcd and 429 of priority and fairness, with one write a change",
    tier: Tier::Standard,
    covers: &[],
    needs: &[Need::ApiServer],
    run,
};

const NODES: usize = 30;
const FLOW: &str = "lab-controller";

fn run(bench: &mut Bench) -> Result<()> {
    let mut ground = Ground::new(bench, &[("feature-gates", "WatchList=false")])?;
    for n in 0..NODES {
        ground.create_node(&name(n), &json!([]), &json!({}))?;
    }
    ground.create(RULES, &rule("lab", "continuous"))?;
    // What the list has is older than what the API server still knows.
    compact(&ground)?;
    let controller = ground.start("controller.log", &[])?;
    wait(bench, "without WatchList: all nodes are held", || Ok(ground.held(GATE)? == NODES))?;
    demand!(ground.node_patches(200)? == NODES, "not one write a node");
    ground.set_ready(&name(0), "True")?;
    wait(bench, "without WatchList: a change is followed", || Ok(ground.held(GATE)? == NODES - 1))?;
    lists_once(&ground)?;
    killed(bench, &mut ground)?;
    forgotten(bench, &mut ground, &controller)?;
    too_many_requests(bench, &ground)?;
    let said = controller.said();
    demand!(!said.contains("panicked"), "{said}");
    controller.stop()
}

fn name(n: usize) -> String {
    format!("lab-rule-{n}")
}

fn compact(ground: &Ground) -> Result<()> {
    let version = ground.get("/api/v1/nodes?limit=1")?["metadata"]["resourceVersion"].clone();
    let version = version.as_str().unwrap_or_default();
    Api::compact(ground.api.etcd(), version).during(|| "etcd does not compact".to_owned())
}

/// A watch that began behind an object of the list, and not behind the list, would be told 410 and list again for ever.
fn lists_once(ground: &Ground) -> Result<()> {
    let audit = ground.api.audit().map_err(crate::controller::told)?;
    let of_nodes = audit.iter().filter(|event| {
        event["verb"] == "list" && event["objectRef"]["resource"] == "nodes" && event["user"]["username"] == ACCOUNT
    });
    let lists = of_nodes.count();
    demand!(lists == 1, "the nodes were listed {lists} times");
    Ok(())
}

/// The watch is cut, and for seconds nobody answers.
fn killed(bench: &mut Bench, ground: &mut Ground) -> Result<()> {
    let before = ground.node_patches(200)?;
    ground.api.kill_server();
    std::thread::sleep(Duration::from_secs(1));
    ground.api.start_server(&[]).map_err(crate::controller::told)?;
    ground.set_ready(&name(1), "True")?;
    wait(bench, "API server killed and back: a change is followed", || Ok(ground.held(GATE)? == NODES - 2))?;
    demand!(ground.node_patches(200)? == before + 1, "more than one write for one change");
    Ok(())
}

/// It comes back to an API server that does not know the state any more at which it was.
fn forgotten(bench: &mut Bench, ground: &mut Ground, controller: &Instance) -> Result<()> {
    let before = ground.node_patches(200)?;
    controller.signal(Signal::STOP)?;
    for n in 2..7 {
        ground.set_ready(&name(n), "True")?;
    }
    compact(ground)?;
    ground.api.start_server(&[]).map_err(crate::controller::told)?;
    controller.signal(Signal::CONT)?;
    wait(bench, "410: what happened meanwhile is followed", || Ok(ground.held(GATE)? == NODES - 7))?;
    demand!(ground.node_patches(200)? == before + 5, "not one write a change");
    Ok(())
}

/// No seat for its writes of nodes: it waits as it is asked to, and does them all once there is one.
fn too_many_requests(bench: &mut Bench, ground: &Ground) -> Result<()> {
    let (flow, level) = flow_control();
    ground.create("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", &level)?;
    ground.create("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", &flow)?;
    // Priority and fairness takes its configuration up within seconds.
    std::thread::sleep(Duration::from_secs(3));
    let before = ground.node_patches(200)?;
    for n in 7..NODES {
        ground.set_ready(&name(n), "True")?;
    }
    std::thread::sleep(Duration::from_secs(5));
    let refused = ground.node_patches(429)?;
    demand!(refused > 0, "priority and fairness refused nothing");
    demand!(refused < 120, "it asked {refused} times in five seconds although it was told to wait");
    ground.kubectl(&["delete", "flowschema", FLOW])?;
    wait(bench, "429: once there is room, all are released", || Ok(ground.held(GATE)? == 0))?;
    let written = ground.node_patches(200)? - before;
    demand!(written <= NODES - 7, "{written} writes for {} changes", NODES - 7);
    Ok(())
}

fn flow_control() -> (serde_json::Value, serde_json::Value) {
    let version = "flowcontrol.apiserver.k8s.io/v1";
    let level = json!({
        "apiVersion": version, "kind": "PriorityLevelConfiguration", "metadata": {"name": FLOW},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    });
    let account =
        json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "carrick-controller"}});
    let rule = json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"], "clusterScope": true});
    let flow = json!({
        "apiVersion": version, "kind": "FlowSchema", "metadata": {"name": FLOW},
        "spec": {
            "priorityLevelConfiguration": {"name": FLOW}, "matchingPrecedence": 100,
            "rules": [{"subjects": [account], "resourceRules": [rule]}],
        },
    });
    (flow, level)
}
