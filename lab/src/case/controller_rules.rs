//! `carrick controller` against a real API server, with its own service account and rights: the definition, the taints, two
//! instances of which one is killed, and what the audit log says about all of it.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::{Bench, Case};
use crate::controller::{ACCOUNT, DEADLINE, GATE, Ground, RULES, rule, told, wait};
use crate::coverage::Covers;
use crate::demand;
use crate::error::{During, Result};
use crate::need::Need;
use crate::run::Run;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "NodeReadinessRules on a real API server: refused and taken as upstream does, one write a node, a standby that takes over, nothing left of a rule that is deleted",
    tier: Tier::Quick,
    covers: &[Covers::Verb("controller"), Covers::Verb("rule"), Covers::Promise(9)],
    needs: &[Need::ApiServer],
    run,
};

const NODES: usize = 20;

fn run(bench: &mut Bench) -> Result<()> {
    let ground = Ground::new(bench, &[])?;
    refusals(bench, &ground)?;
    for n in 0..NODES {
        ground.create_node(&name(n), &json!([]), &json!({}))?;
    }
    let first = ground.start("first.log", &[])?;
    ground.create(RULES, &rule("lab", "continuous"))?;
    wait(bench, "all nodes are held", || Ok(ground.held(GATE)? == NODES))?;
    looked_at(bench, &ground)?;
    let second = ground.start("second.log", &[])?;
    for n in 0..NODES {
        ground.set_ready(&name(n), "True")?;
    }
    wait(bench, "all nodes are released", || Ok(ground.held(GATE)? == 0))?;
    // A kubelet's heartbeat is no reason to write.
    let patches = ground.node_patches(200)?;
    demand!(patches == 2 * NODES, "{patches} writes of nodes for two changes of {NODES}");
    wait(bench, "the status counts them", || {
        Ok(ground.get(&format!("{RULES}/lab"))?["status"]["summary"]["releasedNodes"] == NODES)
    })?;
    // Killed without a word: the other takes over once the lease has expired by its own clock.
    drop(first);
    ground.set_ready(&name(0), "False")?;
    wait(bench, "the standby has taken over", || Ok(ground.held(GATE)? == 1))?;
    demand!(ground.node_patches(200)? == 2 * NODES + 1, "more than one write for one change");
    ground.kubectl(&["label", "node", &name(0), "lab-"])?;
    wait(bench, "a node that left the selector is released", || Ok(ground.held(GATE)? == 0))?;
    ground.set_ready(&name(1), "False")?;
    wait(bench, "another node is held", || Ok(ground.held(GATE)? == 1))?;
    ground.kubectl(&["delete", "nrr", "lab", "--timeout=30s"])?;
    demand!(ground.held(GATE)? == 0, "the rule is gone and a taint is left");
    drop(second);
    Ok(())
}

/// `carrick rule` says why a node is held, what a rule would do, and what is wrong with one.
fn looked_at(bench: &mut Bench, ground: &Ground) -> Result<()> {
    let kubeconfig = ground.api.kubeconfig();
    let file = bench.logs.join("simulated.json");
    let mut other = rule("other", "continuous");
    other["spec"]["taint"]["key"] = "readiness.k8s.io/other".into();
    fs::write(&file, other.to_string()).at("write", &file)?;
    let (admin, path) = (kubeconfig.display().to_string(), file.display().to_string());
    for (words, exit, says) in [
        (
            vec!["rule", "explain", "lab", "lab-rule-3", "--kubeconfig", &admin],
            0,
            "node lab-rule-3 is gated: condition lab/Ready is missing",
        ),
        (vec!["rule", "explain", "lab", "--kubeconfig", &admin], 0, "20 nodes looked at."),
        (vec!["rule", "simulate", &path, "--kubeconfig", &admin], 0, "would taint 20 nodes"),
        (vec!["rule", "lint", &path], 0, "1 rule: 0 errors, 0 warnings."),
    ] {
        let line = words.join(" ");
        let done = Run::new(&ground.carrick).args(words).deadline(DEADLINE).done()?;
        crate::carrick::holds(bench, &line, &done, exit, &[says])?;
    }
    only_looked(ground)
}

/// By the audit log: what the admin had `carrick rule` do changed nothing.
fn only_looked(ground: &Ground) -> Result<()> {
    let audit = ground.api.audit().map_err(told)?;
    let is_carrick = |event: &&Value| event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("carrick/"));
    let by_admin = audit.iter().filter(is_carrick).filter(|event| event["user"]["username"] != ACCOUNT);
    let verbs: BTreeSet<&str> = by_admin.filter_map(|event| event["verb"].as_str()).collect();
    let reads = |verb: &&str| matches!(*verb, "get" | "list" | "watch");
    demand!(!verbs.is_empty() && verbs.iter().all(reads), "carrick rule asked the API server to {verbs:?}");
    Ok(())
}

