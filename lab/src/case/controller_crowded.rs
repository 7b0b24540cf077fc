//! `carrick controller` with 300 rules, with a node that has 200 taints of others, and with its webhook asked by a real API server through
//! TLS.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carrick_core::rule::FINALIZER;
use http::Method;
use serde_json::{Value, json};

use super::{Bench, Case};
use crate::controller::{GATE, Ground, RULES, rule, wait};
use crate::demand;
use crate::error::{During, Result};
use crate::need::Need;
use crate::tier::Tier;

pub const CASE: Case = Case {
    about: "300 rules are one write a node, 200 taints of others stay as they are, and the webhook says through TLS what upstream's does",
    tier: Tier::Standard,
    covers: &[],
    needs: &[Need::ApiServer],
    run,
};

const CROWD: usize = 300;
const NODES: [&str; 3] = ["crowd-a", "crowd-b", "crowd-c"];

fn run(bench: &mut Bench) -> Result<()> {
    let ground = Ground::new(bench, &[])?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
    let port = port.during(|| "no port is free".to_owned())?.port();
    let certificates = bench.logs.join("webhook");
    certify(&ground, &certificates)?;
    let others: Vec<Value> =
        (0..200).map(|n| json!({"key": format!("example.com/t{n}"), "effect": "PreferNoSchedule"})).collect();
    for name in NODES {
        ground.create_node(name, &if name == "crowd-a" { json!(others) } else { json!([]) }, &json!({}))?;
    }
    let before = ground.taints("crowd-a")?;
    for n in 0..CROWD {
        let mut one = rule(&format!("crowd-{n}"), "continuous");
        one["spec"]["taint"]["key"] = format!("{GATE}-{n}").into();
        one["metadata"]["finalizers"] = json!([FINALIZER]);
        ground.create(RULES, &one)?;
    }
    let controller = ground.start(
        "controller.log",
        &[
            "--enable-webhook",
            &format!("--webhook-cert-dir={}", certificates.display()),
            &format!("--webhook-bind-address=127.0.0.1:{port}"),
        ],
    )?;
    let gates = |name: &str| Ok(ground.taints(name)?.iter().filter(|key| key.starts_with(GATE)).count());
    wait(bench, "300 rules: all nodes are held", || {
        NODES.iter().try_fold(true, |so_far, name| Ok(so_far && gates(name)? == CROWD))
    })?;
    let patches = ground.node_patches(200)?;
    demand!(patches == NODES.len(), "{patches} writes for {} nodes", NODES.len());
    let kept = ground.taints("crowd-a")?;
    demand!(kept.starts_with(&before), "taints of others were changed: {kept:?}");
    wait(bench, "300 statuses are written", || {
        let rules = ground.get(RULES)?;
        let told = |rule: &&Value| rule["status"]["summary"]["heldNodes"] == NODES.len();
        Ok(rules["items"].as_array().into_iter().flatten().filter(told).count() == CROWD)
    })?;
    for name in NODES {
        ground.set_ready(name, "True")?;
    }
    wait(bench, "300 rules: all nodes are released", || {
        NODES.iter().try_fold(true, |so_far, name| Ok(so_far && gates(name)? == 0))
    })?;
    demand!(ground.taints("crowd-a")? == before, "taints of others were changed");
    webhook(bench, &ground, port)?;
    controller.stop()
}

/// A certificate that the API server is told to trust.
fn certify(ground: &Ground, directory: &std::path::Path) -> Result<()> {
    let issued = ground.api.authority().server(&["127.0.0.1"]).during(|| "no certificate".to_owned())?;
    fs::create_dir_all(directory).at("make", directory)?;
    for (name, text) in [("tls.crt", &issued.certificate), ("tls.key", &issued.key)] {
        let file = directory.join(name);
        fs::write(&file, text).at("write", &file)?;
    }
    Ok(())
}

fn webhook(bench: &mut Bench, ground: &Ground, port: u16) -> Result<()> {
    let path = "/validate-readiness-node-x-k8s-io-v1alpha1-nodereadinessrule";
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "carrick"},
        "webhooks": [{
            "name": "vnodereadinessrule.readiness.node.x-k8s.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {
                "url": format!("https://127.0.0.1:{port}{path}"),
                "caBundle": STANDARD.encode(ground.api.authority().pem()),
            },
            "rules": [{
                "apiGroups": ["readiness.node.x-k8s.io"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["nodereadinessrules"],
            }],
        }],
    });
    let conflicting = {
        let mut rule = rule("late", "continuous");
        rule["spec"]["taint"]["key"] = format!("{GATE}-7").into();
        rule
    };
    // Made while there was no webhook: it conflicts, and can be deleted all the same.
    let mut early = conflicting.clone();
    early["metadata"]["name"] = "early".into();
    ground.create(RULES, &early)?;
    ground.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &configuration)?;
    let says = "admission webhook \"vnodereadinessrule.readiness.node.x-k8s.io\" denied the request: validation failed: [spec.taint.key: Invalid value: \"readiness.k8s.io/lab-7\": conflicts with existing rule 'crowd-7'";
    let dry_run = format!("{RULES}?dryRun=All");
    wait(bench, "the webhook is asked", || {
        let (status, answer) = ground.ask(Method::POST, &dry_run, "application/json", &conflicting)?;
        Ok(status == 403 && answer["message"].as_str().is_some_and(|message| message.starts_with(says)))
    })?;
    let mut everywhere = rule("late", "continuous");
    everywhere["spec"]["nodeSelector"] = json!({});
    let (status, answer) = ground.ask(Method::POST, RULES, "application/json", &everywhere)?;
    let refused = answer["message"].as_str().is_some_and(|it| it.contains("nodeSelector must not be empty"));
    demand!(status == 403 && refused, "a rule for all nodes was answered {status}: {answer}");
    ground.create(RULES, &rule("late", "continuous"))?;
    ground.kubectl(&["delete", "nrr", "early", "late", "--timeout=30s"])?;
    Ok(())
}
