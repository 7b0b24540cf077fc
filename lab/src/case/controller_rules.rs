//! `carrick controller` against a real API server, with its own service account and rights: the definition, the taints, two
//! instances of which one is killed, and what the audit log says about all of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carrick_testkit::Api;
use serde_json::{Value, json};

use super::{Bench, Case};
use crate::coverage::Covers;
use crate::demand;
use crate::error::{During, Error, Result};
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

const CRD: &str = include_str!("../../../deploy/crd/nodereadinessrules.readiness.node.x-k8s.io.yaml");
const RBAC: &str = include_str!("../../../deploy/controller/rbac.yaml");
const NODES: usize = 20;
/// A lease lasts for 15 s; everything else is over in a second.
const DEADLINE: Duration = Duration::from_secs(40);
const GATE: &str = "readiness.k8s.io/lab";

fn run(bench: &mut Bench) -> Result<()> {
    let carrick = bench.carrick()?;
    let api = Api::start().map_err(told)?;
    apply(bench, &api, "crd.yaml", CRD)?;
    apply(bench, &api, "rbac.yaml", RBAC)?;
    api.kubectl(&["wait", "--for=condition=Established", "crd/nodereadinessrules.readiness.node.x-k8s.io"])
        .map_err(told)?;
    refusals(bench, &api)?;
    for n in 0..NODES {
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(n), "labels": {"lab": "rules"}}});
        apply(bench, &api, "node.json", &node.to_string())?;
    }
    let token = api.kubectl(&["create", "token", "carrick-controller", "--namespace=kube-system"]).map_err(told)?;
    let kubeconfig = api.kubeconfig().with_file_name("controller");
    fs::write(&kubeconfig, api.kubeconfig_text(token.trim())).at("write", &kubeconfig)?;
    let first = Instance::start(&carrick, &kubeconfig, &bench.logs.join("first.log"))?;
    apply(bench, &api, "rule.json", &rule("lab", "continuous").to_string())?;
    wait(bench, "all nodes are held", || Ok(held(&api)? == NODES))?;
    looked_at(bench, &carrick, &api)?;
    let second = Instance::start(&carrick, &kubeconfig, &bench.logs.join("second.log"))?;
    for n in 0..NODES {
        set_ready(&api, &name(n), "True")?;
    }
    wait(bench, "all nodes are released", || Ok(held(&api)? == 0))?;
    // A kubelet's heartbeat is no reason to write.
    let patches = node_patches(&api)?;
    demand!(patches == 2 * NODES, "{patches} writes of nodes for two changes of {NODES}");
    wait(bench, "the status counts them", || {
        let status =
            api.kubectl(&["get", "nrr", "lab", "-o", "jsonpath={.status.summary.releasedNodes}"]).map_err(told)?;
        Ok(status == NODES.to_string())
    })?;
    // Killed without a word: the other takes over once the lease has expired by its own clock.
    drop(first);
    set_ready(&api, &name(0), "False")?;
    wait(bench, "the standby has taken over", || Ok(held(&api)? == 1))?;
    demand!(node_patches(&api)? == 2 * NODES + 1, "more than one write for one change");
    api.kubectl(&["label", "node", &name(0), "lab-"]).map_err(told)?;
    wait(bench, "a node that left the selector is released", || Ok(held(&api)? == 0))?;
    set_ready(&api, &name(1), "False")?;
    wait(bench, "another node is held", || Ok(held(&api)? == 1))?;
    api.kubectl(&["delete", "nrr", "lab", "--timeout=30s"]).map_err(told)?;
    demand!(held(&api)? == 0, "the rule is gone and a taint is left");
    drop(second);
    Ok(())
}

/// `carrick rule` says why a node is held, what a rule would do, and what is wrong with one.
fn looked_at(bench: &mut Bench, carrick: &Path, api: &Api) -> Result<()> {
    let kubeconfig = api.kubeconfig();
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
        let done = Run::new(carrick).args(words).deadline(DEADLINE).done()?;
        crate::carrick::holds(bench, &line, &done, exit, &[says])?;
    }
    Ok(())
}

fn name(n: usize) -> String {
    format!("lab-rule-{n}")
}

fn rule(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule", "metadata": {"name": name},
        "spec": {
            "conditions": [{"type": "lab/Ready", "requiredStatus": "True"}],
            "enforcementMode": mode,
            "nodeSelector": {"matchLabels": {"lab": "rules"}},
            "taint": {"key": GATE, "effect": "NoSchedule"},
        },
    })
}

