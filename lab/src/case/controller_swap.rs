//! `carrick controller` takes over objects as node-readiness-controller leaves them, and is stopped again: no Node is written, by the
//! audit log.

use carrick_core::rule::FINALIZER;
use serde_json::{Value, json};

use super::{Bench, Case};
use crate::controller::{CONDITION, GATE, Ground, RULES, rule, wait};
use crate::coverage::Covers;
use crate::demand;
use crate::error::Result;
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "rules and nodes as node-readiness-controller leaves them are taken over without a write to any Node, and acted on from then on",
    tier: Tier::Quick,
    covers: &[Covers::Verb("controller")],
    needs: &[Need::ApiServer],
    run,
};

fn run(bench: &mut Bench) -> Result<()> {
    let ground = Ground::new(bench, &[])?;
    let gate = json!([{"key": GATE, "effect": "NoSchedule"}]);
    // Its finalizer, its status, and taints without a note.
    let mut continuous = rule("network", "continuous");
    continuous["metadata"]["finalizers"] = json!([FINALIZER]);
    ground.create(RULES, &continuous)?;
    let mut bootstrap = rule("bootstrap", "bootstrap-only");
    bootstrap["metadata"]["finalizers"] = json!([FINALIZER]);
    bootstrap["spec"]["taint"]["key"] = "readiness.k8s.io/lab-bootstrap".into();
    let uid = ground.create(RULES, &bootstrap)?["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let by_uid = json!({ format!("readiness.k8s.io/bootstrap-completed-{uid}"): "{\"rule-name\":\"bootstrap\"}" });
    let by_name = json!({ "readiness.k8s.io/bootstrap-completed-bootstrap": "true" });
    for (name, taints, annotations) in
        [("held", &gate, &by_uid), ("released", &json!([]), &by_uid), ("legacy", &json!([]), &by_name)]
    {
        ground.create_node(name, taints, annotations)?;
        ground.set_ready(name, if name == "held" { "False" } else { "True" })?;
    }
    for name in ["network", "bootstrap"] {
        ground.patch(&format!("{RULES}/{name}/status"), &json!({ "status": status() }))?;
    }
    let controller = ground.start("taken-over.log", &[])?;
    let says = |name: &str| -> Result<Value> { Ok(ground.get(&format!("{RULES}/{name}"))?["status"].clone()) };
    wait(bench, "both rules are taken over", || {
        Ok(says("network")?["summary"]["heldNodes"] == 1 && says("bootstrap")?["summary"]["matchedNodes"] == 3)
    })?;
    let evaluated = says("network")?["nodeEvaluations"][0]["lastEvaluationTime"].clone();
    demand!(evaluated == "2026-08-23T12:00:00Z", "nothing changed, and it was evaluated at {evaluated}");
    controller.stop()?;
    // Once more, with what Carrick itself has left.
    let again = ground.start("again.log", &[])?;
    wait(bench, "it leads again", || Ok(again.said().contains("this instance leads")))?;
    std::thread::sleep(std::time::Duration::from_secs(2));
    let patches = ground.node_patches(200)?;
    demand!(patches == 0, "taking over wrote {patches} nodes");
    let events = ground.get("/apis/events.k8s.io/v1/namespaces/default/events")?;
    demand!(events["items"] == json!([]), "taking over told {}", events["items"]);
    // It is at work: the taint that upstream has put goes when the condition holds.
    ground.set_ready("held", "True")?;
    wait(bench, "the taint that was taken over is removed", || Ok(ground.held(GATE)? == 0))?;
    let patches = ground.node_patches(200)?;
    demand!(patches == 1, "{patches} writes for one change");
    Ok(())
}

/// As node-readiness-controller writes it.
fn status() -> Value {
    let of = |name: &str, status: &str, taint: &str| {
        json!({
            "nodeName": name, "taintStatus": taint, "lastEvaluationTime": "2026-08-23T12:00:00Z",
            "conditionResults": [
                {"type": CONDITION, "currentStatus": status, "requiredStatus": "True", "defaultStatus": "Unknown"},
            ],
        })
    };
    json!({
        "observedGeneration": 1, "appliedNodes": ["held", "legacy", "released"],
        "nodeEvaluations": [of("held", "False", "Present"), of("legacy", "True", "Absent"), of("released", "True", "Absent")],
    })
}