fn name(n: usize) -> String {
    format!("lab-rule-{n}")
}

/// What the definition says to rules that are wrong, and to changes of one that is right.
fn refusals(bench: &Bench, ground: &Ground) -> Result<()> {
    let with = |pointer: &str, value: Value| {
        let mut rule = rule("refused", "continuous");
        let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(parent) = rule.pointer_mut(parent) {
            parent[field] = value;
        }
        rule
    };
    let key = "/spec/taint/key";
    for (rule, says) in [
        (with(key, json!("example.com/x")), "taint key must start with 'readiness.k8s.io/'"),
        (
            with(key, json!("readiness.k8s.io/a/b")),
            "taint key must have exactly one '/' separator (prefix/name format)",
        ),
        (with(key, json!("readiness.k8s.io/")), "taint key name part must be 1-63 characters"),
        (
            with(key, json!(format!("readiness.k8s.io/{}", "a".repeat(64)))),
            "taint key name part must be 1-63 characters",
        ),
        (with(key, json!("readiness.k8s.io/-a")), "taint key name part must consist of alphanumeric characters"),
        (
            with("/spec/taint/effect", json!("Never")),
            "taint effect must be one of 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
        ),
        (with("/spec/taint/value", json!("-")), "taint value must consist of alphanumeric characters"),
        (with("/spec/enforcementMode", json!("sometimes")), "Unsupported value"),
        (with("/spec/conditions", json!([])), "should have at least 1 items"),
        (
            {
                let mut both = with("/spec/conditionPolicy", json!("anyOf"));
                both["spec"]["conditions"][0]["defaultStatus"] = "True".into();
                both
            },
            "defaultStatus is not supported when conditionPolicy is anyOf",
        ),
    ] {
        let said = refused(bench, ground, &rule)?;
        demand!(said.contains(says), "a rule was answered {said:?}, not {says:?}:\n{rule}");
    }
    for good in ["readiness.k8s.io/a", "readiness.k8s.io/A.b-c_d", "readiness.k8s.io/9"] {
        ground.create(RULES, &with(key, json!(good)))?;
        ground.kubectl(&["delete", "nrr", "refused"])?;
    }
    // With every field that Carrick adds.
    let mut whole = with("/spec/maxAge", json!("10m"));
    whole["spec"]["suspend"] = true.into();
    ground.create(RULES, &whole)?;
    for (patch, says) in [
        (json!({"taint": {"key": "readiness.k8s.io/other"}}), "taint key is immutable"),
        (json!({"taint": {"effect": "NoExecute"}}), "taint effect is immutable"),
        (json!({"enforcementMode": "bootstrap-only"}), "enforcementMode is immutable"),
        (json!({"nodeSelector": {"matchLabels": {"a": "b"}}}), "nodeSelector is immutable"),
        (json!({"conditions": [{"type": "x", "requiredStatus": "True"}]}), "conditions is immutable"),
        (json!({"conditionPolicy": "anyOf"}), "conditionPolicy is immutable"),
        (json!({"maxAge": "soon"}), "spec.maxAge"),
    ] {
        let patch = json!({ "spec": patch }).to_string();
        let said = match ground.kubectl(&["patch", "nrr", "refused", "--type=merge", "-p", &patch]) {
            Ok(said) => said,
            Err(error) => error.to_string(),
        };
        demand!(said.contains(says), "the change {patch} was answered {said:?}, not {says:?}");
    }
    ground.kubectl(&["patch", "nrr", "refused", "--type=merge", "-p", r#"{"spec":{"dryRun":true}}"#])?;
    let fields = ["get", "nrr", "--field-selector=spec.taint.key=readiness.k8s.io/lab,spec.dryRun=true", "-o", "name"];
    let found = ground.kubectl(&fields)?;
    demand!(found.contains("refused"), "its fields do not select it: {found:?}");
    let columns = ground.kubectl(&["get", "nrr"])?;
    let head: Vec<&str> = columns.lines().next().unwrap_or_default().split_whitespace().collect();
    demand!(head == ["NAME", "MODE", "TAINT", "EFFECT", "DRYRUN", "AGE"], "kubectl get nrr shows {head:?}");
    ground.kubectl(&["delete", "nrr", "refused"])?;
    Ok(())
}

fn refused(bench: &Bench, ground: &Ground, rule: &Value) -> Result<String> {
    let file = bench.logs.join("refused.json");
    fs::write(&file, rule.to_string()).at("write", &file)?;
    Ok(match ground.kubectl(&["create", "-f", &file.display().to_string()]) {
        Ok(said) => said,
        Err(error) => error.to_string(),
    })
}