/// What the definition says to rules that are wrong, and to changes of one that is right.
fn refusals(bench: &mut Bench, api: &Api) -> Result<()> {
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
        let said = refused(bench, api, &rule)?;
        demand!(said.contains(says), "a rule was answered {said:?}, not {says:?}:\n{rule}");
    }
    for good in ["readiness.k8s.io/a", "readiness.k8s.io/A.b-c_d", "readiness.k8s.io/9"] {
        apply(bench, api, "rule.json", &with(key, json!(good)).to_string())?;
        api.kubectl(&["delete", "nrr", "refused"]).map_err(told)?;
    }
    // With every field that Carrick adds.
    let mut whole = with("/spec/maxAge", json!("10m"));
    whole["spec"]["suspend"] = true.into();
    apply(bench, api, "rule.json", &whole.to_string())?;
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
        let said = match api.kubectl(&["patch", "nrr", "refused", "--type=merge", "-p", &patch]) {
            Ok(said) => said,
            Err(error) => error.to_string(),
        };
        demand!(said.contains(says), "the change {patch} was answered {said:?}, not {says:?}");
    }
    api.kubectl(&["patch", "nrr", "refused", "--type=merge", "-p", r#"{"spec":{"dryRun":true}}"#]).map_err(told)?;
    let fields = ["get", "nrr", "--field-selector=spec.taint.key=readiness.k8s.io/lab,spec.dryRun=true", "-o", "name"];
    let found = api.kubectl(&fields).map_err(told)?;
    demand!(found.contains("refused"), "its fields do not select it: {found:?}");
    let columns = api.kubectl(&["get", "nrr"]).map_err(told)?;
    let head: Vec<&str> = columns.lines().next().unwrap_or_default().split_whitespace().collect();
    demand!(head == ["NAME", "MODE", "TAINT", "EFFECT", "DRYRUN", "AGE"], "kubectl get nrr shows {head:?}");
    api.kubectl(&["delete", "nrr", "refused"]).map_err(told)?;
    Ok(())
}

fn refused(bench: &Bench, api: &Api, rule: &Value) -> Result<String> {
    let file = bench.logs.join("refused.json");
    fs::write(&file, rule.to_string()).at("write", &file)?;
    Ok(match api.kubectl(&["create", "-f", &file.display().to_string()]) {
        Ok(said) => said,
        Err(error) => error.to_string(),
    })
}

fn apply(bench: &Bench, api: &Api, name: &str, text: &str) -> Result<()> {
    let file = bench.logs.join(name);
    fs::write(&file, text).at("write", &file)?;
    api.kubectl(&["apply", "--server-side", "-f", &file.display().to_string()]).map_err(told).map(drop)
}

fn set_ready(api: &Api, node: &str, status: &str) -> Result<()> {
    let now = "2026-11-18T12:00:00Z";
    let condition = json!({"type": "lab/Ready", "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now});
    let patch = json!({"status": {"conditions": [condition]}}).to_string();
    api.kubectl(&["patch", "node", node, "--subresource=status", "--type=strategic", "-p", &patch])
        .map_err(told)
        .map(drop)
}

/// How many nodes have the taint.
fn held(api: &Api) -> Result<usize> {
    let nodes = api.kubectl(&["get", "nodes", "-o", "json"]).map_err(told)?;
    let nodes: Value = serde_json::from_str(&nodes).map_err(|error| Error::Said(error.to_string()))?;
    let has = |node: &&Value| {
        node["spec"]["taints"].as_array().is_some_and(|taints| taints.iter().any(|taint| taint["key"] == GATE))
    };
    Ok(nodes["items"].as_array().into_iter().flatten().filter(has).count())
}

/// Writes of Nodes that succeeded, by the controller.
fn node_patches(api: &Api) -> Result<usize> {
    let audit = api.audit().map_err(told)?;
    let is = |event: &&Value| {
        event["stage"] == "ResponseComplete"
            && event["verb"] == "patch"
            && event["objectRef"]["resource"] == "nodes"
            && event["objectRef"]["subresource"].is_null()
            && event["user"]["username"] == "system:serviceaccount:kube-system:carrick-controller"
            && event["responseStatus"]["code"] == 200
    };
    Ok(audit.iter().filter(is).count())
}

fn wait(bench: &mut Bench, what: &str, is: impl Fn() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is()? {
        demand!(begun.elapsed() < DEADLINE, "not within {} s: {what}", DEADLINE.as_secs());
        std::thread::sleep(Duration::from_millis(200));
    }
    bench.time(what, begun.elapsed());
    Ok(())
}

/// A controller that runs until it is dropped: then it is killed, as by a power cut.
struct Instance(Child);

impl Instance {
    fn start(carrick: &Path, kubeconfig: &PathBuf, log: &Path) -> Result<Self> {
        let out = File::create(log).at("create", log)?;
        let words = [
            "controller",
            "--leader-elect",
            "--leader-election-namespace=kube-system",
            "--health-probe-bind-address=0",
        ];
        // The kernel ends it with the thread that started it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(carrick).args(words).arg("--kubeconfig").arg(kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
        command.spawn().map(Instance).during(|| "cannot start carrick controller".to_owned())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape map_err wants")]
fn told(error: carrick_testkit::Error) -> Error {
    Error::Said(error.to_string())
}
