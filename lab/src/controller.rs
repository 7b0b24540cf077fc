//! What the cases of `carrick controller` have in common: an API server with the definition and the rights as they are shipped,
//! and controllers that run as processes of their own.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carrick_testkit::{Api, Caller};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::case::Bench;
use crate::demand;
use crate::error::{During, Error, Result};

const CRD: &str = include_str!("../../deploy/crd/nodereadinessrules.readiness.node.x-k8s.io.yaml");
const RBAC: &str = include_str!("../../deploy/controller/rbac.yaml");
/// A lease lasts for 15 s; everything else is over in a second.
pub const DEADLINE: Duration = Duration::from_secs(40);

pub const GATE: &str = "readiness.k8s.io/lab";
pub const CONDITION: &str = "lab/Ready";
pub const RULES: &str = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules";
/// Whoever the audit log says it was.
pub const ACCOUNT: &str = "system:serviceaccount:kube-system:carrick-controller";

/// An API server that rules can be made on.
pub struct Ground {
    pub api: Api,
    pub carrick: PathBuf,
    /// Of the controller's own service account.
    pub kubeconfig: PathBuf,
    logs: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Ground {
    /// With flags of kube-apiserver besides.
    pub fn new(bench: &mut Bench, flags: &[(&str, &str)]) -> Result<Self> {
        let carrick = bench.carrick()?;
        let api = Api::start_with(flags).map_err(told)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.during(|| "no runtime".to_owned())?;
        let kubeconfig = api.kubeconfig().with_file_name("controller");
        let ground = Ground { api, carrick, kubeconfig, logs: bench.logs.clone(), runtime };
        ground.apply("crd.yaml", CRD)?;
        ground.apply("rbac.yaml", RBAC)?;
        ground.kubectl(&["wait", "--for=condition=Established", "crd/nodereadinessrules.readiness.node.x-k8s.io"])?;
        let token = ground.kubectl(&["create", "token", "carrick-controller", "--namespace=kube-system"])?;
        fs::write(&ground.kubeconfig, ground.api.kubeconfig_text(token.trim())).at("write", &ground.kubeconfig)?;
        Ok(ground)
    }

    pub fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.api.kubectl(words).map_err(told)
    }

    pub fn apply(&self, name: &str, text: &str) -> Result<()> {
        let file = self.logs.join(name);
        fs::write(&file, text).at("write", &file)?;
        self.kubectl(&["apply", "--server-side", "-f", &file.display().to_string()]).map(drop)
    }

    /// One request as the admin; its status and answer.
    pub fn ask(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let asked = self.runtime.block_on(async {
            let mut caller = Caller::dial(&self.api, self.api.admin_token()).await?;
            caller.send(method, path, kind, body).await
        });
        let (status, body) = asked.during(|| format!("{path} was not answered"))?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    fn done(&self, method: &Method, path: &str, kind: &str, body: &Value) -> Result<Value> {
        let (status, answer) = self.ask(method.clone(), path, kind, body)?;
        demand!(status < 300, "{method} {path} was answered {status}: {answer}");
        Ok(answer)
    }

    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.done(&Method::POST, path, "application/json", object)
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.done(&Method::GET, path, "application/json", &Value::Null)
    }

    pub fn patch(&self, path: &str, change: &Value) -> Result<Value> {
        self.done(&Method::PATCH, path, "application/merge-patch+json", change)
    }

    /// A node with the label that [`rule`] selects.
    pub fn create_node(&self, name: &str, taints: &Value, annotations: &Value) -> Result<Value> {
        let metadata = json!({ "name": name, "labels": { "lab": "rules" }, "annotations": annotations });
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": { "taints": taints } });
        self.create("/api/v1/nodes", &node)
    }

    pub fn set_ready(&self, node: &str, status: &str) -> Result<()> {
        let now = "2026-11-18T12:00:00Z";
        let condition =
            json!({ "type": CONDITION, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now });
        let (path, kind) = (format!("/api/v1/nodes/{node}/status"), "application/strategic-merge-patch+json");
        self.done(&Method::PATCH, &path, kind, &json!({ "status": { "conditions": [condition] } })).map(drop)
    }

    /// The keys of a node's taints.
    pub fn taints(&self, node: &str) -> Result<Vec<String>> {
        let node = self.get(&format!("/api/v1/nodes/{node}"))?;
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        Ok(taints.iter().map(|taint| taint["key"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// How many nodes have a taint.
    pub fn held(&self, key: &str) -> Result<usize> {
        let nodes = self.get("/api/v1/nodes")?;
        let has = |node: &&Value| {
            node["spec"]["taints"].as_array().is_some_and(|taints| taints.iter().any(|taint| taint["key"] == key))
        };
        Ok(nodes["items"].as_array().into_iter().flatten().filter(has).count())
    }

    /// How many of the controller's writes of Nodes were answered so.
    pub fn node_patches(&self, code: u16) -> Result<usize> {
        let audit = self.api.audit().map_err(told)?;
        let is = |event: &&Value| {
            event["stage"] == "ResponseComplete"
                && event["verb"] == "patch"
                && event["objectRef"]["resource"] == "nodes"
                && event["objectRef"]["subresource"].is_null()
                && event["user"]["username"] == ACCOUNT
                && event["responseStatus"]["code"] == code
        };
        Ok(audit.iter().filter(is).count())
    }

    /// A controller with flags besides; what it logs is in a file of this name.
    pub fn start(&self, log: &str, flags: &[&str]) -> Result<Instance> {
        let log = self.logs.join(log);
        let out = File::create(&log).at("create", &log)?;
        let words = ["controller", "--leader-elect", "--leader-election-namespace=kube-system"];
        // The kernel ends it with the thread that started it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.carrick).args(words).args(flags);
        if !flags.iter().any(|flag| flag.starts_with("--health-probe-bind-address")) {
            command.arg("--health-probe-bind-address=0");
        }
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
        let child = command.spawn().during(|| "cannot start carrick controller".to_owned())?;
        Ok(Instance { child, log })
    }
}

/// A controller that runs until it is dropped: then it is killed, as by a power cut.
pub struct Instance {
    child: Child,
    log: PathBuf,
}

impl Instance {
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        match i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            Some(process) => kill_process(process, signal).during(|| "cannot signal carrick controller".to_owned()),
            None => Ok(()),
        }
    }

    /// As Kubernetes stops it.
    pub fn stop(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let ended = self.child.wait().during(|| "cannot wait for carrick controller".to_owned())?;
        demand!(ended.success(), "carrick controller ended with {ended}:\n{}", self.said());
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One condition, one taint, the nodes of the case.
pub fn rule(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule", "metadata": {"name": name},
        "spec": {
            "conditions": [{"type": CONDITION, "requiredStatus": "True"}],
            "enforcementMode": mode,
            "nodeSelector": {"matchLabels": {"lab": "rules"}},
            "taint": {"key": GATE, "effect": "NoSchedule"},
        },
    })
}

pub fn wait(bench: &mut Bench, what: &str, is: impl Fn() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is()? {
        demand!(begun.elapsed() < DEADLINE, "not within {} s: {what}", DEADLINE.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
    bench.time(what, begun.elapsed());
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "the shape map_err wants")]
pub fn told(error: carrick_testkit::Error) -> Error {
    Error::Said(error.to_string())
}
